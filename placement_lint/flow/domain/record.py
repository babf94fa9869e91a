"""Immutable records, and copies of them with other content."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

__all__ = ("record", "replace")

T = TypeVar("T")

if TYPE_CHECKING:
    from dataclasses import dataclass as record
else:

    def record(frozen: bool) -> Callable[[type[T]], type[T]]:
        """A frozen dataclass for type checkers; enforcing it at runtime would triple the cost of construction."""
        return lambda kind: dataclass(unsafe_hash="__hash__" not in vars(kind))(kind)


def replace(record: T, /, **changes: Any) -> T:
    """A copy of an immutable record with other fields, at a tenth of what ``dataclasses.replace`` costs.

    Only for records without other attributes and without checks at construction, such as those of the analysis.
    """
    copy = object.__new__(type(record))
    object.__setattr__(copy, "__dict__", record.__dict__ | changes)
    return copy
