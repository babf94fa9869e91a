"""Source lines around a range, prepared for a terminal: tabs expanded, indentation and length reduced."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from placement_lint.finding import Finding, Range, Step
from placement_lint.report.lines import Lines

CONTEXT = 1
MOST_LINES = 4
TAB = 4
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


@dataclass(frozen=True)
class FrameLine:
    """A line to show, underlined from ``start`` to ``stop``, or not at all if these are equal."""

    number: int
    text: str
    start: int = 0
    stop: int = 0

    @property
    def is_marked(self) -> bool:
        return self.start < self.stop


class Excerpts:
    """Lines of the files of a report; ``texts`` are those that did not come from a file."""

    def __init__(self, texts: Mapping[str, bytes]) -> None:
        self._lines = Lines(texts)

    def line(self, step: Step) -> str:
        lines, number = self._lines.of(step.path, step.cell), step.range.line
        return printable(lines[number - 1]).strip() if 0 < number <= len(lines) else ""

    def frame(self, finding: Finding, width: int) -> list[FrameLine]:
        """The range's lines with a line of context, cut to ``width`` so that the underlined part is visible."""
        lines, place = self._lines.of(finding.path, finding.cell), finding.range
        last = min(place.end_line, place.line + MOST_LINES - 1)
        numbers = range(max(1, place.line - CONTEXT), min(len(lines), last + CONTEXT) + 1)
        raw = [_line(lines[number - 1], number, place) for number in numbers]
        return [_cut(line, width) for line in _dedented(_without_blank_ends(raw))]


def printable(text: str) -> str:
    """The text with control characters replaced, which a terminal would interpret."""
    return CONTROL.sub("\ufffd", text.expandtabs(TAB))


def _line(line: str, number: int, place: Range) -> FrameLine:
    """A line of the frame; for a range of several lines only the first is underlined."""
    if number != place.line:
        return FrameLine(number, printable(line))
    stop = place.end_column - 1 if place.end_line == place.line else len(line)
    before, inside = printable(line[: place.column - 1]), printable(line[:stop])
    return FrameLine(number, printable(line), len(before), max(len(inside), len(before) + 1))


def _without_blank_ends(lines: list[FrameLine]) -> list[FrameLine]:
    """The lines without blank lines of context at both ends."""
    shown = [index for index, line in enumerate(lines) if line.text.strip()]
    return lines[shown[0] : shown[-1] + 1] if shown else []


def _dedented(lines: list[FrameLine]) -> Iterator[FrameLine]:
    indents = (len(line.text) - len(line.text.lstrip()) for line in lines if line.text.strip())
    common = min(indents, default=0)
    for line in lines:
        yield _from_column(line, common, "")


def _cut(line: FrameLine, width: int) -> FrameLine:
    if line.is_marked and line.start > width // 2 and len(line.text) > width:
        line = _from_column(line, line.start - width // 4, "…")
    if len(line.text) <= width:
        return line
    return FrameLine(line.number, line.text[: width - 1] + "…", line.start, min(line.stop, width))


def _from_column(line: FrameLine, column: int, sign: str) -> FrameLine:
    shift = column - len(sign)
    start, stop = max(line.start - shift, 0), max(line.stop - shift, 0)
    return FrameLine(line.number, sign + line.text[column:], start, stop)
