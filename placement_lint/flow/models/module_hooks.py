"""Hooks around a forward: what pre-hooks make of its arguments, and forward hooks of its output.

``Module._call_impl`` (torch/nn/modules/module.py) runs those of all modules first, then the module's own; whatever
a hook returns, unless it is None, takes the place of what it was given.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Many
from dataclasses import dataclass

import libcst as cst

from placement_lint.flow.domain.arguments import Arguments
from placement_lint.flow.domain.path_condition import ALWAYS
from placement_lint.flow.domain.record import replace
from placement_lint.flow.domain.values import (
    NONE,
    TRUE,
    Fact,
    Kind,
    Mapping,
    Object,
    Sequence,
    Symbol,
    Tensor,
    Value,
)
from placement_lint.flow.models.handlers import Handlers
from placement_lint.flow.state.containers import content
from placement_lint.flow.state.heap import MAPPING, Slot
from placement_lint.flow.state.machine import Machine
from placement_lint.flow.state.moment import Calls

# Cells of a module, and of the module frame for the hooks of all modules: a Sequence of Facts.
_BEFORE = Slot("before forward")
_AFTER = Slot("after forward")
# Of the handle that a registration returns: where the hook is.
_REGISTRATION = Slot("registration")

_CELLS = {
    "register_forward_pre_hook": _BEFORE,
    "register_forward_hook": _AFTER,
    "register_module_forward_pre_hook": _BEFORE,
    "register_module_forward_hook": _AFTER,
}
METHODS = frozenset({"register_forward_pre_hook", "register_forward_hook"})
FOR_ALL_MODULES = tuple(
    f"torch.nn.modules.module.{name}" for name in ("register_module_forward_pre_hook", "register_module_forward_hook")
)


@dataclass(frozen=True)
class _Hook:
    function: Value
    with_kwargs: bool


@dataclass(frozen=True)
class _Registration:
    owner: int
    cell: Slot
    hook: Fact


def register(machine: Machine, owner: int, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``module.register_forward_pre_hook(hook)``: the handle that removes it."""
    cell, handle = _CELLS[name], machine.fresh(node)
    function = arguments.get(0, "hook") or machine.fresh()
    hook = Fact(f"hook {handle.id}", _Hook(function, arguments.keyword("with_kwargs") == TRUE))
    first = arguments.keyword("prepend") == TRUE

    def added(hooks: Value) -> Value:
        if not isinstance(hooks, Sequence):
            return hooks
        return Sequence((hook, *hooks.items) if first else (*hooks.items, hook))

    machine.write(owner, cell, machine.lift(added, machine.read(owner, cell, unset=Sequence(()))))
    machine.write(handle.id, _REGISTRATION, Fact(hook.name, _Registration(owner, cell, hook)))
    return handle


