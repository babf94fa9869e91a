"""Settings of a script: names that its top level sets to None, for its users to write something else there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import libcst as cst

from placement_lint.source.querying import is_literal, names_in
from placement_lint.source.walking import children

_BINDING = (cst.AssignTarget, cst.AnnAssign, cst.AugAssign, cst.For, cst.CompFor, cst.NamedExpr)
_NAMING = (cst.Param, cst.FunctionDef, cst.ClassDef, cst.ImportAlias, cst.AsName)


def left_unset(body: Sequence[cst.CSTNode]) -> frozenset[str]:
    """The names of a module that are None unless its text is edited, although some block requires that they are not.

    Whatever binds the name elsewhere, in any scope, must be in such a block.
    """
    named = {target.value for statement in body for target in _set_to_none(statement)}
    if not named:
        return frozenset()
    bound: Counter[str] = Counter()
    used: set[str] = set()
    waiting: list[tuple[cst.CSTNode, frozenset[str]]] = [(statement, frozenset()) for statement in body]
    while waiting:
        node, unreached = waiting.pop()
        bound.update(name for name in _bound_by(node) if name not in unreached)
        name, block = _where_set(node) if isinstance(node, cst.If) else ("", None)
        if block is not None and name in named and name in names_in(block):
            used.add(name)
        waiting += [(child, unreached | {name} if child is block else unreached) for child in children(node)]
    return frozenset(name for name in named & used if bound[name] == 1)


def _set_to_none(statement: cst.CSTNode) -> Iterator[cst.Name]:
    """``name = None``"""
    for each in statement.body if isinstance(statement, cst.SimpleStatementLine) else ():
        if isinstance(each, cst.Assign) and is_literal(each.value, None):
            yield from (one.target for one in each.targets if isinstance(one.target, cst.Name))


def _bound_by(node: cst.CSTNode) -> Iterator[str]:
    waiting = [node.target] if isinstance(node, _BINDING) else [node.name] if isinstance(node, _NAMING) else []
    while waiting:
        part = waiting.pop()
        if isinstance(part, cst.Name):
            yield part.value
        elif isinstance(part, (cst.Tuple, cst.List)):
            waiting += [element.value for element in part.elements]


def _where_set(node: cst.If) -> tuple[str, cst.CSTNode | None]:
    """The name that an ``if`` tests for None, and the block that runs if it is something else."""
    test, holds = node.test, True
    while isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        test, holds = test.expression, not holds
    if (
        isinstance(test, cst.Comparison)
        and len(test.comparisons) == 1
        and is_literal(test.comparisons[0].comparator, None)
    ):
        holds = holds is not isinstance(test.comparisons[0].operator, (cst.Is, cst.Equal))
        test = test.left
    return (test.value, node.body if holds else node.orelse) if isinstance(test, cst.Name) else ("", None)
