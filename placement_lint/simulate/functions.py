"""The user's own `autograd.Function`s: what the engine makes up for them has a device as well.

For outputs that were not used, C++ passes zeros made from what it remembers of the output
(`torch/csrc/autograd/python_function.cpp`, `PyNode::apply`), and it remembers the CPU. The node therefore
remembers the labels, and runs with the current device that its engine thread would have (`engine.cpp`,
`set_device`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.autograd.function import BackwardCFunction, Function

from .placement import Tensor, device_of, settle

if TYPE_CHECKING:
    from .patches import Patches

_apply = Function.apply.__func__  # type: ignore[attr-defined]
_run_backward: Any = BackwardCFunction.apply


def apply(kind: Any, *args: Any, **kwargs: Any) -> Any:
    result = _apply(kind, *args, **kwargs)
    outputs = result if isinstance(result, tuple) else (result,)
    tensors: list[Any] = [output for output in outputs if isinstance(output, Tensor)]
    node: Any = next((tensor.grad_fn for tensor in tensors if isinstance(tensor.grad_fn, BackwardCFunction)), None)
    if node is not None:
        node._devices = [device_of(output) if isinstance(output, Tensor) else None for output in outputs]
    return result


def run_backward(node: Any, *gradients: Any) -> Any:
    devices = getattr(node, "_devices", ())
    for gradient, device in zip(gradients, devices, strict=False):
        if isinstance(gradient, Tensor) and device is not None:
            settle(gradient, device)
    index = next((device.index for device in devices if device is not None and device.type == "cuda"), None)
    if index is None:
        return _run_backward(node, *gradients)
    with torch.cuda.device(index):
        return _run_backward(node, *gradients)


def install(patches: Patches) -> None:
    patches.set(Function, "apply", classmethod(apply))
    patches.set(BackwardCFunction, "apply", run_backward)
