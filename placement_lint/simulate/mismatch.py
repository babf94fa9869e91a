"""The errors that PyTorch raises when devices are mixed, in its own words, and the cases without an error.

Three families, told apart by PyTorch's own table of operators
(`torchgen/packaged/ATen/native/native_functions.yaml`):

* TensorIterator (``device_check: NoCheck # TensorIterator``): `aten/src/ATen/TensorIterator.cpp`,
  `compute_types`; 0-dim tensors of the CPU are allowed.
* kernels behind a generated wrapper: `c10::impl::check_and_update_common_device`, worded by
  `common_device_check_failure`, wrapper names by `torchgen/dest/register_dispatch_key.py`; nothing is
  exempt.
* operators with a check of their own: convolution, attention, indexing, packing, and all kernels for MPS.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from .machine import Device, here
from .placement import ANYWHERE, Tensor, device_of, label_of, real_device

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

Operand = tuple[str, Tensor, bool]  # name, tensor, is written to

SAME_DEVICE = "Expected all tensors to be on the same device, but "
TOO_MANY_SCALARS = "Trying to pass too many CPU scalars to non-CPU kernel!"
# The kernel check names the odd operand first since 2.8.
_NAMES_THE_ODD_ONE = tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 8)


def refuse(message: str, operands: Sequence[tuple[str, Tensor]], kind: type[Exception] = RuntimeError) -> Exception:
    """The exception to raise. Reports its operands to the observer, if there is one."""
    if (observer := here().observer) is not None:
        observer.refused(message, list(operands))
    return kind(message)


# --- one place for all, or none -------------------------------------------------------------------


def common_place(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int | None:
    """Where an operation on differently placed operands happens, or PyTorch's error for it."""
    operands = list(_operands(func, args, kwargs))
    settled = [operand for operand in operands if label_of(operand[1]) is not ANYWHERE]
    if is_lenient(func):
        settled = [operand for operand in settled if not _is_cpu_scalar(operand)] or settled
    places = {_index(tensor) for _, tensor, _ in settled}
    if len(places) == 1:
        if places != {None} and too_many_scalars(func, sum(map(_is_cpu_scalar, operands))):
            raise refuse(TOO_MANY_SCALARS, _named(operands))
        return places.pop()
    if not _entry(func).no_check and any(real_device(tensor).type == "meta" for _, tensor, _ in operands):
        # Meta tensors draw every other operand to their own kernels, which compare nothing (DispatchKey.h).
        return min(place for place in places if place is not None)
    if _inside_engine():
        # A gradient that crossed over from a 0-dim operand arrives with the device it came from; the engine
        # itself brings it home (`torch/csrc/autograd/engine.cpp`: `validate_outputs`).
        return None if None in places else min(place for place in places if place is not None)
    raise _error(func, settled)


