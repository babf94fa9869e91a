"""``[tool.placement-lint]`` of pyproject.toml as one value."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from placement_lint.errors import UsageError
from placement_lint.finding import Severity
from placement_lint.spelling import did_you_mean

SECTION = "placement-lint"


@dataclass(frozen=True)
class Settings:
    """What the project asks for; ``root`` is the folder its patterns are relative to."""

    root: Path = field(default_factory=Path.cwd)
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    fail_on: Severity = Severity.WARNING
    gpus: int = 2
    per_file_ignores: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def load_settings(directory: Path) -> Settings:
    """The settings of the nearest pyproject.toml at or above ``directory`` that has our section."""
    for folder in (directory, *directory.parents):
        pyproject = folder / "pyproject.toml"
        if pyproject.is_file():
            section = _read_toml(pyproject).get("tool", {}).get(SECTION)
            if section is not None:
                return _settings(section, pyproject)
    return Settings(root=directory)


def _read_toml(path: Path) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        content: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: {error}") from None
    return content


def _settings(section: object, path: Path) -> Settings:
    if not isinstance(section, dict):
        raise UsageError(f"{path}: [tool.{SECTION}] must be a table")
    values: dict[str, Any] = {}
    for key, value in section.items():
        if key not in READERS:
            raise UsageError(f"{path}: unknown key `{key}` in [tool.{SECTION}]{did_you_mean(key, READERS)}")
        try:
            values[key.replace("-", "_")] = READERS[key](value)
        except ValueError as error:
            raise UsageError(f"{path}: `{key}` in [tool.{SECTION}] must be {error}") from None
    return Settings(root=path.parent, **values)


def _words(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        raise ValueError("a list of strings")
    return tuple(value)


def _severity(value: object) -> Severity:
    try:
        return Severity(value)
    except ValueError:
        raise ValueError(f"one of {', '.join(severity.value for severity in Severity)}") from None


def _count(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError("a whole number of at least 1")
    return value


def _lists_by_pattern(value: object) -> dict[str, tuple[str, ...]]:
    if not isinstance(value, dict):
        raise ValueError("a table from file patterns to lists of rules")
    return {pattern: _words(words) for pattern, words in value.items()}


READERS: Mapping[str, Callable[[object], Any]] = {
    "select": _words,
    "ignore": _words,
    "exclude": _words,
    "fail-on": _severity,
    "gpus": _count,
    "per-file-ignores": _lists_by_pattern,
}
