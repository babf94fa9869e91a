"""Schedulers of the learning rate: which optimizer each has, and whether that is still the one that trains."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import libcst as cst

from placement_lint.flow.api.torch_names import SCHEDULERS
from placement_lint.flow.domain.arguments import Arguments
from placement_lint.flow.domain.values import (
    NONE,
    Bound,
    Const,
    Fact,
    Kind,
    Object,
    Slice,
    Symbol,
    Value,
    alternatives,
)
from placement_lint.flow.events.schema import SchedulerOutlived
from placement_lint.flow.models import optimizers
from placement_lint.flow.models.handlers import Handlers
from placement_lint.flow.state.heap import Slot
from placement_lint.flow.state.machine import Machine
from placement_lint.flow.state.notes import Notes, Use, noted
from placement_lint.flow.state.signals import Signals
from placement_lint.rule import Note
from placement_lint.source.wording import source_text


@dataclass
class Schedulers(Notes):
    """Schedulers and the optimizers that they update."""

    # schedulers that still update an optimizer, by its id, that another optimizer replaced, by its id
    outlived: list[tuple[SchedulerOutlived, int, int]] = noted(list, Use.AT_END)
    # the ids of optimizers that have schedulers, and of those that other code may access, or whose groups it may
    # access, with the place; the places where the groups were only read
    scheduled: set[int] = noted(set, Use.AT_END)
    optimizers_out: set[tuple[int, cst.CSTNode]] = noted(set, Use.AT_END)
    groups_read: set[cst.CSTNode] = noted(set, Use.AT_END)


# Of a scheduler: the attribute under which the program itself finds its optimizer, and where it took it.
_OPTIMIZER = "optimizer"
_BUILT = Slot("built")
_TYPE = "torch.optim.lr_scheduler.LRScheduler"
# Of an optimizer: the one that took its place.
_SUCCESSOR = Slot("successor")
# Its groups of parameters, one of them, and what that holds.
GROUPS = "param_groups"
_GROUP = "param_groups[]"
_PARAMS = "param_groups[].params"


@dataclass(frozen=True)
class _Succession:
    """An optimizer takes another one's place: at this statement the variable goes from the one to the other."""

    optimizer: Object
    variable: str | cst.CSTNode
    node: cst.CSTNode


