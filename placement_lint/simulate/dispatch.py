"""Every operation that reaches a kernel passes here: operands are compared, results are labelled.

The mode stands below autograd (`torch/utils/_python_dispatch.py`: `TorchDispatchMode`), so it sees
forward and backward alike, in ATen's own operators: the very place where CUDA kernels compare the devices
of their operands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch._ops import HigherOrderOperator
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode

from . import mismatch
from .hollow import computed
from .limits import limited
from .machine import CPU, NotSimulated, as_device, here
from .memory import out_of_memory, refused_by_the_cpu
from .placement import ANYWHERE, Placement, Tensor, check_dtype, is_real, label_of, storage_of
from .randoms import draw

Kwargs = dict[str, Any]
Rule = Callable[[Any, tuple[Any, ...], Kwargs], Any]

ON_CPU = None
UNSETTLED = ANYWHERE.index


class SimulatedKernels(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """The kernels of a simulated machine. Modes belong to a thread: every thread enters one of its own."""

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Kwargs | None = None
    ) -> Any:
        if isinstance(func, HigherOrderOperator):
            return _run_parts(self, func, args, kwargs or {})
        if types:
            if FakeTensor in types:
                # Their mode is the next to be asked, and knows the devices.
                return func(*args, **(kwargs or {}))
            if any(_unwraps_itself(kind) for kind in types):
                return NotImplemented
        rule = _rules.get(func) or _learn(func)
        if args and type(args[0]) in NUMBERS:
            args = _with_tensor_first(func, args)
        if rule is decomposed:
            with self:
                return func.decompose(*args, **(kwargs or {}))
        return rule(func, args, kwargs or {})


def _run_parts(mode: Any, func: Any, args: tuple[Any, ...], kwargs: Kwargs) -> Any:
    """An operator on functions (``flex_attention``) runs as Python code of ordinary operators."""
    kernel = func.py_kernels.get(torch._C.DispatchKey.CompositeExplicitAutograd)
    if kernel is None:
        raise NotSimulated(f"the operator {func.name()}")
    with mode:
        return kernel(*args, **kwargs)


_PLAIN = (torch.Tensor, torch.nn.Parameter)


def _unwraps_itself(kind: Any) -> bool:
    """A subclass that hands its operations on to tensors inside: they come here by themselves."""
    own = getattr(kind, "__torch_dispatch__", None)
    return kind not in _PLAIN and own is not None and own is not torch._C._disabled_torch_dispatch_impl


NUMBERS = frozenset((int, float, bool, complex))


def _with_tensor_first(func: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Scripted and traced code has its numbers in 0-dim tensors, which arrive here as numbers again
    (`torch/csrc/jit/python/pybind_utils.h`, `toPyObject`). Operators on two take them as they are.
    """
    takes_tensors = [argument.type.isSubtypeOf(_TENSOR) for argument in func._schema.arguments]
    if takes_tensors[0] and sum(takes_tensors) == 1:
        return torch._C._VariableFunctions.scalar_tensor(args[0], dtype=_WIDE[type(args[0])]), *args[1:]
    return args


_TENSOR = torch._C.TensorType.get()
_WIDE = {int: torch.int64, float: torch.float64, bool: torch.bool, complex: torch.complex128}


# --- what operands say ----------------------------------------------------------------------------


def survey(values: Iterable[Any], seen: set[int | None]) -> None:
    """Collect where the operands are: GPU indices, `ON_CPU`, `UNSETTLED`."""
    for value in values:
        if isinstance(value, Tensor):
            label = label_of(value)
            seen.add(label if label is None else label.index)
        elif type(value) in (list, tuple):
            survey(value, seen)


def mark(result: Any, where: int | None, func: Any) -> None:
    """Label what an operation returned; what has a place already (views, in-place results) keeps it."""
    if isinstance(result, Tensor):
        storage = storage_of(result)
        label = storage._placement  # type: ignore[attr-defined]
        if label is None or label is ANYWHERE:
            if where is not ON_CPU and where != UNSETTLED:
                check_dtype(result)
            _label(storage, where)
        if (observer := here().observer) is not None:
            observer.computed(result, str(func))
    elif type(result) in (list, tuple):
        for item in result:
            mark(item, where, func)


def _label(storage: Any, where: int | None) -> None:
    if where is None:
        storage._placement = None
    elif where == UNSETTLED:
        storage._placement = ANYWHERE
    elif is_real(storage):
        storage._placement = Placement(here(), where, storage.nbytes())


# --- rules: how an operator treats devices --------------------------------------------------------