def common_places(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[int | None]:
    """`common_place` for each index of an operator on lists."""
    lists = [value for value in (*args, *kwargs.values()) if type(value) in (list, tuple) and _holds_tensors(value)]
    singles = [value for value in (*args, *kwargs.values()) if isinstance(value, Tensor)]
    length = max((len(value) for value in lists), default=0)
    places = []
    for index in range(length):
        row = [value[index] for value in lists if index < len(value)] + singles
        places.append(_row_place(func, row))
    return places


def _row_place(func: Any, row: list[Tensor]) -> int | None:
    operands = [("self", tensor, False) for tensor in row if label_of(tensor) is not ANYWHERE]
    counted = [operand for operand in operands if not _is_cpu_scalar(operand)] or operands
    places = {_index(tensor) for _, tensor, _ in counted}
    if len(places) > 1 and "_foreach_copy_" not in str(func):
        raise _iterator_error(func, counted)
    return _index(row[0])


def _holds_tensors(values: Sequence[Any]) -> bool:
    return len(values) > 0 and all(isinstance(value, Tensor) for value in values)


def _operands(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[Operand]:
    for position, argument in enumerate(func._schema.arguments):
        value = args[position] if position < len(args) else kwargs.get(argument.name)
        written = argument.alias_info is not None and argument.alias_info.is_write
        for tensor in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(tensor, Tensor):
                yield argument.name, tensor, written


def _index(tensor: Tensor) -> int | None:
    label = label_of(tensor)
    return None if label is None else label.index


def _is_cpu_scalar(operand: Operand) -> bool:
    _, tensor, written = operand
    return not written and tensor.dim() == 0 and label_of(tensor) is None


def _inside_engine() -> bool:
    """In a node of the engine that is not the user's own `autograd.Function`."""
    node: Any = torch._C._current_autograd_node()
    return node is not None and not isinstance(node, torch.autograd.function.BackwardCFunction)


# --- which family, which words --------------------------------------------------------------------


def is_lenient(func: Any) -> bool:
    """Whether no generated wrapper compares the operands."""
    return _name(func) not in OWN_WORDS and _name(func) not in CUDA_KERNELS and _entry(func).no_check


def too_many_scalars(func: Any, scalars: int) -> bool:
    """`TensorIterator::compute_types` lets one 0-dim operand of the CPU pass; `where` brings its own over first."""
    return scalars > 1 and _name(func) != "where" and _entry(func).iterator and not _inside_engine()


def _error(func: Any, operands: list[Operand]) -> Exception:
    own = OWN_WORDS.get(_name(func))
    if own is not None and (message := own(operands)) is not None:
        return refuse(message, [(name, tensor) for name, tensor, _ in operands])
    if _entry(func).no_check and _name(func) not in CUDA_KERNELS:
        return _iterator_error(func, operands)
    if here().kind == "mps":
        return _metal_error(func, operands)
    return _kernel_error(func, operands)


def _iterator_error(func: Any, operands: list[Operand]) -> Exception:
    """The first device that is not the CPU is the common one; outputs come first."""
    ordered = sorted(operands, key=lambda operand: not operand[2])
    devices = [device_of(tensor) for _, tensor, _ in ordered]
    common = next(device for device in devices if device.type != "cpu")
    other = next(device for device in devices if device != common)
    return refuse(f"{SAME_DEVICE}found at least two devices, {common} and {other}!", _named(ordered))


def _kernel_error(func: Any, operands: list[Operand]) -> Exception:
    method, renamed = CUDA_KERNELS.get(_name(func), ("", {}))
    method = method.replace("CUDA", here().kind.upper()) or _wrapper_name(func)
    common = device_of(operands[0][1])
    odd, tensor, _ = next(operand for operand in operands if device_of(operand[1]) != common)
    return refuse(_odd_one(renamed.get(odd, odd), device_of(tensor), common, method), _named(operands))


def _metal_error(func: Any, operands: list[Operand]) -> Exception:
    """Kernels for MPS have no generated check (`torchgen/gen.py`: `device_guard`), so each one has its own."""
    name, _, _ = next(operand for operand in operands if device_of(operand[1]).type == "cpu")
    kernel, arguments = METAL_KERNELS.get(_name(func), ("", {}))
    if name not in arguments:
        return refuse(NO_PLACEHOLDER, _named(operands))
    message = f"Tensor for argument {arguments[name]} is on CPU, but expected it to be on GPU"
    return refuse(f"{message} (while checking arguments for {kernel})", _named(operands))


# `aten/src/ATen/native/mps/OperationUtils.mm`, `Placeholder::Placeholder`
NO_PLACEHOLDER = "Placeholder storage has not been allocated on MPS device!"
# What kernels call themselves and their arguments where they check these with `checkAllSameGPU`
# (`aten/src/ATen/native/mps/operations/LinearAlgebra.mm`, `aten/src/ATen/TensorUtils.cpp`).
METAL_KERNELS: dict[str, tuple[str, dict[str, str]]] = {
    "mm": ("mm", {"self": "#1 'mat1'", "mat2": "#2 'mat2'"}),
    "addmm": ("addmm_out_mps_impl", {"self": "#1 'self'", "mat1": "#2 'mat1'", "mat2": "#3 'mat2'"}),
}


def check_linear(operands: dict[str, Tensor]) -> None:
    """`aten/src/ATen/native/mps/operations/Linear.mm`, `_mps_linear`."""
    if here().kind != "mps" or all(device_of(tensor).type != "mps" for tensor in operands.values()):
        return
    for name, tensor in operands.items():
        plural = name if name == "bias" else f"{name}s"
        if not (tensor.is_floating_point() or tensor.is_complex()):
            raise RuntimeError(f"MPS device does not support linear for non-float {plural}")
        if label_of(tensor) is not ANYWHERE and device_of(tensor).type != "mps":
            raise refuse(
                f"Tensor for argument {name} is on {device_of(tensor)} but expected on mps", list(operands.items())
            )


def _odd_one(name: str, device: Device, common: Device, method: str) -> str:
    if _NAMES_THE_ODD_ONE:
        return (
            f"{SAME_DEVICE}got {name} is on {device}, different from other tensors on {common} "
            f"(when checking argument in method {method})"
        )
    return (
        f"{SAME_DEVICE}found at least two devices, {common} and {device}! "
        f"(when checking argument for argument {name} in method {method})"
    )


def _named(operands: Sequence[Operand]) -> list[tuple[str, Tensor]]:
    return [(name, tensor) for name, tensor, _ in operands]


def _wrapper_name(func: Any) -> str:
    """`register_dispatch_key.py`: structured kernels have one name, others overload and name."""
    name, overload, kind = _name(func), func._schema.overload_name, here().kind.upper()
    if _entry(func).structured:
        return f"wrapper_{kind}_" + "_".join(part for part in (name, overload) if part)
    return f"wrapper_{kind}_{overload}_{name}"


def _name(func: Any) -> str:
    name: str = func._schema.name
    return name.partition("::")[2]


class _Entry:
    """One operator of native_functions.yaml."""

    def __init__(self, text: str) -> None:
        self.structured = "structured" in text
        self.iterator = "device_check: NoCheck   # TensorIterator" in text
        # Composite operators have no wrapper; the operators they are made of are mostly TensorIterator's.
        self.no_check = "device_check: NoCheck" in text or not ("CUDA" in text or self.structured)
        lists = re.findall(r"^    (\w[\w, ]*): ", text, flags=re.MULTILINE)
        self.kernels = {key for keys in lists for key in keys.split(", ")}
        delegate = re.search(r"^  structured_delegate: (\S+)", text, flags=re.MULTILINE)
        self.delegate = delegate[1] if delegate else ""


@functools.cache
def operators() -> dict[str, _Entry]:
    import torchgen  # type: ignore[import-untyped]

    path = Path(torchgen.__file__).parent / "packaged" / "ATen" / "native" / "native_functions.yaml"
    blocks = re.split(r"^- func: ", path.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    return {block.partition("(")[0]: _Entry(block) for block in blocks}


def _entry(func: Any) -> _Entry:
    """Operators without an entry (generated `out=` variants) follow their functional form."""
    schema = func._schema
    name, overload = _name(func), schema.overload_name
    keys = (f"{name}.{overload}" if overload else name, name)
    return next((operators()[key] for key in keys if key in operators()), _Entry("device_check: NoCheck"))


def lacks_kernel(func: Any, key: str) -> bool:
    """Whether an operator has a kernel for the CPU and none for another kind of device."""
    entry = _entry(func)
    kernels = operators().get(entry.delegate, entry).kernels
    return "CPU" in kernels and key not in kernels and not any(name.startswith("Composite") for name in kernels)


# --- operators with words of their own ------------------------------------------------------------


def legacy_type(tensor: Tensor) -> str:
    """``torch.cuda.FloatTensor``: dtype and device in one name (`torch/csrc/utils/tensor_types.cpp`)."""
    with torch._C.DisableTorchFunction():
        name: str = torch._C.TensorBase.type(tensor)
    kind = here().kind
    return name.replace("torch.", f"torch.{kind}.", 1) if device_of(tensor).type == kind else name


def type_in_messages(tensor: Tensor) -> str:
    """``torch.cuda.FloatTensor``, but ``MPSFloatType``: `torch/csrc/Exceptions.cpp` renames some types only."""
    name, kind = legacy_type(tensor), here().kind
    if kind == "cuda" or device_of(tensor).type != kind:
        return name
    return f"{kind.upper()}{name.rpartition('.')[2].removesuffix('Tensor')}Type"


def _convolution(operands: list[Operand]) -> str | None:
    """`check_input_same_type_as_parameters` (`native/Convolution.cpp`) compares types, not indices.

    A small input on the CPU goes to a kernel that does not call it: `ConvParams::use_mkldnn` in the same file.
    """
    tensors = {name: tensor for name, tensor, _ in operands}
    input_, weight = tensors["input"], tensors["weight"]
    if device_of(input_).type == "cpu" != device_of(weight).type and _is_small(input_, weight):
        return _slow_convolution(weight, input_)
    types = {name: type_in_messages(tensor) for name, tensor in tensors.items()}
    for name in ("weight", "bias"):
        if name in types and device_of(tensors[name]).type != device_of(input_).type:
            return f"Input type ({types['input']}) and {name} type ({types[name]}) should be the same"
    return None


def _slow_convolution(weight: Tensor, images: Tensor) -> str:
    """`aten/src/ATen/mps/MPSFallback.mm`, `slow_conv2d_forward_mps`; CUDA has a generated wrapper."""
    if here().kind == "mps":
        return (
            f"slow_conv2d_forward_mps: input(device='{device_of(images)}') and weight(device={device_of(weight)}')  "
            "must be on the same device"
        )
    method = f"wrapper_{here().kind.upper()}___slow_conv2d_forward"
    return _odd_one("weight", device_of(weight), device_of(images), method)


def _is_small(images: Tensor, weight: Tensor) -> bool:
    """One image, at most 3 wide filters, and one group of channels."""
    if images.dim() != 4 or images.shape[0] > 1 or images.numel() > 20480 or images.shape[1] != weight.shape[1]:
        return False
    return min(weight.shape[2:]) <= 3


def _attention(operands: list[Operand]) -> str | None:
    """`aten/src/ATen/native/transformers/sdp_utils_cpp.h` and attention.cpp: `validate_sdpa_input`."""
    devices = {name: device_of(tensor) for name, tensor, _ in operands}
    if len({devices.get(name) for name in ("query", "key", "value")}) == 1:
        return None
    return (
        "Expected query, key, and value to have the same device type, but got query.device: "
        f"{devices.get('query')} key.device: {devices.get('key')} and value.device: "
        f"{devices.get('value')} instead."
    )


OWN_WORDS: dict[str, Callable[[list[Operand]], str | None]] = {
    "convolution": _convolution,
    "_convolution": _convolution,
    "mkldnn_convolution": _convolution,
    "_scaled_dot_product_flash_attention_for_cpu": _attention,
}

# Operators whose CUDA path runs a kernel of another name: its wrapper, and what its arguments are called.
CUDA_KERNELS: dict[str, tuple[str, dict[str, str]]] = {
    "embedding": ("wrapper_CUDA__index_select", {"weight": "self", "indices": "index"}),
    "stack": ("wrapper_CUDA_cat", {}),
    "convolution": ("wrapper_CUDA__cudnn_convolution", {"input": "self"}),
    "native_batch_norm": ("wrapper_CUDA__cudnn_batch_norm", {}),
    "_native_batch_norm_legit": ("wrapper_CUDA__cudnn_batch_norm", {}),
    "_batch_norm_with_update": ("wrapper_CUDA__cudnn_batch_norm", {}),
}


def check_indices(tensor: Tensor, indices: Sequence[Tensor | None]) -> None:
    """`aten/src/ATen/native/TensorAdvancedIndexing.cpp`, `make_info`."""
    place = _index(tensor)
    for index in indices:
        if isinstance(index, Tensor) and _index(index) not in (None, place, ANYWHERE.index):
            raise refuse(
                f"indices should be either on cpu or on the same device as the indexed tensor ({device_of(tensor)})",
                [("self", tensor), ("indices", index)],
            )


def check_assigned(func: Any, tensor: Tensor, indices: Sequence[Tensor | None], values: Tensor, adds: bool) -> None:
    """`_index_put_impl_` fetches single values where it can, and leaves the rest to TensorIterator or to a sort."""
    if ANYWHERE in (label_of(tensor), label_of(values)) or _index(tensor) == _index(values) or values.dim() == 0:
        return
    if not adds and _is_masked_fill(tensor, indices, values):
        return
    if adds and device_of(tensor).type in ("cuda", "xpu"):
        message = f"expected device {device_of(tensor)} but got device {device_of(values)} for value tensor"
        raise refuse(message, [("self", tensor), ("values", values)])
    raise _iterator_error(func, [("self", tensor, True), ("values", values, False)])


def _is_masked_fill(tensor: Tensor, indices: Sequence[Tensor | None], values: Tensor) -> bool:
    """`canDispatchToMaskedFill`: one value of the CPU, and one mask where the tensor is."""
    masks = [index for index in indices if index is not None]
    return (
        values.numel() == 1
        and label_of(values) is None
        and len(masks) == 1
        and masks[0].dtype in (torch.bool, torch.uint8)
        and _index(masks[0]) == _index(tensor)
    )


def check_mask(tensor: Tensor, mask: Tensor) -> None:
    """`aten/src/ATen/native/cuda/IndexKernel.cu`, `masked_fill__cuda`, where one of the two is on a GPU."""
    if ANYWHERE not in (label_of(tensor), label_of(mask)) and _index(tensor) != _index(mask):
        raise refuse(
            "expected self and mask to be on the same device, but got mask on "
            f"{device_of(mask)} and self on {device_of(tensor)}",
            [("self", tensor), ("mask", mask)],
        )


def check_lengths(lengths: Tensor) -> None:
    """`aten/src/ATen/native/PackedSequence.cpp`, `_pack_padded_sequence`."""
    if device_of(lengths).type != "cpu":
        kind = legacy_type(lengths).rpartition(".")[2].removesuffix("Tensor")
        raise refuse(
            f"'lengths' argument should be a 1D CPU int64 tensor, but got {lengths.dim()}D "
            f"{device_of(lengths)} {kind} tensor",
            [("lengths", lengths)],
        )


def check_rnn(layer: str, values: Tensor, hidden: Sequence[Tensor], parameters: Sequence[Tensor]) -> None:
    """`aten/src/ATen/native/RNN.cpp`, `check_attributes`; `lstm` has a kernel for MPS, which does not call it."""
    home: Device = device_of(values)
    for name, tensors in (("hidden", hidden), ("parameter", parameters)):
        for tensor in tensors:
            if device_of(tensor) != home:
                if layer == "lstm" and home.type == "mps":
                    raise refuse(NO_PLACEHOLDER, [("input", values), (name, tensor)])
                raise refuse(
                    f"Input and {name} tensors are not at the same device, found input tensor at {home} and "
                    f"{name} tensor at {device_of(tensor)}",
                    [("input", values), (name, tensor)],
                )
