"""Positions of given nodes, from one pass of code generation.

libcst's position provider computes every node of the module and costs twice the parser. Here only the
requested nodes are recorded, as indices into the generated tokens, which become lines and columns at the end.
The result equals the provider's: whitespace and surrounding parentheses do not belong to a node.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import pairwise

import libcst as cst
from libcst._nodes.internal import CodegenState

from placement_lint.finding import Range
from placement_lint.source.abstract import Abstract, places
from placement_lint.source.scan import NEWLINE

Span = tuple[int, int]
UNNOTED = nullcontext()


class SpanNotingState(CodegenState):
    """Generates code and records, for the wanted nodes, the indices of their first token and past the last."""

    def __init__(self, module: cst.Module, wanted: Iterable[cst.CSTNode]) -> None:
        super().__init__(module.default_indent, module.default_newline)
        self.wanted = set(wanted)
        self.spans: dict[cst.CSTNode, Span] = {}
        self._starts: dict[cst.CSTNode, int] = {}

    def before_codegen(self, node: cst.CSTNode) -> None:
        if node in self.wanted:
            self._starts[node] = len(self.tokens)

    def after_codegen(self, node: cst.CSTNode) -> None:
        # A node that reports its own begin and end, without its whitespace, has been recorded by then.
        if node in self._starts:
            self.spans.setdefault(node, (self._starts[node], len(self.tokens)))

    def record_syntactic_position(  # type: ignore[override]  # any context manager will do
        self,
        node: cst.CSTNode,
        *,
        start_node: cst.CSTNode | None = None,
        end_node: cst.CSTNode | None = None,
    ) -> AbstractContextManager[None]:
        return self._noting(node, start_node, end_node) if node in self.wanted else UNNOTED

    @contextmanager
    def _noting(
        self, node: cst.CSTNode, start_node: cst.CSTNode | None, end_node: cst.CSTNode | None
    ) -> Iterator[None]:
        self.wanted.update(child for child in (start_node, end_node) if child is not None)
        start = len(self.tokens)
        yield
        end = len(self.tokens)
        self.spans[node] = (
            self.spans[start_node][0] if start_node is not None else start,
            self.spans[end_node][1] if end_node is not None else end,
        )


def positions(module: cst.Module, nodes: Sequence[cst.CSTNode], roughly: bool = False) -> dict[cst.CSTNode, Range]:
    """The range of each given node of the module; a node that is not part of it is omitted.

    Raises :class:`Unplaced` if an abstract node has no position of its own, unless ``roughly``: then the enclosing
    node's is used.
    """
    if isinstance(module, Abstract):
        return places(module, nodes, roughly)
    state = SpanNotingState(module, nodes)
    module._codegen(state)
    known = _places(state.tokens, {index for span in state.spans.values() for index in span})
    return {
        node: Range(*known[state.spans[node][0]], *known[state.spans[node][1]]) for node in nodes if node in state.spans
    }


def _places(tokens: Sequence[str], indices: Iterable[int]) -> dict[int, tuple[int, int]]:
    """Line and column at which the tokens of the given indices begin."""
    found: dict[int, tuple[int, int]] = {}
    line = column = 1
    for begin, end in pairwise((0, *sorted(indices))):
        text = "".join(tokens[begin:end])
        segments = NEWLINE.split(text)
        line += len(segments) - 1
        column = len(segments[-1]) + (column if len(segments) == 1 else 1)
        found[end] = (line, column)
    return found
