"""Reuses nodes after a statement was parsed again: unchanged parts stay the same objects.

Results of the analysis are cached by node. So if one line of a function changes, only that line and the blocks around
it become new nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields
from functools import cache
from itertools import takewhile

import libcst as cst

# Nodes with blocks, and blocks.
_AROUND = (
    cst.BaseCompoundStatement,
    cst.BaseSuite,
    cst.Else,
    cst.Finally,
    cst.ExceptHandler,
    cst.ExceptStarHandler,
    cst.MatchCase,
)


def graft(old: cst.CSTNode, new: cst.CSTNode) -> None:
    """Replace the parts of a new, unshared node that are equal in the old one by the old parts."""
    for name in _fields(type(new)):
        before, after = getattr(old, name), getattr(new, name)
        if isinstance(after, cst.CSTNode):
            if isinstance(before, cst.CSTNode):
                object.__setattr__(new, name, grafted([before], [after])[0])
        elif isinstance(after, (list, tuple)):
            object.__setattr__(new, name, type(after)(grafted(before, after)))


def grafted(before: Sequence[cst.CSTNode], after: Sequence[cst.CSTNode]) -> list[cst.CSTNode]:
    """The nodes in ``after``, with those above and below a change replaced by the equal old ones."""
    above = _equal(zip(before, after, strict=False))
    most = min(len(before), len(after)) - above
    below = min(_equal(zip(reversed(before), reversed(after), strict=False)), most)
    left, changed = before[above : len(before) - below], after[above : len(after) - below]
    for one, other in zip(left, changed, strict=False):
        if isinstance(other, _AROUND) and type(one) is type(other):
            graft(one, other)
    return [*before[:above], *changed, *before[len(before) - below :]]


def _equal(pairs: Iterable[tuple[cst.CSTNode, cst.CSTNode]]) -> int:
    """The number of equal pairs before the first that is not equal."""
    return sum(1 for _ in takewhile(lambda pair: _is_equal(*pair), pairs))


def _is_equal(one: object, other: object) -> bool:
    """The result of libcst's ``deep_equals``, in a third of the time."""
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, cst.CSTNode):
        return all(_is_equal(getattr(one, name), getattr(other, name)) for name in _fields(type(one)))
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(_is_equal(*pair) for pair in zip(one, other, strict=True))
    return one == other


@cache
def _fields(kind: type[cst.CSTNode]) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))
