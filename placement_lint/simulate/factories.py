"""Functions that make tensors on a device, ``torch.device`` itself, and generators.

Each function runs on the CPU and its result is labelled. The list of them is PyTorch's own, the one that
device contexts use (`torch/utils/_device.py`: `_device_constructors`).
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch.overrides import _get_current_function_mode_stack
from torch.utils import _device as device_context

from .machine import CPU, Device, here, running
from .memory import out_of_memory, refused_by_the_cpu
from .moves import at, move
from .placement import Tensor, device_of, put, settle
from .randoms import Generator, drawing_on
from .scripting import stand_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .patches import Patches

LIKE = (
    "zeros_like",
    "ones_like",
    "empty_like",
    "full_like",
    "rand_like",
    "randn_like",
    "randint_like",
    "normal",
)
NEW = ("new_zeros", "new_ones", "new_empty", "new_empty_strided", "new_full", "new_tensor")
# Given a tensor, these return it unchanged when they can.
SHARING = ("as_tensor", "asarray")

# Where these take their values, which decide the device (`torch/csrc/utils/tensor_new.cpp`).
VALUES = {"sparse_coo_tensor": 1, **{f"sparse_{name}_tensor": 2 for name in ("compressed", "csr", "csc", "bsr", "bsc")}}

# Those that draw random numbers.
RANDOM = frozenset(("rand", "randn", "randint", "randperm", "normal", *(name for name in LIKE if "rand" in name)))

# Stand-ins by the functions they stand for; a simulation inside another one finds them in place.
_made_by: dict[Any, Callable[..., Any]] = {}


def install(patches: Patches) -> None:
    for owner, name, original in _factories():
        _made_by[original] = placed(original)
        patches.set(owner, name, _made_by[original])
    for name in NEW:
        patches.set(Tensor, name, placed_with_self(getattr(torch._C.TensorBase, name)))
    patches.set(Tensor, "new", new)
    patches.set(device_context.DeviceContext, "__torch_function__", _in_device_context)
    patches.set(torch, "device", device)
    patches.set(torch, "Generator", Generator)


def _factories() -> Iterator[tuple[Any, str, Callable[..., Any]]]:
    constructors = {id(constructor) for constructor in device_context._device_constructors()}
    for owner in (torch, torch.fft, torch.nested):
        for name, value in list(vars(owner).items()):
            if id(value) in constructors or (owner is torch and name in LIKE and not hasattr(value, "__wrapped__")):
                yield owner, name, value


@functools.cache
def placed(original: Callable[..., Any]) -> Callable[..., Any]:
    """The factory `original`, with its result on the device it was asked for."""
    sharing = original.__name__ in SHARING
    values_at = VALUES.get(original.__name__)

    @functools.wraps(original)
    def factory(*args: Any, device: Any = None, **kwargs: Any) -> Any:
        if kwargs.get("pin_memory"):
            return _pinned(factory(*args, device=device, **{**kwargs, "pin_memory": False}))
        if values_at is not None:
            device, args = _at_values(device, args, kwargs.get("values", args[values_at : values_at + 1]))
        if device is None and here().default_type_on_gpu and not (_has_prototype(args, kwargs) or _in_context()):
            return factory(*args, device="cuda", **kwargs)
        if device is None:
            result = _made(original, args, kwargs)
        elif (target := here().resolve(device)).type not in ("cpu", here().kind) or _is_jagged(kwargs):
            return original(*args, device=target, **kwargs)
        elif (out := kwargs.get("out")) is not None:
            _check_output(out, target)
            return original(*args, **kwargs)
        elif sharing:
            result = _shared(original, args, kwargs, target)
        else:
            _check_generator(kwargs.get("generator"), target)
            result = _made_for(target, original, args, kwargs)
            put(result, target)
        if (observer := here().observer) is not None and isinstance(result, Tensor):
            observer.created(result, original.__name__)
        return result

    return stand_in(factory, original)


@functools.cache
def placed_with_self(original: Callable[..., Any]) -> Callable[..., Any]:
    """``tensor.new_zeros(...)``: on the tensor's device unless another one is given."""
    factory = placed(original)

    @functools.wraps(original)
    def method(tensor: Tensor, *args: Any, device: Any = None, **kwargs: Any) -> Any:
        return factory(tensor, *args, device=device_of(tensor) if device is None else device, **kwargs)

    return method


