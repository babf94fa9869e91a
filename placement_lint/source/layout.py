"""The layout of a text: the beginnings of its lines, and the parentheses around a piece of it."""

from __future__ import annotations

import ast
import re
import sys
from bisect import bisect_right
from collections.abc import Sequence
from functools import cached_property
from keyword import kwlist
from typing import TypeAlias

from placement_lint.finding import Range
from placement_lint.source.parsing import python_tree
from placement_lint.source.scan import LEXEME, STRING_OR_COMMENT, newlines, split_lines

Function: TypeAlias = "ast.FunctionDef | ast.AsyncFunctionDef"
Span = tuple[int, int]
"""The offsets of the first character of a piece, and of the character after its last."""

_BLANK = re.compile(r"(?:\s|\\(?:\r\n|\r|\n)|#[^\r\n]*)*")
_WORD = re.compile(r"\w+\Z")
# After these words and signs a parenthesis only groups; otherwise it belongs to a call or a definition.
_BEFORE_A_GROUP = frozenset(kwlist) - {"None", "True", "False"}
_ENDS_A_PRIMARY = frozenset((")", "]", "}", '"', "'"))
_LONGEST = 80  # characters before a parenthesis that are searched: a keyword and blanks


class Unplaced(Exception):
    """Python's own tree has no position for a node."""


class Layout:
    """The layout of one text; ``statements`` are the lines on which statements, handlers or their decorators begin."""

    def __init__(self, text: str, tree: ast.Module, statements: Sequence[int]) -> None:
        self.text = text
        self.tree = tree
        self._statements = statements

    def inside(self, string: ast.JoinedStr) -> Layout:
        """The layout of the code inside an f-string."""
        return self if sys.version_info >= (3, 12) else _Doubted(self, self.span(string))

    @cached_property
    def lines(self) -> list[str]:
        return split_lines(self.text)

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *(newline.end() for newline in newlines(self.text))]

    def let_go_of_body(self, function: Function) -> None:
        """Called for each function in the tree: most of them are never analysed."""

    def body_of(self, function: Function) -> list[ast.stmt]:
        return function.body

    def offset(self, line: int, column: int) -> int:
        """The offset of a position in Python's trees: lines from 1, columns in bytes from 0."""
        start = self._starts[line - 1]
        if self.text.isascii() or column == 0:
            return start + column
        return start + len(self.lines[line - 1].encode()[:column].decode())

    def span(self, node: ast.AST) -> Span:
        """The span of a node of Python's own tree."""
        first = self.offset(node.lineno, node.col_offset)  # type: ignore[attr-defined]
        return first, self.offset(node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]

    def nearest(self, node: ast.AST) -> Span:
        """The span of the code around a node whose own span is unknown."""
        return self.span(node)

    def range(self, span: Span) -> Range:
        return Range(*self._place(span[0]), *self._place(span[1]))

    def _place(self, offset: int) -> tuple[int, int]:
        line = bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1

    def begins_line(self, line: int, column: int) -> bool:
        """Whether there are only blanks before that position on its line."""
        return not self.lines[line - 1][:column].strip()

    def after_blank(self, offset: int) -> int:
        """The offset after the whitespace, comments and joined lines that begin there."""
        found = _BLANK.match(self.text, offset)
        return found.end() if found is not None else offset

    def before_blank(self, offset: int) -> int:
        """The offset where the whitespace, comments and joined lines begin that end there."""
        while offset:
            comment = self._comment_before(offset)
            if comment is not None:
                offset = comment
            elif self.text[offset - 1].isspace() or self._joins_lines(offset - 1):
                offset -= 1
            else:
                break
        return offset

    def _joins_lines(self, offset: int) -> bool:
        return self.text[offset] == "\\" and self.text[offset + 1 : offset + 2] in ("\r", "\n")

    def _comment_before(self, offset: int) -> int | None:
        """The start of a comment that ends there; the whole text is searched only if its line contains ``#``."""
        line = self.text.rfind("\n", 0, offset) + 1
        return self._comments.get(offset) if self.text.find("#", line, offset) >= 0 else None

    @cached_property
    def _comments(self) -> dict[int, int]:
        """The start of each comment, by its end."""
        return {each.end(): each.start() for each in STRING_OR_COMMENT.finditer(self.text) if each[0][0] == "#"}

    def grouped(self, span: Span) -> Span:
        """A piece with the parentheses around it that only group."""
        while (around := self._group_around(span)) is not None:
            span = around
        return span

    def _group_around(self, span: Span) -> Span | None:
        end = self.after_blank(span[1])
        if self.text[end : end + 1] != ")":
            return None
        start = self.before_blank(span[0]) - 1
        if start < 0 or self.text[start] != "(" or self._calls(start):
            return None
        return start, end + 1

    def _calls(self, parenthesis: int) -> bool:
        """Whether a parenthesis belongs to the text before it on its line."""
        before = self.text[max(0, parenthesis - _LONGEST) : parenthesis].rstrip(" \t")
        word = _WORD.search(before)
        return word.group() not in _BEFORE_A_GROUP if word is not None else before[-1:] in _ENDS_A_PRIMARY

    def in_braces(self, span: Span) -> Span:
        """The braces of an f-string around an expression, and the text between them: ``{x!r:>{width}}``."""
        end, open_braces = span[1], 1
        while open_braces:
            open_braces += {"{": 1, "}": -1}.get(self.text[end], 0)
            end += 1
        return self.text.rindex("{", 0, span[0]), end

    def between(self, span: Span) -> Span:
        """The text inside the parentheses at the ends of a piece."""
        return self.after_blank(span[0] + 1), self.before_blank(span[1] - 1)

    def written(self, span: Span) -> str:
        """A piece as it would look at the beginning of a line."""
        piece = self.text[span[0] : span[1]].strip()
        indent = self._indent(span[0]) if "\n" in piece or "\r" in piece else ""
        return _further_left(piece, indent) if indent else piece

    def _indent(self, offset: int) -> str:
        """The indentation of the statement at an offset."""
        number = bisect_right(self._statements, bisect_right(self._starts, offset))
        line = self.lines[self._statements[number - 1] - 1] if number else ""
        return line[: len(line) - len(line.lstrip())]


