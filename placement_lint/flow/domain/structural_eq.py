"""Structural comparison of the results of two runs over almost the same text.

Within one run, values with the same identity are equal: an object compares by its id. Here all fields are compared:
nodes, histories, names. Nodes and conditions compare by identity.
"""

from __future__ import annotations

import libcst as cst


class Likeness:
    """Compares pairs of values, and caches the result of each pair."""

    def __init__(self) -> None:
        # by the ids of both values; the entry keeps the values alive so that their ids are not reused
        self._known: dict[tuple[int, int], tuple[object, object, bool]] = {}

    def forget(self) -> None:
        """Clear the cache and release the compared values."""
        self._known.clear()

    def same(self, one: object, other: object) -> bool:
        if one is other:
            return True
        kind = type(one)
        if kind is not type(other):
            return False
        if isinstance(one, (tuple, list)):
            return self._all_same(one, other)  # type: ignore[arg-type]
        if isinstance(one, dict):
            return self._same_entries(one, other)  # type: ignore[arg-type]
        if not _is_made_of_parts(one):
            return one == other
        known = self._known.get((id(one), id(other)))
        if known is None:
            same = self._all_same(tuple(vars(one).values()), tuple(vars(other).values()))
            known = self._known[id(one), id(other)] = one, other, same
        return known[2]

    def _all_same(self, some: tuple[object, ...], others: tuple[object, ...]) -> bool:
        return len(some) == len(others) and all(map(self.same, some, others))

    def _same_entries(self, some: dict[object, object], others: dict[object, object]) -> bool:
        return some.keys() == others.keys() and all(self.same(some[key], others[key]) for key in some)


def _is_made_of_parts(value: object) -> bool:
    """Whether a value compares by its fields; a node or a condition compares by identity."""
    kind = getattr(type(value), "__dataclass_params__", None)
    return kind is not None and kind.eq and not isinstance(value, cst.CSTNode)
