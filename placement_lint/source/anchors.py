"""Anchors of lines: what a finding is recognised by after the lines around it have moved."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property

from placement_lint.finding import Anchor
from placement_lint.source.parsing import python_tree
from placement_lint.source.scan import split_lines

DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class Anchors:
    """The anchors of one text; functions are looked up only once a line is asked for."""

    def __init__(self, text: str) -> None:
        self.text = text

    def at(self, line: int) -> Anchor:
        text = self._lines[line - 1] if line <= len(self._lines) else ""
        around = [name for name, first, last in self._definitions if first <= line <= last]
        return Anchor(".".join(around), " ".join(text.split()))

    @cached_property
    def _lines(self) -> list[str]:
        return split_lines(self.text)

    @cached_property
    def _definitions(self) -> list[tuple[str, int, int]]:
        """Name, first and last line of each function and class, outer ones first."""
        try:
            return list(_definitions(python_tree(self.text)))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return []  # no Python, or newer than the one that runs


def _definitions(tree: ast.Module) -> Iterator[tuple[str, int, int]]:
    for node in ast.walk(tree):
        if isinstance(node, DEFINITIONS):
            first = min(part.lineno for part in (node, *node.decorator_list))
            yield node.name, first, node.end_lineno or first
