"""What many alternatives have in common, where they are too many to be looked at one by one.

Of the modules that a factory may return each is a module, on the CPU until it is moved, bare or in the same wrapper.
The outputs of such modules are tensors on few devices.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Sequence as Many

import libcst as cst

from placement_lint.flow.domain.path_condition import ALWAYS, Condition, told_apart
from placement_lint.flow.domain.values import (
    ABSENT,
    Backward,
    InReplica,
    Kind,
    Leaf,
    Loss,
    Object,
    Source,
    Symbol,
    Tensor,
    Value,
    alternatives,
    choose,
)
from placement_lint.flow.models import modules
from placement_lint.flow.state.machine import Machine
from placement_lint.flow.state.module_notes import ModuleNotes

# The call that put a wrapper around a module; None for bare modules.
_Group = cst.CSTNode | None


def summary(machine: Machine, options: Many[tuple[Condition, Value]]) -> Value | None:
    """A value for each group of alternatives that have enough in common; None if there are too many groups."""
    return _of_modules(machine, options) or _of_tensors(options)


def _of_tensors(options: Many[tuple[Condition, Value]]) -> Value | None:
    """One tensor for those that agree in what rules distinguish, without the facts that some of them lack."""
    kinds: dict[object, Tensor] = {}
    flat = [(outer & inner, option) for outer, value in options for inner, option in alternatives(value)]
    for _, option in flat:
        if isinstance(option, Tensor):
            kind = _kind(option)
            kinds[kind] = _common_tensor(kinds[kind], option) if kind in kinds else option
    if not kinds:
        return None
    return choose((guard, kinds[_kind(option)] if isinstance(option, Tensor) else option) for guard, option in flat)


def _kind(tensor: Tensor) -> object:
    return (
        tensor.place,
        tensor.scalar,
        tensor.leaf.requires_grad,
        tensor.role,
        tensor.loss.per_replica,
        tensor.replica.split,
    )


def _common_tensor(one: Tensor, other: Tensor) -> Tensor:
    """A tensor with the facts that hold for both, and the doubts about either."""
    return Tensor(
        one.place,
        one.scalar,
        one.role,
        loss=Loss(
            reduction=one.loss.reduction if one.loss.reduction == other.loss.reduction else None,
            per_replica=one.loss.per_replica,
            output=one.loss.output,
            gathered=one.loss.gathered if one.loss.gathered is other.loss.gathered else None,
            uneven=one.loss.uneven and other.loss.uneven,
        ),
        leaf=Leaf(one.leaf.requires_grad),
        lost=one.lost or other.lost,
        source=one.source if one.source is other.source else Source.UNKNOWN,
        dims=min(one.dims, other.dims),
        rows=_rows_of(one, other),
        replica=InReplica(split=one.replica.split),
        left=one.left and other.left,
        assumed=one.assumed or other.assumed,
        mixed=max(one.mixed, other.mixed),
        backward=Backward(
            parameters=one.backward.parameters | other.backward.parameters,
            synced=one.backward.synced & other.backward.synced,
            unsynced=one.backward.unsynced & other.backward.unsynced,
        ),
        scattered=one.scattered or other.scattered,
    )


def _rows_of(one: Tensor, other: Tensor) -> frozenset[int]:
    by_option = isinstance(one.loaded, Symbol) or isinstance(other.loaded, Symbol)
    return one.rows | other.rows if one.rows and other.rows and not by_option else frozenset()


def _of_modules(machine: Machine, options: Many[tuple[Condition, Value]]) -> Value | None:
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
    standing = [
        bare if wrapped is None else _wrapper(machine, members[0], bare) for wrapped, (_, members) in groups.items()
    ]
    return choose(zip(told_apart([guards for guards, _ in groups.values()]), standing, strict=True))


def _common(machine: Machine, groups: dict[_Group, tuple[list[Condition], list[Object | Symbol]]]) -> Symbol:
    """The module that stands for all, in a wrapper or not."""
    noted = machine.notes[ModuleNotes]
    inside: dict[int, Object | Symbol] = {}
    cases: list[tuple[Condition, Object | Symbol]] = []
    places: dict[Value, list[Condition]] = {}
    for guards, members in groups.values():
        for guard, member in zip(guards, members, strict=True):
            for inner, module in alternatives(machine.read(member.id, modules.INNER) or member):
                if isinstance(module, (Object, Symbol)):
                    inside[module.id] = module
                    cases.append((guard & inner, module))
                    for under, place in _places(machine, module, guard & inner):
                        places.setdefault(place, []).append(under)
    common = machine.fresh(next((label for one in inside.values() if (label := machine.label(one))), ""))
    modules.treat_as_module(machine, common)
    if ABSENT not in places:
        standing = choose(zip(told_apart([*places.values()]), places, strict=True))
        machine.write(common.id, modules.PLACE, standing or machine.fresh())
    noted.members[common.id] = [*_members(machine, cases)]
    for module in inside.values():
        for note in noted.wraps.get(module.id, ()):
            if note not in (notes := noted.wraps.setdefault(common.id, [])):
                notes.append(note)
        noted.wrapped_in.setdefault(common.id, set()).update(noted.wrapped_in.get(module.id, ()))
    return common


def _members(machine: Machine, cases: Many[tuple[Condition, Object | Symbol]]) -> Iterator[tuple[Condition, Object]]:
    """The modules of known classes among them, also those that others stand for."""
    known = machine.notes[ModuleNotes].members
    for guard, module in cases:
        inside = [(ALWAYS, module)] if isinstance(module, Object) else known.get(module.id, ())
        yield from ((guard & inner, member) for inner, member in inside)


def _places(machine: Machine, module: Object | Symbol, guard: Condition) -> Iterator[tuple[Condition, Value]]:
    """Where one of the modules may be in the case in which it is the one; ``ABSENT`` where nothing is known."""
    for under, option in alternatives(machine.store.read(module.id, modules.PLACE) or ABSENT):
        if (both := guard & under).possible:
            yield both, option


def _wrapper(machine: Machine, one: Object | Symbol, module: Symbol) -> Value:
    """A wrapper like ``one``, around another module."""
    if not isinstance(one, Object):
        return machine.fresh()
    made = machine.new_object(one.kind, one.cls, one.node, one.text)
    for name in list(machine.store.names(one.id)):
        machine.write(made.id, name, machine.read(one.id, name) or machine.fresh())
    machine.write(made.id, modules.INNER, module)
    return made
