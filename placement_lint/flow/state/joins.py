"""Joins: the value that a cell has where several paths meet, each with a value of its own."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Many
from typing import TYPE_CHECKING

from placement_lint.flow.domain.path_condition import Condition
from placement_lint.flow.domain.record import replace
from placement_lint.flow.domain.values import (
    ABSENT,
    MISSING,
    Mapping,
    Sequence,
    Symbol,
    Value,
    choose,
    is_compiled,
    is_option,
    tells,
)
from placement_lint.flow.state.program import Program

if TYPE_CHECKING:
    from placement_lint.flow.state.heap import Cell
    from placement_lint.flow.state.machine import Machine

# The conditions of several exits: computed only if it matters which of them is taken.
Guards = Callable[[], Many[Condition]]


def joined(machine: Machine, guards: Guards, values: Many[Value | None]) -> Value | None:
    """One of these values, each under its condition; None if there is none."""
    common = settled(machine, values)
    if common is not None or all(value is None for value in values):
        return common
    if any(guard.blurred for guard in guards()):
        return machine.fresh()
    options = [(guard, ABSENT if value is None else value) for guard, value in zip(guards(), values, strict=False)]
    return choose(options) or machine.summarise(machine, options) or machine.fresh()


def settled(machine: Machine, values: Many[Value | None]) -> Value | None:
    """One of these values, if it makes no difference which."""
    first = values[0]
    for value in values:
        if value is not first and (value != first or is_compiled(first) or is_compiled(value)):
            break
    else:
        return first
    for value in values:
        if value is None or tells(value):
            return None
    return _of_an_option(machine, values) or machine.fresh()


def _of_an_option(machine: Machine, values: Many[Value | None]) -> Value | None:
    """An unknown part of an option, if each value is one."""
    options = [value for value in values if isinstance(value, Symbol) and is_option(value)]
    return replace(machine.fresh(), parent=options[0].parent) if len(options) == len(values) else None


def overridden(machine: Machine, cell: Cell, before: Value, after: Many[Value | None]) -> Value | None:
    """The setting in a cell that some paths override: it may have any value, its present one by default."""
    setting = machine.notes[Program].overridden.get(cell)
    if setting is None or setting.preferred != before or any(value not in (setting, before) for value in after):
        return None
    return setting


def joined_content(machine: Machine, guards: Guards, values: Many[Value | None]) -> Value | None:
    """The joined contents of a list or dict: item by item, so that the other items stay known."""
    known = [(guard, value) for guard, value in zip(guards(), values, strict=True) if value is not None]
    if all(isinstance(value, Sequence) for _, value in known):
        rows = [(guard, value.items) for guard, value in known if isinstance(value, Sequence)]
        lengths = {len(row) for _, row in rows}
        exact = len(lengths) == 1 and all(isinstance(value, Sequence) and value.exact for _, value in known)
        # An item is in the list only on the paths of the longer lists.
        missing = machine.fresh(type=MISSING)
        items = [
            _ways(machine, [(guard, row[place] if len(row) > place else missing) for guard, row in rows])
            for place in range(max(lengths, default=0))
        ]
        return Sequence(tuple(item for item in items if item is not None), exact)
    if all(isinstance(value, Mapping) for _, value in known):
        return _mappings(machine, [(guard, value) for guard, value in known if isinstance(value, Mapping)])
    return joined(machine, guards, values)


def _mappings(machine: Machine, known: list[tuple[Condition, Mapping]]) -> Value:
    contents = [(guard, dict(mapping.items), mapping.rest is None) for guard, mapping in known]
    items = []
    for key in dict.fromkeys(key for _, content, _ in contents for key in content):
        # A read under a missing key raises, so its value there does not matter.
        missing, unknown = machine.fresh(type=MISSING), machine.fresh()
        value = _ways(
            machine,
            [(guard, content.get(key, missing if complete else unknown)) for guard, content, complete in contents],
        )
        items.append((key, value if value is not None else machine.fresh()))
    rests = [(guard, mapping.rest) for guard, mapping in known if mapping.rest is not None]
    rest = _ways(machine, rests) if rests else None
    return Mapping(tuple(items), rest)


def _ways(machine: Machine, ways: list[tuple[Condition, Value]]) -> Value | None:
    return joined(machine, lambda: [guard for guard, _ in ways], [value for _, value in ways])
