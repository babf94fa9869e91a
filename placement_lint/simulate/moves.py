"""Moving a tensor: PyTorch's own differentiable copy, under the label of the other device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.autograd import forward_ad

from .machine import CPU, Device, here
from .placement import Tensor, device_of, put, real_device

if TYPE_CHECKING:
    from collections.abc import Callable

_copy: Callable[..., Tensor] = torch._C.TensorBase.to


def move(tensor: Tensor, target: Device, **options: Any) -> Tensor:
    """A copy of `tensor` on `target`; its gradient finds the way back."""
    source = device_of(tensor)
    if source.type == here().kind:
        here().check_alive()
    if real_device(tensor).type != "cpu":
        # A meta tensor has nothing to copy, and PyTorch says so.
        return _copy(tensor, CPU if target.type == here().kind else target, **options)
    if target.type not in ("cpu", here().kind):
        return _copy(tensor, target, **options)
    moved = _copy(tensor, options.pop("dtype", tensor.dtype), **{**options, "copy": True})
    put(moved, target)
    if (tangent := _tangent_of(moved)) is not None:
        put(tangent, target)
    if moved.grad_fn is not None:
        moved.grad_fn.register_hook(_way_back(source))
    if (observer := here().observer) is not None:
        observer.moved(tensor, moved, source, target)
    return moved


def in_forward_mode() -> bool:
    """Whether tensors may carry tangents (`torch/autograd/forward_ad.py`)."""
    return forward_ad._current_level >= 0


def _tangent_of(tensor: Tensor) -> Tensor | None:
    return forward_ad.unpack_dual(tensor).tangent if in_forward_mode() else None  # type: ignore[no-untyped-call]


def _way_back(source: Device) -> Callable[..., tuple[Tensor | None, ...]]:
    """`_to_copy_backward` returns the gradient on the device the copy was made from."""

    def hook(inputs: tuple[Tensor | None, ...], outputs: object) -> tuple[Tensor | None, ...]:
        return tuple(gradient if gradient is None else at(gradient, source) for gradient in inputs)

    return hook


def at(tensor: Tensor, device: Device) -> Tensor:
    """The tensor itself if it is on `device`, or a copy there."""
    return tensor if device_of(tensor) == device else move(tensor, device)
