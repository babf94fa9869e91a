"""Functions that make tensors on a device, ``torch.device`` itself, and generators.

Each function runs on the CPU and its result is labelled. The list of them is PyTorch's own, the one that
device contexts use (`torch/utils/_device.py`: `_device_constructors`).
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import torch
from torch.overrides import _get_current_function_mode_stack
from torch.utils import _device as device_context

from .machine import CPU, Device, here, running
from .moves import move
from .placement import Tensor, device_of, put, settle
from .scripting import stand_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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

_Generator = torch.Generator


def install(patches: Patches) -> None:
    made_by = {}
    for owner, name, original in _factories():
        made_by[original] = placed(original)
        patches.set(owner, name, made_by[original])
    for name in NEW:
        patches.set(Tensor, name, placed_with_self(getattr(torch._C.TensorBase, name)))
    patches.set(Tensor, "new", new)
    patches.set(device_context.DeviceContext, "__torch_function__", _context_handler(made_by))
    patches.set(torch, "device", device)
    patches.set(torch, "Generator", Generator)


def _factories() -> Iterator[tuple[Any, str, Callable[..., Any]]]:
    constructors = {id(constructor) for constructor in device_context._device_constructors()}
    for owner in (torch, torch.fft, torch.nested):
        for name, value in list(vars(owner).items()):
            if id(value) in constructors or (owner is torch and name in LIKE):
                yield owner, name, value


@functools.cache
def placed(original: Callable[..., Any]) -> Callable[..., Any]:
    """The factory `original`, with its result on the device it was asked for."""
    sharing = original.__name__ in SHARING

    @functools.wraps(original)
    def factory(*args: Any, device: Any = None, **kwargs: Any) -> Any:
        if kwargs.get("pin_memory"):
            return factory(*args, device=device, **{**kwargs, "pin_memory": False}).pin_memory()
        if device is None and here().default_type_on_gpu and not (_has_prototype(args, kwargs) or _in_context()):
            return factory(*args, device="cuda", **kwargs)
        if device is None:
            result = _made(original, args, kwargs)
        elif (target := here().resolve(device)).type not in ("cpu", "cuda"):
            return original(*args, device=target, **kwargs)
        elif sharing:
            result = _shared(original, args, kwargs, target)
        else:
            _check_generator(kwargs.get("generator"), target)
            result = original(*args, device=CPU, **kwargs)
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


def _shared(original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], target: Device) -> Tensor:
    result: Tensor = original(*args, device=None if _is_tensor(args) else CPU, **kwargs)
    return result if device_of(result) == target else move(result, target)


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


def _context_handler(made_by: dict[Any, Callable[..., Any]]) -> Callable[..., Any]:
    """`DeviceContext` fills in the device; the factory that takes it must be ours."""

    def handler(
        context: Any, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in device_context._device_constructors() and kwargs.get("device") is None:
            return made_by[func](*args, **{**kwargs, "device": context.device})
        return func(*args, **kwargs)

    return handler


class _DeviceType(type):
    """``torch.device(1)`` is an accelerator's (`torch/csrc/Device.cpp`), which a CPU build refuses."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if running() and len(args) == 1 and isinstance(args[0], int) and not kwargs:
            return Device("cuda", args[0])
        return Device(*args, **kwargs)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Device)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, Device)


class device(metaclass=_DeviceType):
    """Stands for ``torch.device``; what it makes are real devices."""

    __module__ = "torch"


class Generator(_Generator):
    """A generator that may be a GPU's; its numbers come from the CPU's algorithm."""

    _placed_on: Device

    def __new__(cls, device: Any = "cpu") -> Generator:
        generator = super().__new__(cls)
        generator._placed_on = here().resolve(device) if running() else Device(device)
        if generator._placed_on.type == "cuda":
            here().generators.add(generator._cdata)  # type: ignore[attr-defined]
        return generator

    def __init__(self, device: Any = "cpu") -> None:
        super().__init__()

    @property
    def device(self) -> Device:  # type: ignore[override]
        return self._placed_on
