"""Reparses a statement after an edit inside it: only the innermost statements that the edit touches.

Python's own parser reports the lines of all statements, before and after the edit. Lines above a statement in its block
belong to it. Statements with the same text are kept, and the nodes around them change only in their content.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise, takewhile
from typing import TypeAlias

import libcst as cst

from placement_lint.server.grafting import grafted
from placement_lint.source.parsing import parse, python_tree
from placement_lint.source.scan import lines_with_ends
from placement_lint.source.text import Unreadable

Chain: TypeAlias = "tuple[cst.CSTNode, ...]"
"""A statement, its nested clauses, and the block of the last."""


@dataclass(frozen=True)
class _Cell:
    """A statement of libcst's, which may be several of Python's, with the lines above that belong to it."""

    text: str
    begin: int
    end: int
    statements: Sequence[ast.stmt]

    @property
    def has_comment_above(self) -> bool:
        return _has_comment(lines_with_ends(self.text))


@dataclass(frozen=True)
class _Block:
    """The statements of a block, in the lines of a text; with its indentation and that of the blocks around it."""

    lines: Sequence[str]
    cells: Sequence[_Cell]
    indents: Sequence[str]

    @property
    def around(self) -> tuple[Sequence[str], Sequence[str]]:
        """The lines above it and below it."""
        return self.lines[: self.cells[0].begin], self.lines[self.cells[-1].end :]

    @property
    def has_comment_below(self) -> bool:
        return _has_comment(self.lines[self.cells[-1].end :])

    def inside(self, cell: _Cell) -> Iterator[_Block]:
        """The blocks of a statement."""
        for body in _bodies(cell.statements[0]):
            yield _block(self.lines, body, self.indents)


def amended(module: cst.Module, before: str, after: str) -> cst.Module | None:
    """The module of one text changed to another text; None if the edit is not in a block of its only statement."""
    try:
        old, new = _top(before), _top(after)
        whole_lines = before.endswith("\n") and after.endswith("\n")
        if whole_lines and len(module.body) == len(old.cells) == len(new.cells) == 1:
            statement = _within(module.body[0], old, new, old.cells[0], new.cells[0], module.default_indent)
            return module.with_changes(body=[statement]) if statement is not None else None
    except (SyntaxError, ValueError, RecursionError, MemoryError, Unreadable):
        pass  # parsing the whole text reports the error
    return None


def _within(
    statement: cst.CSTNode, old: _Block, new: _Block, before: _Cell, after: _Cell, indent: str
) -> cst.CSTNode | None:
    """A statement with a new block, if nothing outside the block changed."""
    chains = list(_chains(statement))
    blocks = list(zip(old.inside(before), new.inside(after), strict=False))
    if len(chains) != len(blocks):
        return None
    for chain, (one, other) in zip(chains, blocks, strict=True):
        block, stays = chain[-1], (one.around, one.indents) == (other.around, other.indents)
        if stays and isinstance(block, cst.IndentedBlock):
            body = _body(block.body, one, other, indent)
            return _rebuilt(chain, block.with_changes(body=body)) if body is not None else None
    return None


def _body(body: Sequence[cst.CSTNode], old: _Block, new: _Block, indent: str) -> Sequence[cst.CSTNode] | None:
    """The statements of a block after an edit: one changed inside if possible, else those with new text are parsed."""
    above, below = _staying(old.cells, new.cells)
    if len(body) != len(old.cells) or (not below and (old.has_comment_below or new.has_comment_below)):
        return None
    gone, made = old.cells[above : len(old.cells) - below], new.cells[above : len(new.cells) - below]
    left = body[above : len(body) - below]
    if len(gone) == len(made) == 1 and (inside := _within(left[0], old, new, gone[0], made[0], indent)) is not None:
        middle: Sequence[cst.CSTNode] = [inside]
    else:
        parsed = _parsed("".join(cell.text for cell in made), new.indents, indent)
        if parsed is None:
            return None
        middle = grafted(left, parsed)
    return [*body[:above], *middle, *body[len(body) - below :]]


def _staying(old: Sequence[_Cell], new: Sequence[_Cell]) -> tuple[int, int]:
    """The number of unchanged statements at each end: a comment may also belong to the one above it."""
    above = _equal(old, new)
    below = min(_equal(old[::-1], new[::-1]), len(old) - above, len(new) - above)
    while below and new[-below].has_comment_above:
        below -= 1
    while above and any(cells[above].has_comment_above for cells in (old, new) if above < len(cells)):
        above -= 1
    return above, below


def _equal(one: Sequence[_Cell], other: Sequence[_Cell]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0].text == pair[1].text, zip(one, other, strict=False)))


def _parsed(text: str, indents: Sequence[str], indent: str) -> Sequence[cst.CSTNode] | None:
    """The statements of a block; None if their indentation would differ in the whole text."""
    if not text:
        return []
    module = parse("".join(f"{outer}if 1:\n" for outer in ("", *indents[:-1])) + text)
    block: cst.CSTNode = module
    for _ in indents:
        block = block.body[0].body  # type: ignore[attr-defined]
    return block.body if module.default_indent == indent else None  # type: ignore[attr-defined,no-any-return]


# --- blocks of Python and of libcst --------------------------------------------------------------------------------


def _top(text: str) -> _Block:
    return _Block(lines := lines_with_ends(text), _cells(lines, python_tree(text).body, 0), ())


def _block(lines: Sequence[str], body: Sequence[ast.stmt], outer: Sequence[str]) -> _Block:
    first = _first_line(body[0])
    above = sum(1 for _ in takewhile(_is_bare, reversed(lines[:first])))
    line = lines[first]
    return _Block(lines, _cells(lines, body, first - above), (*outer, line[: len(line) - len(line.lstrip())]))


def _cells(lines: Sequence[str], statements: Sequence[ast.stmt], begin: int) -> Sequence[_Cell]:
    groups: list[list[ast.stmt]] = []
    for statement in statements:
        if groups and _first_line(statement) < _end(groups[-1]):
            groups[-1].append(statement)
        else:
            groups.append([statement])
    cuts = [begin, *map(_end, groups)]
    return [
        _Cell("".join(lines[start:end]), start, end, group)
        for (start, end), group in zip(pairwise(cuts), groups, strict=True)
    ]


def _first_line(statement: ast.stmt) -> int:
    """The line number, from 0."""
    return min(part.lineno for part in (statement, *getattr(statement, "decorator_list", ()))) - 1


def _end(statements: Sequence[ast.stmt]) -> int:
    """The line number after the last line."""
    return statements[-1].end_lineno or statements[-1].lineno


def _bodies(statement: ast.AST) -> Iterator[Sequence[ast.stmt]]:
    """The blocks of a compound statement in the order of their lines, including those of ``elif`` clauses."""
    if body := getattr(statement, "body", ()):
        yield body
    for clause in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
        yield clause.body
    if orelse := getattr(statement, "orelse", ()):
        is_elif = isinstance(statement, ast.If) and orelse[0].col_offset == statement.col_offset
        yield from _bodies(orelse[0]) if is_elif else (orelse,)
    if finalbody := getattr(statement, "finalbody", ()):
        yield finalbody


def _chains(node: cst.CSTNode) -> Iterator[Chain]:
    """The chains to the blocks of a compound statement, in the same order."""
    if isinstance(body := getattr(node, "body", None), cst.BaseSuite):
        yield node, body
    clauses = (*getattr(node, "handlers", ()), *getattr(node, "cases", ()))
    for clause in (*clauses, getattr(node, "orelse", None), getattr(node, "finalbody", None)):
        if clause is not None:
            yield from ((node, *chain) for chain in _chains(clause))


def _rebuilt(chain: Chain, block: cst.CSTNode) -> cst.CSTNode:
    """The statement with another block at the end of the chain."""
    node = block
    for inner, outer in pairwise(reversed(chain)):
        node = _with(outer, inner, node)
    return node


def _with(node: cst.CSTNode, old: cst.CSTNode, new: cst.CSTNode) -> cst.CSTNode:
    for field in fields(node):
        content = getattr(node, field.name)
        if content is old:
            return node.with_changes(**{field.name: new})
        if isinstance(content, (list, tuple)) and any(item is old for item in content):
            return node.with_changes(**{field.name: [new if item is old else item for item in content]})
    raise AssertionError("a chain leads from a node to what is in it")


def _is_bare(line: str) -> bool:
    return not line.strip() or line.lstrip().startswith("#")


def _has_comment(lines: Sequence[str]) -> bool:
    """Whether there is a comment before any code."""
    return any("#" in line for line in takewhile(_is_bare, lines))