def register_for_all(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``torch.nn.modules.module.register_module_forward_pre_hook(hook)``"""
    return register(machine, machine.module_frame, name.rpartition(".")[2], arguments, node)


def removed(machine: Machine, handle: Value | None) -> None:
    """``handle.remove()``"""
    fact = machine.read(handle.id, _REGISTRATION) if isinstance(handle, Symbol) else None
    what = fact.details if isinstance(fact, Fact) else None
    if not isinstance(what, _Registration):
        return

    def remaining(hooks: Value) -> Value:
        if not isinstance(hooks, Sequence):
            return hooks
        return Sequence(tuple(hook for hook in hooks.items if hook != what.hook))

    hooks = machine.read(what.owner, what.cell, unset=Sequence(()))
    machine.write(what.owner, what.cell, machine.lift(remaining, hooks))


def around(
    machine: Machine,
    module: Object | Symbol,
    arguments: Arguments,
    node: cst.Call,
    forward: Callable[[Arguments], Value],
) -> Value:
    """Call a forward with what the hooks before it make of its arguments; what those after it make of its output."""
    cells = [(owner, cell) for cell in (_BEFORE, _AFTER) for owner in (machine.module_frame, module.id)]
    found = [machine.read(*cell, unset=Sequence(())) for cell in cells]
    if all(hooks == Sequence(()) for hooks in found):
        return forward(arguments)

    def run(*hooks: Value) -> Value:
        everywhere, own, after_any, after_own = (_known(machine, one) for one in hooks)
        after = [*after_any, *after_own]

        def call(given: Arguments) -> Value:
            output = forward(given)
            return output if machine.dead else _after(machine, module, after, given, output, node)

        return _before(machine, module, [*everywhere, *own], arguments, node, call)

    return machine.lift(run, *found)


def _known(machine: Machine, hooks: Value) -> list[_Hook]:
    """The hooks in a cell, or a single unknown one if the cell has an unknown value."""
    if not isinstance(hooks, Sequence):
        return [_Hook(machine.fresh(), False)]
    return [fact.details for fact in hooks.items if isinstance(fact, Fact) and isinstance(fact.details, _Hook)]


def _before(
    machine: Machine,
    module: Object | Symbol,
    hooks: Many[_Hook],
    arguments: Arguments,
    node: cst.Call,
    forward: Callable[[Arguments], Value],
) -> Value:
    if not hooks:
        return forward(arguments)
    first, *others = hooks
    prepared = machine.now[Calls].prepared
    prepared.append(module)
    made = machine.evaluator.call(machine, first.function, _given_to(machine, module, first, arguments, node), node)
    prepared.pop()
    if machine.dead:
        # What it refuses in this analysis it may take in the program.
        machine.dead, made = False, machine.fresh()

    def go_on(option: Value) -> Value:
        return _before(machine, module, others, _replaced(machine, first, arguments, option), node, forward)

    return machine.lift(go_on, made)


def _given_to(
    machine: Machine, module: Object | Symbol, hook: _Hook, arguments: Arguments, node: cst.Call, *more: Value
) -> Arguments:
    given = Sequence(arguments.positional, exact=not arguments.spread)
    named = (machine.new_dict(Mapping(tuple(arguments.keywords.items())), node),) if hook.with_kwargs else ()
    return Arguments((module, given, *named, *more))


def _replaced(machine: Machine, hook: _Hook, arguments: Arguments, made: Value) -> Arguments:
    """The arguments of a forward after a hook before it has returned something."""
    if made == NONE:
        return arguments
    if hook.with_kwargs:
        both = content(machine, made)
        keywords = _entries(machine, both.items[1]) if both is not None and len(both.items) == 2 else None
        positional = content(machine, both.items[0]) if both is not None and both.items else None
    else:
        keywords = arguments.keywords
        positional = Sequence((made,)) if isinstance(made, Tensor) else content(machine, made)
    if positional is None or keywords is None:
        return replace(
            arguments,
            positional=tuple(machine.fresh() for _ in arguments.positional),
            keywords={name: machine.fresh() for name in arguments.keywords} if hook.with_kwargs else arguments.keywords,
        )
    return Arguments(positional.items, keywords, not positional.exact)


def _entries(machine: Machine, value: Value) -> dict[str, Value] | None:
    if isinstance(value, Object) and value.kind is Kind.DICT:
        value = machine.read(value.id, MAPPING) or value
    if not isinstance(value, Mapping) or value.rest is not None:
        return None
    return {name: item for name, item in value.items if isinstance(name, str)}


def _after(
    machine: Machine,
    module: Object | Symbol,
    hooks: Many[_Hook],
    arguments: Arguments,
    output: Value,
    node: cst.Call,
) -> Value:
    """What forward hooks return in the place of an output, and that they may assign attributes of the module.

    What else they do is for when they are looked at alone.
    """
    for hook in hooks:
        with machine.unheard(), machine.aside(ALWAYS):
            made = machine.evaluator.call(
                machine, hook.function, _given_to(machine, module, hook, arguments, node, output), node
            )
            made = output if machine.dead else made
            changed = machine.store.changes(machine.store.depth - 1)
        for owner, name in changed:
            if owner == module.id and isinstance(name, str):
                machine.write(owner, name, machine.fresh())
        output = machine.lift(lambda option, before=output: before if option == NONE else option, made)
    return output


CALLS: Handlers = dict.fromkeys(FOR_ALL_MODULES, register_for_all)
