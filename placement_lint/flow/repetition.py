"""Forwards that run again: on the same state, with the same inputs and in the same scene, they do nothing new."""

from __future__ import annotations

from collections.abc import Callable, Hashable

import libcst as cst

from placement_lint.flow.arguments import Arguments
from placement_lint.flow.copying import replace
from placement_lint.flow.machine import Machine
from placement_lint.flow.values import Choice, Const, Function, Object, Role, Sequence, Tensor, Value


def once(
    machine: Machine,
    module: Object,
    method: Function,
    arguments: Arguments,
    node: cst.Call,
    run: Callable[[], Value],
) -> Value:
    """The value of a module's outermost forward: run, or that of an earlier call which was the same in all respects."""
    if machine.rehearsing or machine.root(method.frame) != method.frame:
        return run()
    call = (module.id, method.node, node, _inputs(arguments), machine.circumstances())
    known = machine.forwards.get(call)
    if known is not None and machine.store.is_as_seen(known[0]):
        return _again(machine, known[1])
    scene = machine.path, machine.reach, machine.tested
    with machine.store.watched(machine.newest) as watch:
        value = run()
    leaves_nothing = not watch.changed and (machine.path, machine.reach, machine.tested) == scene
    if leaves_nothing and not machine.dead and _is_plain(value):
        machine.forwards[call] = watch, value
    return value


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
