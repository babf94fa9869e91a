"""Aliases from a replica back to the original module: everything reachable through them is also the original's."""

from __future__ import annotations

from placement_lint.flow.domain.record import replace
from placement_lint.flow.domain.values import (
    REPLICA,
    Alias,
    Bound,
    Function,
    Kind,
    Mapping,
    Object,
    Partial,
    Role,
    Sequence,
    Tensor,
    Value,
)


def marked(value: Value, alias: Alias) -> Value:
    """The value with itself and its parts marked as belonging to the original."""
    if isinstance(value, Object) and value.kind in (Kind.MODULE, Kind.LIST, Kind.DICT):
        return replace(value, alias=alias)
    if isinstance(value, Tensor) and value.role in (Role.PARAMETER, Role.BUFFER):
        return replace(value, alias=alias, place=REPLICA, assumed=False)
    if isinstance(value, Bound) and value.function is not None:
        return replace(value, receiver=marked(value.receiver, alias))
    if isinstance(value, Function):
        return replace(value, alias=alias)
    if isinstance(value, Partial):
        positional = tuple(marked(item, alias) for item in value.positional)
        return replace(value, function=marked(value.function, alias), positional=positional)
    return inside(value, alias) if isinstance(value, Sequence) else value


def inside(items: Sequence, alias: Alias | None) -> Sequence:
    return items if alias is None else replace(items, items=tuple(marked(item, alias) for item in items.items))


def within(mapping: Mapping, alias: Alias | None) -> Mapping:
    if alias is None:
        return mapping
    rest = marked(mapping.rest, alias) if mapping.rest is not None else None
    return Mapping(tuple((key, marked(item, alias)) for key, item in mapping.items), rest)
