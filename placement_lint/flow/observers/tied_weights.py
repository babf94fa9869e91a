"""Tied weights: one Parameter in several layers, until an operation replaces it separately under each name.

``Module._apply`` and ``load_state_dict(assign=True)`` process each name separately and ignore ties
(torch/nn/modules/module.py).
"""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from placement_lint.flow.domain.values import (
    ABSENT,
    NONE,
    Device,
    Fact,
    Object,
    Role,
    Symbol,
    Tensor,
    Value,
    alternatives,
)
from placement_lint.flow.events.schema import TieBroken
from placement_lint.flow.models import gradients, modules, optimizers
from placement_lint.flow.models.parameter_replacement import Ties
from placement_lint.flow.state.heap import Slot
from placement_lint.flow.state.machine import Machine
from placement_lint.flow.state.names import value_of
from placement_lint.flow.state.records import Tie
from placement_lint.flow.state.signals import Signals
from placement_lint.rule import Note

# For a Parameter: the operation that replaced it since it was last tied.
_PARTED = Slot("parted")


@dataclass(frozen=True)
class _Parted:
    """The operation that broke a tie, and the newest id at that time."""

    tie: Tie
    node: cst.CSTNode
    how: str
    newest: int


def tied(machine: Machine, owner: Object, name: str, value: Value, node: cst.CSTNode) -> None:
    """``a.weight = b.weight``, for the first time or again."""
    for _, option in alternatives(value):
        if isinstance(option, Tensor) and option.role is Role.PARAMETER and option.uid:
            source = _source(machine, option, owner, name, node)
            if source:
                machine.notes[Ties].made[owner.id, name, option.uid] = Tie(
                    node, owner.id, name, option.uid, source | {owner.id}
                )
            _settle(machine, owner)


def _source(machine: Machine, parameter: Tensor, owner: Object, name: str, node: cst.CSTNode) -> frozenset[int]:
    """The layers from which a statement takes the Parameter for another name; empty for a new Parameter."""
    if parameter.modules:
        return parameter.modules - {owner.id}
    written = node.value if isinstance(node, cst.Assign) else None
    holder = value_of(machine, written.value) if isinstance(written, cst.Attribute) else None
    if not isinstance(written, cst.Attribute) or not isinstance(holder, Object):
        return frozenset()
    return frozenset({holder.id}) if (holder.id, written.attr.value) != (owner.id, name) else frozenset()


def parted(machine: Machine, module: Object | Symbol, how: str, node: cst.CSTNode) -> None:
    """An operation replaces the Parameter under each name below a module."""
    if not machine.notes[Ties].made or (how == "materialized" and not _empties(node)):
        return
    parts = modules.reachable(machine, module)
    for tie in machine.notes[Ties].made.values():
        held = machine.read(tie.owner, tie.name) if parts.keys() >= tie.layers else None
        if held is not None:
            fact = machine.fact(f"parted {id(node)}", _Parted(tie, node, how, machine.newest))
            machine.lift(lambda option, fact=fact, tie=tie: _part(machine, option, tie, how, fact), held)


def _empties(node: cst.CSTNode) -> bool:
    """Whether a call is ``module.to_empty(device=…)``, the only possible move from the meta device."""
    return isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value == "to_empty"


def _part(machine: Machine, held: Value, tie: Tie, how: str, parted: Fact) -> Value:
    changes = how != "materialized" or (isinstance(held, Tensor) and held.place == Device("meta"))
    if isinstance(held, Tensor) and held.uid == tie.uid and changes:
        machine.notes[Ties].parted.add(tie.uid)
        machine.write(tie.uid, _PARTED, parted)
    return NONE


def given_away(machine: Machine, value: Value) -> None:
    """A module is passed to a call that cannot be analysed, which may tie the weights again."""
    if machine.notes[Ties].parted and isinstance(value, (Object, Symbol)) and modules.is_module(machine, value):
        for uid in machine.notes[Ties].parted:
            mend(machine, uid)


def _settle(machine: Machine, owner: Object) -> None:
    """A Parameter is assigned in a layer whose tie was broken: it is tied again, or is intended to be separate."""
    for tie in machine.notes[Ties].made.values() if machine.notes[Ties].parted else ():
        if owner.id in tie.layers:
            mend(machine, tie.uid)


def data_assigned(machine: Machine, tensor: Tensor) -> None:
    """``tensor.data = …``"""
    mend(machine, tensor.uid)


def mend(machine: Machine, uid: int) -> None:
    """Forget that a tie was broken; ``a.weight.data = b.weight.data`` restores it."""
    if uid in machine.notes[Ties].parted:
        machine.write(uid, _PARTED, ABSENT)


def stepped(machine: Machine, optimizer: Object, reached: frozenset[int], note: Note) -> None:
    """``optimizer.step()``: Parameters that were tied are trained separately."""
    for uid in machine.notes[Ties].parted:
        fact = machine.read(uid, _PARTED)
        if fact is not None:
            machine.lift(lambda option: _report(machine, optimizer, option, note), fact)


def _report(machine: Machine, optimizer: Object, fact: Value, stepped: Note) -> Value:
    parted = fact.details if isinstance(fact, Fact) else None
    if not isinstance(fact, Fact) or not isinstance(parted, _Parted) or optimizer.id <= parted.newest:
        # An optimizer that was built before does not have the new Parameters.
        return NONE
    tie = parted.tie
    frozen = any(gradients.is_frozen(machine, part) for part in (*tie.layers, tie.uid))
    if tie.layers <= optimizers.covered(machine, optimizer) and not frozen:
        label = machine.label(optimizer, "the optimizer")
        with machine.reaching(fact.reach):
            machine.emit(TieBroken(parted.node, machine.scene, parted.how, tie.node, label, stepped))
    return NONE


# --- signals ----------------------------------------------------------------------------------------------------------


def listen(signals: Signals) -> None:
    signals.modules.parameters_replaced.connect(parted)
    signals.training.optimizer_stepped.connect(stepped)
    signals.tensors.data_assigned.connect(data_assigned)
    signals.program.attribute_bound.connect(tied)
    signals.program.given_to_unknown.connect(given_away)
