"""The memory of a simulated card: its size, and the error when it is full (`c10/cuda/CUDACachingAllocator.cpp`)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .machine import Machine

# The allocator's smallest block (`kMinBlockSize`).
BLOCK = 512
UNITS = {"": 1, "B": 1, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "KB": 10**3, "MB": 10**6, "GB": 10**9}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMG]?I?B?)", re.IGNORECASE)
_CPU_IS_FULL = re.compile(r"can't allocate memory: you tried to allocate (\d+) bytes")


def parse_size(text: str) -> int:
    """``24GiB``, ``512 MiB`` or a number of bytes."""
    found = _SIZE.fullmatch(text.strip())
    if found is None or found.group(2).upper() not in UNITS:
        raise ValueError(f"{text!r} is not a size like 24GiB or 512MiB")
    return int(float(found.group(1)) * UNITS[found.group(2).upper()])


def rounded(size: int) -> int:
    return -(-size // BLOCK) * BLOCK


def out_of_memory(machine: Machine, index: int, wanted: int) -> RuntimeError:
    """The error in the words of the kind's allocator (`aten/src/ATen/mps/MPSAllocator.mm`,
    `c10/xpu/XPUCachingAllocator.cpp`).
    """
    import torch

    used, limit = machine.allocated[index], machine.memory
    if machine.kind == "mps":
        return RuntimeError(
            f"MPS backend out of memory (MPS allocated: {_shown(used)}, other allocations: 0 bytes, max allowed: "
            f"{_shown(limit)}). Tried to allocate {_shown(wanted)} on private pool. Use "
            "PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0 to disable upper limit for memory allocations (may cause system "
            "failure)."
        )
    kind: Any = getattr(torch, "OutOfMemoryError", torch.cuda.OutOfMemoryError)
    if machine.kind == "xpu":
        full: RuntimeError = kind(
            f"XPU out of memory. Tried to allocate {_shown(wanted)}. GPU {index} has a total capacity of "
            f"{_shown(limit)} of which {_shown(limit - used)} is free. Of the allocated memory {_shown(used)} is "
            "allocated by PyTorch, and 0 bytes is reserved by PyTorch but unallocated. Please use `empty_cache` to "
            "release all unoccupied cached memory."
        )
        return full
    error: RuntimeError = kind(
        f"CUDA out of memory. Tried to allocate {_shown(wanted)}. GPU {index} has a total capacity of "
        f"{_shown(limit)} of which {_shown(limit - used)} is free. Including non-PyTorch memory, "
        f"this process has {_shown(used)} memory in use. Of the allocated memory {_shown(used)} is allocated by "
        f"PyTorch, and 0 bytes is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try "
        "setting PYTORCH_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation for Memory "
        "Management  (https://docs.pytorch.org/docs/stable/notes/cuda.html#optimizing-memory-usage-with-pytorch-alloc-conf)"
    )
    return error


def refused_by_the_cpu(error: RuntimeError) -> int | None:
    """How much the CPU's allocator did not give: a tensor too large for it is too large for a card."""
    found = _CPU_IS_FULL.search(str(error))
    return int(found.group(1)) if found else None


def _shown(size: int) -> str:
    """`format_size`"""
    for unit, name in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if size > unit:
            return f"{size / unit:.2f} {name}"
    return f"{size} bytes"
