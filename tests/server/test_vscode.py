"""The extension for VS Code: its settings are the server's, and under Node it finds Python and talks to the server."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from placement_lint import __version__
from placement_lint.config.settings import KEYS
from placement_lint.errors import UsageError
from placement_lint.server.settings import CLIENT_KEYS, OWN_READERS, SECTION, EditorSettings

ROOT = Path(__file__).parents[2]
EXTENSION = ROOT / "editors" / "vscode"
MANIFEST: Mapping[str, Any] = json.loads((EXTENSION / "package.json").read_text(encoding="utf-8"))
PROPERTIES: Mapping[str, Mapping[str, Any]] = MANIFEST["contributes"]["configuration"]["properties"]
SETTINGS = {name.removeprefix(f"{SECTION}."): each for name, each in PROPERTIES.items()}
# Keys only for the command line: an editor shows all findings, never checks excluded files and simulates nothing.
WITHOUT_EFFECT = {"fail-on", "force-exclude", "gpus", "output-format"}
VALUES = (None, True, 3, "auto", "a.json", [], ["DPL501"], [3], {}, {"tests/*": ["DPL501"]}, {"tests/*": "DPL501"})
PATIENCE = 30  # seconds to install packages
LIMIT = 180  # seconds to build and test
UNREACHABLE = "npm cannot install the packages"


def test_every_setting_of_the_server_is_a_setting_of_the_extension() -> None:
    assert {
        name.partition(".")[0] for name in SETTINGS
    } == KEYS.keys() - WITHOUT_EFFECT | OWN_READERS.keys() | CLIENT_KEYS


@pytest.mark.parametrize("name", sorted(SETTINGS.keys() - {"path", "interpreter", "trace.server"}))
def test_the_extension_takes_the_values_that_the_server_takes(name: str) -> None:
    def accepted(value: object) -> bool:
        try:
            EditorSettings.of({name: value})
        except UsageError:
            return False
        return True

    values = (*VALUES, *SETTINGS[name].get("enum", ()))
    by_server = [value for value in values if accepted(value) and (value is not None or name in KEYS)]
    validator = jsonschema.Draft202012Validator(SETTINGS[name])
    assert by_server == [value for value in values if validator.is_valid(value)]


def test_settings_that_are_not_set_change_nothing() -> None:
    defaults = {name: each["default"] for name, each in SETTINGS.items() if "." not in name}
    assert EditorSettings.of(defaults) == EditorSettings()


def test_settings_are_described_as_in_the_reference() -> None:
    described = {name: each["markdownDescription"] for name, each in SETTINGS.items()}
    assert all(text.endswith(".") for text in described.values())
    for name in KEYS.keys() - WITHOUT_EFFECT:
        assert described[name] == re.sub(r"\[(.*?)\]\(.*?\)", r"\1", KEYS[name].description)  # without its links
    table = re.findall(r"^\| `(\S+)` \| (.*) \|$", (EXTENSION / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert table == [(f"{SECTION}.{name}", text) for name, text in described.items()]


def test_every_command_of_the_manifest_is_registered() -> None:
    source = (EXTENSION / "src" / "extension.ts").read_text(encoding="utf-8")
    assert all(f'"{each["command"]}": () =>' in source for each in MANIFEST["contributes"]["commands"])


def test_the_extension_is_of_the_same_version_and_licence() -> None:
    lock = (EXTENSION / "package-lock.json").read_text(encoding="utf-8")
    assert MANIFEST["version"] == json.loads(lock)["version"] == __version__
    assert (EXTENSION / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    assert '"resolved"' not in lock  # addresses of a registry


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the extension with its packages installed."""
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    folder = tmp_path_factory.mktemp("editors") / "vscode"
    shutil.copytree(EXTENSION, folder, ignore=shutil.ignore_patterns("node_modules", "dist", "*.vsix"))
    try:
        npm(folder, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline", limit=PATIENCE)
    except subprocess.TimeoutExpired:
        pytest.skip(f"{UNREACHABLE} within {PATIENCE} seconds")
    except subprocess.CalledProcessError as error:
        if "EUSAGE" in error.stderr:  # the lock file does not match package.json
            raise
        pytest.skip(f"{UNREACHABLE}: {error.stderr.strip().splitlines()[0]}")
    return folder


def npm(folder: Path, *arguments: str, limit: int = LIMIT) -> str:
    command = shutil.which("npm")
    assert command is not None
    environment = {**os.environ, "PYTHON": sys.executable}
    done = subprocess.run(
        [command, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=limit,
        check=False,
    )
    if done.returncode != 0:
        raise subprocess.CalledProcessError(done.returncode, command, done.stdout, done.stderr or done.stdout)
    return done.stdout


@pytest.mark.slow
def test_the_extension_is_typed_and_bundled(built: Path) -> None:
    npm(built, "run", "vscode:prepublish")
    bundle = (built / "dist" / "extension.js").read_text(encoding="utf-8")
    required = set(re.findall(r'require\("([^".]+)"\)', bundle))
    assert "vscode" in required
    assert not {name for name in required if name.startswith("vscode-")}


@pytest.mark.slow
def test_under_node(built: Path) -> None:
    """The extension's tests find interpreters with a stub of the module ``vscode``, and communicate with the server."""
    said = npm(built, "test")
    for name in ("the active environment of the Python extension comes first", "a finding and its fix", "the timeline"):
        assert name in said
