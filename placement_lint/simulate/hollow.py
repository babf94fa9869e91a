"""Large results without their values: shapes, dtypes, strides and places are right, and nothing is computed.

Where a tensor is and whether an operator takes it seldom depends on values. So a machine that is `hollow` skips the
arithmetic on large floating-point tensors, and asks an operator's meta kernel what it would return. Large results share
one region of memory; small ones, which a program may divide by, are not zero.
"""

from __future__ import annotations

import functools
import mmap
from collections.abc import Iterator
from typing import Any

import torch

from .limits import INDEXING
from .machine import here

LARGE = 2**14  # elements of an operand whose values do not count
SMALL = 2**10  # elements of a result that is filled
VALUE = 0.5

Tensor = torch.Tensor
_made: Any = torch._C._VariableFunctions
_META = torch.device("meta")


def computed(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What the operator returns; on a hollow machine without values, if it works on large tensors."""
    machine = here()
    if not machine.hollow or _needs_values(func):
        return func(*args, **kwargs)
    operands = [*_tensors(args), *_tensors(kwargs.values())]
    if not any(map(_is_large, operands)) or not all(map(_is_plain, operands)):
        return func(*args, **kwargs)
    written = _written(func)
    if written is not None:
        if written >= len(args) or not any(map(_is_large, _tensors((args[written],)))):
            return func(*args, **kwargs)
        machine.is_hollowed = True
        return args[written] if func._schema.returns else None
    key = (func, *map(_kind, args), *((name, _kind(value)) for name, value in kwargs.items()))
    if key not in _known:
        try:
            _known[key] = func(*map(_outline, args), **{name: _outline(value) for name, value in kwargs.items()})
        except (RuntimeError, NotImplementedError, TypeError, ValueError):
            return func(*args, **kwargs)  # a fault says so in its own words
    machine.is_hollowed = True
    return _filled(_known[key])


@functools.cache
def _needs_values(func: Any) -> bool:
    """Whether an operator returns a view, writes several tensors, or looks things up, which takes little time."""
    schema = func._schema
    written = [argument for argument in schema.arguments if argument.alias_info and argument.alias_info.is_write]
    views = any(one.alias_info is not None and not one.alias_info.is_write for one in schema.returns)
    shared = any(argument.alias_info and not argument.alias_info.is_write for argument in schema.arguments)
    return views or shared or len(written) > 1 or bool(INDEXING.match(schema.name.partition("::")[2]))


@functools.cache
def _written(func: Any) -> int | None:
    """The place of the argument that an operator changes."""
    arguments = enumerate(func._schema.arguments)
    return next((place for place, one in arguments if one.alias_info and one.alias_info.is_write), None)


def _tensors(values: Any) -> Iterator[Tensor]:
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif type(value) in (list, tuple):
            yield from _tensors(value)


def _is_large(tensor: Tensor) -> bool:
    return tensor.numel() >= LARGE and tensor.is_floating_point()


def _is_plain(tensor: Tensor) -> bool:
    return tensor.layout is torch.strided and not torch._C._functorch.is_functorch_wrapped_tensor(tensor)


# What operators return for operands of these kinds, on the meta device.
_known: dict[tuple[Any, ...], Any] = {}


def _kind(value: Any) -> Any:
    """What a result depends on, apart from values of tensors."""
    if isinstance(value, Tensor):
        return value.shape, value.stride(), value.dtype
    return tuple(map(_kind, value)) if type(value) in (list, tuple) else (type(value), value)


def _outline(value: Any) -> Any:
    """The same on the meta device."""
    if isinstance(value, Tensor):
        return _made.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=_META)
    if type(value) in (list, tuple):
        return type(value)(map(_outline, value))
    return _META if isinstance(value, torch.device) else value


def _filled(shape: Any) -> Any:
    if type(shape) in (list, tuple):
        return type(shape)(map(_filled, shape))
    if not isinstance(shape, Tensor):
        return shape
    if shape.numel() <= SMALL:
        value = VALUE if shape.is_floating_point() or shape.is_complex() else 0
        return _made.full(tuple(shape.shape), value, dtype=shape.dtype)
    length = 1 + sum(step * (size - 1) for size, step in zip(shape.shape, shape.stride(), strict=True))
    flat = _made.frombuffer(_zeros(length * shape.element_size()), dtype=shape.dtype, count=length)
    return flat.as_strided(shape.shape, shape.stride())


_regions: list[mmap.mmap] = []


def _zeros(size: int) -> mmap.mmap:
    if not _regions or len(_regions[-1]) < size:
        try:
            _regions.append(mmap.mmap(-1, 2 * size))
        except OSError as error:
            raise MemoryError(f"{2 * size} bytes") from error
    return _regions[-1]
