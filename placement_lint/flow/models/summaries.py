"""What many alternatives have in common, where they are too many to be looked at one by one.

Of the modules that a factory may return each is a module, on the CPU until it is moved, bare or in the same wrapper.
"""

from __future__ import annotations

from collections.abc import Sequence as Many

import libcst as cst

from placement_lint.flow.domain.path_condition import Condition, any_of
from placement_lint.flow.domain.values import ABSENT, Kind, Object, Symbol, Value, alternatives, choose
from placement_lint.flow.models import modules
from placement_lint.flow.state.machine import Machine

# The call that put a wrapper around a module; None for bare modules.
_Group = cst.CSTNode | None


def summary(machine: Machine, options: Many[tuple[Condition, Value]]) -> Value | None:
    """One unknown module for all, and a wrapper around it for those that one call wraps; None of other values."""
    groups: dict[_Group, tuple[list[Condition], list[Object | Symbol]]] = {}
    for outer, value in options:
        for inner, option in alternatives(value):
            if option is ABSENT or not (guard := outer & inner).possible:
                continue
            if not isinstance(option, (Object, Symbol)) or not modules.is_module(machine, option):
                return None
            wrapped = option.node if isinstance(option, Object) and option.kind is Kind.WRAPPER else None
            guards, members = groups.setdefault(wrapped, ([], []))
            guards.append(guard)
            members.append(option)
    if not groups:
        return None
    bare = _common(machine, groups)
    summarised = [
        (any_of(guards), bare if wrapped is None else _wrapper(machine, members[0], bare))
        for wrapped, (guards, members) in groups.items()
    ]
    return choose(summarised)


def _common(machine: Machine, groups: dict[_Group, tuple[list[Condition], list[Object | Symbol]]]) -> Symbol:
    """The module that stands for all, in a wrapper or not."""
    inside: dict[int, Object | Symbol] = {}
    for _, members in groups.values():
        for member in members:
            for _, module in alternatives(machine.read(member.id, modules.INNER) or member):
                if isinstance(module, (Object, Symbol)):
                    inside[module.id] = module
    common = machine.fresh(next((label for one in inside.values() if (label := machine.label(one))), ""))
    modules.treat_as_module(machine, common)
    places = [machine.read(module.id, modules.PLACE) for module in inside.values()]
    if places[0] is not None and all(place == places[0] for place in places):
        machine.write(common.id, modules.PLACE, places[0])
    for module in inside.values():
        for note in machine.wraps.get(module.id, ()):
            if note not in (notes := machine.wraps.setdefault(common.id, [])):
                notes.append(note)
        machine.wrapped_in.setdefault(common.id, set()).update(machine.wrapped_in.get(module.id, ()))
    return common


def _wrapper(machine: Machine, one: Object | Symbol, module: Symbol) -> Value:
    """A wrapper like ``one``, around another module."""
    if not isinstance(one, Object):
        return machine.fresh()
    made = machine.new_object(one.kind, one.cls, one.node, one.text)
    for name in list(machine.store.names(one.id)):
        machine.write(made.id, name, machine.read(one.id, name) or machine.fresh())
    machine.write(made.id, modules.INNER, module)
    return made
