"""``reveal_placement(x)`` in a checked program: what is known of a value at the call."""

from __future__ import annotations

import libcst as cst

from placement_lint.flow.domain.arguments import Arguments
from placement_lint.flow.domain.record import replace
from placement_lint.flow.domain.values import NONE, Value
from placement_lint.flow.events.schema import Revealed
from placement_lint.flow.models import describing
from placement_lint.flow.state.machine import Machine


def reveal(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """Record what is known of the argument, which is the result."""
    value = arguments.get(0, "value") or NONE
    label = machine.text(node.args[0].value) if node.args else ""
    machine.revealed.append(Revealed(node, machine.scene, label, describing.described(machine, value)))
    return value


def finish(machine: Machine) -> None:
    """Report each call once, with all that was known there at different visits."""
    known: dict[cst.CSTNode, Revealed] = {}
    for event in machine.revealed:
        first = known.setdefault(event.node, event)
        if event.known not in first.known.split(_OR):
            known[event.node] = replace(first, known=f"{first.known}{_OR}{event.known}")
    machine.events.extend(known.values())


# Between what is known at one visit and at another.
_OR = ", or "
