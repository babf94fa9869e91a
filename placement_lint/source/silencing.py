"""The comment that suppresses a finding: its position, and how it is merged into an existing comment."""

from __future__ import annotations

from placement_lint.finding import Edit, Range
from placement_lint.source.scan import LEXEME, NEWLINE, Scan, split_lines
from placement_lint.source.suppressions import Suppression, read_suppressions


def suppressing(text: str, place: Range, code: str, name: str) -> Edit | None:
    """The edit of a text that suppresses the finding at ``place``; None if no comment can be placed."""
    if joined := _joined(text, place, code, name):
        return joined
    endings = _endings(text)
    line = next((line for line in _lines(text, place) if line in endings), None)
    if line is None:
        return None
    return Edit(Range(line, endings[line], line, endings[line]), f"  # placement-lint: ignore[{name}]")


def _joined(text: str, place: Range, code: str, name: str) -> Edit | None:
    """The rule added to a comment that suppresses others there: to ours by name, to a ``noqa`` by code."""
    comments = [comment for comment in read_suppressions(text).at(place) if comment.accountable and comment.entries]
    if not comments:
        return None
    comment = comments[0]
    last = comment.entries[-1].range
    end = Range(last.end_line, last.end_column, last.end_line, last.end_column)
    return Edit(end, f", {code if _is_noqa(comment) else name}")


def _is_noqa(comment: Suppression) -> bool:
    """Whether it is a ``noqa``: our own comments end in a bracket after the last rule."""
    return comment.range.end_column == comment.entries[-1].range.end_column


def _lines(text: str, place: Range) -> list[int]:
    """The lines whose comments apply to a finding, the best first: its own lines, or where its statement ends."""
    first, last = Scan(text).logical_lines.get(place.line, (place.line, place.line))
    return list(dict.fromkeys([place.line, place.end_line, last, first]))


def _endings(text: str) -> dict[int, int]:
    """The lines that do not end inside a string or in a backslash, with the column past their last character."""
    inside: set[int] = set()
    line = 1
    for lexeme in LEXEME.finditer(text):
        breaks = len(NEWLINE.findall(lexeme.group()))
        if lexeme.lastgroup in ("string", "joined"):
            inside.update(range(line, line + breaks))
        line += breaks
    lines = split_lines(text)
    return {number: len(written.rstrip()) + 1 for number, written in enumerate(lines, start=1) if number not in inside}
