"""Parameters that a class reads only through ``.data``: they never get a gradient."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from placement_lint.flow.domain.values import Class, Kind, Object, Role, Tensor
from placement_lint.flow.events.schema import ParameterReadAsData
from placement_lint.flow.models import gradients
from placement_lint.flow.models.gradients import NoGrad
from placement_lint.flow.state.classes import methods
from placement_lint.flow.state.machine import Machine
from placement_lint.flow.state.notes import Notes, noted
from placement_lint.flow.state.signals import Signals
from placement_lint.source.querying import read_through
from placement_lint.source.wording import source_text


@dataclass
class DetachedParameters(Notes):
    """Parameters that require no gradients, or whose values the program sets itself."""

    handled: set[int] = noted(set)


def handled(machine: Machine, identity: int) -> None:
    """``nn.Parameter(t, requires_grad=False)``, or code that sets, loads or freezes the weights."""
    machine.notes[DetachedParameters].handled.add(identity)


def read_as_data(machine: Machine, parameter: Tensor, node: cst.CSTNode) -> None:
    """``self.scale.data``, in a forward that is analysed as an entry point."""
    owner, read = machine.frame.receiver, node.value if isinstance(node, cst.Attribute) else None
    if not machine.looks_at_forward or machine.now[NoGrad].count or machine.chooses:
        return
    if not isinstance(read, cst.Attribute) or not isinstance(owner, Object) or owner.kind is not Kind.MODULE:
        return
    held = machine.read(owner.id, read.attr.value)
    left = parameter.uid in machine.notes[DetachedParameters].handled or gradients.is_frozen(machine, parameter.uid)
    if held != parameter or parameter.role is not Role.PARAMETER or left or not isinstance(owner.cls, Class):
        return
    if _is_read_so_only(machine, owner.cls, read.attr):
        machine.emit(ParameterReadAsData(node, machine.scene, source_text(read)))


def _is_read_so_only(machine: Machine, cls: Class, name: cst.Name) -> bool:
    """Whether a single read of ``.data`` is the only use in the methods: several uses suggest manual updates."""
    used = [
        attribute
        for method in methods(machine, cls)
        if method.name != "__init__"
        for attribute in read_through(method.node, name.value)
    ]
    return used == ["data"]


def listen(signals: Signals) -> None:
    signals.tensors.data_read.connect(read_as_data)
    signals.modules.weights_handled.connect(handled)
