"""Tests for CUDA that decide what is moved: on another accelerator the tensor stays where it is.

The answer to such a test keeps the test as its ``guard``. In one branch, the places of tensors and devices that the
other branch would have chosen get that ``guard`` as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import libcst as cst

from placement_lint.flow.api.torch_names import CUDA_CONSTRUCTORS, LEGACY_TYPE
from placement_lint.flow.domain.record import replace
from placement_lint.flow.domain.values import (
    CPU,
    OTHER_ACCELERATORS,
    Choice,
    Const,
    Device,
    External,
    Object,
    Placed,
    Sequence,
    Tensor,
    Value,
    alternatives,
)
from placement_lint.flow.models import modules
from placement_lint.flow.state.devices import as_place
from placement_lint.flow.state.heap import Cell
from placement_lint.flow.state.machine import Machine
from placement_lint.source.querying import assignments_in, method_calls_in

# --- tests for CUDA ----------------------------------------------------------------------------------------


def kept(answer: Value, guard: cst.CSTNode | None) -> Value:
    """The answer to a test for CUDA, which keeps the test."""
    if guard is None:
        return answer
    return _each(answer, lambda one: replace(one, guard=guard) if isinstance(one, Const) else one)


def of_flag(owner: Value, answer: Value, node: cst.Attribute) -> Value:
    """``x.is_cuda`` is a test for CUDA if ``x`` may be on another accelerator."""
    return kept(answer, node) if _kinds(owner) & OTHER_ACCELERATORS else answer


def of_comparison(left: Value, right: Value, answer: Value, node: cst.Comparison) -> Value:
    """``device.type == "cuda"`` is one if the device may be another accelerator."""
    one, other = _kinds(left), _kinds(right)
    asks = (one == {"cuda"} and other & OTHER_ACCELERATORS) or (other == {"cuda"} and one & OTHER_ACCELERATORS)
    return kept(answer, node) if asks else answer


def _kinds(value: Value) -> set[str]:
    """The kinds of device that a value may name, or be on."""
    places = [as_place(one) for _, one in alternatives(value)]
    return {place.kind for place in places if isinstance(place, Device)}


def guard_in(answer: Value) -> cst.CSTNode | None:
    """The test for CUDA that decides an answer."""
    return next((one.guard for _, one in alternatives(answer) if isinstance(one, Const) and one.guard), None)


# --- what they leave ---------------------------------------------------------------------------------------

_HOST = frozenset({CPU.kind})
# From where each method moves a tensor, in a branch that does not run on another accelerator.
_MOVED_FROM = {"cpu": OTHER_ACCELERATORS, "cuda": _HOST, "to": OTHER_ACCELERATORS | _HOST}


def pass_over(machine: Machine, guard: cst.CSTNode, other: cst.CSTNode | None) -> None:
    """A branch begins: what the other branch moves stays where it is."""
    for receiver, method in method_calls_in(other) if other is not None else ():
        for cell in _cells(machine, receiver) if method in _MOVED_FROM else ():
            _mark(machine, cell, guard, _MOVED_FROM[method])


def settle(machine: Machine, guard: cst.CSTNode, other: cst.CSTNode | None) -> None:
    """A branch ends: what the other branch assigns as well was made on the CPU."""
    for target, _ in assignments_in(other) if other is not None else ():
        for cell in _cells(machine, target):
            _mark(machine, cell, guard, _HOST)


def left_on_host(value: Value, guard: cst.CSTNode) -> Value:
    """What a branch chose: the CPU, a tensor there, or a type of such tensors."""
    return _each(value, partial(_guarded, guard=guard, kinds=_HOST))


def _cells(machine: Machine, source: cst.BaseExpression) -> Iterator[Cell]:
    """The cell of a variable, and those of the places in a module that it holds."""
    cell = _cell(machine, source)
    if cell is None:
        return
    yield cell
    held = machine.store.read(*cell)
    for part in modules.reachable(machine, held) if isinstance(held, Object) else ():
        yield part, modules.PLACE
        yield from ((part, name) for name in modules.registered_tensors(machine, part))


def _cell(machine: Machine, source: cst.BaseExpression) -> Cell | None:
    """The cell of the variable or attribute that a tensor is taken from: of ``x`` for ``x.detach()``."""
    if isinstance(source, cst.Name):
        return machine.frame.id, source.value
    if isinstance(source, cst.Call):
        return _cell(machine, source.func)
    cell = _cell(machine, source.value) if isinstance(source, cst.Attribute) else None
    owner = machine.store.read(*cell) if cell is not None else None
    return (owner.id, source.attr.value) if isinstance(source, cst.Attribute) and isinstance(owner, Object) else cell


def _mark(machine: Machine, cell: Cell, guard: cst.CSTNode, kinds: frozenset[str]) -> None:
    value = machine.store.read(*cell)
    changed = _each(value, partial(_guarded, guard=guard, kinds=kinds)) if value is not None else None
    if changed is not None and changed is not value:
        machine.store.write(*cell, changed)


def _each(value: Value, change: Callable[[Value], Value]) -> Value:
    """The value with each of its alternatives changed; itself if none is."""
    if not isinstance(value, Choice):
        return change(value)
    changed = tuple((condition, change(one)) for condition, one in value.alternatives)
    same = all(one is before for (_, one), (_, before) in zip(changed, value.alternatives, strict=True))
    return value if same else Choice(changed)


def _guarded(value: Value, guard: cst.CSTNode, kinds: frozenset[str]) -> Value:
    """The value with the test as the reason for its place, if that is of one of these kinds."""
    if isinstance(value, External) and LEGACY_TYPE.fullmatch(value.name) and value.name not in CUDA_CONSTRUCTORS:
        return replace(value, guard=guard) if CPU.kind in kinds else value
    if isinstance(value, Sequence):
        items = tuple(_each(item, partial(_guarded, guard=guard, kinds=kinds)) for item in value.items)
        same = all(one is before for one, before in zip(items, value.items, strict=True))
        return value if same else replace(value, items=items)
    place = value.place if isinstance(value, Placed) else as_place(value)
    if not isinstance(place, Device) or place.kind not in kinds or place.guard is not None:
        return value
    if isinstance(value, (Tensor, Placed)):
        return replace(value, place=replace(place, guard=guard))
    return replace(value, guard=guard)
