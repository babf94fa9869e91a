"""Packed sequences and DataParallel: what it does to them, to their lengths, and to what is padded again.

A PackedSequence is a named tuple, whose parts are scattered like all tensors (torch/nn/parallel/scatter_gather.py): its
``batch_sizes`` are to stay on the CPU, and so are the lengths that one is made by. Each replica pads again to the
longest of its own sequences, unless it is told how long the others' are.
"""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from placement_lint.flow.domain.arguments import Arguments
from placement_lint.flow.domain.record import replace
from placement_lint.flow.domain.values import NONE, REPLICA, Device, Place, Tensor, Value
from placement_lint.flow.events.schema import PackingMisused
from placement_lint.flow.models import device_choice
from placement_lint.flow.state.machine import Machine
from placement_lint.flow.state.moment import Replica
from placement_lint.flow.state.notes import Notes, Use, noted
from placement_lint.rule import Note


@dataclass
class PackedSequences(Notes):
    """Packed sequences."""

    ids: set[int] = noted(set, Use.INCIDENTAL)


def packed(machine: Machine, sequence: Value) -> Value:
    """A PackedSequence is told from the tensor that is packed in it."""
    if not isinstance(sequence, Tensor):
        return sequence
    identity = machine.new_id()
    machine.notes[PackedSequences].ids.add(identity)
    return replace(sequence, uid=identity)


def check_lengths(machine: Machine, arguments: Arguments, node: cst.Call) -> None:
    """Inside DataParallel ``lengths`` are on a GPU, if they are a tensor that it put there or come of one."""
    source = device_choice.argument(node, 1, "lengths")
    inside = machine.now[Replica].notes or machine.now[Replica].on_only_gpu

    def check(lengths: Value) -> Value:
        if source is not None and isinstance(lengths, Tensor) and _on_gpu(lengths.place) and not lengths.assumed:
            machine.emit(PackingMisused(source, machine.scene, "lengths", machine.text(source), inside))
        return NONE

    if inside and not machine.expects("RuntimeError"):
        machine.lift(check, arguments.get(1, "lengths") or NONE)


def _on_gpu(place: Place) -> bool:
    return isinstance(place, Device) and place.kind in ("cuda", REPLICA.kind)


def check_argument(machine: Machine, value: Value, source: cst.BaseExpression, node: cst.Call) -> None:
    """An argument of a DataParallel call."""

    def check(option: Value) -> Value:
        if isinstance(option, Tensor) and option.uid in machine.notes[PackedSequences].ids:
            called = (Note(node, "called here"),)
            machine.emit(PackingMisused(source, machine.scene, "argument", machine.text(source), called))
        return NONE

    machine.lift(check, value)


def padded(machine: Machine, sequence: Value, arguments: Arguments, node: cst.Call) -> Value:
    """``pad_packed_sequence(packed)``, in a replica of its own length."""
    own = machine.now[Replica].notes and arguments.get(3, "total_length") in (None, NONE) and not arguments.spread
    return (
        replace(sequence, replica=replace(sequence.replica, padded=node if own else None))
        if isinstance(sequence, Tensor)
        else sequence
    )


def check_returned(machine: Machine, returned: Tensor, label: str, node: cst.CSTNode) -> None:
    """What a forward returns is gathered, as long as all of it but the batch is of one size."""
    if returned.replica.padded is not None:
        trace = (*machine.now[Replica].notes, Note(node, "returned here"))
        machine.emit(PackingMisused(returned.replica.padded, machine.scene, "output", label, trace))
