"""Grids are views, so that no kernel compares the devices of what they are made from; PyTorch does so before."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import torch

from .mismatch import refuse
from .placement import device_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from .patches import Patches

GRIDS = ("meshgrid", "cartesian_prod")


@functools.cache
def checked(grid: Callable[..., Any]) -> Callable[..., Any]:
    """`aten/src/ATen/native/TensorShape.cpp`, `meshgrid`, which `cartesian_prod` uses."""

    @functools.wraps(grid)
    def checked_grid(tensors: Any, *args: Any, **kwargs: Any) -> Any:
        if len({device_of(tensor) for tensor in tensors}) > 1:
            named = [(f"tensors[{number}]", tensor) for number, tensor in enumerate(tensors)]
            raise refuse("meshgrid expects all tensors to have the same device", named)
        return grid(tensors, *args, **kwargs)

    return checked_grid


def install(patches: Patches) -> None:
    for name in GRIDS:
        patches.set(torch._VF, name, checked(getattr(torch._C._VariableFunctions, name)))