def ordinary(func: Any, args: tuple[Any, ...], kwargs: Kwargs) -> Any:
    """All operands on one device, and the result there."""
    seen: set[int | None] = set()
    survey(args, seen)
    if kwargs:
        survey(kwargs.values(), seen)
    if len(seen) > 1:
        where = mismatch.common_place(func, args, kwargs)
    elif seen:
        (where,) = seen
    else:
        where = ON_CPU
    if where is not ON_CPU:
        here().check_alive()
    if "generator" in kwargs:
        _check_generator(kwargs["generator"], where)
    try:
        result = draw(func, args, kwargs, where) if func in _random else computed(func, args, kwargs)
    except RuntimeError as error:
        if where is ON_CPU or where == UNSETTLED:
            raise
        if (wanted := refused_by_the_cpu(error)) is not None:
            raise out_of_memory(here(), where, wanted) from None
        if not _has_no_kernel(error):
            raise
        raise NotSimulated(f"{func._schema.name} on a GPU, for the CPU's kernel says: {error}") from error
    if where is not ON_CPU or len(seen) > 1 or here().observer is not None:
        mark(result, where, func)
    return result


def made_with_options(func: Any, args: tuple[Any, ...], kwargs: Kwargs) -> Any:
    """An operator that takes a device: a GPU is meant, the CPU is what C++ code says of any operand."""
    seen: set[int | None] = set()
    survey(args, seen)
    where = next(iter(seen)) if seen else UNSETTLED
    device = kwargs.get("device")
    if device is not None and as_device(device).type != "cpu":
        target = here().resolve(device)
        if target.type == here().kind:
            where, kwargs = target.index, {**kwargs, "device": CPU}
        else:
            where = ON_CPU
    if kwargs.get("pin_memory"):
        kwargs = {**kwargs, "pin_memory": False}
    result = draw(func, args, kwargs, where) if func in _random else computed(func, args, kwargs)
    mark(result, where, func)
    return result


def like_first(func: Any, args: tuple[Any, ...], kwargs: Kwargs) -> Any:
    """Operands may be anywhere; the result is where the first one is (copies, casts, indexing by the CPU)."""
    seen: set[int | None] = set()
    survey(args[:1], seen)
    where = next(iter(seen)) if seen else ON_CPU
    result = computed(func, args, kwargs)
    mark(result, where, func)
    return result


def copied(func: Any, args: tuple[Any, ...], kwargs: Kwargs) -> Any:
    """``a.copy_(b)`` crosses devices; an unsettled destination goes where the source is."""
    target, source = args[0], args[1]
    if not isinstance(source, Tensor):
        return func(*args, **kwargs)
    if label_of(target) is ANYWHERE and (label := label_of(source)) is not ANYWHERE:
        _label(storage_of(target), label if label is None else label.index)
    elif (observer := here().observer) is not None and label_of(source) is not ANYWHERE:
        observer.moved(source, target, source.device, target.device)
    return computed(func, args, kwargs)


def indexed(func: Any, args: tuple[Any, ...], kwargs: Kwargs) -> Any:
    """Indices are on the CPU or with the tensor; assigned values are with the tensor unless 0-dim."""
    mismatch.check_indices(args[0], args[1])
    if len(args) > 2:
        mismatch.check_assigned(func, args[0], args[1], args[2], kwargs.get("accumulate", args[3:4] == (True,)))
    return like_first(func, args, kwargs)


def masked(func: Any, args: tuple[Any, ...], kwargs: Kwargs) -> Any:
    mismatch.check_mask(args[0], args[1])
    return ordinary(func, args, kwargs)


def packed(func: Any, args: tuple[Any, ...], kwargs: Kwargs) -> Any:
    """``pack_padded_sequence``: lengths and batch sizes live on the CPU, whatever the data does."""
    mismatch.check_lengths(args[1])
    data, batch_sizes = func(*args, **kwargs)
    label = label_of(args[0])
    mark(data, label if label is None else label.index, func)
    return data, batch_sizes


def foreach(func: Any, args: tuple[Any, ...], kwargs: Kwargs) -> Any:
    """Lists are worked on index by index, so only tensors of the same index must agree."""
    places = mismatch.common_places(func, args, kwargs)
    result = computed(func, args, kwargs)
    if type(result) in (list, tuple):
        for item, where in zip(result, places, strict=False):
            mark(item, where, func)
    elif isinstance(result, Tensor):
        mark(result, places[0], func)
    return result


def fused(func: Any, args: tuple[Any, ...], kwargs: Kwargs) -> Any:
    """The step of an optimizer in one kernel compares all its lists, except with a learning rate on the CPU."""
    (mismatch.common_places if mismatch.is_lenient(func) else mismatch.common_place)(func, args, kwargs)
    return func(*args, **kwargs)


