"""Lengths of padded sequences: ``pack_padded_sequence`` wants them on the CPU, wherever the module is.

What a forward is given is otherwise taken to be where the module is. Whether it is lengths may show in another module
only, which is given the same, or what a third has given back for it.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import libcst as cst

from placement_lint.flow.domain.arguments import Arguments
from placement_lint.flow.domain.record import replace
from placement_lint.flow.domain.values import CPU, NONE, Function, Symbol, Tensor, Value, alternatives
from placement_lint.flow.state.machine import Machine
from placement_lint.flow.state.notes import Notes, Use, noted
from placement_lint.flow.state.records import Input


@dataclass
class Lengths(Notes):
    """The lengths by which forwards pack."""

    # inputs of forwards that some forward packs by, and by parameter of a forward what else is handed there
    inputs: set[Input] = noted(set, Use.AT_END | Use.INCIDENTAL)
    handed_on: dict[Input, set[Input]] = noted(dict, Use.AT_END | Use.INCIDENTAL)


def pack(machine: Machine, arguments: Arguments) -> None:
    """``pack_padded_sequence(x, lengths)``"""
    machine.notes[Lengths].inputs.update(_inputs(arguments.get(1, "lengths")))


def enter(machine: Machine, forward: Function, arguments: Arguments) -> None:
    """A module is called: its inputs are also what the caller had."""
    for position, parameter in enumerate(forward.parameters[1:]):
        given = _inputs(arguments.get(position, parameter.name.value))
        if given:
            machine.notes[Lengths].handed_on.setdefault(parameter, set()).update(given)


def given_back(machine: Machine, part: Value, target: cst.BaseExpression, statement: cst.CSTNode) -> Value:
    """``x, lengths = self.encoder(x, lengths)``: what comes back under the name of an input is of its kind."""
    if not isinstance(target, cst.Name) or not _hands_over(statement, target.value):
        return part
    before = machine.read(machine.frame.id, target.value)
    if isinstance(part, Tensor) and part.assumed and isinstance(before, Tensor):
        return replace(part, entered=part.entered or before.granted)
    if isinstance(part, Symbol) and before is not None and _may_be_lengths(before):
        machine.notes[Lengths].handed_on.setdefault(part, set()).update(_inputs(before))
    return part


def _hands_over(statement: cst.CSTNode, name: str) -> bool:
    call = statement.value if isinstance(statement, cst.Assign) else None
    given = [argument.value for argument in call.args] if isinstance(call, cst.Call) else []
    return any(isinstance(one, cst.Name) and one.value == name for one in given)


def _may_be_lengths(value: Value) -> bool:
    """Whether nothing says that it is on a GPU."""
    options = [option for _, option in alternatives(value)]
    return all(
        _origin(option) is not None or (isinstance(option, Tensor) and option.place == CPU) for option in options
    )


def resolve(machine: Machine) -> AbstractSet[Input]:
    """All inputs that are lengths somewhere, or nothing but lengths where they are handed from."""
    known: set[Input] = set(machine.notes[Lengths].inputs)
    before = -1
    while len(known) > before:
        before = len(known)
        for parameter, given in machine.notes[Lengths].handed_on.items():
            if parameter in known:
                known.update(given)
            elif given <= known:
                known.add(parameter)
    return known


def _inputs(value: Value | None) -> set[Input]:
    return {origin for _, option in alternatives(value or NONE) if (origin := _origin(option)) is not None}


def _origin(value: Value) -> Input | None:
    if isinstance(value, Tensor):
        return value.granted
    return value if isinstance(value, Symbol) else None
