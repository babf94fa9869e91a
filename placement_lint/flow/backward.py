"""The effects of a backward pass, the same for each way to spell it."""

from __future__ import annotations

import libcst as cst

from placement_lint.flow import coverage, cuts, ddp, optimizers
from placement_lint.flow.machine import Machine
from placement_lint.flow.values import Tensor, Value


def ran(machine: Machine, loss: Value, node: cst.Call) -> None:
    """``loss.backward()``, ``torch.autograd.backward(loss)``, ``accelerator.backward(loss)``: one value of it."""
    if isinstance(loss, Tensor):
        coverage.backward(machine, loss)
        optimizers.backward(machine, loss)
        ddp.backward(machine, loss, node)
    cuts.backward(machine, loss, node)
