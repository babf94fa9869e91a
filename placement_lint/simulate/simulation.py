"""`gpus(n)`: the time during which a machine with n GPUs is simulated."""

from __future__ import annotations

import contextlib
import functools
from typing import Any

import torch

from . import (
    autocast,
    children,
    comm,
    distributed,
    driver,
    exchange,
    factories,
    functions,
    grids,
    imported,
    legacy,
    losses,
    mismatch,
    mps,
    optimizers,
    rnn,
    scripting,
    sharing,
    storages,
    tensors,
    threads,
    xpu,
)
from .dispatch import SimulatedKernels
from .machine import KINDS, Machine, Observer, here, running, start, stop
from .patches import Patches

ROOMS = (
    storages,
    sharing,
    tensors,
    legacy,
    losses,
    factories,
    driver,
    mps,
    xpu,
    comm,
    functions,
    rnn,
    grids,
    optimizers,
    autocast,
    scripting,
    threads,
    distributed,
    exchange,
    children,
    imported,
)


class gpus(contextlib.ContextDecorator):
    """Simulate a machine with `count` GPUs: ``with gpus(2): ...``, ``@gpus(2)`` or ``gpus(1, device="mps")``.

    Tensors stay real CPU tensors with the label of a device, so values, autograd and Parameter identity are
    PyTorch's own. Each has `memory` bytes. With 0 it is a CUDA build of PyTorch on a machine without a driver.
    `device` is the kind of the GPUs: CUDA's, XPU's, or the one GPU of MPS. On a `hollow` machine, large tensors
    have no values.
    """

    def __init__(
        self,
        count: int,
        *,
        observer: Observer | None = None,
        memory: int | None = None,
        device: str = "cuda",
        hollow: bool = False,
    ) -> None:
        if count < 0:
            raise ValueError(f"a machine cannot have {count} GPUs")
        if device not in KINDS:
            raise ValueError(f"{device!r} is not one of {', '.join(KINDS)}")
        if device == "mps" and count != 1:
            raise ValueError(f"a machine cannot have {count} MPS devices, only 1")
        self._device = device
        self._count = count
        self._observer = observer
        self._memory = memory
        self._hollow = hollow
        self._open: list[contextlib.ExitStack] = []

    def __enter__(self) -> Machine:
        with contextlib.ExitStack() as stack:
            patches = Patches()
            observer = self._observer or (here().observer if running() else None)
            machine = Machine(self._count, observer, self._memory, self._device, self._hollow)
            stack.callback(torch.set_default_device, _default_device())
            start(machine)
            stack.callback(stop)
            stack.callback(patches.undo)
            for room in ROOMS:
                room.install(patches)
            # Compiled models run as they are written; older versions would trace the simulation itself.
            stack.enter_context(torch._dynamo.config.patch(disable=True))
            stack.enter_context(SimulatedKernels())
            self._open.append(stack.pop_all())
        return machine

    def __exit__(self, *failure: Any) -> None:
        self._open.pop().close()


def _default_device() -> torch.device | None:
    """What ``torch.set_default_device`` chose in this thread."""
    context = getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", None)
    return None if context is None else context.device


@functools.cache
def rehearse() -> None:
    """Work out beforehand what all simulations share, so that copies of this process need not do it again."""
    with gpus(1):
        mismatch.operators()
