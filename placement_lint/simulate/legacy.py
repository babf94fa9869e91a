"""The old tensor types: ``torch.cuda.FloatTensor(2, 3)``, ``isinstance(x, torch.FloatTensor)`` and the
like.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from .machine import CPU, Device, as_device, here
from .placement import Tensor, device_of, put, settle

if TYPE_CHECKING:
    from .patches import Patches

DTYPES: dict[str, torch.dtype] = {
    "FloatTensor": torch.float32,
    "DoubleTensor": torch.float64,
    "HalfTensor": torch.float16,
    "BFloat16Tensor": torch.bfloat16,
    "ByteTensor": torch.uint8,
    "CharTensor": torch.int8,
    "ShortTensor": torch.int16,
    "IntTensor": torch.int32,
    "LongTensor": torch.int64,
    "BoolTensor": torch.bool,
}
_constructors = {name: getattr(torch, name) for name in DTYPES}


class LegacyType(type):
    """One dtype on one kind of device (`torch/csrc/tensor/python_tensor.cpp`)."""

    dtype: torch.dtype
    on_gpu: bool

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        target = cls._device(kwargs.pop("device", None))
        tensor = _constructors[cls.__name__](*args, **kwargs)
        settle(tensor, CPU)
        if cls.on_gpu:
            put(tensor, target)
        return tensor

    def _device(cls, spec: Any) -> Device:
        """`torch/csrc/utils/tensor_new.cpp`, `check_legacy_ctor_device`: any device of the type's own kind."""
        kind = "cuda" if cls.on_gpu else "cpu"
        device = as_device(kind if spec is None else spec)
        if device.type != kind:
            raise RuntimeError(
                f"legacy constructor expects device type: {kind} but device type: {device.type} was passed"
            )
        return here().resolve(device)

    def __instancecheck__(cls, instance: Any) -> bool:
        return (
            isinstance(instance, Tensor)
            and instance.dtype is cls.dtype
            and (device_of(instance).type == here().kind) is cls.on_gpu
        )


def _types(on_gpu: bool) -> dict[str, Any]:
    module = "torch.cuda" if on_gpu else "torch"
    return {
        name: LegacyType(name, (), {"dtype": dtype, "on_gpu": on_gpu, "is_cuda": on_gpu, "__module__": module})
        for name, dtype in DTYPES.items()
    }


_on_cpu, _on_gpu = _types(on_gpu=False), _types(on_gpu=True)
# What is there without CUDA: types that refuse to be called.
_absent = {name: getattr(torch.cuda, name) for name in DTYPES}


def meaning(kind: Any) -> tuple[torch.dtype, bool]:
    """The dtype and the kind of device of a legacy type, given as itself or by its name."""
    if isinstance(kind, LegacyType):
        return kind.dtype, kind.on_gpu
    name = kind if isinstance(kind, str) else f"{kind.__module__}.{kind.__name__}"
    if name in ("torch.Tensor", "torch.cuda.Tensor"):
        return torch.get_default_dtype(), name.startswith("torch.cuda.")
    module, _, short = name.rpartition(".")
    if module == "torch.cuda" and here().kind != "cuda":
        raise TypeError(f"type {name} not available. Torch not compiled with CUDA enabled.")
    if short not in DTYPES or module not in ("torch", "torch.cuda"):
        raise ValueError(f"invalid type: '{name}'")
    return DTYPES[short], module == "torch.cuda"


def set_default_tensor_type(kind: Any) -> None:
    """`torch/csrc/tensor/python_tensor.cpp`: default dtype, and where factories of all threads make tensors."""
    dtype, on_gpu = meaning(kind)
    torch.set_default_dtype(dtype)
    here().default_type_on_gpu = on_gpu


def _initialise(tensor: Tensor, *args: Any, **kwargs: Any) -> None:
    """``torch.Tensor(2, 3)`` is of the default type (`torch/csrc/utils/tensor_new.cpp`, `base_tensor_ctor`)."""
    is_new = type(tensor) is Tensor and not any(isinstance(part, Tensor) for part in args)
    if is_new and here().default_type_on_gpu:
        put(tensor, here().resolve("cuda"))


def install(patches: Patches) -> None:
    patches.set_all(torch, _on_cpu)
    if here().kind == "cuda":
        patches.set_all(torch.cuda, _on_gpu)
    else:
        patches.set_all(torch.cuda, _absent)
    patches.set(torch, "set_default_tensor_type", set_default_tensor_type)
    patches.set(Tensor, "__init__", _initialise)