def build(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``StepLR(optimizer, 10)``"""
    scheduler = machine.fresh(node, _TYPE)
    optimizer = arguments.get(0, "optimizer")
    if optimizer is not None:
        machine.write(scheduler.id, _OPTIMIZER, optimizer)
        machine.write(scheduler.id, _BUILT, Fact("built", node))
        machine.notes[Schedulers].scheduled.update(held.id for held in _optimizers(optimizer))
    return scheduler


def succeeded(
    machine: Machine, variable: str | cst.CSTNode, before: Value | None, after: Value, node: cst.CSTNode
) -> None:
    """``optimizer = SGD(...)``, where the variable has held another one until now."""
    if (
        not machine.notes[optimizers.Optimizers].built
        or before is None
        or before == after
        or not isinstance(node, (cst.Assign, cst.AnnAssign))
    ):
        return

    def take_over(old: Value, new: Value) -> Value:
        both = old != new and _is_optimizer(old) and _is_optimizer(new)
        if both and isinstance(old, Object) and isinstance(new, Object) and machine.label(old) == machine.label(new):
            machine.write(old.id, _SUCCESSOR, machine.fact(f"succeeded by {new.id}", _Succession(new, variable, node)))
        return NONE

    if any(_optimizers(before)) and any(_optimizers(after)):
        machine.lift(take_over, before, after)


def is_scheduler(value: Symbol) -> bool:
    return value.type == _TYPE


def predecessors(machine: Machine, optimizer: Object) -> Iterator[Object]:
    """The optimizers whose variable this one has taken over."""
    for old in machine.notes[optimizers.Optimizers].built:
        for _, fact in alternatives(machine.read(old.id, _SUCCESSOR, unset=NONE)):
            if isinstance(fact, Fact) and isinstance(fact.details, _Succession) and fact.details.optimizer == optimizer:
                yield old


def step(machine: Machine, scheduler: Symbol, node: cst.Call) -> None:
    """``scheduler.step()`` sets the learning rate of the optimizer that it was given, and of no other."""
    optimizer = machine.read(scheduler.id, _OPTIMIZER)
    if optimizer is None or not isinstance(node.func, cst.Attribute):
        return

    def look(held: Value) -> Value:
        successor = machine.read(held.id, _SUCCESSOR) if isinstance(held, Object) else None
        if isinstance(held, Object) and successor is not None:
            machine.lift(lambda fact: _note_outlived(machine, scheduler, held, fact, node), successor)
        return NONE

    machine.lift(look, optimizer)


def _note_outlived(machine: Machine, scheduler: Symbol, old: Object, fact: Value, node: cst.Call) -> Value:
    succession, built = fact.details if isinstance(fact, Fact) else None, machine.read(scheduler.id, _BUILT)
    if not isinstance(fact, Fact) or not isinstance(succession, _Succession):
        return NONE
    assert isinstance(built, Fact)
    assert isinstance(built.details, cst.CSTNode)
    assert isinstance(node.func, cst.Attribute)
    label = machine.text(node.func.value)
    if _is_left_alone(machine, old, succession.optimizer):
        took = Note(built.details, f"`{label}` gets the old optimizer here")
        steps = Note(node, "this sets the learning rate of the old one only")
        with machine.reaching(fact.reach):
            scene = machine.scene
        event = SchedulerOutlived(succession.node, scene, label, source_text(succession.variable), took, steps)
        machine.notes[Schedulers].outlived.append((event, old.id, succession.optimizer.id))
    return NONE


def _is_left_alone(machine: Machine, old: Object, new: Object) -> bool:
    """Whether the new optimizer trains what the old one did, and shares no learning rate with it."""
    same = optimizers.covered(machine, old) & optimizers.covered(machine, new)
    return bool(same) and optimizers.has_stepped(machine, new) and not optimizers.shares_rates(machine, old, new)


def optimizer_stepped(machine: Machine, optimizer: Object, node: cst.CSTNode) -> None:
    """An optimizer that another took the place of still trains: the program has it under another name."""
    if machine.read(optimizer.id, _SUCCESSOR) is not None:
        machine.notes[Schedulers].optimizers_out.add((optimizer.id, node))


def given_away(machine: Machine, values: Iterable[Value], node: cst.CSTNode) -> None:
    """Optimizers go where it is not seen who steps them or sets their learning rates."""
    if machine.notes[optimizers.Optimizers].built:
        machine.notes[Schedulers].optimizers_out.update(
            (held.id, node) for value in values for held in _optimizers(value)
        )


def groups(machine: Machine, optimizer: Object, name: str, node: cst.CSTNode) -> Value:
    """``optimizer.param_groups``: other code that reads them may set the learning rate."""
    if name == GROUPS:
        machine.notes[Schedulers].optimizers_out.add((optimizer.id, node))
    return Bound(optimizer, name, node=node)


def group(machine: Machine, groups: Bound) -> Value:
    """One of ``optimizer.param_groups``."""
    return Bound(groups.receiver, _GROUP, node=groups.node) if _is_of_groups(groups, GROUPS) else machine.fresh()


def item(machine: Machine, owner: Bound, key: Value) -> Value:
    """``optimizer.param_groups[0]``, a group that has no other name and may only be read; ``group["params"]``."""
    if _is_of_groups(owner, GROUPS) and owner.node is not None and not isinstance(key, Slice):
        if isinstance(key, Const):
            machine.notes[Schedulers].groups_read.add(owner.node)
        return group(machine, owner)
    if _is_of_groups(owner, _GROUP) and key == Const("params"):
        return Bound(owner.receiver, _PARAMS, node=owner.node)
    return machine.fresh()


def item_changed(machine: Machine, owner: Bound, key: Value, value: Value, node: cst.CSTNode) -> None:
    """``optimizer.param_groups[0]["lr"] = 0.1``"""
    if owner.name == _GROUP:
        given_away(machine, (owner,), node)
    if key == Const("params") or not _is_of_groups(owner, _GROUP):
        groups_changed(machine, owner, (value,))


def groups_changed(machine: Machine, changed: Bound, values: Iterable[Value]) -> None:
    """``optimizer.param_groups.append({…})``, ``group["params"].extend(…)``"""
    if _is_of_groups(changed, GROUPS, _GROUP, _PARAMS) and isinstance(changed.receiver, Object):
        for value in values:
            optimizers.regrouped(machine, changed.receiver, value)


def _is_of_groups(value: Bound, *names: str) -> bool:
    return value.name in names and _is_optimizer(value.receiver)


def finish(machine: Machine) -> None:
    """Report at the end, when it is known that no other code sets the learning rate."""
    noted = machine.notes[Schedulers]
    out = {identity for identity, node in noted.optimizers_out if node not in noted.groups_read}
    for event, old, new in noted.outlived:
        if out.isdisjoint((old, new)) and new not in noted.scheduled:
            machine.emit(event)


def _is_optimizer(value: Value) -> bool:
    return isinstance(value, Object) and value.kind is Kind.OPTIMIZER


def _optimizers(value: Value) -> Iterator[Object]:
    """The optimizers that a value may be, or be something of."""
    for _, option in alternatives(value):
        holder = option.receiver if isinstance(option, Bound) else option
        if isinstance(holder, Object) and _is_optimizer(holder):
            yield holder


CALLS: Handlers = dict.fromkeys(SCHEDULERS, build)


def listen(signals: Signals) -> None:
    signals.training.optimizer_stepping.connect(optimizer_stepped)
    signals.program.values_given_away.connect(given_away)
