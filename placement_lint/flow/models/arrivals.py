"""Arrivals: something is put on a device. What that takes of the machine, and who else wants to know of it."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from placement_lint.flow.domain.values import Device, Place, Tensor
from placement_lint.flow.events.schema import CudaInWorker
from placement_lint.flow.models import ranks, visible_devices
from placement_lint.flow.state.devices import Context, require, resolve
from placement_lint.flow.state.machine import Machine
from placement_lint.flow.state.notes import Notes, Use, noted


@dataclass
class Arrivals(Notes):
    """What comes to a GPU."""

    # by statement: what in it first uses CUDA in a worker
    in_workers: dict[cst.CSTNode, cst.CSTNode] = noted(dict, Use.WEIGHED)


def arrive(machine: Machine, place: Place, node: cst.CSTNode) -> Place:
    """Where something that is put at ``place`` lands; past this point the machine has that device."""
    ranks.use(machine, place, node)
    landed = resolve(machine, place)
    require(machine, landed)
    if isinstance(landed, Device) and landed.kind == "cuda":
        visible_devices.touch(machine, node)
        _in_worker(machine, node)
    return landed


def meet(machine: Machine, tensor: Tensor, node: cst.CSTNode) -> None:
    """An operation runs where this tensor is."""
    # What put it there in the worker raises already.
    was_put = machine.now[Context].worker is not None and not {note.node for note in tensor.history}.isdisjoint(
        machine.notes[Arrivals].in_workers.values()
    )
    if isinstance(tensor.place, Device) and tensor.place.kind == "cuda" and not tensor.assumed and not was_put:
        _in_worker(machine, node)


def _in_worker(machine: Machine, node: cst.CSTNode) -> None:
    """A worker uses CUDA: said once of each statement, for its first use raises."""
    worker = machine.now[Context].worker
    if worker is not None:
        first = machine.notes[Arrivals].in_workers.setdefault(machine.frame.line or node, node)
        if first is node:
            machine.emit(CudaInWorker(node, machine.scene, machine.text(node), worker))
