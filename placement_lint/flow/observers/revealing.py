"""``reveal_placement(x)`` in a checked program: reports the abstract value of the argument at the call."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from placement_lint.flow.domain.record import replace
from placement_lint.flow.domain.values import Value
from placement_lint.flow.events.schema import Revealed
from placement_lint.flow.models import describing
from placement_lint.flow.state.machine import Machine
from placement_lint.flow.state.notes import Notes, Use, noted
from placement_lint.flow.state.program import Program
from placement_lint.flow.state.signals import Signals


@dataclass
class Reveals(Notes):
    """The calls of reveal_placement."""

    events: list[Revealed] = noted(list, Use.AT_END)


def reveal(machine: Machine, value: Value, node: cst.Call) -> None:
    """Record the description of the argument, which is also the result."""
    label = machine.text(node.args[0].value) if node.args else ""
    machine.notes[Reveals].events.append(Revealed(node, machine.scene, label, describing.described(machine, value)))


def finish(machine: Machine) -> None:
    """Report each call once, with the descriptions of all visits."""
    known: dict[cst.CSTNode, Revealed] = {}
    for event in machine.notes[Reveals].events:
        first = known.setdefault(event.node, event)
        if event.known not in first.known.split(_OR):
            known[event.node] = replace(first, known=f"{first.known}{_OR}{event.known}")
    machine.notes[Program].events.extend(known.values())


# Separator between the descriptions of different visits.
_OR = ", or "


# --- signals ----------------------------------------------------------------------------------------------------------


def listen(signals: Signals) -> None:
    signals.program.placement_revealed.connect(reveal)
