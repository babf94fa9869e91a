"""Copies of immutable records with other content."""

from __future__ import annotations

from typing import Any, TypeVar

T = TypeVar("T")


def replace(record: T, /, **changes: Any) -> T:
    """A copy of a frozen dataclass with other fields, at a fifth of what ``dataclasses.replace`` costs.

    Only for records that keep exactly their fields and check nothing when they are made, as those of the analysis do.
    """
    copy = object.__new__(type(record))
    fields = copy.__dict__
    fields.update(record.__dict__)
    fields.update(changes)
    return copy
