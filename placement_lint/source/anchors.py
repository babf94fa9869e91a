"""Anchors of lines: they identify a finding after the lines around it have moved."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from functools import cached_property

from placement_lint.finding import Anchor
from placement_lint.source.parsing import python_tree
from placement_lint.source.scan import split_lines

DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
BODIES = ("body", "orelse", "handlers", "finalbody", "cases")


class Anchors:
    """The anchors of one text, in one or more pieces of whole statements; only the requested pieces are parsed."""

    def __init__(self, pieces: Sequence[str]) -> None:
        self._pieces = [_Piece(text) for text in pieces]

    def at(self, line: int) -> Anchor:
        for piece in self._pieces[:-1]:
            if line <= piece.height:
                return piece.at(line)
            line -= piece.height
        return self._pieces[-1].at(line)


class _Piece:
    def __init__(self, text: str) -> None:
        self.text = text

    def at(self, line: int) -> Anchor:
        text = self._lines[line - 1] if line <= len(self._lines) else ""
        around = [name for name, first, last in self._definitions if first <= line <= last]
        return Anchor(".".join(around), " ".join(text.split()))

    @cached_property
    def height(self) -> int:
        return len(self._lines) - 1

    @cached_property
    def _lines(self) -> list[str]:
        return split_lines(self.text)

    @cached_property
    def _definitions(self) -> list[tuple[str, int, int]]:
        """Name, first and last line of each function and class, outer ones first."""
        try:
            return list(_definitions(python_tree(self.text)))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return []  # not Python, or syntax newer than the running Python


def _definitions(tree: ast.Module) -> Iterator[tuple[str, int, int]]:
    statements: list[ast.AST] = [tree]
    for node in statements:
        statements.extend(below for name in BODIES for below in getattr(node, name, ()))
        if isinstance(node, DEFINITIONS):
            first = min(part.lineno for part in (node, *node.decorator_list))
            yield node.name, first, node.end_lineno or first
