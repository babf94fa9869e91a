"""State that the replicas of a module share: its lists, dicts and plain tensors, and for replica 0 its buffers.

torch/nn/modules/module.py, `Module._replicate_for_data_parallel`, copies the `__dict__` of a module, not its values.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

import libcst as cst

from placement_lint.flow.api.torch_names import NUMBER_TYPES
from placement_lint.flow.domain.arguments import Arguments
from placement_lint.flow.domain.record import replace
from placement_lint.flow.domain.values import (
    CPU,
    NONE,
    REPLICA,
    Const,
    Device,
    Holder,
    Kind,
    Mapping,
    Object,
    Role,
    Sequence,
    Symbol,
    Tensor,
    Value,
    alternatives,
)
from placement_lint.flow.events.schema import SharedContainerChanged, SharedTensorChanged
from placement_lint.flow.state.accesses import Accesses
from placement_lint.flow.state.classes import class_id
from placement_lint.flow.state.containers import content, depends
from placement_lint.flow.state.heap import MAPPING
from placement_lint.flow.state.machine import Machine
from placement_lint.flow.state.module_notes import ModuleNotes
from placement_lint.flow.state.moment import Around, Replica
from placement_lint.flow.state.notes import Notes, Use, noted
from placement_lint.flow.state.signals import Signals
from placement_lint.rule import Note
from placement_lint.source.querying import (
    as_expression,
    asks_if_flag_is_unset,
    asks_if_unset,
    attributes_read,
    last_name,
    words_in,
)
from placement_lint.source.walking import nodes_in


@dataclass
class Replicas(Notes):
    """Changes that replicas make to shared state."""

    # plain tensors that they add to: registering them as buffers would not help
    accumulating: set[tuple[int, str]] = noted(set)
    shared_changes: list[tuple[SharedTensorChanged, int, frozenset[str]]] = noted(list, Use.AT_END)


# --- tensors ---------------------------------------------------------------------------------------------------

# Methods with a final underscore that do not change the content.
_NO_CHANGES = {"requires_grad_", "detach_", "share_memory_", "squeeze_", "unsqueeze_", "transpose_", "t_", "resize_"}


def called(
    machine: Machine, tensor: Tensor, name: str, receiver: cst.BaseExpression, arguments: Arguments, node: cst.Call
) -> None:
    change(machine, tensor, name, arguments, node)


def change(machine: Machine, tensor: Tensor, name: str, arguments: Arguments, node: cst.CSTNode) -> None:
    """``t.name_(...)`` for a tensor that a replica shares."""
    if name.endswith("_") and not name.endswith("__") and name not in _NO_CHANGES:
        _change(machine, tensor, arguments.values(), node, copied=name == "copy_")


def change_by_function(machine: Machine, tensor: Tensor, name: str, arguments: Arguments, node: cst.Call) -> None:
    """``torch.add_(tensor, …)``"""
    change(machine, tensor, name.rpartition(".")[2], arguments, node)


def update(machine: Machine, target: Value, value: Value, node: cst.AugAssign) -> None:
    """``t += value``"""
    for _, option in alternatives(target):
        if isinstance(option, Tensor):
            _change(machine, option, (value,), node)


def change_item(
    machine: Machine, owner: Value, key: Value, value: Value, source: cst.BaseExpression | None, node: cst.CSTNode
) -> None:
    """``owner[key] = value``"""
    if isinstance(owner, Tensor):
        items = key.items if isinstance(key, Sequence) else (key,)
        # An index tensor must be on the same device; assigning to a number or a slice copies from any device.
        indexed = any(isinstance(item, (Tensor, Symbol)) for item in items)
        _change(machine, owner, (key, value), node, copied=not indexed)
    elif isinstance(owner, Object) and owner.kind in (Kind.LIST, Kind.DICT):
        change_container(machine, owner, "[]=", key, (value,), node)


def _change(machine: Machine, tensor: Tensor, by: Iterable[Value], node: cst.CSTNode, copied: bool = False) -> None:
    """A tensor is changed in place by operands, or by ``copied`` values, which may be on another device."""
    memory, values = tensor.replica.memory, tuple(by)
    if memory is None or not machine.now[Replica].notes or tensor.role is Role.PARAMETER:
        return
    before = machine.read(memory.owner.id, memory.name)
    held = [option for _, option in alternatives(before) if isinstance(option, Tensor)] if before is not None else []
    if any(option.role is Role.PARAMETER for option in held):
        return
    identity = class_id(memory.owner)
    machine.notes[Accesses].changed.add((identity, memory.name))
    buffer = any(option.role is Role.BUFFER for option in held)
    if not buffer and not copied and tensor.place == CPU and _on_replica(values):
        # This fails on one GPU, too: the fault is that the tensor is never moved.
        machine.notes[Replicas].accumulating.add((identity, memory.name))
        return
    label = f"self.{memory.name}"
    event = SharedTensorChanged(node, machine.scene, label, memory.name, buffer, depends(machine, *values))
    tested = frozenset(name for test in machine.now[Around].guards for name in attributes_read(test, "self"))
    machine.notes[Replicas].shared_changes.append((event, identity, tested))


def accumulates(machine: Machine, holder: Holder | None) -> bool:
    """Whether replicas add to the tensor that an attribute holds."""
    return holder is not None and (class_id(holder.owner), holder.name) in machine.notes[Replicas].accumulating


def keeps(machine: Machine, owner: Object, name: str, value: Value) -> bool:
    """Whether ``self.name = value`` assigns the attribute's own memory, so that no update is lost with a replica.

    True for ``self.x = self.x.add_(1)``, for ``self.x = self.x.to(y.device)``, which repeats the move in each call, and
    for None if the attribute may be None before.
    """
    before = machine.read(owner.id, name)
    may_be_none = before is not None and any(option == NONE for _, option in alternatives(before))
    return all(
        (may_be_none and option == NONE) or _is_memory_of(option, owner, name) for _, option in alternatives(value)
    )


def rebuilt(machine: Machine, name: str, value: Value, node: cst.CSTNode) -> frozenset[cst.CSTNode]:
    """The code that finds the same ``self.name`` in each replica, since it builds it if there is none.

    That is ``if self.mask is None: self.mask = torch.ones_like(x)`` and what follows it, if the value depends on
    neither data nor weights; also under a flag that is lost together with it.
    """
    function = machine.frame.function
    if function is None or not isinstance(function.node, cst.FunctionDef) or not _is_determined(value):
        return frozenset()
    statements = function.node.body.body
    for place, statement in enumerate(statements):
        if not isinstance(statement, cst.If) or node not in nodes_in(statement.body):
            continue
        if asks_if_unset(statement.test, name) or asks_if_flag_is_unset(statement, statements[place + 1 :]):
            return frozenset(part for each in statements[place:] for part in nodes_in(each))
    return frozenset()


# Functions that make other values in each call.
_RANDOM = {"rand", "randn", "randint", "randperm", "rand_like", "randn_like", "randint_like", "normal", "bernoulli"}


def _is_determined(value: Value) -> bool:
    """Whether a value is a number, or a tensor that was computed from numbers and the shapes of tensors."""
    return all(
        isinstance(option, Const)
        or (isinstance(option, Symbol) and option.type in NUMBER_TYPES and not option.scattered)
        or (
            isinstance(option, Tensor)
            and not (option.scattered or option.modules or option.backward.parameters)
            and isinstance(option.created, cst.Call)
            and last_name(option.created.func) not in _RANDOM
        )
        for _, option in alternatives(value)
    )


def _is_memory_of(value: Value, owner: Object, name: str) -> bool:
    memory = value.replica.memory or value.replica.copied if isinstance(value, Tensor) else None
    return memory is not None and memory.owner == owner and memory.name == name


def _on_replica(values: Iterable[Value]) -> bool:
    return any(
        isinstance(option, Tensor) and option.place == REPLICA and not option.scalar
        for value in values
        for _, option in alternatives(value)
    )


def finish(machine: Machine) -> None:
    """Report the changes that replicas make, if they matter.

    An assignment matters if the attribute is read later. A change under a test of an attribute that a forward changes
    happens only once: it is a data-dependent initialisation.
    """
    accesses = machine.notes[Accesses]
    for rebound, identity, module, rebuilt_for in accesses.rebinds:
        readers = accesses.reads.get((identity, rebound.name), {})
        reads = {
            node: Note(node, "only updated here" if updating else "read here")
            for (node, reader), updating in readers.items()
            if (0 in (module, reader) or reader == module) and node not in rebuilt_for
        }
        if reads:
            machine.emit(replace(rebound, reads=tuple(reads.values())))
    for event, identity, tested in machine.notes[Replicas].shared_changes:
        if not any((identity, name) in accesses.changed for name in tested):
            machine.emit(event)


# --- lists and dicts --------------------------------------------------------------------------------------------

_PUTS = {"append", "extend", "insert", "add", "update", "setdefault", "[]="}
_NAMES_A_DEVICE = re.compile(r"device|gpu|rank|thread", re.IGNORECASE)


def change_container(
    machine: Machine, target: Object, how: str, key: Value | None, values: Iterable[Value], node: cst.CSTNode
) -> None:
    """``self.items.append(value)``, ``self.cache[key] = value``"""
    holder = machine.notes[ModuleNotes].holders.get(target.id)
    if (
        holder is None
        or not machine.now[Replica].notes
        or holder.owner.id not in machine.now[Replica].modules
        or how not in _PUTS
    ):
        return
    machine.notes[Accesses].changed.add((class_id(holder.owner), holder.name))
    own = (holder.owner.id, holder.name) in machine.notes[Accesses].written
    if not own and not _names_device(key) and any(_has_tensor(machine, value) for value in values):
        event = SharedContainerChanged(node, machine.scene, f"self.{holder.name}", holder.name, target.kind.value, how)
        machine.emit(event)


def _names_device(key: Value | None) -> bool:
    """Whether a key differs between replicas."""
    if isinstance(key, Symbol):
        return any(map(_NAMES_A_DEVICE.search, words_in(as_expression(key.source))))
    return isinstance(key, Device)


def _has_tensor(machine: Machine, value: Value) -> bool:
    """Whether a value is a tensor or contains one; collecting numbers from replicas is correct."""
    for _, option in alternatives(value):
        if isinstance(option, Tensor):
            return not isinstance(option.place, Symbol) or not option.assumed
        if isinstance(option, Object) and option.kind is Kind.DICT:
            option = machine.read(option.id, MAPPING) or option
        if isinstance(option, Mapping):
            return any(_has_tensor(machine, item) for _, item in option.items)
        items = content(machine, option)
        if items is not None:
            return any(_has_tensor(machine, item) for item in items.items)
    return False


# --- signals ----------------------------------------------------------------------------------------------------------


def listen(signals: Signals) -> None:
    signals.tensors.method_called.connect(called)
    signals.tensors.updated.connect(update)
    signals.tensors.changed_by_function.connect(change_by_function)
    signals.program.item_assigned.connect(change_item)
    signals.program.container_changed.connect(change_container)
