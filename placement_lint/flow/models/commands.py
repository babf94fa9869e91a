"""Command lines: libraries that call a function of the program with what its user writes there."""

from __future__ import annotations

from functools import partial

import libcst as cst

from placement_lint.flow.domain.arguments import Arguments
from placement_lint.flow.domain.path_condition import answered
from placement_lint.flow.domain.values import NONE, Function, Kind, Object, Value
from placement_lint.flow.models.handlers import Handlers
from placement_lint.flow.state import imports
from placement_lint.flow.state.containers import entries
from placement_lint.flow.state.machine import Machine

# The name of the parameter for the function.
_RUNNERS = {"fire.Fire": "component", "typer.run": "function", "absl.app.run": "main"}


def run(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``fire.Fire(main)``; ``fire.Fire({"train": train, "test": test})`` calls one of them."""
    given = arguments.get(0, _RUNNERS[name]) or NONE
    if not isinstance(given, Object) or given.kind is not Kind.DICT:
        return machine.lift(lambda function: _called(machine, function, node), given)
    command, known = machine.fresh("command"), entries(machine, given).items
    if not known:
        return NONE
    return machine.fork(
        [
            (answered(imports.is_key(machine, command, key), True), partial(_called, machine, function, node))
            for key, function in known
        ]
    )


def _called(machine: Machine, function: Value, node: cst.Call) -> Value:
    # Of a class, the user chooses a method as well.
    unknown = Arguments(spread=True)
    return machine.evaluator.call(machine, function, unknown, node) if isinstance(function, Function) else NONE


CALLS: Handlers = dict.fromkeys(_RUNNERS, run)
