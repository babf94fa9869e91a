"""Mutations of programs: of tokens, expressions and statements, with pieces of other programs."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Callable, Sequence
from random import Random
from typing import NamedTuple

from .grammar import INDENT, Grammar
from .trees import tree_of

TOKEN = re.compile(r"\w+|\s+|[^\w\s]")
WORD = re.compile(r"\b[A-Za-z_]\w*\b")
# Maximum length of a program in characters; mutations that exceed it are discarded.
LONGEST = 12_000
# The share of mutations with invalid Python that is kept.
UNREADABLE = 0.1
MOST_REPEATED = 120

Span = tuple[int, int]


class Pieces(NamedTuple):
    """The positions of the statements and expressions of a program, as offsets."""

    statements: Sequence[Span]
    expressions: Sequence[Span]


def pieces_of(text: str) -> Pieces:
    """The pieces of a program; empty if it is not valid Python."""
    tree = tree_of(text)
    if tree is None:
        return Pieces((), ())
    lines = text.splitlines(keepends=True)
    begins = [0]
    for line in lines:
        begins.append(begins[-1] + len(line))

    def offset(line: int, column: int) -> int:
        written = lines[line - 1].encode() if line <= len(lines) else b""
        return begins[line - 1] + len(written[:column].decode(errors="ignore"))

    def span(node: ast.expr | ast.stmt) -> Span:
        return offset(node.lineno, node.col_offset), offset(node.end_lineno or 1, node.end_col_offset or 0)

    nodes = list(ast.walk(tree))
    return Pieces(
        [(begins[node.lineno - 1], span(node)[1]) for node in nodes if isinstance(node, ast.stmt) and _is_alone(node)],
        [span(node) for node in nodes if isinstance(node, ast.expr)],
    )


def _is_alone(node: ast.stmt) -> bool:
    """Whether the lines of the node are the whole statement: a decorated definition begins above them."""
    return not getattr(node, "decorator_list", None)


class Mutator:
    """Changes a program at random; ``another`` returns a program to take pieces from."""

    def __init__(self, random: Random, another: Callable[[], str]) -> None:
        self._random = random
        self._another = another
        self._grammar = Grammar(random)
        self._kinds: Sequence[Callable[[str], str]] = (
            self._drop_statement, self._double_statement, self._move_statement, self._take_statement,
            self._new_statement, self._new_statement, self._wrap_statement, self._repeat_statement,
            self._swap_expressions, self._take_expression, self._new_expression, self._new_expression,
            self._nest_expression, self._rename, self._drop_token, self._double_token, self._swap_tokens,
        )  # fmt: skip

    def mutated(self, text: str) -> str:
        """The program after a few changes."""
        for _ in range(self._random.choice((1, 1, 2, 3, 6))):
            changed = self._random.choice(self._kinds)(text)
            if len(changed) <= LONGEST and (tree_of(changed) is not None or self._random.random() < UNREADABLE):
                text = changed
        return text

    def _one(self, spans: Sequence[Span]) -> Span | None:
        return self._random.choice(spans) if spans else None

    def _drop_statement(self, text: str) -> str:
        found = self._one(pieces_of(text).statements)
        return text[: found[0]] + text[found[1] :] if found else text

    def _double_statement(self, text: str) -> str:
        return self._insert(text, lambda statement: statement)

    def _repeat_statement(self, text: str) -> str:
        times = self._random.randint(2, MOST_REPEATED)
        return self._insert(text, lambda statement: "\n".join([statement] * times))

    def _new_statement(self, text: str) -> str:
        return self._insert(text, lambda _: self._grammar.expand("statement", self._random.randint(0, 3)))

    def _take_statement(self, text: str) -> str:
        other = self._another()
        found = self._one(pieces_of(other).statements)
        return self._insert(text, lambda _: other[found[0] : found[1]]) if found else text

    def _insert(self, text: str, make: Callable[[str], str]) -> str:
        """Insert the result of ``make`` for a random statement after that statement."""
        found = self._one(pieces_of(text).statements)
        if not found:
            return text
        statement = text[found[0] : found[1]]
        indent = statement[: len(statement) - len(statement.lstrip())]
        made = textwrap.indent(textwrap.dedent(make(textwrap.dedent(statement))), indent)
        return f"{text[: found[1]]}\n{made}{text[found[1] :]}"

    def _move_statement(self, text: str) -> str:
        found = self._one(pieces_of(text).statements)
        if not found:
            return text
        statement = textwrap.dedent(text[found[0] : found[1]])
        return self._insert(text[: found[0]] + text[found[1] :], lambda _: statement)

    def _wrap_statement(self, text: str) -> str:
        found = self._one(pieces_of(text).statements)
        if not found:
            return text
        statement = text[found[0] : found[1]]
        indent = statement[: len(statement) - len(statement.lstrip())]
        header = self._random.choice(
            ("if x:", "while x:", "for x in range(3):", "with x as y:", "def f(x):", "class A(nn.Module):", "try:")
        )
        footer = f"\n{indent}finally:\n{indent}{INDENT}pass" if header == "try:" else ""
        return f"{text[: found[0]]}{indent}{header}\n{textwrap.indent(statement, INDENT)}{footer}{text[found[1] :]}"

    def _swap_expressions(self, text: str) -> str:
        spans = pieces_of(text).expressions
        first, second = self._one(spans), self._one(spans)
        if not first or not second or first[1] > second[0]:
            return text
        between = text[first[1] : second[0]]
        one, other = text[slice(*first)], text[slice(*second)]
        return text[: first[0]] + other + between + one + text[second[1] :]

    def _take_expression(self, text: str) -> str:
        other = self._another()
        found = self._one(pieces_of(other).expressions)
        return self._put(text, other[slice(*found)]) if found else text

    def _new_expression(self, text: str) -> str:
        return self._put(text, self._grammar.expand("expr", self._random.randint(0, 3)))

    def _nest_expression(self, text: str) -> str:
        """The program with many calls, brackets, operators or attributes around an expression."""
        found = self._one(pieces_of(text).expressions)
        if not found:
            return text
        before, after = self._random.choice((("", ".to(device)"), ("(", ",)"), ("f(", ")"), ("", " + x"), ("", "[0]")))
        times = self._random.choice((2, 10, 60, 180))
        inside = text[slice(*found)]
        return text[: found[0]] + before * times + inside + after * times + text[found[1] :]

    def _put(self, text: str, expression: str) -> str:
        found = self._one(pieces_of(text).expressions)
        return text[: found[0]] + expression + text[found[1] :] if found else text

    def _rename(self, text: str) -> str:
        """Replace a name by another one of the program, at one place or everywhere."""
        words = WORD.findall(text)
        if not words:
            return text
        old, new = self._random.choice(words), self._random.choice(words)
        return re.sub(rf"\b{old}\b", new, text, count=self._random.choice((0, 1)))

    def _drop_token(self, text: str) -> str:
        return self._with_tokens(text, lambda tokens, place: tokens[:place] + tokens[place + 1 :])

    def _double_token(self, text: str) -> str:
        return self._with_tokens(text, lambda tokens, place: tokens[: place + 1] + tokens[place:])

    def _swap_tokens(self, text: str) -> str:
        def swapped(tokens: list[str], place: int) -> list[str]:
            other = self._random.randrange(len(tokens))
            tokens[place], tokens[other] = tokens[other], tokens[place]
            return tokens

        return self._with_tokens(text, swapped)

    def _with_tokens(self, text: str, change: Callable[[list[str], int], list[str]]) -> str:
        tokens = TOKEN.findall(text)
        return "".join(change(tokens, self._random.randrange(len(tokens)))) if tokens else text
