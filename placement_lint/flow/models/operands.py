"""The tensors that a call is given: directly, or inside a list or tuple."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import libcst as cst

from placement_lint.flow.domain.arguments import Arguments
from placement_lint.flow.domain.values import Tensor, Value
from placement_lint.flow.events.schema import Operand
from placement_lint.flow.models import gradient_paths
from placement_lint.flow.state.containers import content
from placement_lint.flow.state.machine import Machine

Source = str | cst.CSTNode
Positioned = list[tuple[int, Operand]]


def with_operands(
    machine: Machine, arguments: Arguments, node: cst.Call, operation: Callable[[Positioned], Value]
) -> Value:
    """Run an operation on the tensors among the arguments, for each combination of their alternatives."""
    given = list(_given(machine, arguments, node))

    def concrete(*values: Value) -> Value:
        result = operation(
            [
                (position, Operand(source, value, inside=inside))
                for (position, source, inside, _), value in zip(given, values, strict=True)
                if isinstance(value, Tensor)
            ]
        )
        return gradient_paths.after(machine, result, *arguments.values())

    return machine.lift(concrete, *(value for *_, value in given))


def _given(machine: Machine, arguments: Arguments, node: cst.Call) -> Iterator[tuple[int, Source, bool, Value]]:
    written = [argument.value for argument in node.args]
    for position, value in enumerate(arguments.values()):
        source: Source = written[position] if position < len(written) else "an argument"
        yield from ((position, *item) for item in _flat(machine, source, value))


def _flat(machine: Machine, source: Source, value: Value, inside: bool = False) -> Iterator[tuple[Source, bool, Value]]:
    """The items of a value, each with its source, or with that of the list or tuple that it is inside of."""
    items = content(machine, value)
    if items is None:
        yield source, inside, value
        return
    parts: list[Source] = [source] * len(items.items)
    spelt_out = isinstance(source, (cst.List, cst.Tuple)) and len(source.elements) == len(items.items)
    if isinstance(source, (cst.List, cst.Tuple)) and spelt_out:
        parts = [element.value for element in source.elements]
    for part, item in zip(parts, items.items, strict=True):
        yield from _flat(machine, part, item, inside=not spelt_out)
