"""The policy for analysing calls of other files' functions: calls that cannot affect placement are skipped."""

from __future__ import annotations

import re
from collections.abc import Iterable

import libcst as cst

from placement_lint.flow.domain.arguments import Arguments
from placement_lint.flow.domain.values import (
    AtLeast,
    Choice,
    Class,
    Const,
    External,
    Function,
    Imported,
    Kind,
    Mapping,
    Object,
    Partial,
    Pending,
    Sequence,
    Symbol,
    Value,
)
from placement_lint.flow.models import modules, registries
from placement_lint.flow.state import imports
from placement_lint.flow.state.extent import CONTENT_CELLS
from placement_lint.flow.state.machine import Machine
from placement_lint.project.relevance import concerns, is_of_tensors
from placement_lint.source.querying import called_in, words_in

# Maximum depth of the search for relevant values in lists, dicts and instances.
_DEEPEST = 8


def is_plain(machine: Machine, function: Function, arguments: Arguments) -> bool:
    """Whether a function of another file is irrelevant to placement, and so are its arguments."""
    if machine.root(function.frame) == machine.module_frame:
        return False
    if function.owner is not None and registries.is_registry_class(machine, function.owner):
        return False
    return not any(decides(machine, value) for value in arguments.values()) and not imports.matters(machine, function)


def hands_back(machine: Machine, decorator: Function) -> bool:
    """Whether a decorator of another file returns its function unchanged without calling it.

    It may store the function in a registry: the state of other files is treated as unknown anyway.
    """
    body = decorator.node.body
    handed = [parameter.name.value for parameter in decorator.parameters[:1]]
    last = body.body[-1] if isinstance(body, cst.IndentedBlock) else None
    returned = last.body[-1] if isinstance(last, cst.SimpleStatementLine) else None
    return (
        isinstance(returned, cst.Return)
        and isinstance(returned.value, cst.Name)
        and returned.value.value in handed
        and returned.value.value not in called_in(body)
        and is_plain(machine, decorator, Arguments())
    )


def speaks(function: Function) -> bool:
    """Whether a function contains names of devices, tensors or tensor libraries."""
    words = {each for word in words_in(function.node) for each in _WORDS.findall(word)}
    return any(concerns(word) or is_of_tensors(word) for word in words)


_WORDS = re.compile(r"\w+")


def decides(machine: Machine, value: Value, depth: int = 0) -> bool:
    """Whether a value may affect placement: it is, or contains, more than plain data."""
    if isinstance(value, Const):
        # Strings in lists and dicts are rarely names of devices.
        return depth == 0 and isinstance(value.value, str) and concerns(value.value)
    if isinstance(value, External):
        return is_of_tensors(value.name)
    if isinstance(value, Function):
        return machine.root(value.frame) == machine.module_frame or imports.matters(machine, value)
    if isinstance(value, Class):
        return value.module
    if isinstance(value, Symbol):
        return modules.is_module(machine, value)
    if isinstance(value, (AtLeast, Imported, Pending)):
        return False
    parts = inside(machine, value)
    return parts is None or depth == _DEEPEST or any(decides(machine, part, depth + 1) for part in parts)


def inside(machine: Machine, value: Value) -> Iterable[Value] | None:
    """The values inside a value; None if they are unknown, or if it is not a container."""
    if isinstance(value, Choice):
        return (option for _, option in value.alternatives)
    if isinstance(value, Partial):
        return [value.function, *value.positional, *(item for _, item in value.keywords)]
    if isinstance(value, Sequence):
        return value.items
    if isinstance(value, Mapping):
        return [*(item for _, item in value.items), *([value.rest] if value.rest is not None else [])]
    if isinstance(value, Object) and value.kind in (Kind.LIST, Kind.DICT, Kind.INSTANCE):
        names = machine.store.names(value.id) if value.kind is Kind.INSTANCE else CONTENT_CELLS
        return (part for name in names if (part := machine.read(value.id, name)) is not None)
    return None
