"""``torch.optim.swa_utils.AveragedModel``: a copy of a model that averages its weights.

Read in torch 2.13, torch/optim/swa_utils.py: the constructor copies the model where it is, and moves the copy
for ``device=``. ``update_parameters`` copies across devices, and a call passes its inputs to the copy as they are.
https://github.com/pytorch/pytorch/blob/v2.9.0/torch/optim/swa_utils.py
"""

from __future__ import annotations

import libcst as cst

from placement_lint.flow.domain.arguments import Arguments
from placement_lint.flow.domain.values import NONE, Class, External, Object, Symbol, Value
from placement_lint.flow.models import modules
from placement_lint.flow.state.classes import has_base
from placement_lint.flow.state.machine import Machine

NAME = "torch.optim.swa_utils.AveragedModel"
CLASS = External(NAME)
# Its own methods move neither model.
METHODS = {"update_parameters"}
COPY = "module"


def is_averaged(value: Value) -> bool:
    """Whether a value is such a model, or of a class that extends it."""
    if not isinstance(value, Object):
        return False
    return value.cls == CLASS or (isinstance(value.cls, Class) and has_base(value.cls, frozenset({NAME})))


def build(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``AveragedModel(model)``"""
    averaged = modules.new_module(machine, CLASS, node)
    fill(machine, averaged, arguments, node)
    return averaged


def fill(machine: Machine, averaged: Object, arguments: Arguments, node: cst.Call) -> None:
    """The constructor, also as a class that extends it calls it."""
    device = arguments.get(1, "device")

    def copied(model: Value) -> Value:
        if not isinstance(model, (Object, Symbol)):
            return machine.fresh(COPY)
        modules.treat_as_module(machine, model)
        copy = _copied(machine, model, node)
        if device is not None and device != NONE:
            modules.move(machine, copy, device, node)
        return copy

    copy = machine.lift(copied, arguments.get(0, "model") or machine.fresh(COPY))
    machine.write(averaged.id, COPY, copy)
    known = isinstance(copy, (Object, Symbol)) and modules.is_module(machine, copy)
    place = modules.placed(machine, copy) if known and isinstance(copy, (Object, Symbol)) else machine.fresh()
    machine.write(averaged.id, modules.PLACE, place)


def _copied(machine: Machine, model: Object | Symbol, node: cst.Call) -> Object | Symbol:
    if isinstance(model, Object):
        return modules.copied(machine, model, node)
    copy = machine.fresh(COPY)
    modules.treat_as_module(machine, copy)
    machine.write(copy.id, modules.PLACE, modules.placed(machine, model))
    return copy


def model_of(machine: Machine, averaged: Object) -> Value:
    """The copy, which computes what a call returns."""
    return machine.read(averaged.id, COPY, unset=lambda: machine.fresh(COPY))
