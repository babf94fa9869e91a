"""The settings of a project, and a reader for each key; :class:`Settings` holds all of them."""

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
    """One field per key, with underscores for dashes; patterns and paths are relative to the folder ``root``."""

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


RULES = "rules: codes, prefixes, families, names or `ALL`"
RULES_BY_PATTERN = "a table of file patterns, each with a list of rules"
PATTERNS = "file patterns, as in a `.gitignore`"


@dataclass(frozen=True)
class Key:
    """A key of a configuration: the reader of its value, the values that it takes, and its description in Markdown."""

    read: Callable[[object], Any]
    takes: str
    description: str


KEYS: Mapping[str, Key] = {
    "select": Key(words, RULES, "Check only these rules. Without it, all rules run except folklore."),
    "extend-select": Key(words, RULES, "Check these rules as well."),
    "ignore": Key(words, RULES, "Do not check these rules. A narrower selector wins: `DPL301` over `DPL3`."),
    "extend-ignore": Key(words, RULES, "Do not check these rules either."),
    "per-file-ignores": Key(
        lists_by_pattern, RULES_BY_PATTERN, "Do not report these rules in files that match the pattern."
    ),
    "extend-per-file-ignores": Key(lists_by_pattern, RULES_BY_PATTERN, "Entries to add to `per-file-ignores`."),
    "exclude": Key(
        words,
        PATTERNS,
        "Files and folders to skip. Virtual environments, caches and build folders are always skipped.",
    ),
    "extend-exclude": Key(words, PATTERNS, "Patterns to add to `exclude`."),
    "force-exclude": Key(
        switch,
        "`true` or `false`",
        "Skip excluded files even if the command line names them. Pre-commit and editors need this.",
    ),
    "respect-gitignore": Key(switch, "`true` or `false`", "Skip files that a `.gitignore` lists."),
    "fail-on": Key(severity, "`info`, `warning` or `error`", "The lowest severity that makes the exit status 1."),
    "output-format": Key(output_format, "a [format](formats.md)", "The format if `--format` names none."),
    "baseline": Key(text, "the path of a file", "The [baseline](../guides/baseline.md) of known findings."),
    "gpus": Key(count, "a whole number of at least 1", "The number of GPUs that `placement-lint run` simulates."),
}
"""The keys of a configuration. A reader raises ``ValueError`` with a description of the values it accepts."""


def field_of(key: str) -> str:
    return key.replace("-", "_")
