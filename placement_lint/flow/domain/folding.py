"""Constant folding: computes with Python's constants, within the bounds of :mod:`placement_lint.flow.api.bounds`.

Only this module passes values of the program to Python's own operators and methods. Each function returns the
result, or None if Python would raise, or if the result would be too large or is not computed here. The arguments are
values of Python's built-in types. The module reads no attribute of a value, items only of strings and tuples, and
checks each size that comes from the program.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from string import Formatter
from typing import Any, TypeVar

from placement_lint.flow.api.bounds import LONGEST, LONGEST_TEXT, WIDEST_FIELD, WIDEST_INTEGER
from placement_lint.flow.domain.values import Const

T = TypeVar("T")

# Exceptions of Python's operators and methods for constants of the wrong type or size.
_REFUSED = (ArithmeticError, LookupError, TypeError, ValueError)


def _bounded(value: object) -> Const | None:
    """A computed value, unless it is too large."""
    if isinstance(value, (str, bytes)) and len(value) > LONGEST_TEXT:
        return None
    if isinstance(value, int) and value.bit_length() > WIDEST_INTEGER:
        return None
    return Const(value)


def _is_small(value: object) -> bool:
    """Whether a value is so small that an operation on it and another small value cannot exhaust memory."""
    if isinstance(value, (str, bytes)):
        return len(value) <= LONGEST_TEXT
    return not isinstance(value, int) or value.bit_length() <= WIDEST_INTEGER


def _computed(function: Callable[..., object], *values: object) -> Const | None:
    if not all(map(_is_small, values)):
        return None
    try:
        return _bounded(function(*values))
    except _REFUSED:
        return None


# --- operators -------------------------------------------------------------------------------------------------

_ARITHMETIC: Mapping[str, Callable[[object, object], object]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
}


def arithmetic(left: object, symbol: str, right: object) -> Const | None:
    """``left + right`` of numbers or strings, ``left - right`` and ``left * right`` of numbers, ``text % value``."""
    if symbol == "%" and isinstance(left, str):
        return percent(left, right)
    numbers = is_number(left) and is_number(right)
    strings = symbol == "+" and isinstance(left, str) and isinstance(right, str)
    function = _ARITHMETIC.get(symbol)
    return _computed(function, left, right) if function is not None and (numbers or strings) else None


def is_number(value: object) -> bool:
    return isinstance(value, (int, float))


def negative(value: object) -> Const | None:
    return _computed(operator.neg, value) if is_number(value) else None


# --- conversions -----------------------------------------------------------------------------------------------

_TYPES: Mapping[str, type] = {"int": int, "float": float, "bool": bool, "str": str}


def converted(type_name: str, value: object) -> Const | None:
    """``int("1")``, ``str(1)``"""
    return _computed(_TYPES[type_name], value)


def numbers(bounds: Sequence[object]) -> Sequence[Const] | None:
    """``range(0, 3)``, if there are not too many."""
    whole = [bound for bound in bounds if isinstance(bound, int) and _is_small(bound)]
    if len(whole) < len(bounds):
        return None
    try:
        found = range(*whole)
        return [Const(number) for number in found] if len(found) <= LONGEST else None
    except _REFUSED:
        return None


# --- strings ---------------------------------------------------------------------------------------------------

# String methods that return another string, or a number.
TEXT_METHODS = frozenset(
    {"strip", "lstrip", "rstrip", "lower", "upper", "replace", "removeprefix", "removesuffix"}
    | {"find", "startswith", "endswith"}
)


def text_method(text: str, name: str, arguments: Sequence[object]) -> Const | None:
    """``"CUDA:0 ".strip().lower()``, ``"Conv2d".find("Conv")``"""
    if name == "replace" and _replaced_length(text, *arguments[:2]) > LONGEST_TEXT:
        return None
    return _computed(getattr(text, name), *arguments) if name in TEXT_METHODS and _is_small(text) else None


def _replaced_length(text: str, old: object = "", new: object = "") -> int:
    """The maximum length of ``text.replace(old, new)``."""
    if not isinstance(old, str) or not isinstance(new, str):
        return 0
    return len(text) + text.count(old) * max(0, len(new) - len(old))


def split(text: str, separator: object) -> Sequence[Const] | None:
    """``"0,1".split(",")``"""
    if not (separator is None or (isinstance(separator, str) and separator)) or not _is_small(text):
        return None
    return [Const(part) for part in text.split(separator if isinstance(separator, str) else None)]


_SPLITTING = frozenset({"split", "rsplit", "partition", "rpartition"})


def split_by_method(text: str, name: str, arguments: Sequence[object]) -> Const | None:
    """``"a.b.c".split(".", 1)``, ``"a.b".partition(".")``: the parts as a tuple."""
    if name not in _SPLITTING or not _is_small(text):
        return None
    return _computed(lambda *given: tuple(getattr(text, name)(*given)), *arguments)


def item(value: object, place: object) -> Const | None:
    """``"module.weight"[7:]``, ``("module", "weight")[-1]``"""
    readable = isinstance(value, (str, tuple)) and isinstance(place, (int, slice))
    return _computed(operator.getitem, value, place) if readable else None


def part(items: tuple[T, ...], bounds: Sequence[Any]) -> tuple[T, ...] | None:
    """The items in a slice."""
    try:
        return items[slice(*bounds)]
    except _REFUSED:
        return None


def joined(parts: Sequence[str]) -> Const | None:
    """The concatenation of strings."""
    return Const("".join(parts)) if sum(map(len, parts)) <= LONGEST_TEXT else None


def percent(text: str, value: object) -> Const | None:
    """``"cuda:%d" % 1``, if the width is not ``*``."""
    if "*" in text or not isinstance(value, (int, str)) or not _is_narrow(text):
        return None
    return _computed(operator.mod, text, value)


def formatted(text: str, values: Sequence[object]) -> Const | None:
    """``"cuda:{}".format(1)``, if each field is empty or a position, without attributes or items."""
    parts: list[str] = []
    places: list[str] = []
    try:
        for literal, name, specification, conversion in Formatter().parse(text):
            parts.append(literal)
            if name is None:
                continue
            places.append(name)
            value = values[len(places) - 1 if name == "" else _place(name)]
            made = field(value, specification or "", conversion or "")
            if made is None:
                return None
            parts.append(made)
    except _REFUSED:
        return None
    mixed = "" in places and any(places)
    return None if mixed else joined(parts)


def _place(name: str) -> int:
    if not name.isdecimal():
        raise LookupError(name)
    return int(name)


_CONVERSIONS: Mapping[str, Callable[[object], object]] = {"": lambda value: value, "s": str, "r": repr, "a": ascii}


def field(value: object, specification: str = "", conversion: str = "") -> str | None:
    """A replacement field of an f-string or of ``str.format``; None if its specification has nested fields."""
    if "{" in specification or not _is_narrow(specification):
        return None
    made = _computed(lambda given: format(_CONVERSIONS[conversion](given), specification), value)
    return str(made.value) if made is not None else None


def _is_narrow(specification: str) -> bool:
    """Whether all numbers in a format specification are small."""
    runs = "".join(letter if letter.isdecimal() else " " for letter in specification).split()
    return all(len(run) <= len(str(WIDEST_FIELD)) and int(run) <= WIDEST_FIELD for run in runs)
