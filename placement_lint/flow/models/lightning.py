"""Lightning: its Trainer moves the module, and before each step the batch, to the device that it chooses.

What users call a batch goes through ``transfer_batch_to_device`` (lightning/pytorch/core/hooks.py, `DataHooks`).
"""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from placement_lint.flow.api.torch_names import LIGHTNING_MODULES
from placement_lint.flow.domain.arguments import Arguments
from placement_lint.flow.domain.path_condition import ALWAYS, NEVER, NO_GPU, Condition, answered, any_of, machines
from placement_lint.flow.domain.record import replace
from placement_lint.flow.domain.values import (
    NONE,
    OWN,
    Class,
    Const,
    Function,
    Object,
    Role,
    Symbol,
    Tensor,
    Value,
    alternatives,
)
from placement_lint.flow.events.schema import CudaRequested
from placement_lint.flow.models.handlers import Handlers
from placement_lint.flow.models.ranks import Ranks
from placement_lint.flow.state.classes import find, has_base
from placement_lint.flow.state.machine import Frame, Machine
from placement_lint.flow.state.module_notes import ModuleNotes
from placement_lint.flow.state.notes import Notes, Use, noted
from placement_lint.rule import Note
from placement_lint.source.wording import source_text


@dataclass
class Lightning(Notes):
    """What Lightning does for the program."""

    # when each Trainer that was seen chooses the CPU; None before one was
    on_cpu: Condition | None = noted(lambda: None, Use.SHARED)


_STEPS = {"training_step", "validation_step", "test_step", "predict_step"}
_WHATEVER_THERE_IS = machines(NO_GPU)
_ACCELERATORS: dict[Value, Condition] = {Const("gpu"): NEVER, Const("cuda"): NEVER, Const("cpu"): ALWAYS}


def trainer(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``Trainer(accelerator="gpu")`` and ``Trainer(gpus=1)`` require a GPU; others take what is available."""
    machine.notes[Ranks].pinned = True
    chosen, gpus = arguments.keyword("accelerator"), arguments.keyword("gpus")
    if gpus is None:
        ways = alternatives(machine.restrict(chosen)) if chosen is not None else ((ALWAYS, NONE),)
        on_cpu = any_of(guard & _ACCELERATORS.get(option, _WHATEVER_THERE_IS) for guard, option in ways)
    else:
        on_cpu = any_of(guard & _counts_none(machine, option) for guard, option in alternatives(machine.restrict(gpus)))
    before = machine.notes[Lightning].on_cpu
    machine.notes[Lightning].on_cpu = on_cpu if before is None else before & on_cpu
    return machine.fresh(node)


def _counts_none(machine: Machine, gpus: Value) -> Condition:
    """When ``gpus`` names no GPU: it is a number, where -1 means all, or a list or text of numbers."""
    if isinstance(gpus, Const):
        return NEVER if gpus.value else ALWAYS
    return answered(machine.question(gpus, text=gpus.source), False) if isinstance(gpus, Symbol) else NEVER


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
    """CUDA is requested explicitly by a module whose device Lightning chooses, or by what that module calls."""
    frame = next((frame for frame in reversed(machine.frames) if _is_in_module(frame)), None)
    receiver = frame.receiver if frame is not None else None
    if not isinstance(receiver, Object):
        return
    note = machine.notes[ModuleNotes].moved.get(receiver.cls.id) if isinstance(receiver.cls, Class) else None
    if note is not None:
        here = "self.device" if machine.frame is frame and not machine.constructing(receiver) else ""
        scene = replace(machine.scene, when=machine.scene.when & on_cpu(machine))
        machine.emit(CudaRequested(node, scene, source_text(how), note, "that of its Trainer", device=here))


def on_cpu(machine: Machine) -> Condition:
    """When the Trainers choose the CPU."""
    known = machine.notes[Lightning].on_cpu
    return _WHATEVER_THERE_IS if known is None else known


def in_module(machine: Machine) -> bool:
    """Whether a method of a LightningModule runs, or code that it calls."""
    return any(map(_is_in_module, machine.frames))


def _is_in_module(frame: Frame) -> bool:
    return isinstance(frame.receiver, Object) and has_base(frame.receiver.cls, LIGHTNING_MODULES)


CALLS: Handlers = dict.fromkeys(
    ("pytorch_lightning.Trainer", "lightning.Trainer", "lightning.pytorch.Trainer"), trainer
)
