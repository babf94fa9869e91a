"""Outputs that DataParallel gathers from its replicas, used as if they were one number.

A 0-dim loss becomes a vector with one element a replica. An output of unknown shape has at least as many elements,
and only a tensor with one element can be a number: its ``backward()`` works with a single GPU only.
"""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from placement_lint.flow.domain.values import FALSE, NONE, TRUE, Tensor, Value
from placement_lint.flow.events.schema import ReplicaLossReduced, ReplicaLossUsed
from placement_lint.flow.models.gradients import NoGrad
from placement_lint.flow.state.heap import Slot
from placement_lint.flow.state.machine import Machine
from placement_lint.flow.state.notes import Notes, Use, noted
from placement_lint.flow.state.program import Program


@dataclass
class ReplicaLosses(Notes):
    """Losses that each replica computes."""

    # reductions of them, and those whose result is divided afterwards
    reduced: list[ReplicaLossReduced] = noted(list, Use.AT_END)
    divided: set[cst.CSTNode] = noted(set)
    # outputs of DataParallel models that are used as numbers; by the call that made them, those that the program
    # averages, and those whose number of elements it reads
    used_as_numbers: list[ReplicaLossUsed] = noted(list)
    averaged: set[cst.CSTNode] = noted(set)
    measured: set[cst.CSTNode] = noted(set)


# With a single row there is a single replica: only these tell that the batch has more, or that it is a loss.
_WANT_NUMBER = ("item", "float", "int", "format", "__float__", "__int__")
# What a vector raises, by its use, if that is no RuntimeError.
_ERRORS = {"float": "ValueError", "int": "ValueError", "format": "TypeError"}
# For the output of a model: the program has raised because it used a vector in it as a number.
_RAISED = Slot("used as a number")


def used_as_number(
    machine: Machine, tensor: Tensor, use: str, how: str, source: cst.CSTNode, node: cst.CSTNode
) -> None:
    """``loss.backward()``, ``float(loss)`` and their kind; ``how`` words it, and ``source`` is the tensor's.

    Later uses of what the same call returned are not reported: the program does not reach them. Truth values are, as
    no fix of the first use, applied to them as well, would be right.
    """
    if not tensor.loss.per_replica and tensor.loss.gathered is None:
        return
    certain = tensor.loss.per_replica or use == "backward"
    handled = machine.does_without(_ERRORS.get(use, "RuntimeError"))

    def report(raised: Value) -> Value:
        event = ReplicaLossUsed(node, machine.scene, source, how, use, tensor)
        if raised == TRUE and use != "bool":
            return NONE
        if handled:
            # the program continues in its handler
            pass
        elif tensor.loss.per_replica:
            machine.emit(event)
        elif certain or (use in _WANT_NUMBER and not machine.now[NoGrad].count):
            machine.notes[ReplicaLosses].used_as_numbers.append(event)
        if certain:
            machine.write(tensor.loss.output, _RAISED, TRUE)
        return NONE

    machine.lift(report, machine.read(tensor.loss.output, _RAISED, unset=FALSE))


def averaged(machine: Machine, tensor: Tensor) -> None:
    """The program makes one number of an output itself: it is a loss."""
    if tensor.loss.gathered is not None:
        machine.notes[ReplicaLosses].averaged.add(tensor.loss.gathered)


def measured(machine: Machine, tensor: Tensor) -> None:
    """The program asks how many elements an output has: it knows what to do with several."""
    if tensor.loss.gathered is not None:
        machine.notes[ReplicaLosses].measured.add(tensor.loss.gathered)


def finish(machine: Machine) -> None:
    """Report what is reduced and not divided, and each backward from an output.

    Other uses only of those outputs that the program averages elsewhere.
    """
    noted = machine.notes[ReplicaLosses]
    program = machine.notes[Program]
    program.events.extend(event for event in noted.reduced if event.node not in noted.divided)
    for use in noted.used_as_numbers:
        made = use.tensor.loss.gathered
        if made not in noted.measured and (use.use == "backward" or made in noted.averaged):
            program.events.append(use)
