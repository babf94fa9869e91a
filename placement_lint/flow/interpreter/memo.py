"""What runs again and does nothing new: a forward on the same state, with the same inputs and in the same scene, and
a function that has nothing to do with tensors."""

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
    """Functions and forwards that ran."""

    # how often functions did nothing that has to do with tensors; -1 of those that did, or may
    idle: dict[cst.CSTNode, int] = noted(dict, Use.WATCHED | Use.INCIDENTAL)
    # forwards that left nothing behind: what they saw of the store, and their value
    forwards: dict[Hashable, tuple[Watch, Value]] = noted(dict, Use.WATCHED | Use.DERIVED)


def once(
    machine: Machine,
    module: Object,
    method: Function,
    arguments: Arguments,
    node: cst.Call,
    run: Callable[[], Value],
) -> Value:
    """The value of a module's outermost forward: run, or that of an earlier call which was the same in all respects.

    So it is with other methods that are called from outside of all modules, if nothing is noted in them.
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
    """What a method returns, and what it saw; None where it leaves something behind, or asks for what comes and goes.

    Where it is to be ``silent``, what is noted of the whole program counts as well.
    """
    scene = machine.path, machine.reach, machine.tested
    before = _left_behind(machine) if silent else None
    with machine.store.watched(machine.newest) as watch:
        value = run()
    stays = (machine.path, machine.reach, machine.tested) == scene and not (machine.dead or watch.changed)
    silently = not silent or _left_behind(machine) == before
    return value, watch if stays and silently and not watch.enclosed and _is_plain(value) else None


def _left_behind(machine: Machine) -> object:
    """All that a method may have changed elsewhere: where the program is, what was noted, and what may be spent."""
    asked = machine.project.asked if machine.project is not None else 0
    sizes = [_size(machine.notes.get_registry(registry)) for registry in registries().effects]
    return machine.moment(without=Use.LOCAL), sizes, machine.budget.ventures, machine.budget.abroad, asked


def _size(registry: Any) -> Any:
    """How much is noted; the content of what is neither a list, a set nor a dict."""
    if isinstance(registry, dict):
        return len(registry) + sum(len(entry) for entry in registry.values() if isinstance(entry, (list, set, dict)))
    return len(registry) if isinstance(registry, (list, set)) else registry


# So often has a function done nothing before it is believed to do nothing.
_ENOUGH = 4
_BUSY = -1


def unless_idle(machine: Machine, function: Function, arguments: Arguments, run: Callable[[], Value]) -> Value:
    """The value of a function that an entry point calls, directly or not.

    A function is run a few times only if it mentions, takes, leaves and returns nothing related to tensors, and adds to
    no list that may be iterated: a file may have a hundred classes that all use it.
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
    # To look for words in it costs more than all this: it is left until the function would be believed.
    believed = idle and not (times + 1 == _ENOUGH and speaks(function))
    machine.notes[Memo].idle[function.node] = times + 1 if believed else _BUSY
    return value


def _decide(machine: Machine, values: Iterable[Value]) -> bool:
    return any(decides(machine, value) for value in values)


def _tells_nothing(value: Value) -> bool:
    """Whether no test of a value is known to hold."""
    return value == NONE or isinstance(value, (Symbol, Object, Sequence, Mapping))


def _inputs(arguments: Arguments) -> Hashable:
    keywords = ((name, _identity(value)) for name, value in arguments.keywords.items())
    return tuple(map(_identity, arguments.positional)), tuple(keywords), arguments.spread


def _identity(value: Value) -> Hashable:
    """All that a value has to tell, of a tensor what messages say too; which of equal ones it is does not count."""
    if isinstance(value, Tensor):
        known = value if value.role in (Role.PARAMETER, Role.BUFFER) else replace(value, uid=0)
        return Tensor, *vars(known).values()
    if isinstance(value, Choice):
        return Choice, *((guard, _identity(option)) for guard, option in value.alternatives)
    if isinstance(value, Sequence):
        return Sequence, value.exact, *map(_identity, value.items)
    return value


def _is_plain(value: Value) -> bool:
    """Whether a value says all of itself: nothing of it is in the store."""
    if isinstance(value, Choice):
        return all(_is_plain(option) for _, option in value.alternatives)
    if isinstance(value, Sequence):
        return all(map(_is_plain, value.items))
    return isinstance(value, (Tensor, Const))


def _again(machine: Machine, value: Value) -> Value:
    """The outcome of another call: an equal tensor, but not the same."""
    if isinstance(value, Choice):
        return Choice(tuple((guard, _again(machine, option)) for guard, option in value.alternatives))
    if isinstance(value, Sequence):
        return replace(value, items=tuple(_again(machine, item) for item in value.items))
    return replace(value, uid=machine.new_id()) if isinstance(value, Tensor) and value.uid else value
