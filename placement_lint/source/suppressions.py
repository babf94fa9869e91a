"""Comments that suppress findings: ours, ``noqa``, and ``skip-file`` at the top of a file."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from placement_lint.finding import Range
from placement_lint.source.scan import Comment, Scan

MARKERS = ("placement-lint:", "noqa")
DIRECTIVE = re.compile(r"#\s*placement-lint:\s*(?P<verb>[\w-]*)\s*(?:\[(?P<rules>[^\]]*)\])?")
NOQA = re.compile(r"#\s*noqa(?:\s*:\s*(?P<codes>[a-z]+[0-9]+(?:[,\s]+[a-z]+[0-9]+)*))?(?![\w-])", re.IGNORECASE)
OWN_CODE = re.compile(r"DPL[0-9]+", re.IGNORECASE)

IGNORE = "ignore"
SKIP_FILE = "skip-file"
VERBS = (IGNORE, SKIP_FILE)


@dataclass(frozen=True)
class Entry:
    """One rule selector in a comment and its position."""

    selector: str
    range: Range


@dataclass(frozen=True)
class Suppression:
    """The effect of one suppression comment.

    ``entries`` is empty for a comment that suppresses everything. ``accountable`` comments are meant for
    this tool alone, so that an unused one is worth a report; a bare ``noqa`` is not.
    """

    range: Range
    entries: tuple[Entry, ...]
    accountable: bool


@dataclass(frozen=True)
class Misplaced:
    """A directive that has no effect, and why."""

    range: Range
    verb: str


@dataclass(frozen=True)
class Suppressions:
    skip_file: bool = False
    comments: tuple[Suppression, ...] = ()
    misplaced: tuple[Misplaced, ...] = ()
    scan: Scan = field(default_factory=lambda: Scan(""))

    def at(self, place: Range) -> Iterator[Suppression]:
        """The comments that apply to a finding: on its lines, or where its statement begins or ends."""
        lines = self._lines_speaking_for(place) if self.comments else ()
        return (comment for comment in self.comments if comment.range.line in lines)

    def _lines_speaking_for(self, place: Range) -> Collection[int]:
        statement = self.scan.logical_lines.get(place.line, ())
        return {place.line, place.end_line, *statement}


def read_suppressions(text: str) -> Suppressions:
    lowered = text.lower()
    if not any(marker in lowered for marker in MARKERS):
        return Suppressions()
    scan = Scan(text)
    skip_file = False
    found: list[Suppression] = []
    misplaced: list[Misplaced] = []
    for comment in scan.comments():
        if directive := DIRECTIVE.search(comment.text):
            verb = directive["verb"]
            if verb == IGNORE:
                found.append(_ignore(comment, directive))
            elif verb == SKIP_FILE and comment.leading:
                skip_file = True
            else:
                misplaced.append(Misplaced(_range(comment, directive.span()), verb))
        if noqa := NOQA.search(comment.text):
            found.extend(_noqa(comment, noqa))
    return Suppressions(skip_file, tuple(found), tuple(misplaced), scan)


def _ignore(comment: Comment, directive: re.Match[str]) -> Suppression:
    return Suppression(_range(comment, directive.span()), tuple(_entries(comment, directive, "rules")), True)


def _noqa(comment: Comment, noqa: re.Match[str]) -> Iterator[Suppression]:
    """A bare ``noqa`` applies to everything; one with codes only to our codes among them."""
    place = _range(comment, noqa.span())
    if noqa["codes"] is None:
        yield Suppression(place, (), accountable=False)
        return
    entries = tuple(_entries(comment, noqa, "codes"))
    ours = tuple(entry for entry in entries if OWN_CODE.fullmatch(entry.selector))
    if ours:
        yield Suppression(place, ours, accountable=True)


def _entries(comment: Comment, match: re.Match[str], group: str) -> Iterator[Entry]:
    listed = match[group] or ""
    for word in re.finditer(r"[^,\s]+", listed):
        start = match.start(group) + word.start()
        yield Entry(word.group(), _range(comment, (start, start + len(word.group()))))


def _range(comment: Comment, span: tuple[int, int]) -> Range:
    return Range(comment.line, comment.column + span[0], comment.line, comment.column + span[1])
