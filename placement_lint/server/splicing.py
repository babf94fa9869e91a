"""Reparses a text after an edit: only the changed statements of its top level are parsed again.

Python's own parser, many times as fast as libcst's, reports where the top-level statements begin and end. Lines between
two of them belong to the one below. The code of the result equals the text exactly; a comment may belong to a statement
where libcst attaches it to the one above, or to the module.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

import libcst as cst

from placement_lint.finding import Range
from placement_lint.server.amending import amended
from placement_lint.server.grafting import graft
from placement_lint.source.parsing import parse, python_tree
from placement_lint.source.positions import positions
from placement_lint.source.scan import lines_with_ends
from placement_lint.source.text import Unreadable
from placement_lint.source.walking import children

# Characters that make the positions or newlines of a part differ from those in the whole text.
ODD = ("\r", "\x0c", "\ufeff")
BLOCKS = (cst.IndentedBlock, cst.Match)


@dataclass(eq=False)
class Part:
    """A piece of a text, parsed by itself, with the requested positions of its nodes."""

    text: str
    module: cst.Module
    _places: dict[cst.CSTNode, Range] = field(default_factory=dict)

    def place(self, nodes: Collection[cst.CSTNode], above: int) -> dict[cst.CSTNode, Range]:
        """The positions of those nodes that are in it, if ``above`` lines precede it."""
        inside = self.nodes.intersection(nodes)
        if new := inside - self._places.keys():
            self._places |= positions(self.module, list(new))
        return {node: _below(self._places[node], above) for node in inside}

    @cached_property
    def nodes(self) -> frozenset[cst.CSTNode]:
        """All nodes except whitespace and comments."""
        found: list[cst.CSTNode] = [*self.module.body]
        for node in found:
            found.extend(children(node))
        return frozenset(found)

    @cached_property
    def lines(self) -> int:
        return self.text.count("\n")

    @cached_property
    def indent(self) -> str | None:
        """The indentation of its blocks; None if it has none."""
        return self.module.default_indent if any(isinstance(node, BLOCKS) for node in self.nodes) else None


@dataclass(frozen=True)
class Spliced:
    """A text's tree, and the parts from which it was built."""

    module: cst.Module
    parts: Sequence[Part]

    def place(self, nodes: Iterable[cst.CSTNode]) -> dict[cst.CSTNode, Range]:
        """The result of :func:`positions` for the nodes of statements, from the cached positions of the parts."""
        wanted = set(nodes)
        places: dict[cst.CSTNode, Range] = {}
        above = 0
        for part in self.parts:
            places |= part.place(wanted, above)
            above += part.lines
        return places


class Splicer:
    """Parses the texts of one document, one after the other.

    A top-level statement that occurs in two consecutive texts, below the same lines without code, is one object in both
    trees. So are the unchanged parts of a changed statement.
    """

    def __init__(self) -> None:
        self._parts: Sequence[Part] = ()

    def parse(self, text: str) -> Spliced:
        """The result of :func:`parse` for the text, or its exception."""
        pieces = recut(text, [part.text for part in self._parts])
        return (self._spliced(pieces) if pieces else None) or _in_one_piece(text)

    def _spliced(self, pieces: Sequence[str]) -> Spliced | None:
        """The combined parts; None if a part parsed by itself would differ from the same part in the whole text."""
        known: dict[str, deque[Part]] = defaultdict(deque)
        for part in self._parts:
            known[part.text].append(part)
        kept = [known[piece].popleft() if known[piece] else None for piece in pieces]
        staying = set(kept)
        gone = deque(part for part in self._parts if part not in staying)
        try:
            self._parts = [
                part or _part(piece, gone.popleft() if gone else None) for part, piece in zip(kept, pieces, strict=True)
            ]
        except Unreadable:  # its line number is that of the piece
            return None
        module = _joined(self._parts)
        return Spliced(module, self._parts) if module else None


def _in_one_piece(text: str) -> Spliced:
    module = parse(text)
    return Spliced(module, (Part(text, module),))


def _part(piece: str, before: Part | None) -> Part:
    """A part whose lines above the first statement belong to that statement instead of the module.

    Unchanged nodes of the previous part, ``before``, are reused.
    """
    if before is not None and (module := amended(before.module, before.text, piece)) is not None:
        return Part(piece, module)
    module = parse(piece)
    first, *others = module.body
    first = first.with_changes(leading_lines=[*module.header, *first.leading_lines])
    module = module.with_changes(header=[], body=[first, *others])
    if before is not None and before.module.default_indent == module.default_indent:
        graft(before.module, module)
    return Part(piece, module)


def _joined(parts: Sequence[Part]) -> cst.Module | None:
    modules = [part.module for part in parts]
    indents = {part.indent for part in parts if part.indent is not None}
    if len(indents) > 1 or any(module.footer or not module.has_trailing_newline for module in modules[:-1]):
        return None
    last = modules[-1]
    return last.with_changes(
        body=[statement for module in modules for statement in module.body],
        default_indent=next(iter(indents), last.default_indent),
    )


# --- cutting -----------------------------------------------------------------------------------------------------


def recut(text: str, before: Sequence[str]) -> list[str]:
    """The result of :func:`cut` for the text, from the result for another text.

    Whole statements are not affected by the statements around them. So only the text between the unchanged pieces is
    cut again, together with the piece on either side of it: an edit may have extended that piece.
    """
    above = _kept(before, lambda piece, length: text.startswith(piece, length))
    begin = _length(above)
    below = _kept(reversed(before[len(above) :]), lambda piece, length: text.endswith(piece, begin, len(text) - length))
    between = cut(text[begin : len(text) - _length(below)])
    return [*above, *between, *reversed(below)] if between else cut(text)


def _kept(pieces: Iterable[str], stands: Callable[[str, int], bool]) -> list[str]:
    """The pieces as long as each follows those before it in the text, without the last of them."""
    kept: list[str] = []
    length = 0
    for piece in pieces:
        if not stands(piece, length):
            break
        kept.append(piece)
        length += len(piece)
    return kept[:-1]


def _length(pieces: Iterable[str]) -> int:
    return sum(map(len, pieces))


def cut(text: str) -> list[str]:
    """The text cut after each top-level statement; empty if it cannot be cut."""
    if any(character in text for character in ODD):
        return []
    try:
        tree = python_tree(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    ends: list[int] = []
    for statement in tree.body:
        begin = min(part.lineno for part in (statement, *getattr(statement, "decorator_list", ())))
        # libcst puts several statements on one line into one node.
        if ends and begin <= ends[-1]:
            ends.pop()
        ends.append(statement.end_lineno or begin)
    lines = lines_with_ends(text)
    cuts = [0, *ends[:-1], len(lines)] if ends else []
    return ["".join(lines[start:end]) for start, end in pairwise(cuts)]


# --- positions in a text -----------------------------------------------------------------------------------------


def _below(place: Range, above: int) -> Range:
    return Range(place.line + above, place.column, place.end_line + above, place.end_column)
