"""Whether what two runs over almost the same text came to is the same.

Within one run, values are equal that are about the same: an object has its id. Here all counts that there is to know of
them: nodes, histories, names. Nodes and conditions are the same in both runs or not equal at all.
"""

from __future__ import annotations

import libcst as cst


class Likeness:
    """Compares two values at a time, and each two once."""

    def __init__(self) -> None:
        # by identity, together with the two, so that nothing else gets theirs as long as this is here
        self._known: dict[tuple[int, int], tuple[object, object, bool]] = {}

    def forget(self) -> None:
        """Let go of all that was compared."""
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
    """Whether a value is what its fields are: a node, or a condition, is equal to itself alone."""
    kind = getattr(type(value), "__dataclass_params__", None)
    return kind is not None and kind.eq and not isinstance(value, cst.CSTNode)
