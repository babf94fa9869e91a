"""Names of tensors: the variables, module attributes and optimizer states of the user's program that hold them."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from types import FrameType
from typing import Any

import torch

from .journal import is_user_code
from .placement import Tensor

# Containers are searched one level deep, and only so far.
LONGEST = 100
# What DataParallel and DistributedDataParallel call the module inside.
WRAPPED = "module"
_grad: Any = torch._C.TensorBase.grad


def named_in_frames(frame: FrameType | None) -> Iterator[tuple[str, Tensor]]:
    """The tensors in the variables of the user's frames; outer frames come first, because their names are longer."""
    frames = []
    while frame is not None:
        if is_user_code(frame.f_code.co_filename):
            frames.append(frame)
        frame = frame.f_back
    for user_frame in reversed(frames):
        yield from named_in(_variables(user_frame))


def named_in(variables: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Tensor]]:
    """``labels``, ``batch[0]``, ``fc.weight``, ``fc.weight.grad``, ``exp_avg of fc.weight``."""
    held = list(variables)
    optimizers = []
    parameters: dict[int, str] = {}
    for name, value in held:
        kind = type(value)
        if issubclass(kind, Tensor):
            yield name, value
        elif issubclass(kind, torch.nn.Module):
            for path, tensor in _in_module(name, value):
                parameters.setdefault(id(tensor), path)
                yield path, tensor
        elif issubclass(kind, torch.optim.Optimizer):
            optimizers.append(value)
        elif kind in (list, tuple, dict):
            yield from _in_container(name, value)
    for optimizer in optimizers:
        yield from _in_optimizer(optimizer, parameters)


def _in_module(variable: str, module: torch.nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Paths as in ``state_dict`` of the module that wrappers wrap; in the module itself the variable tells more."""
    for path, part in torch.nn.Module.named_modules(module):
        owner = path.removeprefix(WRAPPED).removeprefix(".") or variable
        for key, tensor in _attributes(part):
            name = key if owner == "self" else f"{owner}.{key}"
            yield name, tensor
            if tensor.is_leaf and (gradient := _grad.__get__(tensor)) is not None:
                yield f"{name}.grad", gradient


def _attributes(module: torch.nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Parameters, buffers and plain tensors."""
    for table in (module._parameters, module._buffers, vars(module)):
        yield from ((key, value) for key, value in list(table.items()) if issubclass(type(value), Tensor))


def _in_container(variable: str, container: Any) -> Iterator[tuple[str, Tensor]]:
    items = container.items() if isinstance(container, dict) else enumerate(container)
    for key, value in islice(items, LONGEST):
        if issubclass(type(value), Tensor):
            yield f"{variable}[{key!r}]" if type(key) in (int, str) else variable, value


def _in_optimizer(optimizer: torch.optim.Optimizer, parameters: dict[int, str]) -> Iterator[tuple[str, Tensor]]:
    for parameter, state in list(optimizer.state.items()):
        owner = parameters.get(id(parameter))
        if owner is not None and isinstance(state, dict):
            yield from ((f"{key} of {owner}", value) for key, value in state.items() if issubclass(type(value), Tensor))


def _variables(frame: FrameType) -> list[tuple[str, Any]]:
    variables = frame.f_locals
    found = list(variables.items())
    if sys.version_info < (3, 13) and frame.f_code.co_flags & inspect.CO_OPTIMIZED:
        # The frame keeps this copy of a function's variables, which would keep tensors alive after `del`.
        # References: the frame's, ours and the argument's; with one more, the program itself called `locals()`.
        if sys.getrefcount(variables) == 3:
            variables.clear()
    return found
