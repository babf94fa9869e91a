"""Lightning: its Trainer moves the module, and before each step the batch, to the device that it chooses.

What users call a batch goes through ``transfer_batch_to_device`` (lightning/pytorch/core/hooks.py, `DataHooks`).
"""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from placement_lint.flow.api.torch_names import LIGHTNING_MODULES
from placement_lint.flow.domain.arguments import Arguments
from placement_lint.flow.domain.record import replace
from placement_lint.flow.domain.values import OWN, Class, Const, Function, Object, Role, Tensor, Value
from placement_lint.flow.events.schema import CudaRequested
from placement_lint.flow.models.handlers import Handlers
from placement_lint.flow.models.ranks import Ranks
from placement_lint.flow.state.classes import find, has_base
from placement_lint.flow.state.machine import Machine
from placement_lint.flow.state.module_notes import ModuleNotes
from placement_lint.flow.state.notes import Notes, Use, noted
from placement_lint.rule import Note
from placement_lint.source.wording import source_text


@dataclass
class Lightning(Notes):
    """What Lightning does for the program."""

    # a Trainer requests a GPU
    trains_on_gpu: bool = noted(bool, Use.SHARED)


_STEPS = {"training_step", "validation_step", "test_step", "predict_step"}
_GPUS = (Const("gpu"), Const("cuda"))


def trainer(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``Trainer(accelerator="gpu")`` requires a GPU; any other takes what is available."""
    machine.notes[Ranks].pinned = True
    gpus = arguments.keyword("gpus")
    counted = isinstance(gpus, Const) and bool(gpus.value)
    machine.notes[Lightning].trains_on_gpu = (
        machine.notes[Lightning].trains_on_gpu or arguments.keyword("accelerator") in _GPUS or counted
    )
    return machine.fresh(node)


def takes_over(machine: Machine, cls: Class) -> None:
    """Lightning moves a module of this class, whether or not that is seen."""
    if has_base(cls, LIGHTNING_MODULES):
        node = machine.definition(cls).name
        machine.notes[ModuleNotes].moved.setdefault(
            cls.id, Note(node, "Lightning moves the module to the device of its Trainer")
        )


def is_step(machine: Machine, instance: Object, method: Function) -> bool:
    """Whether Lightning calls a method with a batch that it has moved to where the module is."""
    if method.name not in _STEPS or not has_base(instance.cls, LIGHTNING_MODULES):
        return False
    return isinstance(instance.cls, Class) and find(machine, instance.cls, "transfer_batch_to_device") is None


def step_arguments(given: Arguments) -> Arguments:
    batch = Tensor(OWN, None, Role.BATCH, assumed=True)
    return replace(given, positional=(batch, *given.positional[1:]))


def requested(machine: Machine, how: str | cst.CSTNode, node: cst.CSTNode) -> None:
    """CUDA is requested explicitly by a method of a module whose device Lightning chooses."""
    frame = next((frame for frame in reversed(machine.frames) if isinstance(frame.receiver, Object)), None)
    receiver = frame.receiver if frame is not None else None
    if (
        machine.notes[Lightning].trains_on_gpu
        or not isinstance(receiver, Object)
        or not has_base(receiver.cls, LIGHTNING_MODULES)
    ):
        return
    note = machine.notes[ModuleNotes].moved.get(receiver.cls.id) if isinstance(receiver.cls, Class) else None
    if note is not None:
        here = "self.device" if machine.frame is frame and not machine.constructing(receiver) else ""
        machine.emit(CudaRequested(node, machine.scene, source_text(how), note, "that of its Trainer", device=here))


CALLS: Handlers = dict.fromkeys(
    ("pytorch_lightning.Trainer", "lightning.Trainer", "lightning.pytorch.Trainer"), trainer
)
