"""Modules and Parameters trained beside DistributedDataParallel, whose gradients are not averaged over the ranks.

DDP averages gradients of the module that it wraps. A criterion with weights, or a second head, may be part of the same
backward, and each rank then trains it separately.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import libcst as cst

from placement_lint.flow.domain.arguments import Arguments
from placement_lint.flow.domain.values import (
    ABSENT,
    NONE,
    Fact,
    Kind,
    Object,
    Role,
    Source,
    Symbol,
    Tensor,
    Value,
    alternatives,
)
from placement_lint.flow.events.schema import TrainedOutsideDdp
from placement_lint.flow.models import ddp, gradients, modules, optimizers, ranks, trainable
from placement_lint.flow.models.ddp import Ddp
from placement_lint.flow.models.gradients import Gradients
from placement_lint.flow.observers.uncovered_parameters import Coverage
from placement_lint.flow.state.heap import Slot
from placement_lint.flow.state.machine import Machine
from placement_lint.flow.state.module_notes import ModuleNotes
from placement_lint.flow.state.notes import Notes, Use, noted
from placement_lint.flow.state.signals import Signals
from placement_lint.rule import Note
from placement_lint.source.querying import names_in


@dataclass
class Beside(Notes):
    """Modules and Parameters trained beside DistributedDataParallel."""

    # modules, by id, each with its first call; events for trained ones, with the ids of their parameters; whether the
    # program averages gradients or weights over the ranks itself
    modules: dict[int, tuple[Object, cst.Call]] = noted(dict)
    trained: list[tuple[TrainedOutsideDdp, frozenset[int]]] = noted(list, Use.AT_END)
    reduces_by_hand: bool = noted(bool)


# For a module, or a Parameter outside of modules: the DDP wrapper, and the backward that gave it local gradients.
_BESIDE = Slot("beside ddp")
# Names of values that a program averages by hand.
_BY_HAND = re.compile(r"\w*(?:grad|param|weight|bias|bucket|flat)\w*|p|data", re.IGNORECASE)


def called(machine: Machine, module: Object | Symbol, node: cst.Call) -> None:
    """A module outside of DDP is called from code outside of DDP."""
    if isinstance(module, Object) and module.kind is Kind.MODULE:
        machine.notes[Beside].modules.setdefault(module.id, (module, node))


def backward(machine: Machine, loss: Tensor, wrapper: Object, note: Note) -> None:
    """A backward from a loss that was also computed through a DDP wrapper."""
    fact = Fact(f"beside {wrapper.id} {id(note.node)}", (wrapper, note))
    reached = loss.modules | loss.backward.parameters | (loss.backward.reached or frozenset())
    for module, _ in machine.notes[Beside].modules.values():
        if reached & _learning(machine, module):
            machine.write(module.id, _BESIDE, fact)
    for uid in machine.notes[Coverage].loose.keys() & reached:
        machine.write(uid, _BESIDE, fact)


def _learning(machine: Machine, module: Object) -> frozenset[int]:
    """The trainable parts of a module; empty if some of it is in a wrapper, or frozen, or unknown."""
    parts = modules.reachable(machine, module).values()
    if not trainable.has_own_parameters(machine, module) or any(_is_apart(machine, part) for part in parts):
        return frozenset()
    learning = [part for part in parts if isinstance(part, Object) and modules.learns_itself(machine, part)]
    tensors = [child for part in learning for _, child in modules.children(machine, part) if isinstance(child, Tensor)]
    return frozenset((*(part.id for part in learning), *(one.uid for one in tensors if one.role is Role.PARAMETER)))


def _is_apart(machine: Machine, part: Object | Symbol) -> bool:
    return ddp.wrapper_of(machine, part) is not None or gradients.is_frozen(machine, part.id)


def zeroed(machine: Machine, optimizer: Object) -> None:
    """``optimizer.zero_grad()`` discards these gradients."""
    for identity in _candidates(machine, optimizer):
        if machine.read(identity, _BESIDE) is not None:
            machine.write(identity, _BESIDE, ABSENT)


def _candidates(machine: Machine, optimizer: Object) -> list[int]:
    """The ids of these modules and Parameters in an optimizer, without parts of others."""
    if not machine.notes[Ddp].wrappers:
        return []
    held = optimizers.covered(machine, optimizer)
    called = [module for module, _ in machine.notes[Beside].modules.values()]
    inner = {part for module in called for part in modules.reachable(machine, module) if part != module.id}
    return [
        one
        for one in (*machine.notes[Beside].modules, *machine.notes[Coverage].loose)
        if one in held and one not in inner
    ]


def stepped(machine: Machine, optimizer: Object, reached: frozenset[int], note: Note) -> None:
    """``optimizer.step()``: the ranks diverge in these parameters."""
    for identity in _candidates(machine, optimizer) if not ranks.is_alone(machine) else ():
        fact = machine.read(identity, _BESIDE)
        if fact is not None:
            machine.lift(lambda option, one=identity: _note(machine, one, optimizer, option, note), fact)


def _note(machine: Machine, identity: int, optimizer: Object, fact: Value, stepped: Note) -> Value:
    if not isinstance(fact, Fact) or not isinstance(fact.details, tuple):
        return NONE
    wrapper, backward = fact.details
    module, call = machine.notes[Beside].modules.get(identity, (None, None))
    label, kind = (machine.label(module, "the module"), module.cls.name) if module is not None else ("", "Parameter")
    trace = (Note(wrapper.node, "wrapped in DistributedDataParallel here"), backward, stepped)
    event = TrainedOutsideDdp(
        call or machine.notes[Coverage].loose[identity],
        machine.scene,
        label,
        kind.rpartition(".")[2],
        machine.label(wrapper, "the wrapper"),
        machine.label(optimizer, "the optimizer"),
        trace,
    )
    machine.notes[Beside].trained.append(
        (event, _learning(machine, module) if module is not None else frozenset({identity}))
    )
    return NONE


def reduced(machine: Machine, arguments: Arguments, node: cst.Call) -> None:
    """``dist.all_reduce(t)`` is manual averaging, unless ``t`` is a loss or a metric."""
    known = [option for value in arguments.values() for _, option in alternatives(value)]
    if any(map(_may_be_weight, known)) or any(map(_BY_HAND.fullmatch, names_in(node))):
        machine.notes[Beside].reduces_by_hand = True


def _may_be_weight(value: Value) -> bool:
    """Whether a value may be one of a module's tensors, such as an entry of its state dict, rather than a metric."""
    if isinstance(value, Tensor):
        return value.source is Source.MODULE and value.backward.reached == frozenset() and value.scalar is not True
    return isinstance(value, Symbol)


def finish(machine: Machine) -> None:
    """Report after the whole program, unless the program averages gradients or weights itself."""
    if machine.notes[Beside].reduces_by_hand or machine.notes[Gradients].by_hand:
        return
    for event, parts in machine.notes[Beside].trained:
        if parts.isdisjoint(
            machine.notes[ModuleNotes].given_away if event.label else machine.notes[ModuleNotes].asked_for
        ):
            machine.emit(event)


# --- signals ----------------------------------------------------------------------------------------------------------


def listen(signals: Signals) -> None:
    signals.modules.called_beside_ddp.connect(called)
    signals.training.backward_through_ddp.connect(backward)
    signals.training.gradients_zeroed.connect(zeroed)
    signals.training.optimizer_stepped.connect(stepped)
    signals.training.reduced_over_ranks.connect(reduced)
