"""The packaging metadata, the image and the changelog match the repository."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

if sys.version_info < (3, 11):
    import tomli as tomllib
else:
    import tomllib

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
HOMES = {"placement_lint": ROOT / "placement_lint", "placement_lint.rules": ROOT / "rules"}


def packages_below(name: str, home: Path) -> set[str]:
    """The package name, and the names of all its subpackages with Python files."""
    inside = (file.parent.relative_to(home).parts for file in home.rglob("*.py"))
    return {".".join((name, *parts)) for parts in inside}


def test_every_package_is_listed() -> None:
    there = {package for name, home in HOMES.items() for package in packages_below(name, home)}
    assert set(PROJECT["tool"]["setuptools"]["packages"]) == there


def test_the_image_gets_what_the_installation_needs() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    copied = {word for line in dockerfile.splitlines() if line.startswith("COPY ") for word in line.split()[1:-1]}
    read = {PROJECT["project"]["readme"], *PROJECT["project"]["license-files"]}
    assert copied == {"pyproject.toml", *read, *(str(home.relative_to(ROOT)) for home in HOMES.values())}


def test_the_changelog_has_the_version() -> None:
    version = PROJECT["project"]["version"]
    assert f"\n## [{version}] - 20" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_version_is_said_once() -> None:
    from placement_lint import __version__

    assert PROJECT["project"]["version"] == __version__


@pytest.mark.parametrize("group", ["placement_lint.rules", "pytest11", "jupyter_lsp_spec_v1"])
def test_every_entry_point_leads_somewhere(group: str) -> None:
    for target in PROJECT["project"]["entry-points"][group].values():
        package, *rest = target.partition(":")[0].removeprefix("placement_lint.").split(".")
        home = ROOT / "rules" if package == "rules" else ROOT / "placement_lint" / package
        place = home.joinpath(*rest)
        assert place.with_suffix(".py").exists() or (place / "__init__.py").exists(), target


@pytest.mark.parametrize("module", ["pygls", "lsprotocol", "rich", "torch"])
def test_the_command_line_loads_nothing_that_linting_does_not_need(module: str) -> None:
    program = f"import sys, placement_lint.cli, placement_lint.cli.check; sys.exit({module!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
