"""Attributes through which a replica reaches the original module.

A replica is a shallow copy: its registered children are replicated, and it shares everything else in ``__dict__`` with
the original (torch/nn/modules/module.py, ``Module._replicate_for_data_parallel``). So a plain list of layers, or a
method that was bound in ``__init__``, refers to the original on the first device.
"""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from placement_lint.flow.domain.aliasing import marked
from placement_lint.flow.domain.values import (
    Alias,
    Bound,
    Function,
    Holder,
    Kind,
    Object,
    Partial,
    Sequence,
    Symbol,
    Tensor,
    Value,
    alternatives,
)
from placement_lint.flow.events.schema import AliasUsed
from placement_lint.flow.models import modules, unregistered
from placement_lint.flow.state.machine import Machine
from placement_lint.flow.state.moment import Replica
from placement_lint.flow.state.notes import Notes, noted
from placement_lint.flow.state.signals import Signals
from placement_lint.rule import Note


@dataclass
class Escapes(Notes):
    """Attributes that may lead to a module."""

    # by the id of a module, an attribute and its value that may lead to a module: the assignment
    kept: dict[tuple[int, str, Value], cst.CSTNode] = noted(dict)


def kept(machine: Machine, owner: Object, name: str, value: Value, node: cst.CSTNode) -> None:
    """Record ``self.name = value`` if the value may lead to a module."""
    for _, option in alternatives(value):
        if _how(option):
            machine.notes[Escapes].kept[(owner.id, name, option)] = node


def _how(value: Value) -> str:
    """The kind of a value that may lead to a module; empty for any other value."""
    if isinstance(value, Object):
        return {Kind.LIST: "list", Kind.DICT: "dict"}.get(value.kind, "")
    if isinstance(value, Bound):
        return "bound method" if value.function is not None else ""
    return {Sequence: "tuple", Partial: "partial", Function: "lambda"}.get(type(value), "")


def escaping(machine: Machine, owner: Object, name: str, value: Value, node: cst.CSTNode, alone: bool) -> Value:
    """The value that a replica reads from ``self.name``, marked if it leads to the original.

    ``alone`` is set if it is the only possible value there.
    """
    how, statement = _how(value), machine.notes[Escapes].kept.get((owner.id, name, value))
    if owner.alias is not None:
        return marked(value, owner.alias)
    if not how or statement is None:
        return value
    method = value.name if isinstance(value, Bound) and alone else ""
    return marked(value, Alias(owner, name, statement, how, node, method))


def enclose(machine: Machine, function: Function) -> None:
    """Mark the modules in the closure of a lambda that an attribute holds: they are the originals."""
    if function.alias is None or function.frame == machine.module_frame:
        return
    for name in machine.store.names(function.frame):
        value = machine.read(function.frame, name)
        if isinstance(value, Object) and value.id in machine.now[Replica].modules:
            machine.write(machine.frame.id, name, marked(value, function.alias))


def call(machine: Machine, module: Object | Symbol, node: cst.Call) -> None:
    """A module is called in a replica."""
    if not isinstance(module, Object) or module.alias is None or module.id not in machine.now[Replica].modules:
        return
    # For a class of the program, the calls of its own layers are reported instead.
    if not modules.is_of_program(module) and modules.has_parameters(machine, module) is True:
        _report(machine, module.alias, "module", node)


def use(machine: Machine, tensor: Tensor, node: cst.CSTNode) -> None:
    """A tensor is an operand of an operation."""
    if tensor.alias is not None and machine.now[Replica].notes:
        _report(machine, tensor.alias, "parameter", node)


def _report(machine: Machine, alias: Alias, content: str, node: cst.CSTNode) -> None:
    if not machine.now[Replica].notes:
        return
    holder = Holder(alias.owner, alias.name, alias.node, alias.how, content, registrable=True)
    container = unregistered.registering(machine, holder) if alias.how in ("list", "tuple", "dict") else ""
    used = Note(node, "the original's weights are used here, in a replica")
    cls = alias.owner.cls.name
    machine.emit(
        AliasUsed(alias.node, machine.scene, cls, alias.name, alias.how, alias.read, alias.method, used, container)
    )


# --- signals ----------------------------------------------------------------------------------------------------------


def listen(signals: Signals) -> None:
    signals.tensors.used.connect(use)
    signals.modules.called.connect(call)
    signals.program.attribute_bound.connect(kept)
    signals.program.function_entered.connect(enclose)
