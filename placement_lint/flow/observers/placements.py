"""The devices of the program's names, assignment by assignment, which editors show beside the code.

No rule needs this log. The analysis records it only if it gets a log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias, TypeGuard

import libcst as cst

from placement_lint.flow.domain.values import Class, Device, Kind, Object, Placed, Tensor, Value, alternatives
from placement_lint.flow.events.schema import Event, OptimizerStale
from placement_lint.flow.models import modules, wrappers
from placement_lint.flow.state.machine import Machine
from placement_lint.flow.state.module_notes import ModuleNotes
from placement_lint.rule import Note

Scope: TypeAlias = "cst.CSTNode | None"
"""The function of a local variable, the class of an attribute of ``self``, None for a global variable."""

# Device kinds that exist outside the analysis: not a replica's GPU or the module's own device.
_REAL = frozenset({"cpu", "cuda", "meta", "mps", "xpu", "hpu", "xla", "npu"})


@dataclass
class Placement:
    """The values that one target was assigned, over all visits of the analysis.

    ``places`` are its devices, as in source code (``cuda:0``), with an arrow to the wrapper for a wrapped module; None
    if one of them was unknown. ``trace`` holds the notes on how it got there, and ``objects`` the objects that the name
    refers to, whose later moves belong to its history as well.
    """

    name: str
    scope: Scope
    target: cst.CSTNode
    statement: cst.CSTNode
    places: dict[str, None] | None = field(default_factory=dict)
    trace: dict[Note, None] = field(default_factory=dict)
    objects: dict[int, Object] = field(default_factory=dict)
    # the class whose attribute it is; at the end of the program the scope becomes the definition of that class
    owner: Class | None = None


class PlacementLog:
    """Records every assignment, parameter and move while the program is analysed.

    A log that ``explains`` also records which problems are not reported.
    """

    explains = False

    def __init__(self) -> None:
        self.placements: dict[cst.CSTNode, Placement] = {}
        self.stale: list[OptimizerStale] = []
        self._notes: dict[int, dict[Note, None]] = {}

    def reached(self, machine: Machine, statement: cst.CSTNode) -> None:
        """A statement is about to be executed."""

    def assigned(self, machine: Machine, target: cst.BaseExpression, value: Value, statement: cst.CSTNode) -> None:
        known = self.placements.get(target)
        if known is None:
            name = machine.text(target)
            known = self.placements[target] = Placement(
                name, _scope(machine), target, statement, owner=_owner(machine, name)
            )
        value = machine.restrict(value)
        if known.places is not None:
            places = _places(machine, value)
            known.places = None if places is None else {**known.places, **dict.fromkeys(places)}
        for _, option in alternatives(value):
            known.trace.update(dict.fromkeys(_trace(machine, option)))
            if isinstance(option, Object):
                known.objects[option.id] = option

    def another(self) -> PlacementLog:
        """A new empty log for a part of the same program."""
        return PlacementLog()

    def take(self, other: PlacementLog, functions: Mapping[cst.CSTNode, cst.CSTNode] | None = None) -> None:
        """Append the records of another log; ``functions`` maps functions in their scopes to replacements."""
        renamed = functions or {}
        for target, each in other.placements.items():
            known = self.placements.get(target)
            if known is None:
                scope = renamed.get(each.scope, each.scope) if each.scope is not None else None
                known = self.placements[target] = Placement(each.name, scope, target, each.statement, owner=each.owner)
            both = None not in (known.places, each.places)
            known.places = {**(known.places or {}), **(each.places or {})} if both else None
            known.trace.update(each.trace)
            known.objects.update(each.objects)
        for identity, notes in other._notes.items():
            self._notes.setdefault(identity, {}).update(notes)

    def entered(self, machine: Machine, parameters: cst.Parameters, function: cst.CSTNode) -> None:
        """A function is called: record the values of its parameters, except ``self``."""
        for parameter in (*parameters.posonly_params, *parameters.params, *parameters.kwonly_params):
            value = machine.read(machine.frame.id, parameter.name.value)
            if value is not None and value is not machine.frame.receiver:
                self.assigned(machine, parameter.name, value, function)

    def moved(self, identity: int, note: Note) -> None:
        self._notes.setdefault(identity, {})[note] = None

    def ended(self, machine: Machine, events: Iterable[Event]) -> None:
        """At the end of the program, add the facts that are known only now to the placements."""
        self.stale = [event for event in events if isinstance(event, OptimizerStale)]
        for placement in self.placements.values():
            if placement.owner is not None:
                placement.scope = machine.namespaces.definitions[placement.owner.id]
            for identity in placement.objects:
                placement.trace.update(self._notes.get(identity, {}))
                placement.trace.update(dict.fromkeys(machine.notes[ModuleNotes].wraps.get(identity, ())))


def _scope(machine: Machine) -> Scope:
    return machine.frame.function.node if machine.frame.function is not None else None


def _owner(machine: Machine, name: str) -> Class | None:
    """The class in whose method ``self.name`` is assigned."""
    return machine.frame.function.owner if machine.frame.function is not None and name.startswith("self.") else None


# --- a value's places --------------------------------------------------------------------------------------------


def _places(machine: Machine, value: Value) -> list[str] | None:
    """The devices of a value; empty if it has no device, None if they are unknown."""
    found: list[str] = []
    for _, option in alternatives(value):
        places = _of_one(machine, option)
        if places is None:
            return None
        found.extend(places)
    return found


def _of_one(machine: Machine, value: Value) -> list[str] | None:
    if isinstance(value, Tensor):
        return None if value.assumed else _written(value.place)
    if isinstance(value, Object) and value.kind is Kind.WRAPPER:
        return _of_wrapper(machine, value)
    if isinstance(value, Object) and value.kind is Kind.MODULE:
        return _of_module(machine, value)
    return []


def _of_module(machine: Machine, module: Object) -> list[str] | None:
    """The devices of the parameters and buffers below a module."""
    found: dict[str, None] = {}
    for _, value in modules.placements(machine, module):
        for _, option in alternatives(machine.restrict(value)):
            places = _written(option.place if isinstance(option, Placed) else option)
            if places is None:
                return None
            found.update(dict.fromkeys(places))
    return list(found)


def _of_wrapper(machine: Machine, wrapper: Object) -> list[str] | None:
    inner = machine.read(wrapper.id, modules.INNER)
    places = _places(machine, inner) if inner is not None else None
    if not places:
        return places
    name = wrappers.kind_of(wrapper)
    ids = ",".join(map(str, wrappers.literal_ids(machine, wrapper)))
    return [f"{' or '.join(places)} → {name}{f'[{ids}]' if ids else ''}"]


def _written(place: Value) -> list[str] | None:
    return [str(place)] if is_exact_device(place) else None


def is_exact_device(place: Value) -> TypeGuard[Device]:
    """Whether a place is a concrete device with a known index."""
    return isinstance(place, Device) and place.kind in _REAL and _is_exact(place)


def _is_exact(place: Device) -> bool:
    return place.index is None or isinstance(place.index, int)


# --- traces ------------------------------------------------------------------------------------------------------


def _trace(machine: Machine, value: Value) -> Iterator[Note]:
    if isinstance(value, Tensor):
        yield from value.history
    elif isinstance(value, Object) and value.kind is Kind.MODULE:
        yield from _notes_of(modules.placed(machine, value))
    elif isinstance(value, Object) and value.kind is Kind.OPTIMIZER:
        yield Note(value.node, "takes the parameters here")
    elif isinstance(value, Object) and value.kind is Kind.WRAPPER:
        inner = machine.read(value.id, modules.INNER)
        for _, option in alternatives(inner) if inner is not None else ():
            yield from _trace(machine, option)
            if isinstance(option, Object):
                yield from machine.notes[ModuleNotes].wraps.get(option.id, ())


def _notes_of(placed: Value) -> Iterator[Note]:
    for _, option in alternatives(placed):
        if isinstance(option, Placed) and option.note is not None:
            yield option.note
