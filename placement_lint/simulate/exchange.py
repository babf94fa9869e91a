"""DLPack: memory that goes to another library and back keeps its label (`torch/utils/dlpack.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.utils.dlpack

from .machine import here
from .placement import ANYWHERE, Placement, Tensor, label_of, storage_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from .patches import Patches

EXPORTS = ("_to_dlpack", "_to_dlpack_versioned")

# Where the memory of a capsule is, by its address: capsules have no attributes.
_exported: dict[int, int] = {}


def _exporting(original: Callable[..., Any]) -> Callable[..., Any]:
    def export(tensor: Tensor, **kwargs: Any) -> Any:
        # The capsule's device is the CPU for C++.
        kwargs.pop("dl_device", None)
        label = label_of(tensor)
        if label is None or label is ANYWHERE:
            _exported.pop(tensor.data_ptr(), None)
        else:
            _exported[tensor.data_ptr()] = label.index
        return original(tensor, **kwargs)

    return export


def _importing(original: Callable[..., Any]) -> Callable[..., Any]:
    def receive(capsule: Any) -> Tensor:
        tensor: Tensor = original(capsule)
        index = _exported.pop(tensor.data_ptr(), None)
        # The memory is counted where it came from.
        storage_of(tensor)._placement = None if index is None else Placement(here(), index, 0)  # type: ignore[attr-defined]
        return tensor

    return receive


def install(patches: Patches) -> None:
    patches.set_existing(torch._C, {name: _exporting(getattr(torch._C, name)) for name in EXPORTS})
    patches.set(torch.utils.dlpack, "to_dlpack", torch._C._to_dlpack)
    receive = _importing(torch._C._from_dlpack)
    patches.set(torch._C, "_from_dlpack", receive)