def _made(original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Where PyTorch puts it: with its prototype, by the context's default device, or on the CPU."""
    result = original(*args, **kwargs)
    if isinstance(result, Tensor):
        settle(result, CPU)
        _check_generator(kwargs.get("generator"), device_of(result))
    return result


def _made_for(target: Device, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """On the CPU, with the random numbers of a GPU, and its words where there is no memory."""
    if target.type == "cpu":
        return original(*args, device=CPU, **kwargs)
    try:
        with drawing_on(target.index) if original.__name__ in RANDOM else contextlib.nullcontext():
            return original(*args, device=CPU, **kwargs)
    except RuntimeError as error:
        if (wanted := refused_by_the_cpu(error)) is None:
            raise
        raise out_of_memory(here(), target.index, wanted) from None


def _shared(original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], target: Device) -> Tensor:
    result: Tensor = original(*args, device=None if _is_tensor(args) else CPU, **kwargs)
    return result if device_of(result) == target else move(result, target)


def _pinned(made: Tensor) -> Tensor:
    """`aten/src/ATen/cuda/EmptyTensor.cpp`, `empty_cuda`"""
    if device_of(made).type == here().kind:
        raise RuntimeError("Only dense CPU tensors can be pinned")
    return made.pin_memory()


def _at_values(device: Any, parts: tuple[Any, ...], values: Any) -> tuple[Any, tuple[Any, ...]]:
    """All parts of a sparse tensor go where it is to be, which is where its values are if nothing else is said."""
    held = [value for value in (values if isinstance(values, tuple) else (values,)) if isinstance(value, Tensor)]
    if device is None and held:
        device = device_of(held[0])
    if device is not None:
        target = here().resolve(device)
        parts = tuple(at(part, target) if isinstance(part, Tensor) else part for part in parts)
    return device, parts


def _is_jagged(kwargs: dict[str, Any]) -> bool:
    """Ragged rows are made by Python code of ordinary functions (`torch/nested/_internal/nested_tensor.py`)."""
    return kwargs.get("layout") is torch.jagged


def _check_output(out: Tensor, target: Device) -> None:
    """`torch/csrc/autograd/utils/python_arg_parsing.h`, `check_out_type_matches`"""
    if device_of(out).type != target.type:
        raise RuntimeError(
            f"device type {target.type} does not match device type of out parameter ({device_of(out).type})"
        )


def _has_prototype(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    return any(isinstance(value, Tensor) for value in (*args, *kwargs.values()))


def _in_context() -> bool:
    """Whether a device context, or a default device, comes before the default type."""
    return any(isinstance(mode, device_context.DeviceContext) for mode in _get_current_function_mode_stack())  # type: ignore[no-untyped-call]


def _is_tensor(args: tuple[Any, ...]) -> bool:
    return bool(args) and isinstance(args[0], Tensor)


def _check_generator(generator: torch.Generator | None, target: Device) -> None:
    """`aten/src/ATen/core/Generator.h`, `check_generator`."""
    if generator is not None and generator.device.type != target.type:
        raise RuntimeError(f"Expected a '{target.type}' device type for generator but found '{generator.device.type}'")


def new(tensor: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """`torch/csrc/utils/tensor_new.cpp`, `legacy_tensor_new`: on the tensor's own device."""
    spec = kwargs.pop("device", None)
    target = device_of(tensor) if spec is None else here().resolve(spec)
    result: Tensor = torch._C.TensorBase.new(tensor, *args, **kwargs)
    if not any(isinstance(part, Tensor) for part in args):
        put(result, target)
    return result


def _in_device_context(
    context: Any, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
) -> Any:
    """`DeviceContext` fills in the device; the factory that takes it must be ours."""
    kwargs = kwargs or {}
    if func in device_context._device_constructors() and kwargs.get("device") is None:
        return _made_by[func](*args, **{**kwargs, "device": context.device})
    return func(*args, **kwargs)


class _DeviceType(type):
    """``torch.device(1)`` is an accelerator's (`torch/csrc/Device.cpp`), which a CPU build refuses."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if running() and len(args) == 1 and isinstance(args[0], int) and not kwargs:
            return Device(here().kind, args[0])
        return Device(*args, **kwargs)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Device)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, Device)


class device(metaclass=_DeviceType):
    """Stands for ``torch.device``; what it makes are real devices."""

    __module__ = "torch"
