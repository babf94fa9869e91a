"""Leaves: tensors that gradients are asked for, what is computed from them, and generators that yield them once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import libcst as cst

from placement_lint.flow.domain.arguments import Arguments
from placement_lint.flow.domain.record import replace
from placement_lint.flow.domain.values import (
    FALSE,
    NONE,
    TRUE,
    Const,
    Fact,
    Kind,
    Lost,
    Object,
    Parameters,
    Role,
    Tensor,
    Value,
    alternatives,
)
from placement_lint.flow.events.schema import GeneratorExhausted
from placement_lint.flow.models.handlers import Handlers
from placement_lint.flow.state.heap import Slot
from placement_lint.flow.state.machine import Machine
from placement_lint.flow.state.notes import Moment, Notes, Use, noted
from placement_lint.rule import Note
from placement_lint.source.wording import source_text


@dataclass
class NoGrad(Moment):
    """How many ``no_grad`` are around."""

    count: int = noted(int)


@dataclass
class Gradients(Notes):
    """What the program does to gradients as a whole."""

    # it assigns to ``.grad`` itself: gradients may come from anywhere
    by_hand: bool = noted(bool, Use.SHARED)
    # it asks for gradients of a tensor without an identity, which may be any tensor
    asks_anywhere: bool = noted(bool, Use.SHARED)


@contextmanager
def without_gradients(machine: Machine, gradless: bool) -> Iterator[None]:
    """Inside ``torch.no_grad()``, if that is where this is."""
    around = machine.now[NoGrad]
    around.count += gradless
    try:
        yield
    finally:
        around.count -= gradless


# Of a tensor that is a leaf whatever it was made with: the answer to ``requires_grad``.
ASKED = Slot("requires grad")
# Of a generator: where the last of it was taken.
_CONSUMED = Slot("consumed")
# Of a list that stands for a generator: what it goes over.
_OVER = Slot("over")


# --- leaves ------------------------------------------------------------------------------------------------------


def through(tensor: Tensor, how: str, node: cst.CSTNode) -> Tensor:
    """What an operation makes of a tensor: one that is computed, if gradients are asked for."""
    leaf = tensor.leaf
    if leaf.computed is None and (leaf.requires_grad or tensor.role is Role.PARAMETER):
        lost = Lost(how, node, tensor.place, tensor.uid)
        return replace(tensor, leaf=replace(leaf, computed=lost, requires_grad=False))
    return replace(tensor, leaf=replace(leaf, requires_grad=False)) if leaf.requires_grad else tensor


def parameters(tensor: Tensor) -> frozenset[int]:
    """The Parameters by themselves that a backward from what is computed of a tensor reaches."""
    own = tensor.role is Role.PARAMETER and tensor.uid
    return tensor.backward.parameters | {tensor.uid} if own else tensor.backward.parameters


def are_not_asked_for(machine: Machine, tensor: Tensor) -> bool:
    """Whether a tensor surely asks for no gradient: it was made so, and computed of none that does."""
    if not tensor.uid and machine.notes[Gradients].asks_anywhere:
        return False
    return not tensor.leaf.requires_grad and tensor.backward.reached == frozenset() and not tensor.backward.parameters


def severed(tensor: Tensor) -> Tensor:
    leaf = replace(tensor.leaf, requires_grad=False, computed=None)
    return replace(tensor, leaf=leaf, backward=replace(tensor.backward, parameters=frozenset()))


def ask(machine: Machine, tensor: Tensor, value: Value) -> None:
    """``t.requires_grad_(value)``, ``t.requires_grad = value``: the tensor itself, by whatever name."""
    if tensor.role is Role.PARAMETER:
        return
    if tensor.uid:
        machine.write(tensor.uid, ASKED, value)
    else:
        machine.notes[Gradients].asks_anywhere |= value != FALSE


def as_asked(machine: Machine, value: Value) -> Value:
    """A tensor that a variable holds, with what was asked of it meanwhile."""
    if not isinstance(value, Tensor) or not value.uid or value.leaf.requires_grad:
        return value
    asking = replace(value, leaf=replace(value.leaf, requires_grad=True))
    return machine.lift(lambda asked: asking if asked == TRUE else value, machine.read(value.uid, ASKED, unset=NONE))


# --- generators ---------------------------------------------------------------------------------------------------


def over(machine: Machine, made: Object, iterable: Value) -> Object:
    """A list that stands for a generator over ``iterable``: it yields once."""
    machine.write(made.id, _OVER, iterable)
    return made


def _generators(machine: Machine, value: Value) -> Iterator[tuple[int, cst.CSTNode]]:
    """The ids of the generators that are used up when the items of a value are taken, each with its maker."""
    for _, option in alternatives(value):
        if isinstance(option, Parameters) and option.uid:
            yield option.uid, option.node
        elif isinstance(option, Object) and option.kind is Kind.LIST:
            under = machine.read(option.id, _OVER)
            if under is not None:
                yield option.id, option.node
                yield from _generators(machine, under)


def consume(machine: Machine, value: Value, node: cst.CSTNode) -> None:
    """All items of a value are taken out of it."""
    for identity, _ in _generators(machine, value):
        machine.write(identity, _CONSUMED, Fact("consumed", Note(node, "the generator is exhausted here")))


def take_all(machine: Machine, value: Value, node: cst.BaseExpression) -> None:
    """A loop over a value, which never runs if another one took all items.

    Whoever hands a function a generator for an argument that it iterates twice is the one to change that.
    """
    function = machine.frame.function
    arguments = {param.name.value for param in function.parameters} if function is not None else set()
    is_given = isinstance(node, cst.Name) and node.value in arguments
    for identity, maker in _generators(machine, value):
        for guard, known in alternatives(machine.read(identity, _CONSUMED, unset=NONE)):
            if isinstance(known, Fact) and isinstance(known.details, Note) and known.details.node is not node:
                scene = replace(machine.scene, when=machine.scene.when & guard)
                place, label = maker if is_given else node, source_text(maker if is_given else node)
                loop = Note(node, "this loop never runs")
                machine.emit(GeneratorExhausted(place, scene, label, "", maker, known.details, loop))
    consume(machine, value, node)


def take(machine: Machine, value: Value, use: str, written: cst.CSTNode, node: cst.CSTNode) -> None:
    """Something wants parameters out of a value, which may have none left."""
    machine.lift(lambda option: _take(machine, option, use, written, node), value)


def _take(machine: Machine, value: Value, use: str, written: cst.CSTNode, node: cst.CSTNode) -> Value:
    for identity, maker in _generators(machine, value):
        fact = machine.read(identity, _CONSUMED)
        if fact is not None:
            machine.lift(lambda known, maker=maker: _report(machine, known, maker, use, written, node), fact)
            break
    consume(machine, value, node)
    return NONE


def _report(
    machine: Machine, fact: Value, maker: cst.CSTNode, use: str, written: cst.CSTNode, node: cst.CSTNode
) -> Value:
    if isinstance(fact, Fact) and isinstance(fact.details, Note):
        machine.emit(GeneratorExhausted(node, machine.scene, source_text(written), use, maker, fact.details))
    return Const(None)


def clip(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``clip_grad_norm_(parameters, 1.0)``"""
    given = arguments.get(0, "parameters")
    if given is not None and node.args:
        how = name.rpartition(".")[2]
        take(machine, given, how, node.args[0].value, node)
        if how.startswith("clip_grad_norm"):
            machine.signals.training.gradients_clipped(machine, given, how, node)
    return machine.fresh(node)


def flag_of(machine: Machine, part: int) -> Value | None:
    """What was last said of ``requires_grad`` of a module's parameters: a Fact, or None where nothing was."""
    return machine.read(part, ASKED)


def is_frozen(machine: Machine, part: int) -> bool:
    """Whether the parameters are frozen on one of the paths that lead here."""
    flags = alternatives(machine.read(part, ASKED, unset=NONE))
    return any(isinstance(flag, Fact) and flag.name == "frozen" for _, flag in flags)


CALLS: Handlers = {f"torch.nn.utils.{name}": clip for name in ("clip_grad_norm_", "clip_grad_norm", "clip_grad_value_")}
