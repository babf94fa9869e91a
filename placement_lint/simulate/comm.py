"""The communication layer of `nn.DataParallel`, which a CPU build lacks: `torch/csrc/cuda/comm.cpp` in
Python.

`torch/nn/parallel` runs as it is; it finds these functions where it looks for the compiled ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import _utils

from .driver import lacking
from .machine import CPU, Device, here
from .placement import Tensor, device_of, settle

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .patches import Patches

# PyTorch's helpers for flat buffers, which carry no annotations.
coalescing: Any = _utils

NCCL_VERSION = (2, 26, 2)


NAMES = (
    "_broadcast",
    "_broadcast_out",
    "_broadcast_coalesced",
    "_scatter",
    "_scatter_out",
    "_gather",
    "_gather_out",
)


# `torch/csrc/cuda/python_nccl.cpp`: what `torch.cuda.nccl` calls, on the GPUs of one process.
NCCL = ("all_reduce", "reduce", "broadcast", "all_gather", "reduce_scatter", "init_rank", "unique_id")


def install(patches: Patches) -> None:
    if here().kind != "cuda":
        # `torch/csrc/cuda/python_comm.cpp` is part of CUDA builds only.
        patches.remove_all(torch._C, NAMES)
        return
    patches.set_all(
        torch._C,
        {
            "_broadcast": broadcast,
            "_broadcast_out": broadcast_out,
            "_broadcast_coalesced": broadcast_coalesced,
            "_scatter": scatter,
            "_scatter_out": scatter_out,
            "_gather": gather,
            "_gather_out": gather_out,
            **{f"_nccl_{name}": lacking("torch.cuda.nccl") for name in NCCL},
        },
    )
    # Without NCCL the copies of comm.py are used: the sums are the same.
    patches.set(torch.cuda.nccl, "is_available", lambda tensors: False)
    patches.set(torch.cuda.nccl, "version", lambda: NCCL_VERSION)


def broadcast(tensor: Tensor, devices: Sequence[int]) -> list[Tensor]:
    """One copy for each device but the tensor's own, which gets the tensor itself."""
    return [tensor.to(_gpu(index)) for index in devices]


def _gpu(index: int) -> Device:
    if index < 0:
        raise RuntimeError(f"Expected non-negative device index, but got {index}")
    return Device("cuda", index)


def broadcast_out(tensor: Tensor, out: Sequence[Tensor]) -> list[Tensor]:
    for index, destination in enumerate(out):
        _check_output(index, destination)
        if destination.shape != tensor.shape:
            raise RuntimeError(
                "Expected all output tensors to have same shape as the source tensor "
                f"{list(tensor.shape)}, but "
                f"output tensor at index {index} has shape {list(destination.shape)}"
            )
        destination.copy_(tensor, non_blocking=True)
    return list(out)


def broadcast_coalesced(tensors: Sequence[Tensor], devices: Sequence[int], buffer_size: int) -> list[list[Tensor]]:
    """Tensors travel in one flat buffer for each dtype; the first device keeps the originals."""
    if any(tensor.get_device() != devices[0] for tensor in tensors):
        raise RuntimeError(f"All tensors must be on devices[0]: {devices[0]}")
    outputs: list[list[Tensor]] = [[] for _ in devices[1:]]
    with torch.no_grad():
        for chunk in coalescing._take_tensors(tensors, buffer_size):
            flat, unflatten = _flattened(chunk)
            for copies, index in zip(outputs, devices[1:], strict=True):
                target = _gpu(index)
                sent = [part.to(target) for part in flat]
                for copy in unflatten(sent, chunk):
                    # An empty tensor has no part in the buffer: C++ makes a new one.
                    settle(copy, target)
                    # A version counter of its own for each (comm.cpp: "Version Counter in comm.*_coalesced");
                    # a tensor of inference mode has none.
                    copies.append(copy if copy.is_inference() else copy.data)
    return [list(tensors)] + [list(coalescing._reorder_tensors_as(copies, tensors)) for copies in outputs]


def _flattened(chunk: list[Tensor]) -> tuple[Sequence[Tensor], Callable[..., Any]]:
    """The buffers that travel; a device given twice gets the same buffer twice, as in C++."""
    if chunk[0].is_sparse:
        return coalescing._flatten_sparse_tensors(chunk), coalescing._unflatten_sparse_tensors
    flat = coalescing._flatten_dense_tensors(chunk)
    return [flat], lambda sent, like: coalescing._unflatten_dense_tensors(sent[0], like)


