"""Where each tensor would be: a label on its storage.

A tensor's device is its storage's, so the label is an attribute of the `UntypedStorage` object. PyTorch
keeps that object alive as long as the storage itself (`torch/csrc/Storage.cpp`:
`THPStorage_tryPreserve`), hence views, `detach`, `.data` and everything else that shares the storage
share the label, and it goes away with the storage.

A storage without a label is on the CPU. `ANYWHERE` marks what PyTorch's C++ code made for its own use
with the options of an operand: C++ sees CPU tensors only, so such a tensor takes the device of whatever
it first meets.
"""

from __future__ import annotations

from typing import Any

import torch

from .machine import CPU, Device, Machine, here

Tensor = torch.Tensor


# The C classes under `torch.Tensor` and `torch.UntypedStorage`, whose stubs describe instances only.
_TensorBase: Any = torch._C.TensorBase
_StorageBase: Any = torch._C.StorageBase


class Placement:
    """A claim on a simulated GPU's memory, given back when the storage dies."""

    __slots__ = ("_machine", "_size", "index")

    def __init__(self, machine: Machine, index: int, size: int) -> None:
        # Claimed first: when it is refused, nothing must be given back.
        machine.occupy(index, size)
        self.index = index
        self._machine = machine
        self._size = size

    @property
    def device(self) -> Device:
        return self._machine.devices[self.index]

    def __del__(self) -> None:
        if hasattr(self, "_size"):
            self._machine.release(self.index, self._size)


class _Anywhere:
    index = -1
    device = CPU


ANYWHERE = _Anywhere()
Label = Placement | _Anywhere | None


def storage_of(tensor: Tensor) -> torch.UntypedStorage:
    """The storage that carries the label; sparse tensors carry it on their values, functorch's wrappers
    inside.
    """
    try:
        return tensor.untyped_storage()
    except ValueError:
        # Parameters that wait for their shape answer PyTorch's own questions only (`UninitializedParameter`).
        with torch._C.DisableTorchFunction():
            return tensor.untyped_storage()
    except (NotImplementedError, RuntimeError):
        return storage_of(_inner(tensor))


def _inner(tensor: Tensor) -> Tensor:
    if torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        return torch._C._functorch.get_unwrapped(tensor)
    if torch._C._functorch.is_legacy_batchedtensor(tensor):
        # The wrappers of `torch._vmap_internals`, of which there is one level.
        with torch._C._DisableTorchDispatch():
            return torch._remove_batch_dim(tensor, 1, 0, 0)
    with torch._C._DisableTorchDispatch(), torch.no_grad():
        if tensor.layout is torch.sparse_coo:
            return tensor._values()
        if tensor.layout in _COMPRESSED:
            return tensor.values()
    # Opaque tensors (mkldnn's) show neither storage nor values.
    opaque = torch.empty(0)
    opaque.untyped_storage()._placement = ANYWHERE  # type: ignore[attr-defined]
    return opaque


_PLAIN = (torch.Tensor, torch.nn.Parameter)
_COMPRESSED = (torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc)


def label_of(tensor: Tensor) -> Label:
    try:
        label: Label = tensor.untyped_storage()._placement  # type: ignore[attr-defined]
    except (NotImplementedError, RuntimeError, ValueError):
        label = storage_of(tensor)._placement  # type: ignore[attr-defined]
    return label


def device_of(tensor: Tensor) -> Device:
    """The device the tensor answers with."""
    label = label_of(tensor)
    if label is not None:
        return label.device
    # A DTensor is a wrapper around the part that this rank holds (`torch/distributed/tensor/_api.py`).
    part = None if type(tensor) in _PLAIN else getattr(tensor, "_local_tensor", None)
    return real_device(tensor) if part is None else device_of(part)


def real_device(tensor: Tensor) -> Device:
    """What C++ knows. Function modes would lead back to the replaced property."""
    with torch._C.DisableTorchFunction():
        device: Device = _TensorBase.device.__get__(tensor)
    return device


# `aten/src/ATen/mps/EmptyTensor.cpp`, `empty_mps`
NO_FLOAT64 = (
    "Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't support float64. "
    "Please use float32 instead."
)


def check_dtype(tensor: Tensor) -> None:
    """Whether the GPU has numbers of this kind."""
    if tensor.dtype is torch.float64 and here().kind == "mps":
        raise TypeError(NO_FLOAT64)


def put(tensor: Tensor, device: Device) -> None:
    """Say that the tensor's storage is on `device`, wherever it was."""
    if device.type == "mps":
        check_dtype(tensor)
    label_storage(storage_of(tensor), device)


def label_storage(storage: Any, device: Device) -> None:
    on_gpu = device.type == here().kind and is_real(storage)
    storage._placement = Placement(here(), device.index, storage.nbytes()) if on_gpu else None


def is_real(storage: Any) -> bool:
    """Only memory can be elsewhere; meta tensors and the wrappers of subclasses have none."""
    return bool(_StorageBase.device.__get__(storage).type == "cpu")


def settle(tensor: Tensor, device: Device) -> None:
    """Give an unsettled tensor its device; one that has a place keeps it."""
    if label_of(tensor) is ANYWHERE:
        put(tensor, device)


def bring_home(gradient: Tensor, tensor: Tensor) -> None:
    """A gradient is always on its tensor's device; the engine sees to it (`engine.cpp`, `validate_outputs`)."""
    if label_of(gradient) is not label_of(tensor):
        home = device_of(tensor)
        if label_of(gradient) is ANYWHERE or device_of(gradient) != home:
            put(gradient, home)
