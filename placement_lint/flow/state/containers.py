"""The content of tuples, lists and dicts."""

from __future__ import annotations

import libcst as cst

from placement_lint.flow.api.torch_names import SIZE
from placement_lint.flow.domain.aliasing import inside
from placement_lint.flow.domain.path_condition import any_of
from placement_lint.flow.domain.values import (
    ARRAYS,
    MISSING,
    NONE,
    Choice,
    Const,
    Kind,
    Mapping,
    Object,
    Sequence,
    Symbol,
    Tensor,
    Value,
    alternatives,
    choose,
)
from placement_lint.flow.state import joins, options
from placement_lint.flow.state.heap import ITEMS, MAPPING, Slot
from placement_lint.flow.state.machine import Machine

# The value that a defaultdict makes for a missing key.
FACTORY = Slot("factory")


def content(machine: Machine, value: Value) -> Sequence | None:
    """The items of a tuple or list."""
    if isinstance(value, Sequence):
        return value
    if isinstance(value, Object) and value.kind is Kind.LIST:
        items = machine.read(value.id, ITEMS)
        if not isinstance(items, Sequence):
            return Sequence((), exact=False)
        return inside(items, value.alias)
    return _content_of_choice(machine, value) if isinstance(value, Choice) else None


def _content_of_choice(machine: Machine, lists: Choice) -> Sequence | None:
    """The content of one of several lists, unknown which: item by item, the alternatives of all lists."""
    options = alternatives(machine.restrict(lists))
    contents = [content(machine, option) for _, option in options]
    if None in contents:
        return None
    joined = joins.joined_content(machine, lambda: [guard for guard, _ in options], contents)
    return joined if isinstance(joined, Sequence) else None


def entries(machine: Machine, value: Value) -> Mapping:
    """The content of ``dict(value)``: the entries of a mapping, or of pairs of a key and a value."""
    if isinstance(value, Object) and value.kind is Kind.DICT:
        value = machine.read(value.id, MAPPING) or value
    if isinstance(value, Mapping):
        return value
    if (namespace := options.shown(machine, value)) is not None:
        return options.content(machine, namespace)
    pairs = content(machine, value)
    known = [content(machine, pair) for pair in pairs.items] if pairs is not None and pairs.exact else [None]
    mapping = Mapping(())
    for pair in known:
        if pair is None or len(pair.items) != 2 or not isinstance(pair.items[0], Const):
            return Mapping((), machine.fresh())
        mapping = mapping.with_item(pair.items[0].value, pair.items[1])
    return mapping


def perhaps_replaced(machine: Machine, item: Value, value: Value | None = None) -> Value:
    """An item that ``value``, or something unknown, may have replaced.

    The place of a tensor is then unknown, unless both are in one place. A constant or a container becomes unknown.
    """
    if isinstance(item, Tensor):
        same = isinstance(value, Tensor) and (value.place, value.role) == (item.place, item.role)
        return value if same and value is not None else machine.fresh()
    if isinstance(item, (Const, Sequence, Mapping)) or item in ARRAYS:
        return item if item == value else machine.fresh()
    if isinstance(item, Object) and item.kind in (Kind.LIST, Kind.DICT):
        return item if value is None or item == value else machine.fresh()
    return item


def present(value: Value) -> Value:
    """The value of an item on the paths on which a list or dict has it, under what else decides it."""
    there = [(guard, option) for guard, option in alternatives(value) if not _is_missing(option)]
    if not there or not isinstance(value, Choice) or len(there) == len(value.alternatives):
        return value
    has_it = any_of(guard for guard, _ in there)
    return choose((guard.given(has_it), option) for guard, option in there) or value


def _is_missing(value: Value) -> bool:
    return isinstance(value, Symbol) and value.type == MISSING


def perhaps_filled(machine: Machine, item: Value, value: Value) -> Value:
    """The same for a list whose empty entries, None or an empty list, are read only after they have been filled."""
    return value if _is_empty_place(machine, item) else perhaps_replaced(machine, item, value)


def _is_empty_place(machine: Machine, item: Value) -> bool:
    items = content(machine, item)
    return item == NONE or (items is not None and items.exact and not items.items)


def length(machine: Machine, value: Value, node: cst.CSTNode) -> Const | Symbol | None:
    """The number of items: if it is unknown, the same unknown number as long as none is added or taken."""
    if isinstance(value, Const) and isinstance(value.value, str):
        return Const(len(value.value))
    items = content(machine, value)
    if items is not None and items.exact:
        return Const(len(items.items))
    return machine.part(value.id, ("len", items), node, type=SIZE) if isinstance(value, (Object, Symbol)) else None


def depends(machine: Machine, *values: Value) -> bool:
    """Whether one of some values depends on the rows of the batch that a replica has."""
    return any(_depends(machine, option) for value in values for _, option in alternatives(value))


def _depends(machine: Machine, value: Value) -> bool:
    if isinstance(value, (Tensor, Symbol)):
        return value.scattered
    items = content(machine, value)
    return items is not None and depends(machine, *items.items)
