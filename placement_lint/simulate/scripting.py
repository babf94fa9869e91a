"""TorchScript knows builtin functions by identity (`torch/jit/_builtins.py`), so stand-ins are registered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.jit import _builtins

# Identity is an address, so whatever was registered once must live on.
_registered: list[Callable[..., Any]] = []


def stand_in(function: Callable[..., Any], original: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, compiled as the builtin `original` where a script calls it."""
    name: str | None = _builtins._find_builtin(original)  # type: ignore[no-untyped-call]
    if name is not None:
        _registered.append(function)
        _builtins._register_builtin(function, name)
    return function
