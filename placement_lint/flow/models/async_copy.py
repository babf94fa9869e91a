"""Copies between GPU and host that do not wait: ``x.to("cpu", non_blocking=True)`` returns before the data is there.

The copy goes to pinned memory (aten/src/ATen/native/TensorConversions.cpp), and the host may read it only after it has
waited for the GPU. A copy to the host that does wait, such as that of `loss.item()`, waits for all that its stream has
to do (aten/src/ATen/native/cuda/Copy.cu, `copy_kernel_cuda`), so for the earlier copies as well.
"""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from placement_lint.flow.api.torch_names import WAITING_READS
from placement_lint.flow.domain.arguments import Arguments
from placement_lint.flow.domain.record import replace
from placement_lint.flow.domain.values import CPU, NONE, TRUE, Const, Device, Tensor, Value
from placement_lint.flow.events.schema import UnfinishedCopyRead
from placement_lint.flow.models import hooks
from placement_lint.flow.state.devices import as_place
from placement_lint.flow.state.heap import Slot
from placement_lint.flow.state.machine import Machine
from placement_lint.flow.state.notes import Notes, Use, noted
from placement_lint.rule import Note
from placement_lint.source.wording import source_text


@dataclass
class AsyncCopies(Notes):
    """Copies to the host that do not wait."""

    # by the copy: what reads it first
    unfinished_reads: dict[cst.CSTNode, cst.CSTNode] = noted(dict, Use.WEIGHED)


# A cell of the module frame: how often the program has waited for the GPU.
_WAITS = Slot("waits")


def waited(machine: Machine) -> None:
    """``torch.cuda.synchronize()``"""
    before = _so_far(machine)
    count = before.value if isinstance(before, Const) and isinstance(before.value, int) else 0
    machine.write(machine.module_frame, _WAITS, Const(count + 1))


def _so_far(machine: Machine) -> Value:
    return machine.read(machine.module_frame, _WAITS, unset=NONE)


def copied(machine: Machine, before: Tensor, after: Value, arguments: Arguments, node: cst.Call) -> Value:
    """``after`` is ``before``, moved by this call."""
    if not _goes_on(arguments):
        if isinstance(after, Tensor) and after.place == CPU:
            fetched(machine, before)
        return after
    if not isinstance(after, Tensor):
        return after
    from_gpu = isinstance(before.place, Device) and before.place.kind == "cuda" and not before.assumed
    return replace(after, unfinished=(node, _so_far(machine))) if from_gpu and after.place == CPU else after


def _goes_on(arguments: Arguments) -> bool:
    """Whether the arguments of ``to`` say that it does not wait."""
    return arguments.get(2, "non_blocking") == TRUE or arguments.get(1) == TRUE


def method_of_unknown(machine: Machine, name: str, arguments: Arguments) -> None:
    """``x.item()`` of what may be a tensor on a GPU."""
    to_host = name == "to" and as_place(arguments.get(0) or NONE) == CPU and not _goes_on(arguments)
    if to_host or name in WAITING_READS:
        waited(machine)


def fetched(machine: Machine, tensor: Tensor) -> None:
    """What a tensor holds comes to the host, and the program waits for it if that was on a GPU."""
    if tensor.place != CPU:
        waited(machine)


def read(machine: Machine, tensor: Tensor, source: str | cst.CSTNode, node: cst.CSTNode) -> None:
    """What a tensor holds is read: by the host, said once of each copy, or of a hook's."""
    if tensor.replica.chunk is not None:
        hooks.used(machine, tensor.replica.chunk, source, node)
    if tensor.unfinished is None or tensor.unfinished[1] != _so_far(machine):
        return
    if machine.notes[AsyncCopies].unfinished_reads.setdefault(tensor.unfinished[0], node) is node:
        note = Note(tensor.unfinished[0], "copied to the host here, without waiting")
        machine.emit(UnfinishedCopyRead(node, machine.scene, source_text(source), source_text(node), note))
