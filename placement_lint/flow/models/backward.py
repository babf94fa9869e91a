"""The effects of a backward pass, the same for each way to spell it."""

from __future__ import annotations

import libcst as cst

from placement_lint.flow.domain.values import Tensor, Value
from placement_lint.flow.models import ddp
from placement_lint.flow.state.machine import Machine


def ran(machine: Machine, loss: Value, node: cst.Call) -> None:
    """``loss.backward()``, ``torch.autograd.backward(loss)``, ``accelerator.backward(loss)``: one value of it."""
    machine.signals.training.backward(machine, loss, node)
    if isinstance(loss, Tensor):
        ddp.backward(machine, loss, node)
