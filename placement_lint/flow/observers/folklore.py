"""Correct patterns that are often claimed to be wrong, reported so that a hint can explain them."""

from __future__ import annotations

import libcst as cst

from placement_lint.flow.api.torch_names import WRAPPERS
from placement_lint.flow.domain.arguments import Arguments
from placement_lint.flow.domain.values import (
    CPU,
    Device,
    Kind,
    Object,
    Parameters,
    Place,
    Source,
    Symbol,
    Tensor,
    Value,
    alternatives,
)
from placement_lint.flow.events.schema import Rumoured
from placement_lint.flow.models import optimizers, wrappers
from placement_lint.flow.state.machine import Machine
from placement_lint.flow.state.signals import Signals
from placement_lint.rule import Note


def wrapped(machine: Machine, module: Object | Symbol, wrapper: str, node: cst.Call) -> None:
    """A module is wrapped after an optimizer got its parameters."""
    for optimizer in optimizers.holders(machine, module):
        name = machine.label(optimizer, "the optimizer")
        cls = optimizers.short(optimizer)
        machine.emit(Rumoured(node, machine.scene, "optimizer before wrapper", name, cls, WRAPPERS[wrapper]))


def moved(machine: Machine, module: Object | Symbol, target: Place, note: Note) -> None:
    """A wrapper is moved, or a module is moved whose parameters are in an optimizer without state."""
    if isinstance(module, Object) and module.kind is Kind.WRAPPER:
        name, wrapper = machine.label(module, "the wrapper"), wrappers.kind_of(module)
        machine.emit(Rumoured(note.node, machine.scene, "move after wrap", name, wrapper=wrapper))
    for optimizer in optimizers.holders(machine, module):
        if not optimizers.has_state(machine, optimizer):
            name, cls = machine.label(optimizer, "the optimizer"), optimizers.short(optimizer)
            machine.emit(Rumoured(note.node, machine.scene, "optimizer before move", name, cls))


def built(machine: Machine, params: Value | None, node: cst.Call) -> None:
    """An optimizer is built with the parameters of a wrapper."""
    for _, option in alternatives(params) if params is not None else ():
        module = option.module if isinstance(option, Parameters) else None
        if isinstance(module, Object) and module.kind is Kind.WRAPPER:
            name, wrapper = machine.label(module, "the wrapper"), wrappers.kind_of(module)
            machine.emit(Rumoured(node, machine.scene, "parameters of wrapper", name, wrapper=wrapper))


def called(machine: Machine, arguments: Arguments, node: cst.Call) -> None:
    """A DataParallel is called with inputs on the CPU, or with inputs that were moved to a GPU."""
    for position, value in enumerate(arguments.positional):
        name = machine.text(node.args[position].value) if position < len(node.args) else "an input"
        if isinstance(value, Tensor) and value.place == CPU:
            machine.emit(Rumoured(node, machine.scene, "inputs on the CPU", name))
        elif any(_was_moved(option) for _, option in alternatives(value)):
            machine.emit(Rumoured(node, machine.scene, "inputs moved first", name))


def _was_moved(value: Value) -> bool:
    on_gpu = isinstance(value, Tensor) and isinstance(value.place, Device) and value.place.kind == "cuda"
    return on_gpu and isinstance(value, Tensor) and value.source is Source.MOVE


# --- signals ----------------------------------------------------------------------------------------------------------


def listen(signals: Signals) -> None:
    signals.modules.wrapped.connect(wrapped)
    signals.modules.moving.connect(moved)
    signals.training.optimizer_built.connect(built)
    signals.modules.wrapper_called.connect(called)
