"""How optimizers group their tensors before a foreach step: `aten/src/ATen/native/ForeachUtils.h`, by
label.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from .machine import Device
from .mismatch import refuse
from .placement import Tensor, device_of

if TYPE_CHECKING:
    from .patches import Patches

TensorLists = Sequence[Sequence[Tensor | None]]
Groups = dict[tuple[Device, torch.dtype], tuple[list[list[Tensor | None]], list[int]]]

# Steps are kept in these, on the CPU if need be; other state may be bfloat16 on the parameter's device.
_STEP_DTYPES = (torch.float32, torch.float64)
_STATE_DTYPES = (*_STEP_DTYPES, torch.bfloat16)

DISAGREE = (
    "Tensors of the same index must be on the same device and the same dtype except `step` tensors "
    "that can be CPU "
    "and float32/64, and optimizer states that can be bfloat16 for mixed-precision training"
)


def group_by_device_and_dtype(lists: TensorLists, with_indices: bool = False) -> Groups:
    """`_group_tensors_by_first_tensors_device_and_dtype`."""
    groups: Groups = {}
    for index, first in enumerate(lists[0]):
        if first is None:
            raise RuntimeError("Tensors of the first list of nested Tensor lists are supposed to be defined")
        key = (device_of(first), first.dtype)
        members, indices = groups.setdefault(key, ([[] for _ in lists], []))
        for member, tensors in zip(members, lists, strict=True):
            if tensors:
                tensor = tensors[index]
                _check(tensor, first)
                member.append(tensor)
        if with_indices:
            indices.append(index)
    return groups


def _check(tensor: Tensor | None, first: Tensor) -> None:
    if tensor is None:
        return
    if device_of(tensor) == device_of(first):
        fits = tensor.dtype in (first.dtype, *_STATE_DTYPES)
    else:
        fits = device_of(tensor).type == "cpu" and tensor.dtype in _STEP_DTYPES
    if not fits:
        raise refuse(DISAGREE, [("parameter", first), ("state", tensor)])


def install(patches: Patches) -> None:
    patches.set_existing(torch._C, {"_group_tensors_by_device_and_dtype": group_by_device_and_dtype})