def _further_left(piece: str, indent: str) -> str:
    """Its lines without that indentation; strings are unchanged."""
    parts, done = [], 0
    for lexeme in LEXEME.finditer(piece):
        if lexeme.lastgroup == "newline" and piece.startswith(indent, lexeme.end()):
            parts.append(piece[done : lexeme.end()])
            done = lexeme.end() + len(indent)
    return "".join((*parts, piece[done:]))


class SparingLayout(Layout):
    """The layout of a text that is kept for long: Python's nodes take most of the memory, and most are in functions."""

    def __init__(self, text: str, tree: ast.Module, statements: Sequence[int]) -> None:
        super().__init__(text, tree, statements)
        self._let_go = 0

    @property
    def letters(self) -> int:
        """The length of the text that has nodes; a character without any takes a tenth of the memory."""
        return len(self.text) - self._let_go * 9 // 10

    def let_go_of_body(self, function: Function) -> None:
        before, line = self.lines[max(0, function.lineno - 2)], self.lines[function.lineno - 1]
        if not before.endswith("\\") and not line[: function.col_offset].strip(" \t"):
            self._let_go += sum(map(len, self.lines[function.body[0].lineno - 1 : function.end_lineno]))
            function.body = []

    def body_of(self, function: Function) -> list[ast.stmt]:
        return function.body or self._read_again(function).body

    def _read_again(self, function: Function) -> Function:
        """The function, parsed again from its lines at their place; an indented one is parsed below an ``if``."""
        above = "\n" * (function.lineno - 2) + "if 1:\n" if function.col_offset else "\n" * (function.lineno - 1)
        tree = python_tree(above + "\n".join(self.lines[function.lineno - 1 : function.end_lineno]))
        found = tree.body[0].body[0] if isinstance(tree.body[0], ast.If) else tree.body[0]
        assert isinstance(found, (ast.FunctionDef, ast.AsyncFunctionDef))
        return found


class _Doubted(Layout):
    """The layout of expressions in f-strings, which Python's tree misplaces before 3.12: each position is verified."""

    def __init__(self, outer: Layout, string: Span) -> None:
        super().__init__(outer.text, outer.tree, outer._statements)
        self._outer = outer
        self._string = string
        self._proven: dict[ast.AST, Span | None] = {}

    @property
    def lines(self) -> list[str]:
        return self._outer.lines

    @property
    def _starts(self) -> list[int]:
        return self._outer._starts

    @property
    def _comments(self) -> dict[int, int]:
        return self._outer._comments

    def inside(self, string: ast.JoinedStr) -> Layout:
        return self

    def nearest(self, node: ast.AST) -> Span:
        return self._string

    def span(self, node: ast.AST) -> Span:
        if node not in self._proven:
            self._proven[node] = self._proof(node)
        span = self._proven[node]
        if span is None:
            raise Unplaced
        return span

    def _proof(self, node: ast.AST) -> Span | None:
        """Its span if the text there parses to the same node."""
        begin, end = super().span(node)
        try:
            found = ast.parse(self.text[begin:end].strip(), mode="eval").body
        except (SyntaxError, ValueError):
            return None
        return (begin, end) if ast.dump(found) == ast.dump(node) else None
