"""State that a forward stores on its module for the next call: a move of the module leaves plain tensors behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import libcst as cst

from placement_lint.flow.api.torch_names import SIZE
from placement_lint.flow.domain.path_condition import Condition, Cube, Question, answered, any_of, of
from placement_lint.flow.domain.record import replace
from placement_lint.flow.domain.values import (
    ABSENT,
    CPU,
    OWN,
    Class,
    Comparison,
    Device,
    Fact,
    Function,
    Holder,
    Object,
    Role,
    Sequence,
    Symbol,
    Tensor,
    Value,
    alternatives,
    compare,
)
from placement_lint.flow.events.schema import DevicesMixed
from placement_lint.flow.models import modules
from placement_lint.flow.state.accesses import Accesses
from placement_lint.flow.state.classes import find, methods
from placement_lint.flow.state.heap import Slot, SlotOf
from placement_lint.flow.state.machine import Machine
from placement_lint.flow.state.moment import Replica
from placement_lint.flow.state.notes import Registry, copied, empty, registries
from placement_lint.flow.state.program import Program
from placement_lint.flow.state.signals import Signals
from placement_lint.rule import Note
from placement_lint.source.querying import assigns_none

# Cells of a module, per attribute: the statement of a forward that assigned the value.
_LEFT = Slot("left")
_MOVES_ALONG = (Role.PARAMETER, Role.BUFFER)


def note(machine: Machine, owner: Object, name: str, value: Value, node: cst.CSTNode) -> None:
    """Record the statement by which a forward assigns to an attribute of a module."""
    if not machine.now[Replica].notes and any(_is_somewhere(option) for _, option in alternatives(value)):
        machine.write(owner.id, _LEFT.of(name), Fact(f"left {id(node)}", Holder(owner, name, node)))


def _is_somewhere(value: Value) -> bool:
    """Whether a value is a tensor that does not move with the module, or a device."""
    if isinstance(value, Sequence):
        return any(_is_somewhere(item) for item in value.items)
    return isinstance(value, Device) or (isinstance(value, Tensor) and value.role not in _MOVES_ALONG)


def keeping(machine: Machine, run: Callable[[], Value]) -> Value:
    """Run an outermost forward, and mark the tensors that it leaves on the module's device for the next call."""
    result = run()
    for owner, name in sorted(machine.notes[Accesses].written):
        value, left = machine.read(owner, name, unset=ABSENT), machine.read(owner, _LEFT.of(name))
        if left is not None:
            machine.write(owner, name, machine.lift(lambda one, of: _held(machine, one, of), value, left))
    return result


def _held(machine: Machine, value: Value, left: Value) -> Value:
    holder = left.details if isinstance(left, Fact) else None
    if not isinstance(holder, Holder):
        return value

    def hold(option: Value, place: Value) -> Value:
        if not isinstance(option, Tensor) or option.role in _MOVES_ALONG or not isinstance(place, (Device, Symbol)):
            return option
        return replace(option, holder=holder, left=True) if compare(option.place, place) is Comparison.SAME else option

    return machine.lift(hold, value, modules.place_of(machine, holder.owner))


# --- classes as entry points -------------------------------------------------------------------------------------

# A class that defines one of these methods may move its state itself.
_MOVES = ("_apply", "to", "cuda", "cpu")


def call_again(machine: Machine, instance: Object, run: Callable[[], Value]) -> None:
    """Report uses of state of the first call in a second call, if the module moves to a GPU between the two."""
    left = dict(_left_behind(machine, instance))
    if not left:
        return
    known = registries()
    noted = empty(known.own) | {one: copied(machine.notes.get_registry(one)) for one in known.repeated}
    with machine.notes.replaced(noted), machine.aside(answered(machine.own_on_gpu, True)):
        for (owner, name), value in left.items():
            machine.write(owner, name, value)
        machine.notes[Accesses].written = set()
        run()
        reused = {cell for cell, value in left.items() if _is_still_there(machine, *cell, value)}
    for event in noted[Registry(Program, "events")]:
        stray = event.stray.tensor if isinstance(event, DevicesMixed) else None
        if stray is not None and stray.left and stray.holder and (stray.holder.owner.id, stray.holder.name) in reused:
            machine.emit(event)


def _left_behind(machine: Machine, instance: Object) -> Iterator[tuple[tuple[int, str], Value]]:
    """The values that a forward left on a module and its parts, after a move of the module."""
    for part in modules.reachable(machine, instance).values():
        if not isinstance(part, Object) or _looks_after_moves(machine, part):
            continue
        for name in [
            cell.attribute
            for cell in machine.store.names(part.id)
            if isinstance(cell, SlotOf) and cell.name == _LEFT.name
        ]:
            value = machine.read(part.id, name)
            stale = machine.lift(_after_a_move, _as_stored(machine, value)) if value is not None else None
            if stale is not None and stale != value and not _is_forgotten(machine, part, name):
                yield (part.id, name), stale


def _as_stored(machine: Machine, value: Value) -> Value:
    """The value after a call that stored it: what only that call's data decides is no condition of another call."""
    stored = [
        (_without_data(guard), option)
        for guard, option in alternatives(value)
        if isinstance(option, Tensor) and option.left
    ]
    others = any_of(guard for guard, _ in stored).negation
    return machine.either([*stored, *((guard & others, option) for guard, option in alternatives(value))])


def _without_data(guard: Condition) -> Condition:
    return of(
        Cube(cube.machines, frozenset(answer for answer in cube.answers if not _is_about_data(answer.question)))
        for cube in guard.cubes
    )


def _is_about_data(question: Question) -> bool:
    """Whether it is about the sizes of tensors, or equal to no question of another call."""
    parts = question.subject if isinstance(question.subject, tuple) else (question.subject,)
    return question.subject is None or any(isinstance(part, Symbol) and part.type in _SIZES for part in parts)


_SIZES = {SIZE, "torch.Size"}


def _looks_after_moves(machine: Machine, module: Object) -> bool:
    cls = module.cls
    return isinstance(cls, Class) and any(isinstance(find(machine, cls, name), Function) for name in _MOVES)


def _is_forgotten(machine: Machine, module: Object, name: str) -> bool:
    """Whether a class has a method that resets an attribute to None: then its users are expected to call it."""
    cls = module.cls
    return isinstance(cls, Class) and any(
        method.name not in ("__init__", "forward") and assigns_none(method.node, name)
        for method in methods(machine, cls)
    )


def _after_a_move(value: Value) -> Value:
    """The value, if the module was on the CPU when the forward stored it."""
    if isinstance(value, Tensor) and value.place == OWN and value.left and value.holder is not None:
        return replace(value, place=CPU, history=(*value.history, Note(value.holder.node, "kept here for later calls")))
    if isinstance(value, Sequence):
        return replace(value, items=tuple(_after_a_move(item) for item in value.items))
    return CPU if value == OWN else value


def _is_still_there(machine: Machine, owner: int, name: str, left: Value) -> bool:
    """Whether a call has left the value unchanged: state that each call overwrites is not kept."""
    kept = {option for _, option in alternatives(left) if isinstance(option, Tensor) and option.left}
    value = machine.read(owner, name)
    return value is not None and any(option in kept for _, option in alternatives(value))


# --- signals ----------------------------------------------------------------------------------------------------------


def listen(signals: Signals) -> None:
    signals.program.attribute_left.connect(note)
