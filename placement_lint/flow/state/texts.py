"""Texts that a program makes of values, some of which are unknown."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from placement_lint.flow.domain import partial_text
from placement_lint.flow.domain.record import replace
from placement_lint.flow.domain.values import Const, Sequence, Symbol, Value
from placement_lint.flow.state.heap import Slot
from placement_lint.flow.state.machine import Machine


@dataclass(frozen=True)
class _Text(Slot):
    """Of a value: a text that is made of it, and of others, with these letters. It is no part of the value."""

    values: tuple[Value, ...]


# Of a text: the values that are in it, without those that its letters tell.
_MADE_OF = Slot("made of")


def made(
    machine: Machine, letters: str, values: tuple[Value, ...], text: str | cst.CSTNode = "", type: str = "str"
) -> Symbol:
    """A text with these letters, made of some values: the same one each time that it is made of them."""
    inside = tuple(part for value in values for part in _parts(machine, value))
    owner = next((part for part in inside if isinstance(part, Symbol)), None)
    if owner is None or not all(isinstance(part, (Const, Symbol)) for part in inside):
        return replace(machine.fresh(text, type), letters=letters)
    result = machine.part(owner.id, _Text(letters, inside), text, type=type)
    machine.write(result.id, _MADE_OF, Sequence(inside))
    return replace(result, letters=letters)


def unknown(values: tuple[Value, ...]) -> tuple[Value, ...]:
    """Those of some values that the letters of a text do not tell where it has the values one after the other."""
    return tuple(value for value in values if not isinstance(value, Const))


def begins_with(machine: Machine, text: Symbol, start: Symbol) -> bool:
    """Whether a text is another one, or that one with more behind it, as the name of a file is behind its folder."""
    parts, first = _parts(machine, text), _parts(machine, start)
    letters = partial_text.letters(text).startswith(partial_text.letters(start))
    return letters and parts[: len(first)] == first


def _parts(machine: Machine, value: Value) -> tuple[Value, ...]:
    """The values that a text is made of, or a value that is not made of others."""
    known = machine.read(value.id, _MADE_OF) if isinstance(value, Symbol) else None
    return known.items if isinstance(known, Sequence) else (value,)
