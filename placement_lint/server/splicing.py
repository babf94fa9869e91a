"""A text parsed again after an edit: only the statements of its top level that are new, between those that are not.

Python's own parser, many times as fast as libcst's, tells where the statements of the top level begin and end. The code
of the result is that of the text to the letter; a comment between two statements may belong to the one after it where
libcst gives it to the one before.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from itertools import pairwise

import libcst as cst

from placement_lint.source.parsing import parse, python_tree
from placement_lint.source.scan import lines_with_ends

# What makes places or the newlines of a part another matter than those of the whole.
ODD = ("\r", "\x0c", "\ufeff")


class Splicer:
    """Parses the texts of one document, one after the other."""

    def __init__(self) -> None:
        self._parts: dict[str, list[cst.Module]] = {}

    def parse(self, text: str) -> cst.Module:
        """What :func:`parse` gives for the text, and raises."""
        pieces = _pieces(text)
        return self._spliced(pieces) or parse(text) if pieces else parse(text)

    def _spliced(self, pieces: Sequence[str]) -> cst.Module | None:
        """The parts put together; None where one by itself is not what it is in the whole."""
        known = {piece: deque(parts) for piece, parts in self._parts.items()}
        parts = [(piece, known[piece].popleft() if known.get(piece) else parse(piece)) for piece in pieces]
        self._parts = defaultdict(list)
        for piece, part in parts:
            self._parts[piece].append(part)
        modules = [part for _, part in parts]
        indents = {part.default_indent for piece, part in parts if "\n " in piece or "\n\t" in piece}
        if len(indents) > 1 or any(part.footer or not part.has_trailing_newline for part in modules[:-1]):
            return None
        first, last = modules[0], modules[-1]
        body = [*first.body, *(statement for part in modules[1:] for statement in _statements(part))]
        return first.with_changes(
            body=body,
            footer=last.footer,
            has_trailing_newline=last.has_trailing_newline,
            default_indent=next(iter(indents), first.default_indent),
        )


def _statements(part: cst.Module) -> Iterator[cst.BaseCompoundStatement | cst.SimpleStatementLine]:
    """Those of a part that is not the first: what stands above it belongs to its first statement."""
    first, *others = part.body
    yield first.with_changes(leading_lines=[*part.header, *first.leading_lines])
    yield from others


def _pieces(text: str) -> list[str]:
    """The text cut behind each statement of the top level; nothing where it cannot be cut."""
    if any(character in text for character in ODD):
        return []
    try:
        tree = python_tree(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    ends: list[int] = []
    for statement in tree.body:
        begin = min(part.lineno for part in (statement, *getattr(statement, "decorator_list", ())))
        # Several on one line are one line of libcst's.
        if ends and begin <= ends[-1]:
            ends.pop()
        ends.append(statement.end_lineno or begin)
    lines = lines_with_ends(text)
    cuts = [0, *ends[:-1], len(lines)] if ends else []
    return ["".join(lines[start:end]) for start, end in pairwise(cuts)]
