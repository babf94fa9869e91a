"""Tensors of a simulated GPU that go from one process to another, as PyTorch sends them by CUDA's own means.

``torch/multiprocessing/reductions.py`` (``reduce_tensor``, ``rebuild_cuda_tensor``) runs as it is, over storages that
share the host's memory. The memory stays its sender's: it counts as nothing where it arrives, as there.
"""

from __future__ import annotations

import multiprocessing.reduction
import os
from typing import TYPE_CHECKING, Any

import torch

from .machine import FORKED, CudaError, here
from .placement import Placement
from .storages import get_device, is_on_gpu

if TYPE_CHECKING:
    from .patches import Patches

Storage: Any = torch.UntypedStorage

# The device, a handle on the memory, its size and offset in bytes, a counter of users with its offset, and an event
# to wait for, if one must.
Shared = tuple[int, Any, int, int, Any, int, bytes, bool]


def share(storage: Any) -> Shared:
    """`torch/csrc/StorageSharing.cpp`, `THPStorage_shareCuda`; what the receiver gives up is a file, no counter."""
    if here().forked:
        raise CudaError(FORKED)
    index = get_device(storage)
    if storage.nbytes() == 0:
        return index, None, 0, 0, None, 0, b"", False
    file, size = storage._share_fd_cpu_()
    status = os.fstat(file)
    return index, (status.st_dev, status.st_ino), size, 0, multiprocessing.reduction.DupFd(file), 0, b"", False


def receive(index: int, handle: Any, size: int, offset: int, descriptor: Any, *_: Any) -> Any:
    """The same file's `THPStorage_newSharedCuda`."""
    file = descriptor.detach()
    try:
        storage = Storage._new_shared_fd_cpu(file, size)
    finally:
        os.close(file)
    storage._placement = Placement(here(), index, 0)
    return storage


def release(descriptor: Any, offset: int) -> None:
    """The receiver has this memory already."""
    os.close(descriptor.detach())


def refuse_gpus(share_memory: Any, name: str) -> Any:
    """`torch/csrc/StorageSharing.cpp`: only CUDA's memory has a way to another process, a handle of its driver."""

    def share_from_the_cpu(storage: Any, *args: Any) -> Any:
        if here().kind != "cuda" and is_on_gpu(storage):
            raise RuntimeError(f"{name}: only available on CPU")
        return share_memory(storage, *args)

    return share_from_the_cpu


def install(patches: Patches) -> None:
    for method, name in (("_share_fd_cpu_", "_share_fd_"), ("_share_filename_cpu_", "_share_filename_")):
        patches.set(Storage, method, refuse_gpus(getattr(torch._C.StorageBase, method), name))
    patches.set_all(
        Storage,
        {
            "_share_cuda_": share,
            "_new_shared_cuda": staticmethod(receive),
            "_release_ipc_counter_cuda": staticmethod(release),
        },
    )
