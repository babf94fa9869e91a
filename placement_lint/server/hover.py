"""Hover texts: the history of a variable and the summaries of rules, short enough to need no scrolling."""

from __future__ import annotations

import re

from placement_lint.cli.pages import first_sentence
from placement_lint.errors import UsageError
from placement_lint.finding import Range
from placement_lint.registry import find_rule
from placement_lint.rule import Rule
from placement_lint.server import rule_pages
from placement_lint.server.diagnostics import touches
from placement_lint.server.documents import Document
from placement_lint.server.placements import history, known, name_at
from placement_lint.server.session import Watched

COMMENT = re.compile(r"#.*")
WORD = re.compile(r"[\w-]+")
MOST_LINES = 15
MOST_RULES = 2
SEPARATOR = "\n\n---\n\n"


def hover(watched: Watched, uri: str, line: int, column: int) -> tuple[str, Range] | None:
    """Markdown for a position in one of the document's texts, and the range that it is about."""
    cell, buffer = watched.document.part(uri)
    lines = buffer.text_lines
    text = lines[line - 1] if line <= len(lines) else ""
    if found := _named_rule(text, line, column):
        rule, place = found
        return _summary(rule), place
    here = Range(line, column, line, column)
    reported = [each for each in watched.findings if each.cell == cell and touches(each.range, here)]
    codes = list(dict.fromkeys(each.code for each in reported))[:MOST_RULES]
    rules = "\n\n".join(_summary(find_rule(code)) for code in codes)
    room = MOST_LINES - len(f"{rules}{SEPARATOR}".splitlines()) if rules else MOST_LINES
    named = name_at(text, column)
    past = _history(watched, watched.document, uri, named[0], line, room) if named else ""
    if not past and not rules:
        return None
    place = Range(line, named[1], line, named[2]) if named and past else reported[0].range
    return SEPARATOR.join(part for part in (past, rules) if part), place


def _summary(rule: Rule) -> str:
    """A rule in three lines of Markdown: its name, what it reports and why, and the link to its page."""
    rule_pages.write(rule)
    address = rule_pages.address(rule.code, rule.name)
    link = f" [Rule page](<{address}>)" if address else ""
    return f"**{rule.name} ({rule.code})**\n\n{first_sentence(rule.page.what)} {first_sentence(rule.page.why)}{link}"


def _history(watched: Watched, document: Document, uri: str, name: str, line: int, room: int) -> str:
    in_program, _ = document.in_program(uri, line, 1)
    return history(known(watched), name, in_program, room)


def _named_rule(text: str, line: int, column: int) -> tuple[Rule, Range] | None:
    """The rule whose code or name is at that position in a comment."""
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
