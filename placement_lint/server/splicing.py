"""A text parsed again after an edit: only the statements of its top level that are new, between those that are not.

Python's own parser, many times as fast as libcst's, tells where the statements of the top level begin and end. What
stands between two of them belongs to the one below. The code of the result is that of the text to the letter; a comment
may belong to a statement where libcst gives it to the one above, or to the module.
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

# What makes places or the newlines of a part another matter than those of the whole.
ODD = ("\r", "\x0c", "\ufeff")
BLOCKS = (cst.IndentedBlock, cst.Match)


@dataclass(eq=False)
class Part:
    """A piece of a text, parsed by itself, and where those of its nodes stand that were ever asked for."""

    text: str
    module: cst.Module
    _places: dict[cst.CSTNode, Range] = field(default_factory=dict)

    def place(self, nodes: Collection[cst.CSTNode], above: int) -> dict[cst.CSTNode, Range]:
        """The places of those nodes that are in it, if ``above`` lines precede it."""
        inside = self.nodes.intersection(nodes)
        if new := inside - self._places.keys():
            self._places |= positions(self.module, list(new))
        return {node: _below(self._places[node], above) for node in inside}

    @cached_property
    def nodes(self) -> frozenset[cst.CSTNode]:
        """All but whitespace and comments."""
        found: list[cst.CSTNode] = [*self.module.body]
        for node in found:
            found.extend(children(node))
        return frozenset(found)

    @cached_property
    def lines(self) -> int:
        return self.text.count("\n")

    @cached_property
    def indent(self) -> str | None:
        """What its blocks are indented by; None where it has none."""
        return self.module.default_indent if any(isinstance(node, BLOCKS) for node in self.nodes) else None


@dataclass(frozen=True)
class Spliced:
    """A text's tree, and the parts that it was put together from."""

    module: cst.Module
    parts: Sequence[Part]

    def place(self, nodes: Iterable[cst.CSTNode]) -> dict[cst.CSTNode, Range]:
        """What :func:`positions` says of the nodes of statements, from what the parts know already."""
        wanted = set(nodes)
        places: dict[cst.CSTNode, Range] = {}
        above = 0
        for part in self.parts:
            places |= part.place(wanted, above)
            above += part.lines
        return places


class Splicer:
    """Parses the texts of one document, one after the other.

    A statement of the top level that stands in two texts on end, below the same lines without code, is one object in
    both trees. So is what did not change in one that did.
    """

    def __init__(self) -> None:
        self._parts: Sequence[Part] = ()

    def parse(self, text: str) -> Spliced:
        """What :func:`parse` gives for the text, and raises."""
        pieces = recut(text, [part.text for part in self._parts])
        return (self._spliced(pieces) if pieces else None) or _in_one_piece(text)

    def _spliced(self, pieces: Sequence[str]) -> Spliced | None:
        """The parts put together; None where one by itself is not what it is in the whole."""
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
        except Unreadable:  # says so of a line of the piece
            return None
        module = _joined(self._parts)
        return Spliced(module, self._parts) if module else None


def _in_one_piece(text: str) -> Spliced:
    module = parse(text)
    return Spliced(module, (Part(text, module),))


def _part(piece: str, before: Part | None) -> Part:
    """What stands above the first statement is that statement's, and not the module's.

    What is in it of the part that was there ``before`` it stays the same.
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


# --- where it is cut ---------------------------------------------------------------------------------------------


def recut(text: str, before: Sequence[str]) -> list[str]:
    """What :func:`cut` gives for the text, from what it gave for another.

    Whole statements stay what they are under other statements and above them. So what is between the pieces that stand
    as they stood is cut, together with the piece on either side of it: an edit may have made it longer.
    """
    above = _kept(before, lambda piece, length: text.startswith(piece, length))
    begin = _length(above)
    below = _kept(reversed(before[len(above) :]), lambda piece, length: text.endswith(piece, begin, len(text) - length))
    between = cut(text[begin : len(text) - _length(below)])
    return [*above, *between, *reversed(below)] if between else cut(text)


def _kept(pieces: Iterable[str], stands: Callable[[str, int], bool]) -> list[str]:
    """The pieces as long as each stands beyond the length of those before it, without the last of them."""
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


# --- where things stand in it ------------------------------------------------------------------------------------


def _below(place: Range, above: int) -> Range:
    return Range(place.line + above, place.column, place.end_line + above, place.end_column)
