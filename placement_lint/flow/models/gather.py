"""What the replicas of a DataParallel model return: whether it can be gathered.

``gather`` in torch/nn/parallel/scatter_gather.py concatenates tensors, keeps None, goes into dicts, and takes all else
for a list or tuple: it zips the replicas' values and calls their type with what comes out.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from placement_lint.flow.domain.values import (
    ARRAYS,
    FALSE,
    MISSING,
    NONE,
    TRUE,
    AtLeast,
    Choice,
    Class,
    Const,
    Device,
    External,
    Kind,
    Mapping,
    Object,
    Symbol,
    Value,
)
from placement_lint.flow.events.schema import NonTensorReturned, Returned
from placement_lint.flow.models import operations
from placement_lint.flow.state.classes import NAMED_TUPLE, find, foreign_bases
from placement_lint.flow.state.containers import content
from placement_lint.flow.state.heap import MAPPING
from placement_lint.flow.state.machine import Machine
from placement_lint.flow.state.names import spelled
from placement_lint.source.abstract import meaning

# Bases that make no instance iterable.
_PLAIN_BASES = {"builtins.object", "abc.ABC", "typing.Generic", "typing.Protocol"}


def check(machine: Machine, value: Value, node: cst.BaseExpression) -> None:
    """Look at what the forward of a replica returns, and at what is inside of it."""
    if isinstance(value, Choice) and {TRUE, FALSE} <= {option for _, option in value.alternatives}:
        # The answer to a question, and what was compared may have been tensors.
        return
    machine.lift(lambda option: _check(machine, option, node), value)


def _check(machine: Machine, value: Value, node: cst.BaseExpression) -> Value:
    returned = tuple(_returned(machine, value, node))
    if returned:
        inputs, maker = operations.sure_tensors(machine), spelled(machine, "torch.tensor")
        machine.emit(NonTensorReturned(returned[0].node, machine.scene, returned, inputs, maker))
    return NONE


def _returned(machine: Machine, value: Value, node: cst.BaseExpression) -> Iterator[Returned]:
    """What cannot be gathered: of a list or tuple all of it at once, of a dict and of choices one by one."""
    if isinstance(value, Choice):
        check(machine, value, node)
        return
    if isinstance(value, Object) and value.kind is Kind.DICT:
        value = machine.read(value.id, MAPPING) or value
    if isinstance(value, Mapping):
        written = _written_values(node)
        for key, item in value.items:
            check(machine, item, written.get(key, node))
        if value.rest is not None:
            check(machine, value.rest, node)
    elif (items := content(machine, value)) is not None:
        elements = node.elements if isinstance(node, (cst.Tuple, cst.List)) else ()
        spelt_out = len(elements) == len(items.items)
        for place, item in enumerate(items.items):
            yield from _returned(machine, item, elements[place].value if spelt_out else node)
    elif isinstance(value, Object) and isinstance(value.cls, Class) and NAMED_TUPLE in foreign_bases(value.cls):
        written = _written_values(node)
        for name in machine.store.names(value.id):
            check(machine, machine.read(value.id, name) or NONE, written.get(name, node))
    elif type_ := _type(machine, value):
        yield Returned(node, type_)


def _written_values(node: cst.BaseExpression) -> dict[object, cst.BaseExpression]:
    """The values of a dict that is written as such, by their keys."""
    if isinstance(node, cst.Dict):
        pairs = [element for element in node.elements if isinstance(element, cst.DictElement)]
        return {
            meaning(pair.key): pair.value for pair in pairs if isinstance(pair.key, (cst.SimpleString, cst.Integer))
        }
    if isinstance(node, cst.Call):
        return {argument.keyword.value: argument.value for argument in node.args if argument.keyword is not None}
    return {}


def _type(machine: Machine, value: Value) -> str:
    """The type of a value that is no tensor and has no tensors to gather in it; empty where that is not known."""
    if isinstance(value, Const):
        return "" if value == NONE else type(value.value).__name__
    if isinstance(value, AtLeast):
        return "int"
    if isinstance(value, Device):
        return "torch.device"
    if isinstance(value, Symbol):
        return "" if value.type in ("torch.Tensor", MISSING) else value.type
    if value in ARRAYS:
        return "numpy.ndarray"
    if isinstance(value, Object) and value.kind is Kind.INSTANCE and isinstance(value.cls, Class):
        return value.cls.name if _is_plain(machine, value.cls) else ""
    return ""


def _is_plain(machine: Machine, cls: Class) -> bool:
    """Whether instances of a class are certainly not iterable."""
    known = all(isinstance(base, External) and base.name in _PLAIN_BASES for base in foreign_bases(cls))
    return known and all(find(machine, cls, name) is None for name in ("__iter__", "__getitem__"))
