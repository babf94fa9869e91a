"""Cuts: the points at which backpropagation ends, and the parameters that it therefore never reaches.

A parameter is known to be untrained only if all of a loss is known: ``Backward.reached`` is None if the loss depends on
an unknown value, which may be any parameter.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Sequence as Many
from dataclasses import dataclass

import libcst as cst

from placement_lint.flow.domain.values import (
    NONE,
    Const,
    Object,
    Role,
    Symbol,
    Tensor,
    Value,
    alternatives,
)
from placement_lint.flow.events.schema import GradientLost
from placement_lint.flow.models import gradient_paths, modules, optimizers, trainable
from placement_lint.flow.models.gradients import Gradients
from placement_lint.flow.state.machine import Machine
from placement_lint.flow.state.module_notes import ModuleNotes
from placement_lint.flow.state.notes import Notes, Use, noted
from placement_lint.flow.state.program import Program
from placement_lint.flow.state.signals import Signals
from placement_lint.rule import Note
from placement_lint.source.wording import source_text


@dataclass
class GradientFlow(Notes):
    """The modules and Parameters that backward passes reach."""

    # the modules and Parameters that some backward may reach, that were trained before, and that the program changes
    # itself; for each cut, its event, the parameters behind it, and those of an optimizer that steps after it
    given_gradients: set[int] = noted(set, Use.AT_END)
    loaded: set[int] = noted(set, Use.AT_END)
    changed: set[int] = noted(set, Use.AT_END)
    cut_off: list[tuple[GradientLost, frozenset[int], frozenset[int]]] = noted(list, Use.AT_END)


# An element of ``given_gradients``: a loss that is partly unknown may reach any parameter.
_ANYTHING = -1


def backward(machine: Machine, loss: Value, node: cst.CSTNode) -> None:
    """``loss.backward()``"""
    for _, option in alternatives(loss):
        known = gradient_paths.reached(option) if isinstance(option, Tensor) else None
        machine.notes[GradientFlow].given_gradients |= {_ANYTHING} if known is None else known
    found = loss.backward.cuts if isinstance(loss, Tensor) and loss.backward.reached is not None else frozenset()
    machine.write(machine.module_frame, gradient_paths.CUTS, Const((found, Note(node, "the backward is here"))))


def given_away(machine: Machine, tensor: Tensor) -> None:
    """A tensor is passed to code that is not analysed, which may call backward on it."""
    known = gradient_paths.reached(tensor)
    machine.notes[GradientFlow].given_gradients |= (
        tensor.modules | tensor.backward.parameters if known is None else known
    )


def loaded(machine: Machine, module: Object | Symbol) -> None:
    """``module.load_state_dict(…)``: the module was trained before."""
    machine.notes[GradientFlow].loaded |= set(modules.reachable(machine, module))


def tied(machine: Machine, owner: Object, name: str, value: Value, node: cst.CSTNode) -> None:
    """``a.weight = b.weight``: training one of them trains the other."""
    for _, option in alternatives(value):
        if isinstance(option, Tensor) and option.role is Role.PARAMETER and option.modules:
            machine.notes[GradientFlow].changed |= option.modules | {owner.id, option.uid}


def changed(machine: Machine, tensor: Tensor) -> None:
    """``parameter.data.mul_(…)`` outside the constructor: the program updates the Parameter itself."""
    receiver = machine.frame.receiver
    building = isinstance(receiver, Object) and machine.constructing(receiver)
    if not building and tensor.role is Role.PARAMETER:
        machine.notes[GradientFlow].changed |= tensor.modules | {tensor.uid}
    elif not building and tensor.lost is not None:
        machine.notes[GradientFlow].changed |= tensor.modules | {tensor.lost.uid}


def written_into(machine: Machine, *values: Value) -> None:
    """``t[i] = value``: a backward through ``t`` may reach the parameters that the value was computed from."""
    for value in values:
        for option in gradient_paths.flat(machine, value):
            if isinstance(option, Tensor):
                given_away(machine, option)


def collected(machine: Machine, values: Iterable[Value]) -> None:
    """Values are put into a list or dict: it is not always known which of them are read later."""
    written_into(machine, *values)


def copied(machine: Machine, original: Object, twin: Object, how: str, node: cst.CSTNode) -> None:
    """``copy.deepcopy(model)``: the original may have been trained before."""
    loaded(machine, twin)


def given_to_unknown(machine: Machine, value: Value) -> None:
    """A call that cannot be analysed may keep the value."""
    written_into(machine, value)


def item_assigned(
    machine: Machine, owner: Value, key: Value, value: Value, source: cst.BaseExpression | None, node: cst.CSTNode
) -> None:
    """``tensor[key] = value``"""
    if isinstance(owner, Tensor):
        changed_by(machine, owner, (value,))


def changed_by(machine: Machine, tensor: Tensor, values: Many[Value]) -> None:
    """``tensor.add_(value)``"""
    changed(machine, tensor)
    written_into(machine, *values)


def lost(machine: Machine, values: Many[Value]) -> None:
    """Values are operands of an unknown operation."""
    written_into(machine, *values)


def stepped(machine: Machine, optimizer: Object, reached: frozenset[int], note: Note) -> None:
    """``optimizer.step()`` after a backward that ended at cuts: record the cuts and the optimizer's parameters."""
    known = machine.read(machine.module_frame, gradient_paths.CUTS)
    if known is not None:
        machine.lift(lambda option: _stepped(machine, optimizer, option, note), known)


def _stepped(machine: Machine, optimizer: Object, known: Value, note: Note) -> Value:
    if isinstance(known, Const) and isinstance(known.value, tuple):
        cuts, back = known.value
        held = optimizers.covered(machine, optimizer)
        label = machine.label(optimizer, "the optimizer")
        for one in cuts:
            event = GradientLost(one.node, machine.scene, source_text(one.node), one.how, label, back, note)
            machine.notes[GradientFlow].cut_off.append((event, one.behind, held))
    return NONE


def knows_backwards(machine: Machine) -> bool:
    """Whether the parameters that get gradients, from a backward or otherwise, are completely known."""
    return not (
        _ANYTHING in machine.notes[GradientFlow].given_gradients
        or machine.notes[Gradients].by_hand
        or machine.notes[Program].overlooks
    )


def finish(machine: Machine) -> None:
    """Report the cuts after the whole program, when the parameters that no backward reached are known."""
    if not knows_backwards(machine):
        return
    noted = machine.notes[GradientFlow]
    looked_after = (
        noted.given_gradients
        | noted.loaded
        | noted.changed
        | machine.notes[ModuleNotes].ever_frozen
        | machine.notes[ModuleNotes].given_away
    )
    for event, behind, held in noted.cut_off:
        lost = {part for part in behind if looked_after.isdisjoint(trainable.around(machine, part))}
        if lost and lost <= held:
            machine.emit(event)


# --- signals ----------------------------------------------------------------------------------------------------------


def listen(signals: Signals) -> None:
    signals.training.backward.connect(backward)
    signals.modules.copied.connect(copied)
    signals.tensors.changed.connect(changed_by)
    signals.tensors.lost.connect(lost)
    signals.training.optimizer_stepped.connect(stepped)
    signals.modules.state_loaded.connect(loaded)
    signals.tensors.data_assigned.connect(changed)
    signals.program.attribute_bound.connect(tied)
    signals.program.values_collected.connect(collected)
    signals.program.given_to_unknown.connect(given_to_unknown)
    signals.program.item_assigned.connect(item_assigned)
