"""What the autograd engine says and makes up, which has a device as well (`torch/csrc/autograd/engine.cpp`).

Gradients are compared with the tensors they belong to, as `validate_outputs` does: where a backward pass
begins, and where the user's own `autograd.Function`s return theirs. For outputs that were not used, C++
passes such a function zeros made from what it remembers of the output
(`torch/csrc/autograd/python_function.cpp`, `PyNode::apply`), and it remembers the CPU. The node therefore
remembers the labels, and runs with the current device that its engine thread would have (`set_device`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from torch import autograd
from torch.autograd.function import BackwardCFunction, Function

from .machine import here
from .mismatch import refuse
from .placement import ANYWHERE, Tensor, bring_home, device_of, label_of, settle

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .machine import Device
    from .patches import Patches

# Bound by hand, for it is written in Python in some versions and in C in others.
_apply: Any = vars(Function)["apply"]
_run_backward: Any = BackwardCFunction.apply
_run_engine: Any = autograd._engine_run_backward  # type: ignore[attr-defined]

Devices = list["Device | None"]


# --- a whole backward pass ------------------------------------------------------------------------


def run_engine(outputs: Sequence[Any], gradients: Sequence[Tensor | None], *args: Any, **kwargs: Any) -> Any:
    """The pass behind ``backward()`` and ``autograd.grad()``; its fourth argument is what to differentiate by."""
    check_gradients("", gradients, devices_of(outputs))
    results = _run_engine(outputs, gradients, *args, **kwargs)
    inputs = args[2] if len(args) > 2 else ()
    for gradient, tensor in zip(results or (), inputs, strict=False):
        if isinstance(gradient, Tensor) and isinstance(tensor, Tensor):
            bring_home(gradient, tensor)
    return results


def check_gradients(prefix: str, gradients: Iterable[Any], devices: Iterable[Device | None]) -> None:
    """`validate_outputs`: 0-dim gradients are fetched, others must be in place."""
    for index, (gradient, device) in enumerate(zip(gradients, devices, strict=False)):
        if not isinstance(gradient, Tensor) or device is None or label_of(gradient) is ANYWHERE:
            continue
        if gradient.dim() > 0 and device_of(gradient) != device:
            raise refuse(
                f"{prefix}invalid gradient at index {index} - expected device {device} but got {device_of(gradient)}",
                [("gradient", gradient)],
            )


def devices_of(values: Iterable[Any]) -> Devices:
    return [device_of(value) if isinstance(value, Tensor) else None for value in values]


# --- the user's own functions ---------------------------------------------------------------------


def apply(kind: Any, *args: Any, **kwargs: Any) -> Any:
    result = _apply.__get__(None, kind)(*args, **kwargs)
    outputs = result if isinstance(result, tuple) else (result,)
    tensors: list[Any] = [output for output in outputs if isinstance(output, Tensor)]
    node: Any = next((tensor.grad_fn for tensor in tensors if isinstance(tensor.grad_fn, BackwardCFunction)), None)
    if node is not None:
        node._devices = devices_of(outputs)
        node._input_devices = devices_of(args)
    return result


def run_backward(node: Any, *gradients: Any) -> Any:
    devices: Devices = getattr(node, "_devices", [])
    for gradient, device in zip(gradients, devices, strict=False):
        if isinstance(gradient, Tensor) and device is not None:
            settle(gradient, device)
    results = _run_on(devices, node, gradients)
    returned = results if isinstance(results, tuple) else (results,)
    check_gradients(f"Function {node.name()} returned an ", returned, getattr(node, "_input_devices", []))
    return results


def _run_on(devices: Devices, node: Any, gradients: tuple[Any, ...]) -> Any:
    machine = here()
    index = next((device.index for device in devices if device is not None and device.type == machine.kind), None)
    if index is None:
        return _run_backward(node, *gradients)
    before, machine.current = machine.current, index
    try:
        return _run_backward(node, *gradients)
    finally:
        machine.current = before


def install(patches: Patches) -> None:
    patches.set(Function, "apply", classmethod(apply))
    patches.set(BackwardCFunction, "apply", run_backward)
    patches.set(autograd, "_engine_run_backward", run_engine)
