"""Hooks of tensors: a backward calls each with the gradient of its tensor, which is on the device of the tensor."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from placement_lint.flow.domain.arguments import Arguments
from placement_lint.flow.domain.values import (
    NONE,
    OWN,
    REPLICA,
    Bound,
    Fact,
    Function,
    Sequence,
    Symbol,
    Tensor,
    Value,
)
from placement_lint.flow.state.heap import Slot
from placement_lint.flow.state.machine import Machine
from placement_lint.flow.state.signals import Signals

# Of the module frame: the hooks that no backward has called yet, a Sequence of Facts.
_WAITING = Slot("hooks of tensors")
_NONE = Sequence(())


@dataclass(frozen=True)
class _Hook:
    tensor: Tensor | Symbol
    function: Function | Bound
    call: cst.Call


def register(machine: Machine, tensor: Tensor | Symbol, arguments: Arguments, node: cst.Call) -> None:
    """``tensor.register_hook(hook)``"""
    function = arguments.get(0, "hook")
    # A forward that is analysed by itself, or in a replica, has no backward.
    alone = isinstance(tensor, Tensor) and tensor.place in (OWN, REPLICA)
    if isinstance(function, (Function, Bound)) and not alone:
        # A tensor that is elsewhere on other paths has another hook there.
        what = (tensor.uid, tensor.place) if isinstance(tensor, Tensor) else tensor.id
        hook = Fact(f"hook {id(node)} of {what}", _Hook(tensor, function, node))
        machine.add(machine.module_frame, _WAITING, hook)


def removed(machine: Machine) -> None:
    """``handle.remove()``: whichever hook that is, none is believed to be there any more."""
    if machine.read(machine.module_frame, _WAITING) is not None:
        machine.write(machine.module_frame, _WAITING, _NONE)


def _ran(machine: Machine, loss: Value, node: cst.CSTNode) -> None:
    """A backward calls the hooks, those of later tensors first."""
    waiting = machine.read(machine.module_frame, _WAITING, unset=_NONE)
    if waiting != _NONE:
        machine.write(machine.module_frame, _WAITING, _NONE)
        machine.lift(lambda hooks: _call_all(machine, hooks), waiting)


def _call_all(machine: Machine, hooks: Value) -> Value:
    for fact in reversed(hooks.items) if isinstance(hooks, Sequence) else ():
        if isinstance(fact, Fact) and isinstance(fact.details, _Hook):
            _call(machine, fact.details)
    return NONE


def _call(machine: Machine, hook: _Hook) -> None:
    gradient: Value = machine.fresh(hook.call, "torch.Tensor")
    if isinstance(hook.tensor, Tensor):
        gradient = Tensor(hook.tensor.place, hook.tensor.scalar, created=hook.call, uid=machine.new_id())
    before = machine.path, machine.reach, machine.tested
    machine.store.begin()
    # What it runs into is for when it is looked at by itself.
    with machine.unheard():
        machine.evaluator.call(machine, hook.function, Arguments((gradient,)), hook.call)
    if not machine.dead:
        machine.store.commit()
        return
    machine.store.roll_back()
    machine.path, machine.reach, machine.tested = before
    machine.dead = False


def listen(signals: Signals) -> None:
    signals.training.backward.connect(_ran)
