"""What a tensor says about its device, and the methods that move it.

The methods are replaced on `torch.Tensor`, so they hold in every thread and for every subclass
(`nn.Parameter`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.parameter import UninitializedTensorMixin  # type: ignore[attr-defined]

from . import legacy
from .machine import CPU, NotSimulated, as_device, here
from .mismatch import legacy_type, refuse
from .moves import at, in_forward_mode, move
from .placement import Placement, Tensor, bring_home, device_of, settle, storage_of

if TYPE_CHECKING:
    from .patches import Patches

Base: Any = torch._C.TensorBase
_base_to: Callable[..., Tensor] = Base.to
_base_copy: Callable[..., Tensor] = Base.copy_
_parse_to = torch._C._nn._parse_to
_base_make_wrapper = Base._make_wrapper_subclass
_base_data = Base.data
_base_grad = Base.grad
_set_item = torch.Tensor.__setitem__
_to_numpy = Base.numpy
_to_array: Any = torch.Tensor.__array__


def install(patches: Patches) -> None:
    patches.set_all(torch.Tensor, METHODS)
    patches.set(torch._C._nn, "_parse_to", parse_to)
    patches.set(UninitializedTensorMixin, "_allowed_methods", _allowed_to_the_uninitialized())


def _allowed_to_the_uninitialized() -> list[Any]:
    """Parameters that wait for their shape know the few methods they take by identity (`torch/nn/parameter.py`)."""
    allowed: list[Any] = UninitializedTensorMixin._allowed_methods
    return [*allowed, *(METHODS[method.__name__] for method in allowed if method.__name__ in METHODS)]


# --- queries --------------------------------------------------------------------------------------


def is_cuda(tensor: Tensor) -> bool:
    return device_of(tensor).type == "cuda"


def is_mps(tensor: Tensor) -> bool:
    return device_of(tensor).type == "mps"


def is_xpu(tensor: Tensor) -> bool:
    return device_of(tensor).type == "xpu"


def is_cpu(tensor: Tensor) -> bool:
    return device_of(tensor).type == "cpu"


def get_device(tensor: Tensor) -> int:
    device = device_of(tensor)
    return -1 if device.type == "cpu" else device.index


# --- moves ----------------------------------------------------------------------------------------


def parse_to(*args: Any, **kwargs: Any) -> Any:
    """`parse_to_conversion` (python_arg_parser.h): a bare index is a GPU's, a tensor stands for where it
    would be.
    """
    spec = args[0] if args else kwargs.get("other", kwargs.get("device"))
    if isinstance(spec, Tensor):
        _, *rest = _parse_to(*args, **kwargs)
        return (device_of(spec), *rest)
    if isinstance(spec, int):
        args, kwargs = (as_device(spec), *args[1:]), {**kwargs}
        kwargs.pop("device", None)
    return _parse_to(*args, **kwargs)


def to(tensor: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    if isinstance(tensor, UninitializedTensorMixin):
        with torch._C.DisableTorchFunction():
            return _to(tensor, *args, **kwargs)
    if type(tensor) not in _PLAIN and torch.overrides.has_torch_function_unary(tensor):
        return _base_to(tensor, *args, **kwargs)
    return _to(tensor, *args, **kwargs)


def _to(tensor: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    copy = kwargs.pop("copy", len(args) > 3 and args[3])
    spec, dtype, non_blocking, memory_format = parse_to(*args[:3], **kwargs)
    options: dict[str, Any] = {"dtype": dtype or tensor.dtype, "non_blocking": non_blocking}
    if memory_format is not None:
        options["memory_format"] = memory_format
    target = device_of(tensor) if spec is None else here().resolve(spec)
    if target != device_of(tensor):
        return move(tensor, target, **options)
    return _base_to(tensor, options.pop("dtype"), **{**options, "copy": copy})


_PLAIN = (torch.Tensor, torch.nn.Parameter)


def cuda(
    tensor: Tensor, device: Any = None, non_blocking: bool = False, memory_format: Any = torch.preserve_format
) -> Tensor:
    spec = as_device("cuda" if device is None else device)
    if spec.type != "cuda":
        raise RuntimeError("Invalid device, must be cuda device")
    return to(tensor, spec, non_blocking=non_blocking, memory_format=memory_format)


def xpu(
    tensor: Tensor, device: Any = None, non_blocking: bool = False, memory_format: Any = torch.preserve_format
) -> Tensor:
    spec = as_device("xpu" if device is None else device)
    if spec.type != "xpu":
        raise RuntimeError("Invalid device, must be xpu device")
    return to(tensor, spec, non_blocking=non_blocking, memory_format=memory_format)


def cpu(tensor: Tensor, memory_format: Any = torch.preserve_format) -> Tensor:
    return to(tensor, CPU, memory_format=memory_format)


def type_(tensor: Tensor, dtype: Any = None, non_blocking: bool = False, **kwargs: Any) -> Any:
    """`torch/csrc/autograd/python_variable_methods`: the legacy name of dtype and device, or a cast."""
    if dtype is None:
        return legacy_type(tensor)
    if isinstance(dtype, torch.dtype):
        return to(tensor, dtype, non_blocking=non_blocking)
    wanted, on_gpu = legacy.meaning(dtype)
    home = device_of(tensor)
    target = (home if home.type == "cuda" else "cuda") if on_gpu else CPU
    return to(tensor, target, wanted, non_blocking=non_blocking)


def type_as(tensor: Tensor, other: Tensor) -> Tensor:
    """`aten/src/ATen/native/TensorConversions.cpp`: the other one's dtype, and its device as well."""
    return to(tensor, device_of(other), other.dtype)


