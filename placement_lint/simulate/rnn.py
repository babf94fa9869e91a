"""Layers that compare the devices of their operands before anything else: recurrent ones, and `linear` on MPS."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import torch

from .machine import here
from .mismatch import check_linear, check_rnn
from .scripting import stand_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from .patches import Patches

LAYERS = ("lstm", "gru", "rnn_tanh", "rnn_relu")


@functools.cache
def checked(layer: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(layer)
    def checked_layer(values: Any, *args: Any, **kwargs: Any) -> Any:
        hidden, parameters = args[1:3] if _is_packed(args) else args[:2]
        check_rnn(layer.__name__, values, hidden if isinstance(hidden, (list, tuple)) else [hidden], parameters)
        return layer(values, *args, **kwargs)

    return stand_in(checked_layer, layer)


@functools.cache
def checked_linear(linear: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(linear)
    def layer(input: Any, weight: Any, bias: Any = None) -> Any:
        operands = {"input": input, "weight": weight, "bias": bias}
        check_linear({name: tensor for name, tensor in operands.items() if tensor is not None})
        return linear(input, weight, bias)

    return stand_in(layer, linear)


def _is_packed(args: tuple[Any, ...]) -> bool:
    """Packed sequences put their batch sizes before hidden state and weights."""
    return isinstance(args[0], torch.Tensor) and (
        isinstance(args[1], torch.Tensor) or isinstance(args[2], (list, tuple))
    )


def install(patches: Patches) -> None:
    for name in LAYERS:
        layer = checked(getattr(torch, name))
        patches.set(torch, name, layer)
        patches.set(torch._VF, name, layer)
    if here().kind == "mps":
        linear = checked_linear(torch._C._nn.linear)
        patches.set(torch._C._nn, "linear", linear)
        patches.set(torch.nn.functional, "linear", linear)
