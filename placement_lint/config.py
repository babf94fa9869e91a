"""What a project can set, and how each key is read: one value for all of it, :class:`Settings`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from placement_lint.finding import Severity
from placement_lint.report.formats import FORMATS

RulesByPattern = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class Settings:
    """A field a key, dashes made underscores; ``root`` is the folder that patterns and paths are relative to."""

    root: Path = field(default_factory=Path.cwd)
    select: tuple[str, ...] = ()
    extend_select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    extend_ignore: tuple[str, ...] = ()
    per_file_ignores: RulesByPattern = field(default_factory=dict)
    extend_per_file_ignores: RulesByPattern = field(default_factory=dict)
    exclude: tuple[str, ...] = ()
    extend_exclude: tuple[str, ...] = ()
    force_exclude: bool = False
    respect_gitignore: bool = True
    fail_on: Severity = Severity.WARNING
    output_format: str = "full"
    baseline: str | None = None
    gpus: int = 2

    @property
    def ignored(self) -> tuple[str, ...]:
        return (*self.ignore, *self.extend_ignore)

    @property
    def excluded(self) -> tuple[str, ...]:
        return (*self.exclude, *self.extend_exclude)

    @property
    def exemptions(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """File patterns with the rules that are not checked in such files."""
        return (*self.per_file_ignores.items(), *self.extend_per_file_ignores.items())


def words(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        raise ValueError("a list of strings")
    return tuple(value)


def text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("a string")
    return value


def switch(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError("true or false")
    return value


def count(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError("a whole number of at least 1")
    return value


def severity(value: object) -> Severity:
    try:
        return Severity(value)
    except ValueError:
        raise ValueError(f"one of {', '.join(severity.value for severity in Severity)}") from None


def output_format(value: object) -> str:
    if value not in FORMATS:
        raise ValueError(f"one of {', '.join(FORMATS)}")
    return str(value)


def lists_by_pattern(value: object) -> dict[str, tuple[str, ...]]:
    if not isinstance(value, dict):
        raise ValueError("a table from file patterns to lists of rules")
    return {pattern: words(listed) for pattern, listed in value.items()}


READERS: Mapping[str, Callable[[object], Any]] = {
    "select": words,
    "extend-select": words,
    "ignore": words,
    "extend-ignore": words,
    "per-file-ignores": lists_by_pattern,
    "extend-per-file-ignores": lists_by_pattern,
    "exclude": words,
    "extend-exclude": words,
    "force-exclude": switch,
    "respect-gitignore": switch,
    "fail-on": severity,
    "output-format": output_format,
    "baseline": text,
    "gpus": count,
}
"""The keys of a configuration, each with the reader of its value; a reader's ``ValueError`` says what is wanted."""


def field_of(key: str) -> str:
    return key.replace("-", "_")
