"""Memory that several tensors share: ``nn.Parameter(t)`` is a different tensor than ``t``, on the same memory.

An in-place change of one is visible in the other until the module moves: ``Module.to`` gives each Parameter and buffer
separate memory on the new device.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from placement_lint.flow.domain.arguments import Arguments
from placement_lint.flow.domain.record import replace
from placement_lint.flow.domain.values import (
    Comparison,
    Const,
    Fact,
    Kind,
    Object,
    Role,
    Symbol,
    Tensor,
    Value,
    compare,
)
from placement_lint.flow.events.schema import ParameterShared
from placement_lint.flow.state.accesses import Accesses
from placement_lint.flow.state.classes import class_id
from placement_lint.flow.state.heap import Slot
from placement_lint.flow.state.machine import Machine
from placement_lint.flow.state.names import value_of
from placement_lint.flow.state.notes import Notes, Use, noted
from placement_lint.flow.state.signals import Signals
from placement_lint.rule import Note


@dataclass
class SharedStorage(Notes):
    """Parameters that share memory with other tensors."""

    # the ids of tensors that Parameters were made from; events for attributes that change with a Parameter, by class
    storages: set[int] = noted(set)
    parameters: list[tuple[ParameterShared, int]] = noted(list, Use.AT_END)


# For a Parameter: the id of the tensor that it was made from.
_MEMORY = Slot("memory")
# For memory: the attribute through which it was last changed in place during construction, and the statement.
_CHANGED = Slot("changed in place")
# Methods with a final underscore that do not change the content.
_NO_CHANGES = {"requires_grad_", "detach_", "share_memory_"}


def shared(machine: Machine, parameter: Tensor, data: Value, node: cst.CSTNode) -> None:
    """``nn.Parameter(data)``"""
    memory = _memory(machine, data)
    if memory:
        machine.write(parameter.uid, _MEMORY, Const(memory))
        machine.notes[SharedStorage].storages.add(memory)


def replaced(machine: Machine, tensor: Tensor) -> None:
    """``tensor.data = …``: from here on the tensor has different memory."""
    if tensor.uid and machine.notes[SharedStorage].storages:
        machine.write(tensor.uid, _MEMORY, Const(machine.new_id()))


def _memory(machine: Machine, value: Value) -> int:
    """The id of the memory of a tensor; 0 if unknown."""
    if isinstance(value, Symbol):
        return value.id if value.parent is None else 0
    if not isinstance(value, Tensor):
        return 0
    known = machine.read(value.uid, _MEMORY) if value.uid else None
    return known.value if isinstance(known, Const) and isinstance(known.value, int) else value.uid


def change_by_method(
    machine: Machine, tensor: Tensor, name: str, source: cst.BaseExpression, arguments: Arguments, node: cst.Call
) -> None:
    """``source.name_(…)``"""
    if name.endswith("_") and not name.endswith("__") and name not in _NO_CHANGES:
        change(machine, tensor, source, node)


def change_by_function(machine: Machine, tensor: Tensor, name: str, arguments: Arguments, node: cst.Call) -> None:
    """``torch.nn.init.zeros_(tensor)``"""
    if name.startswith("torch.nn.init."):
        change(machine, tensor, node.args[0].value, node)


def change_item(
    machine: Machine, owner: Value, key: Value, value: Value, source: cst.BaseExpression | None, node: cst.CSTNode
) -> None:
    """``source[key] = value``"""
    if source is not None:
        change(machine, owner, source, node)


def update(machine: Machine, target: Value, value: Value, node: cst.AugAssign) -> None:
    """``target += value``"""
    change(machine, target, node.target, node)


def change(machine: Machine, tensor: Value, source: cst.BaseExpression, node: cst.CSTNode) -> None:
    """The tensor ``source`` is changed in place during the construction of the module that has it."""
    if not machine.notes[SharedStorage].storages:
        return
    while isinstance(source, cst.Attribute) and source.attr.value == "data":
        source = source.value
        tensor = value_of(machine, source) or tensor
    if not isinstance(source, cst.Attribute) or not isinstance(tensor, (Tensor, Symbol)):
        return
    owner = value_of(machine, source.value)
    being_built = isinstance(owner, Object) and owner.kind is Kind.MODULE and machine.constructing(owner)
    if isinstance(owner, Object) and being_built and _memory(machine, tensor) in machine.notes[SharedStorage].storages:
        _changed(machine, owner, tensor, source.attr.value, node)


def _changed(machine: Machine, module: Object, tensor: Tensor | Symbol, name: str, node: cst.CSTNode) -> None:
    changed = Note(node, f"`self.{name}` is changed in place here")
    machine.write(_memory(machine, tensor), _CHANGED, Fact(f"{name} of {module.id}", (module, name, tensor, changed)))
    for other, value in _held(machine, module, _memory(machine, tensor)):
        _note_shared(machine, module, (name, tensor), (other, value), changed)


def kept(machine: Machine, module: Object, name: str, value: Value, node: cst.CSTNode) -> None:
    """``module.name = value``, for a value that was changed before through another attribute."""
    if (
        not machine.notes[SharedStorage].storages
        or not isinstance(value, (Tensor, Symbol))
        or not machine.constructing(module)
    ):
        return
    fact = machine.read(_memory(machine, value), _CHANGED)
    if isinstance(fact, Fact) and isinstance(fact.details, tuple) and fact.details[0] == module:
        _, other, tensor, changed = fact.details
        if other != name:
            _note_shared(machine, module, (other, tensor), (name, value), changed)


def _note_shared(
    machine: Machine,
    module: Object,
    changed_by: tuple[str, Tensor | Symbol],
    changed_with: tuple[str, Tensor | Symbol],
    changed: Note,
) -> None:
    (name, tensor), (other, value) = changed_by, changed_with
    if _is_itself(value, tensor) or _are_apart(value, tensor):
        return
    parameter, parted = _later(changed_by, changed_with)
    if isinstance(parameter, Tensor) and parameter.created is not None:
        both = all(isinstance(one, Tensor) and one.role is Role.PARAMETER for one in (tensor, value))
        event = ParameterShared(parameter.created, machine.scene, parted, name, other, both, changed)
        machine.notes[SharedStorage].parameters.append((event, class_id(module)))


def _held(machine: Machine, module: Object, memory: int) -> Iterator[tuple[str, Tensor | Symbol]]:
    """The attributes of a module that use this memory."""
    for name in machine.store.variables(module.id):
        value = machine.read(module.id, name)
        if isinstance(value, (Tensor, Symbol)) and _memory(machine, value) == memory:
            yield name, value


def _is_itself(one: Tensor | Symbol, other: Tensor | Symbol) -> bool:
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        return one.uid == other.uid
    return one == other


def _are_apart(one: Tensor | Symbol, other: Tensor | Symbol) -> bool:
    """Whether one of the two has been moved since."""
    if not isinstance(one, Tensor) or not isinstance(other, Tensor):
        return False
    return compare(one.place, other.place) is not Comparison.SAME


def _later(*named: tuple[str, Tensor | Symbol]) -> tuple[Tensor | Symbol, str]:
    """Of two tensors on the same memory, the Parameter that was created last, and its name."""
    parameters = [(value, name) for name, value in named if isinstance(value, Tensor) and value.role is Role.PARAMETER]
    return max(parameters, key=lambda known: known[0].uid) if parameters else (named[0][1], named[0][0])


def finish(machine: Machine) -> None:
    """Report an attribute that changed with a Parameter if the module reads it after construction."""
    for event, identity in machine.notes[SharedStorage].parameters:
        readers = machine.notes[Accesses].reads.get((identity, event.other), {})
        nodes = dict.fromkeys(node for node, _ in readers)
        reads = tuple(Note(node, f"`self.{event.other}` is read here") for node in nodes)
        if reads:
            machine.emit(replace(event, reads=reads))


# --- signals ----------------------------------------------------------------------------------------------------------


def listen(signals: Signals) -> None:
    signals.tensors.parameter_made.connect(shared)
    signals.tensors.method_called.connect(change_by_method)
    signals.tensors.data_assigned.connect(replaced)
    signals.tensors.updated.connect(update)
    signals.tensors.changed_by_function.connect(change_by_function)
    signals.program.attribute_bound.connect(kept)
    signals.program.item_assigned.connect(change_item)
