"""Copies of models: operations on the gradients of a copy that no backward ever reaches."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from placement_lint.flow.domain.values import NONE, Object, Parameters, Value
from placement_lint.flow.events.schema import GradientsOfCopyClipped
from placement_lint.flow.models import modules
from placement_lint.flow.observers import gradient_flow
from placement_lint.flow.observers.gradient_flow import GradientFlow
from placement_lint.flow.state.machine import Machine
from placement_lint.flow.state.module_notes import ModuleNotes
from placement_lint.flow.state.names import name_of
from placement_lint.flow.state.notes import Notes, Use, noted
from placement_lint.flow.state.signals import Signals
from placement_lint.rule import Note


@dataclass
class Copies(Notes):
    """Copies of modules."""

    # each original with its copy; each clipping of gradients of one of the two, with the ids registered below it and
    # below the other
    made: list[tuple[Object, Object, Note]] = noted(list)
    clipped: list[tuple[GradientsOfCopyClipped, frozenset[int], frozenset[int]]] = noted(list, Use.AT_END)


def copied(machine: Machine, original: Object, twin: Object, how: str, node: cst.CSTNode) -> None:
    """``copy.deepcopy(model)``"""
    machine.notes[Copies].made.append((original, twin, Note(node, "copied here")))


def clipped(machine: Machine, parameters: Value, how: str, node: cst.CSTNode) -> None:
    """``clip_grad_norm_(model.parameters(), 1.0)``"""
    if machine.notes[Copies].made:
        machine.lift(lambda option: _clipped(machine, option, how, node), parameters)


def _clipped(machine: Machine, parameters: Value, how: str, node: cst.CSTNode) -> Value:
    if not isinstance(parameters, Parameters) or not isinstance(parameters.module, Object):
        return NONE
    root = parameters.module
    parts = modules.reachable(machine, root)
    for original, twin, note in machine.notes[Copies].made:
        for one, other in ((original, twin), (twin, original)):
            if one.id in parts:
                label, trained = machine.label(root, "the model"), machine.label(other, "")
                event = GradientsOfCopyClipped(node, machine.scene, label, trained, how, name_of(machine, other), note)
                ids = modules.registered_below(machine, root), modules.registered_below(machine, other)
                machine.notes[Copies].clipped.append((event, *ids))
    return NONE


def finish(machine: Machine) -> None:
    """Report after the whole program, when it is known which of the two a backward reached."""
    if not machine.notes[Copies].clipped or not gradient_flow.knows_backwards(machine):
        return
    for event, parts, others in machine.notes[Copies].clipped:
        if (
            parts.isdisjoint(machine.notes[GradientFlow].given_gradients | machine.notes[ModuleNotes].given_away)
            and others & machine.notes[GradientFlow].given_gradients
        ):
            machine.emit(event)


# --- signals ----------------------------------------------------------------------------------------------------------


def listen(signals: Signals) -> None:
    signals.modules.copied.connect(copied)
    signals.training.gradients_clipped.connect(clipped)