def scatter(
    tensor: Tensor, devices: Sequence[int], chunk_sizes: Sequence[int] | None, dim: int, streams: Any
) -> list[Tensor]:
    if not devices:
        raise RuntimeError("Expected at least one device to scatter to")
    if chunk_sizes is not None and len(chunk_sizes) != len(devices):
        raise RuntimeError(
            "Expected devices and chunk_sizes to be of same length, but got len(devices) = "
            f"{len(devices)} and len(chunk_sizes) = {len(chunk_sizes)}"
        )
    chunks = torch.split(tensor, list(chunk_sizes), dim) if chunk_sizes is not None else tensor.chunk(len(devices), dim)
    return [chunk.to(_gpu(index)) for chunk, index in zip(chunks, devices, strict=False)]


def scatter_out(tensor: Tensor, out: Sequence[Tensor], dim: int, streams: Any) -> list[Tensor]:
    if not out:
        raise RuntimeError("Expected at least one output tensor to scatter to")
    if dim < 0:
        dim += tensor.dim()
    for index, destination in enumerate(out):
        _check_output(index, destination)
        if not _same_but_for(dim, destination, tensor):
            raise RuntimeError(
                f"Output tensor at index {index} has incorrect shape: {list(destination.shape)}. Expected same "
                f"shape except for scatter dim {dim} as the source tensor: {list(tensor.shape)}"
            )
    total = sum(destination.size(dim) for destination in out)
    if total != tensor.size(dim):
        raise RuntimeError(
            f"Total size for output tensors along scatter dim {dim} does not match the source tensor size at dim "
            f"{dim}. Expected {tensor.size(dim)}, but got total size {total}"
        )
    chunks = torch.split(tensor, [destination.size(dim) for destination in out], dim)
    for chunk, destination in zip(chunks, out, strict=True):
        destination.copy_(chunk, non_blocking=True)
    return list(out)


def _check_output(index: int, destination: Tensor) -> None:
    if device_of(destination).type != "cuda":
        raise RuntimeError(
            f"Expected all output tensors to be CUDA tensors, but output tensor at index {index} has device "
            f"'{device_of(destination)}'"
        )


def _same_but_for(dim: int, one: Tensor, other: Tensor) -> bool:
    return one.dim() == other.dim() and all(
        one.size(axis) == other.size(axis) for axis in range(one.dim()) if axis != dim
    )


def gather(tensors: Sequence[Tensor], dim: int, destination: int | None) -> Tensor:
    """Concatenated on the destination: a GPU, the CPU for -1, the current GPU for None; the first one's dtype."""
    _check_gathered(tensors, dim)
    target = CPU if destination == -1 else here().resolve("cuda" if destination is None else destination)
    return torch.cat([tensor.to(target, tensors[0].dtype) for tensor in tensors], dim)


def gather_out(tensors: Sequence[Tensor], out: Tensor, dim: int) -> Tensor:
    _check_gathered(tensors, dim)
    expected = list(tensors[0].shape)
    expected[dim] = sum(tensor.size(dim) for tensor in tensors)
    if list(out.shape) != expected:
        raise RuntimeError(f"Expected out tensor to have shape {expected}, but got {list(out.shape)}")
    return out.copy_(torch.cat([tensor.to(device_of(out)) for tensor in tensors], dim))


def _check_gathered(tensors: Sequence[Tensor], dim: int) -> None:
    if not tensors:
        raise RuntimeError("Expected at least one tensor to gather from")
    first = tensors[0]
    expected = list(first.shape)
    for index, tensor in enumerate(tensors):
        if device_of(tensor).type != "cuda":
            raise RuntimeError(
                f"Expected all input tensors to be CUDA tensors, but tensor at index {index} has device "
                f"'{device_of(tensor)}'"
            )
        if tensor.dim() != first.dim():
            raise RuntimeError(
                "Expected all input tensors to have the same number of dimensions, but tensor at index "
                f"{index} has {tensor.dim()} dimensions, (expected {first.dim()})"
            )
        expected[dim] = tensor.size(dim)
        if list(tensor.shape) != expected:
            raise RuntimeError(
                f"Input tensor at index {index} has invalid shape {list(tensor.shape)}, but expected {expected}"
            )
