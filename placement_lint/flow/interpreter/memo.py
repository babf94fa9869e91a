"""Summaries of calls without new effects: a forward with the same state, inputs and path condition, and a function
unrelated to tensors."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import libcst as cst

from placement_lint.flow.domain.arguments import Arguments
from placement_lint.flow.domain.record import replace
from placement_lint.flow.domain.values import (
    NONE,
    Choice,
    Const,
    Function,
    Mapping,
    Object,
    Role,
    Sequence,
    Symbol,
    Tensor,
    Value,
)
from placement_lint.flow.interpreter.inline_policy import decides, speaks
from placement_lint.flow.state.allocations import InForward
from placement_lint.flow.state.heap import Watch
from placement_lint.flow.state.machine import Machine
from placement_lint.flow.state.moment import Calls
from placement_lint.flow.state.notes import Notes, Use, noted, registries
from placement_lint.flow.state.program import Program


@dataclass
class Memo(Notes):
    """Summaries of functions and forwards that ran."""

    # the number of runs of a function without effects related to tensors; -1 if it has or may have some
    idle: dict[cst.CSTNode, int] = noted(dict, Use.WATCHED | Use.INCIDENTAL)
    # forwards without effects: their reads of the store, and their result
    forwards: dict[Hashable, tuple[Watch, Value]] = noted(dict, Use.WATCHED | Use.DERIVED)


def once(
    machine: Machine,
    module: Object,
    method: Function,
    arguments: Arguments,
    node: cst.Call,
    run: Callable[[], Value],
) -> Value:
    """The result of a module's outermost forward, from a run or from an earlier identical call.

    The same holds for other methods that are called from outside of all modules, if they add no notes.
    """
    if machine.now[InForward].rehearsing or machine.root(method.frame) != method.frame:
        return run()
    call = (module.id, method.node, node, _inputs(arguments), machine.circumstances())
    known = machine.noted(Memo, "forwards", call)
    if known is not None and machine.store.is_as_seen(known[0]):
        return _again(machine, known[1])
    recollection = machine.recollection if machine.remembers else None
    first = partial(_first, machine, call, run, silent=method.name != "forward")
    return recollection.run(machine, call, first) if recollection is not None else first()


def _first(machine: Machine, call: Hashable, run: Callable[[], Value], silent: bool) -> Value:
    value, watch = _watched(machine, run, silent)
    if watch is not None:
        machine.notes[Memo].forwards[call] = watch, value
    return value


def _watched(machine: Machine, run: Callable[[], Value], silent: bool) -> tuple[Value, Watch | None]:
    """A method's result, and its reads; None if it has effects, or if the result cannot be reused.

    With ``silent``, notes about the whole program count as effects, too.
    """
    scene = machine.path, machine.reach, machine.tested
    before = _left_behind(machine) if silent else None
    with machine.store.watched(machine.newest) as watch:
        value = run()
    stays = (machine.path, machine.reach, machine.tested) == scene and not (machine.dead or watch.changed)
    silently = not silent or _left_behind(machine) == before
    return value, watch if stays and silently and not watch.enclosed and _is_plain(value) else None


def _left_behind(machine: Machine) -> object:
    """A snapshot of other state that a method may change: the moment, the sizes of the registries, and the budget."""
    asked = machine.project.asked if machine.project is not None else 0
    sizes = [_size(machine.notes.get_registry(registry)) for registry in registries().effects]
    return machine.moment(without=Use.LOCAL), sizes, machine.budget.ventures, machine.budget.abroad, asked


def _size(registry: Any) -> Any:
    """The number of entries in a registry; its value if it is not a list, set or dict."""
    if isinstance(registry, dict):
        return len(registry) + sum(len(entry) for entry in registry.values() if isinstance(entry, (list, set, dict)))
    return len(registry) if isinstance(registry, (list, set)) else registry


# The number of runs without effects after which a function is assumed to have none.
_ENOUGH = 4
_BUSY = -1


def unless_idle(machine: Machine, function: Function, arguments: Arguments, run: Callable[[], Value]) -> Value:
    """The result of a function that an entry point calls, directly or indirectly.

    A function unrelated to tensors runs only a few times: its body, arguments, effects and result have no relevant
    value, and it adds to no list that code may iterate over. A file may have a hundred classes that all call it.
    """
    if not machine.now[Calls].standalone or _decide(machine, arguments.values()):
        return run()
    times = machine.noted(Memo, "idle", function.node) or 0
    if times == _BUSY:
        return run()
    if times == _ENOUGH:
        return machine.fresh(f"{function.name}()")
    said, newest = len(machine.notes[Program].events), machine.newest
    machine.store.begin()
    value = run()
    left = machine.store.changed(newest)
    machine.store.commit()
    said_nothing = len(machine.notes[Program].events) == said and not machine.dead
    left_nothing = not any(isinstance(one, Sequence) for one in left) and not _decide(machine, (value, *left))
    idle = said_nothing and left_nothing and _tells_nothing(value)
    # The search for relevant names is the most expensive check, so it comes last.
    believed = idle and not (times + 1 == _ENOUGH and speaks(function))
    machine.notes[Memo].idle[function.node] = times + 1 if believed else _BUSY
    return value


def _decide(machine: Machine, values: Iterable[Value]) -> bool:
    return any(decides(machine, value) for value in values)


def _tells_nothing(value: Value) -> bool:
    """Whether a value is such that tests of it stay unknown."""
    return value == NONE or isinstance(value, (Symbol, Object, Sequence, Mapping))


def _inputs(arguments: Arguments) -> Hashable:
    keywords = ((name, _identity(value)) for name, value in arguments.keywords.items())
    return tuple(map(_identity, arguments.positional)), tuple(keywords), arguments.spread


def _identity(value: Value) -> Hashable:
    """A key with all facts about a value, for a tensor including its history, but without the tensor's identity."""
    if isinstance(value, Tensor):
        known = value if value.role in (Role.PARAMETER, Role.BUFFER) else replace(value, uid=0)
        return Tensor, *vars(known).values()
    if isinstance(value, Choice):
        return Choice, *((guard, _identity(option)) for guard, option in value.alternatives)
    if isinstance(value, Sequence):
        return Sequence, value.exact, *map(_identity, value.items)
    return value


def _is_plain(value: Value) -> bool:
    """Whether a value has no state in the store."""
    if isinstance(value, Choice):
        return all(_is_plain(option) for _, option in value.alternatives)
    if isinstance(value, Sequence):
        return all(map(_is_plain, value.items))
    return isinstance(value, (Tensor, Const))


def _again(machine: Machine, value: Value) -> Value:
    """A copy of an earlier result: an equal tensor with a new identity."""
    if isinstance(value, Choice):
        return Choice(tuple((guard, _again(machine, option)) for guard, option in value.alternatives))
    if isinstance(value, Sequence):
        return replace(value, items=tuple(_again(machine, item) for item in value.items))
    return replace(value, uid=machine.new_id()) if isinstance(value, Tensor) and value.uid else value
