"""Positions in text form, for people, and for services that support whole files but no notebook cells."""

from __future__ import annotations

from placement_lint.finding import Finding, Range, Step

WHOLE_FILE = Range(1, 1, 1, 1)


def place(thing: Finding | Step) -> str:
    """``train.py:6:3``, in a notebook ``train.ipynb:cell 2:6:3``."""
    return f"{line_place(thing)}:{thing.range.column}"


def line_place(thing: Finding | Step) -> str:
    cell = f"cell {thing.cell}:" if thing.cell else ""
    return f"{thing.path}:{cell}{thing.range.line}"


def range_in_file(thing: Finding | Step) -> Range:
    """The range, or the top of the file if the lines are those of a cell."""
    return WHOLE_FILE if thing.cell else thing.range


def message_in_file(thing: Finding | Step) -> str:
    """The message; for a cell it includes the position that :func:`range_in_file` lacks."""
    message = with_verdict(thing) if isinstance(thing, Finding) else thing.message
    return f"cell {thing.cell}, line {thing.range.line}: {message}" if thing.cell else message


def with_verdict(finding: Finding) -> str:
    """The message, and the verdict of a probe."""
    verdict = finding.verdict
    return f"{finding.message} [{verdict.words} on {verdict.device}]" if verdict else finding.message
