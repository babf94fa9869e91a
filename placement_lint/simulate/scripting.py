"""TorchScript knows builtin functions by identity (`torch/jit/_builtins.py`), so stand-ins are registered.

Its tracer does not see what runs below a dispatch mode, so a program is traced without one: as on the CPU.
Devices are compared when the traced program runs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch.jit import _builtins

try:
    from torch.nn.attention import flex_attention
except ImportError:  # torch 2.4
    flex_attention = None  # type: ignore[assignment]
from torch.utils._python_dispatch import _disable_current_modes

if TYPE_CHECKING:
    from .patches import Patches

# Identity is an address, so whatever was registered once must live on.
_registered: list[Callable[..., Any]] = []


def stand_in(function: Callable[..., Any], original: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, compiled as the builtin `original` where a script calls it."""
    name: str | None = _builtins._find_builtin(original)  # type: ignore[no-untyped-call]
    if name is not None:
        _registered.append(function)
        _builtins._register_builtin(function, name)
    return function


def without_modes(trace: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(trace)
    def traced(*args: Any, **kwargs: Any) -> Any:
        with _disable_current_modes():
            return trace(*args, **kwargs)

    return traced


def install(patches: Patches) -> None:
    # `flex_attention` compiles itself unless this is set; compiled models run as they are written.
    patches.set_existing(flex_attention, {"_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG": True})
    for name in ("trace", "trace_module"):
        patches.set(torch.jit, name, without_modes(getattr(torch.jit, name)))
