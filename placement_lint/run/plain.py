"""Conversion of dataclasses to plain data for JSON, and back: one run stores it for another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints


def plain(value: Any) -> Any:
    """Lists for tuples, values for enumerations, and for dataclasses the fields without their default values."""
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value):
        given = ((field, getattr(value, field.name)) for field in fields(value))
        return {field.name: plain(content) for field, content in given if content != field.default}
    return [plain(item) for item in value] if isinstance(value, tuple) else value


def typed(kind: Any, data: Any) -> Any:
    """The value of a type from its plain form; raises TypeError or ValueError for data of another shape."""
    if get_origin(kind) is UnionType:
        (kind,) = set(get_args(kind)) - {NoneType}
        return None if data is None else typed(kind, data)
    if get_origin(kind) is tuple:
        return _tuple(get_args(kind), data)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind(data)
    if isinstance(kind, type) and is_dataclass(kind):
        hints = _hints(kind)
        if not isinstance(data, Mapping) or not data.keys() <= hints.keys():
            raise TypeError(f"not the fields of {kind}")
        return kind(**{name: typed(hints[name], content) for name, content in data.items()})
    if kind is object:
        return tuple(typed(object, item) for item in data) if isinstance(data, list) else data
    if not isinstance(data, kind):
        raise TypeError(f"{data!r} is not of {kind}")
    return data


def _tuple(kinds: tuple[Any, ...], data: Any) -> tuple[Any, ...]:
    if not isinstance(data, list):
        raise TypeError(f"{data!r} is no list")
    if kinds[1:] == (...,):
        return tuple(typed(kinds[0], item) for item in data)
    return tuple(typed(kind, item) for kind, item in zip(kinds, data, strict=True))


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)
