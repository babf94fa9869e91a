"""The example package of the guide to custom rules, built and installed like a user's."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TEMPLATE = ROOT / "docs" / "plugin"
GUIDE = ROOT / "docs" / "guides" / "own-rules.md"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the installed template package, built with the setuptools of the tests, without a network."""
    folder, source = tmp_path_factory.mktemp("installed"), tmp_path_factory.mktemp("source")
    for file in TEMPLATE.iterdir():
        if file.is_file():
            (source / file.name).write_bytes(file.read_bytes())
    options = ["--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--target", str(folder)]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, str(source)], check=True)
    return folder


def run(installed: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(installed), "XDG_CACHE_HOME": str(folder / ".cache")}
    return subprocess.run(
        [sys.executable, "-m", *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def test_its_own_test_passes(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_bytes((TEMPLATE / "test_acme_placement_rules.py").read_bytes())
    done = run(installed, tmp_path, "pytest", "-q", "-p", "no:cacheprovider", "test_it.py")
    assert "1 passed" in done.stdout, done.stdout


def test_it_is_listed_and_explained(installed: Path, tmp_path: Path) -> None:
    assert "ACME001  error    replace-head-by-hand" in run(installed, tmp_path, "placement_lint", "rules").stdout
    explained = run(installed, tmp_path, "placement_lint", "explain", "acme001").stdout
    assert "acme.finetune.replace_head" in explained


@pytest.mark.parametrize("selector", ["ACME001", "ACME", "replace-head-by-hand"])
def test_its_rule_is_one_like_others(installed: Path, tmp_path: Path, selector: str) -> None:
    example = re.findall(r'    example="""\\\n(.*?)""",\n', GUIDE.read_text(encoding="utf-8"), re.DOTALL)[0]
    program = tmp_path / "train.py"
    program.write_text(example)
    check = ["placement_lint", "check", "--select", selector, "--format", "concise", "train.py"]
    done = run(installed, tmp_path, *check)
    assert done.returncode == 1
    assert done.stdout.startswith(
        "train.py:6:1: ACME001 error: `model[1]` is replaced after its optimizer was built, which never trains the new "
        "layer; call `acme.finetune.replace_head`\n"
    )
    line = "model[1] = nn.Linear(8, 5)"
    program.write_text(example.replace(line, f"{line}  # placement-lint: ignore[{selector}]"))
    assert run(installed, tmp_path, *check).returncode == 0


@pytest.mark.parametrize("name", ["pyproject.toml", "acme_placement_rules.py", "test_acme_placement_rules.py"])
def test_the_guide_shows_the_package(name: str) -> None:
    (shown,) = re.findall(rf'```\w+ title="{re.escape(name)}"\n(.*?)```', GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    assert shown == (TEMPLATE / name).read_text(encoding="utf-8")


def test_without_the_package_there_is_no_such_rule(tmp_path: Path) -> None:
    assert run(tmp_path, tmp_path, "placement_lint", "explain", "ACME001").returncode == 2