def communicated(func: Any, args: tuple[Any, ...], kwargs: Kwargs) -> Any:
    """Collectives work on what they are given; NCCL has no backend for tensors of the CPU."""
    from .distributed import check_backend

    check_backend(args)
    return func(*args, **kwargs)


def shared(func: Any, args: tuple[Any, ...], kwargs: Kwargs) -> Any:
    """``a.set_(b)`` (`aten/src/ATen/native/Resize.h`, `checkSetStorage`): the devices must match."""
    if len(args) > 1 and isinstance(args[1], Tensor) and ANYWHERE not in (label_of(args[0]), label_of(args[1])):
        mine, its = args[0].device, args[1].device
        if mine != its:
            message = (
                f'Attempted to set the storage of a tensor on device "{mine}" to a storage on different device '
                f'"{its}".  This is no longer allowed; the devices must match.'
            )
            raise mismatch.refuse(message, [("self", args[0]), ("source", args[1])])
    return func(*args, **kwargs)


def untouched(func: Any, args: tuple[Any, ...], kwargs: Kwargs) -> Any:
    return func(*args, **kwargs)


def decomposed(func: Any, args: tuple[Any, ...], kwargs: Kwargs) -> Any:
    """Inference mode hands composite operators over whole; their parts are what kernels see."""
    raise AssertionError("the mode itself runs the parts")


def _has_no_kernel(error: RuntimeError) -> bool:
    """Older versions raise a plain RuntimeError where a kernel lacks the dtype."""
    return isinstance(error, NotImplementedError) or " not implemented for '" in str(error)


def _check_generator(generator: Any, where: int | None) -> None:
    """`aten/src/ATen/core/Generator.h`, `check_generator`."""
    if generator is None or where == UNSETTLED:
        return
    wanted, found = (
        "cpu" if on_cpu else here().kind for on_cpu in (where is None, generator._cdata not in here().generators)
    )
    if wanted != found:
        raise RuntimeError(f"Expected a '{wanted}' device type for generator but found '{found}'")


# Operators that mix devices by design (native_functions.yaml gives each "device_check: NoCheck").
BY_NAME: dict[str, Rule] = {
    "aten::copy_": copied,
    "aten::_to_copy": made_with_options,
    "aten::set_": shared,
    "aten::fill_": like_first,
    "aten::fill": like_first,
    "aten::set_data": untouched,
    "aten::lift_fresh": untouched,
    "aten::lift": untouched,
    "aten::_local_scalar_dense": untouched,
    "aten::is_same_size": untouched,
    "aten::_foreach_copy_": foreach,
    "aten::index": indexed,
    "aten::index_put": indexed,
    "aten::index_put_": indexed,
    "aten::_index_put_impl_": indexed,
    "aten::_unsafe_index": indexed,
    "aten::_unsafe_index_put": indexed,
    "aten::masked_fill": masked,
    "aten::masked_fill_": masked,
    "aten::_pack_padded_sequence": packed,
    "aten::_ctc_loss": like_first,
    "aten::_ctc_loss_backward": like_first,
    "aten::_pack_padded_sequence_backward": like_first,
    **{f"aten::_fused_{optimizer}_": fused for optimizer in ("adam", "adamw", "sgd", "adagrad")},
    "aten::mkldnn_rnn_layer": like_first,
    "aten::mkldnn_rnn_layer_backward": like_first,
}
BY_NAMESPACE: dict[str, Rule] = {"aten": ordinary, "c10d": communicated}
BY_PREFIX: dict[str, Rule] = {"aten::_foreach_": foreach}

_rules: dict[Any, Rule] = {}
# Operators that draw random numbers.
_random: set[Any] = set()


def _learn(func: Any) -> Rule:
    if torch.Tag.nondeterministic_seeded in func.tags:
        _random.add(func)
    rule = _rule_for(func)
    rule = _rules[func] = rule if rule is decomposed else limited(func, rule)
    return rule


def _rule_for(func: Any) -> Rule:
    schema = func._schema
    if schema.name in BY_NAME:
        return BY_NAME[schema.name]
    for prefix, rule in BY_PREFIX.items():
        if schema.name.startswith(prefix):
            return rule
    if _has_kernel(func, "CompositeImplicitAutograd") and not _has_kernel(func, "CPU"):
        return decomposed
    if any(argument.name == "device" for argument in schema.arguments):
        return made_with_options
    return BY_NAMESPACE.get(func.namespace, like_first)


def _has_kernel(func: Any, key: str) -> bool:
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), key))