def copy_(tensor: Tensor, source: Tensor, non_blocking: bool = False) -> Tensor:
    return _base_copy(tensor, _brought(source, tensor), non_blocking)


def set_item(tensor: Tensor, index: Any, value: Any) -> None:
    if isinstance(value, Tensor) and _is_basic(index):
        value = _brought(value, tensor)
    _set_item(tensor, index, value)


def _brought(source: Any, target: Tensor) -> Any:
    """A differentiable source is moved first, so that its gradient comes back to where it was."""
    if isinstance(source, Tensor) and (in_forward_mode() or (source.requires_grad and torch.is_grad_enabled())):
        return at(source, device_of(target))
    return source


def _is_basic(index: Any) -> bool:
    parts = index if isinstance(index, tuple) else (index,)
    return all(part is None or part is Ellipsis or isinstance(part, (int, slice)) for part in parts)


# --- the tensor's other halves: data and gradient -------------------------------------------------


def get_data(tensor: Tensor) -> Tensor:
    data: Tensor = _base_data.__get__(tensor)
    return data


def set_data(tensor: Tensor, data: Tensor) -> None:
    """A change of device drops the gradient accumulator (`torch/csrc/autograd/variable.cpp`, `set_data`).

    C++ sees no change here, so the data passes through another dtype on its way: that drops it too.
    Whoever hooked the old accumulator (DistributedDataParallel) is cut off, as on a GPU.
    """
    if tensor.requires_grad and device_of(tensor) != device_of(data):
        passing = torch.float64 if tensor.dtype != torch.float64 else torch.float32
        with torch._C._DisableTorchDispatch():
            _base_data.__set__(tensor, torch._C._VariableFunctions.empty(0, dtype=passing, device=CPU))
    _base_data.__set__(tensor, data)


def get_grad(tensor: Tensor) -> Tensor | None:
    gradient: Tensor | None = _base_grad.__get__(tensor)
    if gradient is not None:
        bring_home(gradient, tensor)
    return gradient


def set_grad(tensor: Tensor, gradient: Tensor | None) -> None:
    """`torch/csrc/autograd/python_variable.cpp`, `THPVariable_set_grad`."""
    if isinstance(gradient, Tensor) and device_of(gradient) != device_of(tensor):
        mine, its = device_of(tensor), device_of(gradient)
        if mine.type != its.type:
            gradient_is, tensor_is = f"with device type '{its.type}'", f"with device type '{mine.type}'"
        else:
            gradient_is, tensor_is = (f"located on device with index '{place.index}'" for place in (its, mine))
        raise refuse(
            f"attempting to assign a gradient {gradient_is} to a tensor {tensor_is}. "
            "Please ensure that the gradient and the tensor are on the same device",
            [("tensor", tensor), ("gradient", gradient)],
        )
    _base_grad.__set__(tensor, gradient)


