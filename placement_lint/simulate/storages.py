"""Storages carry the labels, so they answer for themselves as well: pickling, `deepcopy` and `torch.load`
ask them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from .machine import Device, here
from .placement import ANYWHERE, label_storage

if TYPE_CHECKING:
    from .patches import Patches

Base: Any = torch._C.StorageBase
_is_shared = torch.UntypedStorage.is_shared


def device_of_storage(storage: Any) -> Device:
    label = storage._placement
    device: Device = Base.device.__get__(storage) if label is None or label is ANYWHERE else label.device
    return device


def is_cuda(storage: Any) -> bool:
    return device_of_storage(storage).type == "cuda"


def is_on_gpu(storage: Any) -> bool:
    return device_of_storage(storage).type == here().kind


def get_device(storage: Any) -> int:
    device = device_of_storage(storage)
    return device.index if device.type == here().kind else -1


def new_storage(cls: Any, *args: Any, device: Any = None, **kwargs: Any) -> Any:
    target = None if device is None else here().resolve(device)
    if target is not None and target.type not in ("cpu", here().kind):
        return Base.__new__(cls, *args, device=target, **kwargs)
    storage = Base.__new__(cls, *args, **kwargs)
    if target is not None:
        label_storage(storage, target)
    return storage


def is_shared(storage: Any) -> bool:
    """Memory of a GPU always is (`torch/csrc/StorageSharing.cpp`, `THPStorage_isShared`)."""
    return is_cuda(storage) or bool(_is_shared(storage))


ATTRIBUTES: dict[str, Any] = {
    "_placement": None,
    "_pinned": False,
    "__new__": new_storage,
    "device": property(device_of_storage),
    "is_cuda": property(is_cuda),
    "get_device": get_device,
    "is_shared": is_shared,
}


def install(patches: Patches) -> None:
    patches.set_all(torch.UntypedStorage, ATTRIBUTES)
