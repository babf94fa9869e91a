"""Limits on the size of values: the contents of lists, tuples and dicts become unknown if a walk would not end soon."""

from __future__ import annotations

from collections.abc import Sequence as Many
from operator import is_
from typing import TYPE_CHECKING

from placement_lint.flow.api.bounds import MOST_ITEMS, MOST_NESTED, MOST_REPEATED
from placement_lint.flow.domain.record import replace
from placement_lint.flow.domain.values import Choice, Const, Kind, Mapping, Object, Sequence, Symbol, Value
from placement_lint.flow.state.heap import ITEMS, MAPPING

if TYPE_CHECKING:
    from placement_lint.flow.state.machine import Machine

# The cells of the contents of a list, a dict or a container of modules.
CONTENT_CELLS = (ITEMS, MAPPING)


def within_reach(machine: Machine, owner: int, value: Value) -> Value:
    """The contents to store for a container: an item that holds the container itself, or too much, becomes unknown."""
    if isinstance(value, Sequence):
        items = tuple([reached(machine, item, owner) for item in value.items])
        return value if all(map(is_, items, value.items)) else replace(value, items=items)
    if isinstance(value, Mapping):
        changed = [(key, kept) for key, item in value.items if (kept := reached(machine, item, owner)) is not item]
        return value.with_items(changed) if changed else value
    return value


def reached(machine: Machine, item: Value, owner: int | None = None) -> Value:
    """An item of a container or tuple, or an unknown value in its place."""
    return machine.fresh() if type(item) in _HOLDING and _is_endless(machine, item, owner) else item


def joined(*parts: Sequence) -> Sequence:
    """The concatenation of several sequences; inexact if it has more items than are kept."""
    items = tuple(item for part in parts for item in part.items[:MOST_ITEMS])
    return Sequence(items[:MOST_ITEMS], len(items) <= MOST_ITEMS and all(_is_whole(part) for part in parts))


def _is_whole(part: Sequence) -> bool:
    return part.exact and len(part.items) <= MOST_ITEMS


# The kinds of values that may hold others.
_HOLDING = frozenset({Sequence, Mapping, Choice, Object})


def _is_endless(machine: Machine, value: Value, owner: int | None) -> bool:
    """Whether a value holds ``owner``, is nested too deeply, or leads too often to values that it led to before."""
    seen: set[int] = set()
    repeated = 0
    level: list[Value] = [value]
    for _ in range(MOST_NESTED):
        below: list[Value] = []
        for each in level:
            if isinstance(each, Object) and each.id == owner:
                return True
            inside = _inside(machine, each)
            if inside is None:
                continue
            if any(type(item) in _HOLDING for item in inside):
                identity = each.id if isinstance(each, Object) else -id(each)
                repeated += identity in seen
                seen.add(identity)
            below.extend(inside)
        if repeated > MOST_REPEATED:
            return True
        if not below:
            return False
        level = below
    return True


def are_data(machine: Machine, values: Many[Value]) -> bool:
    """Whether values are numbers, unknown, or lists and dicts of these."""
    seen: set[int] = set()
    pending = list(values)
    while pending:
        value = pending.pop()
        inside = _inside(machine, value)
        if inside is None:
            if not isinstance(value, Symbol) and (not isinstance(value, Const) or isinstance(value.value, str)):
                return False
        elif not isinstance(value, Object) or value.id not in seen:
            pending.extend(inside)
            seen.update([value.id] if isinstance(value, Object) else [])
    return True


def _inside(machine: Machine, value: Value) -> Many[Value] | None:
    """The contents of a list, tuple or dict, or the alternatives of a choice; None for any other value."""
    if isinstance(value, Choice):
        return [option for _, option in value.alternatives]
    if isinstance(value, Object):
        if value.kind not in (Kind.LIST, Kind.DICT):
            return None
        held = [machine.store.read(value.id, name) for name in CONTENT_CELLS]
        return [content for content in held if content is not None]
    if isinstance(value, Sequence):
        return value.items
    if isinstance(value, Mapping):
        return [item for _, item in value.items] + ([value.rest] if value.rest is not None else [])
    return None
