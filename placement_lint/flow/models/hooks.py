"""Forward hooks in the replicas of DataParallel: what they keep outside is the output of one replica.

A replica is a shallow copy (torch/nn/modules/module.py, `Module._replicate_for_data_parallel`), its hooks included: all
of them call the same function, which puts its own chunk of the batch in the same place.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from placement_lint.flow.domain.arguments import Arguments
from placement_lint.flow.domain.path_condition import MANY_GPUS, machines
from placement_lint.flow.domain.record import replace
from placement_lint.flow.domain.values import (
    CPU,
    NONE,
    REPLICA,
    Bound,
    Chunk,
    Fact,
    Function,
    InReplica,
    Mapping,
    Object,
    Sequence,
    Symbol,
    Tensor,
    Value,
    alternatives,
    choose,
)
from placement_lint.flow.events.schema import ChunkUsed
from placement_lint.flow.models import modules
from placement_lint.flow.state.extent import CONTENT_CELLS
from placement_lint.flow.state.heap import Cell, Slot
from placement_lint.flow.state.machine import Machine
from placement_lint.flow.state.moment import Replica
from placement_lint.flow.state.notes import Notes, noted
from placement_lint.rule import Note
from placement_lint.source.wording import source_text


@dataclass
class Hooks(Notes):
    """Hooks of modules."""

    # the ids of the modules that have any
    hooked: set[int] = noted(set)


# Cells of the module frame: the hooks that there are, and the last call of a module that has some and is no replica.
_HOOKS = Slot("hooks")
_BARE_CALL = Slot("bare call")


@dataclass(frozen=True)
class _Hook:
    module: Object | Symbol
    function: Function | Bound
    call: cst.Call


def register(machine: Machine, module: Object | Symbol, arguments: Arguments, node: cst.Call) -> None:
    """``module.register_forward_hook(hook)``"""
    function = arguments.get(0, "hook")
    if isinstance(function, (Function, Bound)):
        hook = Fact(f"hook {id(node)} of {module.id}", _Hook(module, function, node))
        machine.add(machine.module_frame, _HOOKS, hook)
        machine.notes[Hooks].hooked.add(module.id)


def removed(machine: Machine) -> None:
    """``handle.remove()``: whichever hook that is, none is believed to be there any more."""
    if machine.read(machine.module_frame, _HOOKS) is not None:
        machine.write(machine.module_frame, _HOOKS, Sequence(()))


def _known(machine: Machine) -> tuple[Value, ...]:
    known = machine.read(machine.module_frame, _HOOKS)
    return known.items if isinstance(known, Sequence) else ()


def called_bare(machine: Machine, module: Object | Symbol) -> None:
    """A module is called with a whole batch: its hooks get what is to be had."""
    if not machine.notes[Hooks].hooked.isdisjoint(modules.reachable(machine, module)):
        machine.write(machine.module_frame, _BARE_CALL, machine.fresh())


def _so_far(machine: Machine) -> Value:
    """What tells the time since one such call from that since another."""
    return machine.read(machine.module_frame, _BARE_CALL, unset=NONE)


def run(machine: Machine) -> dict[Cell, Value]:
    """The hooks in a replica are called; what each of them leaves outside that is its replica's output."""
    left: dict[Cell, Value] = {}
    for fact in _known(machine):
        hook = fact.details if isinstance(fact, Fact) else None
        if isinstance(hook, _Hook) and _is_in_replica(machine, hook.module):
            left.update(_run(machine, hook))
    return left


def _is_in_replica(machine: Machine, module: Object | Symbol) -> bool:
    """Whether the running replica has a module, or an unknown module that this is a part of."""
    part: Object | Symbol | None = module
    while part is not None and part.id not in machine.now[Replica].modules:
        part = part.parent if isinstance(part, Symbol) else None
    return part is not None


def _run(machine: Machine, hook: _Hook) -> dict[Cell, Value]:
    replica = machine.now[Replica]
    newest, chunk = (
        machine.newest,
        Chunk(hook.call, replica.notes, replica.ids, _so_far(machine)),
    )
    output = Tensor(REPLICA, None, scattered=True, replica=InReplica(chunk=chunk))
    machine.store.begin()
    # What else the function does is for when it is looked at by itself.
    with machine.unheard():
        machine.evaluator.call(
            machine, hook.function, Arguments((hook.module, machine.fresh("input"), output)), hook.call
        )
    machine.dead = False
    changes = machine.store.changes(machine.store.depth - 1)
    machine.store.roll_back()
    outside = [cell for cell in changes if cell[0] <= newest and cell[0] not in replica.modules]
    left = {cell: kept for cell in outside if (kept := _kept(machine, cell, changes[cell])) is not None}
    return {cell: kept for cell, kept in left.items() if not _is_inside(machine, cell[0])}


def _is_inside(machine: Machine, owner: int) -> bool:
    """Whether something is in a list or dict, where there may be one for each device."""
    contents = (option for value in machine.store.under(CONTENT_CELLS) for _, option in alternatives(value))
    return any(isinstance(item, Object) and item.id == owner for value in contents for item in _items(value))


def _items(value: Value) -> Iterator[Value]:
    held = value.items if isinstance(value, Sequence) else ()
    named = (one for _, one in value.items) if isinstance(value, Mapping) else ()
    rest = (value.rest,) if isinstance(value, Mapping) and value.rest is not None else ()
    for one in (*held, *named, *rest):
        yield from (option for _, option in alternatives(one))


def _kept(machine: Machine, cell: Cell, value: Value | None) -> Value | None:
    """What a cell holds afterwards: None where no output of a replica is in the place of that of another.

    In a list there is one of each, and who only wants all rows may join them.
    """
    before = machine.store.read(*cell)
    if isinstance(value, Tensor) and value.replica.chunk is not None:
        return _outside(machine, value)
    if isinstance(value, Mapping):
        entries = [(key, one) for key, one in value.items if isinstance(key, (str, int)) and isinstance(one, Tensor)]
        kept = [(key, _outside(machine, one)) for key, one in entries if one.replica.chunk is not None]
        return (before if isinstance(before, Mapping) else Mapping(())).with_items(kept) if kept else None
    return None


def _outside(machine: Machine, chunk: Tensor) -> Value:
    """It is on some replica's GPU, unless the hook moved it; where there are no replicas, nothing is known of it."""
    place = CPU if chunk.place == CPU else machine.fresh()
    kept, several = replace(chunk, place=place, scattered=False, assumed=True), machines(MANY_GPUS)
    return choose(((several, kept), (several.negation, machine.fresh()))) or machine.fresh()


def used(machine: Machine, chunk: Chunk, source: str | cst.CSTNode, node: cst.CSTNode) -> None:
    """The content of what a hook kept is read."""
    if not machine.now[Replica].notes and chunk.since == _so_far(machine):
        trace = (*chunk.replica, Note(node, "used here"))
        machine.emit(ChunkUsed(chunk.hook, machine.scene, source_text(source), chunk.ids, trace))