def delete_grad(tensor: Tensor) -> None:
    _base_grad.__delete__(tensor)


# --- the way out to NumPy, pinned memory, streams -------------------------------------------------


def _on_host(tensor: Tensor) -> None:
    """`torch/csrc/utils/tensor_numpy.cpp`, `tensor_to_numpy`."""
    if (device := device_of(tensor)).type == here().kind:
        raise refuse(
            f"can't convert {device} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to "
            "host memory first.",
            [("self", tensor)],
            TypeError,
        )


def numpy(tensor: Tensor, *, force: bool = False) -> Any:
    if force:
        return _to_numpy(tensor.detach().cpu().resolve_conj().resolve_neg())
    _on_host(tensor)
    return _to_numpy(tensor)


def array(tensor: Tensor, *args: Any, **kwargs: Any) -> Any:
    _on_host(tensor)
    return _to_array(tensor, *args, **kwargs)


def pin_memory(tensor: Tensor, device: Any = None) -> Tensor:
    """`aten/src/ATen/native/Memory.cpp`: only dense CPU tensors can be pinned, and pinning copies once."""
    if not is_cpu(tensor):
        kind = legacy_type(tensor)
        raise refuse(f"cannot pin '{kind}' only dense CPU tensors can be pinned", [("self", tensor)])
    here().wake()
    if is_pinned(tensor):
        return tensor
    pinned = tensor.clone()
    storage_of(pinned)._pinned = True  # type: ignore[attr-defined]
    return pinned


def is_pinned(tensor: Tensor, device: Any = None) -> bool:
    return bool(storage_of(tensor)._pinned)  # type: ignore[attr-defined]


def record_stream(tensor: Tensor, stream: Any) -> None:
    """Nothing runs behind the program's back, so memory need not be kept for a stream."""
    if is_cpu(tensor):
        raise NotImplementedError(
            "Could not run 'aten::record_stream' with arguments from the 'CPU' backend. This could "
            "be because the "
            "operator doesn't exist for this backend."
        )


def cuda_array_interface(tensor: Tensor) -> Any:
    if not is_cuda(tensor):
        raise AttributeError(
            f"Can't get __cuda_array_interface__ on non-CUDA tensor type: {tensor.type()} "
            "If CUDA data is required use tensor.cuda() to copy tensor to device memory."
        )
    raise NotSimulated("__cuda_array_interface__, memory shared with another CUDA library")


def constructed(tensor: Tensor, *args: Any, **kwargs: Any) -> None:
    """``torch.Tensor(2, 3)`` allocates on the CPU."""
    settle(tensor, CPU)


def make_wrapper(kind: Any, *args: Any, device: Any = None, **kwargs: Any) -> Tensor:
    """A subclass around other tensors: on the CPU in C++, on its own device by its label (`python_variable.cpp`)."""
    target = None if device is None else here().resolve(device)
    if target is None or target.type != here().kind:
        wrapper: Tensor = _base_make_wrapper(kind, *args, **kwargs, **({} if target is None else {"device": target}))
        return wrapper
    wrapper = _base_make_wrapper(kind, *args, device=CPU, **kwargs)
    with contextlib.suppress(NotImplementedError, RuntimeError), torch._C.DisableTorchFunction():
        # The memory is that of the tensors inside.
        wrapper.untyped_storage()._placement = Placement(here(), target.index, 0)  # type: ignore[attr-defined]
    return wrapper


METHODS: dict[str, Any] = {
    "_make_wrapper_subclass": staticmethod(make_wrapper),
    "__init__": constructed,
    "device": property(device_of),
    "is_cuda": property(is_cuda),
    "is_cpu": property(is_cpu),
    "is_mps": property(is_mps),
    "is_xpu": property(is_xpu),
    "get_device": get_device,
    "to": to,
    "cuda": cuda,
    "xpu": xpu,
    "cpu": cpu,
    "type": type_,
    "type_as": type_as,
    "copy_": copy_,
    "__setitem__": set_item,
    "data": property(get_data, set_data),
    "grad": property(get_grad, set_grad, delete_grad),
    "numpy": numpy,
    "__array__": array,
    "pin_memory": pin_memory,
    "is_pinned": is_pinned,
    "record_stream": record_stream,
    "__cuda_array_interface__": property(cuda_array_interface),
}
