"""Narrowing: in a branch, the tested variable loses the alternatives that the test excludes.

Exact path conditions have the same effect. Narrowing also works if a path condition is widened for too many cases.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import libcst as cst

from placement_lint.flow.domain.values import ABSENT, NONE, Choice, Const, External, Object, Symbol, Tensor, Value
from placement_lint.flow.interpreter import builtins, expressions
from placement_lint.flow.state.heap import Cell
from placement_lint.flow.state.machine import Machine


@contextmanager
def narrowed(machine: Machine, test: cst.BaseExpression, answer: bool) -> Iterator[None]:
    """Narrow the tested variables while a branch runs; values that the branch assigns stay."""
    before = {cell: (machine.store.read(*cell), kept) for cell, kept in _narrower(machine, test, answer)}
    for cell, (_, kept) in before.items():
        machine.store.write(*cell, kept)
    try:
        yield
    finally:
        for cell, (value, kept) in before.items():
            if value is not None and machine.store.read(*cell) is kept:
                machine.store.write(*cell, value)


def narrow(machine: Machine, test: cst.BaseExpression, answer: bool) -> None:
    """Narrow the tested variables from here on: the other branch does not reach this point."""
    for cell, kept in _narrower(machine, test, answer):
        machine.store.write(*cell, kept)


def _narrower(machine: Machine, test: cst.BaseExpression, answer: bool) -> Iterator[tuple[Cell, Value]]:
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        yield from _narrower(machine, test.expression, not answer)
    elif isinstance(test, cst.BooleanOperation) and isinstance(test.operator, cst.And) is answer:
        # both operands have that truth value
        yield from _narrower(machine, test.left, answer)
        yield from _narrower(machine, test.right, answer)
    elif (cell := _maybe_array(machine, test, answer)) is not None:
        yield cell, machine.fresh(test)
    elif (asked := _asked_of(machine, test)) is not None:
        cell, value, says = asked
        kept = [one for one in value.alternatives if _is_open(one[1]) or says(one[1]) in (answer, None)]
        if kept and len(kept) < len(value.alternatives):
            yield cell, Choice(tuple(kept)) if len(kept) > 1 else kept[0][1]


def _maybe_array(machine: Machine, test: cst.BaseExpression, answer: bool) -> Cell | None:
    """The cell of ``x`` where ``x.dtype is torch.float32`` is false: functions for both tell arrays by that."""
    if not isinstance(test, cst.Comparison) or not isinstance(asked := test.left, cst.Attribute):
        return None
    target, tensor = test.comparisons[0], asked.value
    differs = isinstance(target.operator, (cst.Is, cst.Equal) if not answer else (cst.IsNot, cst.NotEqual))
    if not differs or asked.attr.value != "dtype" or not isinstance(tensor, cst.Name):
        return None
    known = machine.store.read(machine.frame.id, tensor.value)
    if not isinstance(known, Tensor) or not _is_plain(target.comparator):
        return None
    dtype = expressions.evaluate(machine, target.comparator)
    usual = isinstance(dtype, External) and dtype.name in ("torch.float32", "torch.float")
    return (machine.frame.id, tensor.value) if usual else None


def _is_open(option: Value) -> bool:
    """Whether the test of an alternative is undecidable."""
    return isinstance(option, Symbol) or option is ABSENT


_Asked = tuple[Cell, Choice, Callable[[Value], bool | None]]


def _asked_of(machine: Machine, test: cst.BaseExpression) -> _Asked | None:
    """The tested cell, its choice, and a function that evaluates the test for one alternative; None if unknown."""
    if isinstance(test, cst.Call) and len(test.args) == 2 and _is_isinstance(test.func):
        held = _held(machine, test.args[0].value)
        if held is None or not _is_plain(test.args[1].value):
            return None
        classes = expressions.evaluate(machine, test.args[1].value)
        return *held, lambda option: _known(builtins.is_instance_of(machine, option, classes, test))
    if isinstance(test, cst.Comparison) and len(test.comparisons) == 1:
        target = test.comparisons[0]
        held = _held(machine, test.left)
        if held is None or not isinstance(target.comparator, cst.Name) or target.comparator.value != "None":
            return None
        if isinstance(target.operator, (cst.Is, cst.Equal)):
            return *held, lambda option: option == NONE
        if isinstance(target.operator, (cst.IsNot, cst.NotEqual)):
            return *held, lambda option: option != NONE
    return None


def _held(machine: Machine, node: cst.BaseExpression) -> tuple[Cell, Choice] | None:
    """The cell of a variable or an attribute that holds one of several values."""
    cell: Cell | None = None
    if isinstance(node, cst.Name):
        cell = (machine.frame.id, node.value)
    elif isinstance(node, cst.Attribute) and isinstance(node.value, cst.Name):
        owner = machine.store.read(machine.frame.id, node.value.value)
        cell = (owner.id, node.attr.value) if isinstance(owner, Object) else None
    value = machine.store.read(*cell) if cell is not None else None
    return (cell, value) if cell is not None and isinstance(value, Choice) else None


def _is_isinstance(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Name) and node.value == "isinstance"


def _is_plain(node: cst.BaseExpression) -> bool:
    """Whether an expression is a name or a tuple of names, so that its evaluation has no effects."""
    if isinstance(node, cst.Tuple):
        return all(_is_plain(element.value) for element in node.elements)
    return isinstance(node, cst.Name) or (isinstance(node, cst.Attribute) and _is_plain(node.value))


def _known(answer: Value) -> bool | None:
    return bool(answer.value) if isinstance(answer, Const) else None
