"""What is shown for what one points at: a variable's history, and the page of a rule."""

from __future__ import annotations

import re

from placement_lint.errors import UsageError
from placement_lint.finding import Range
from placement_lint.pages import as_markdown
from placement_lint.registry import find_rule
from placement_lint.rule import Rule
from placement_lint.server.diagnostics import touches
from placement_lint.server.documents import Document
from placement_lint.server.placements import history, known, name_at
from placement_lint.server.session import Watched

COMMENT = re.compile(r"#.*")
WORD = re.compile(r"[\w-]+")


def hover(watched: Watched, uri: str, line: int, column: int) -> tuple[str, Range] | None:
    """Markdown for a place in one of the document's texts, and the range that it is about."""
    cell, buffer = watched.document.part(uri)
    lines = buffer.text_lines
    text = lines[line - 1] if line <= len(lines) else ""
    if found := _named_rule(text, line, column):
        rule, place = found
        return as_markdown(rule), place
    here = Range(line, column, line, column)
    reported = [each for each in watched.findings if each.cell == cell and touches(each.range, here)]
    pages = [as_markdown(find_rule(code)) for code in dict.fromkeys(each.code for each in reported)]
    named = name_at(text, column)
    past = _history(watched, watched.document, uri, named[0], line) if named else ""
    parts = [part for part in (past, *pages) if part]
    if not parts:
        return None
    place = Range(line, named[1], line, named[2]) if named and past else reported[0].range
    return "\n\n---\n\n".join(parts), place


def _history(watched: Watched, document: Document, uri: str, name: str, line: int) -> str:
    in_program, _ = document.in_program(uri, line, 1)
    return history(known(watched), name, in_program)


def _named_rule(text: str, line: int, column: int) -> tuple[Rule, Range] | None:
    """The rule whose code or name stands there in a comment."""
    comment = COMMENT.search(text)
    if comment is None:
        return None
    for word in WORD.finditer(text, comment.start()):
        if word.start() < column <= word.end() + 1:
            try:
                return find_rule(word.group()), Range(line, word.start() + 1, line, word.end() + 1)
            except UsageError:
                return None
    return None
