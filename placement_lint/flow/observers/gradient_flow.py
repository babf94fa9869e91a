"""Cuts: where a gradient ends on its way back, and the parameters that it therefore never reaches.

To say that nothing ever trains a parameter, all of a loss has to be known: ``Tensor.reached`` is None wherever
something unknown takes part in it. What any backward may reach, or somebody else may have trained, is ``learned``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import libcst as cst

from placement_lint.flow.api.torch_names import NUMBER_TYPES
from placement_lint.flow.domain.arguments import Arguments
from placement_lint.flow.domain.record import replace
from placement_lint.flow.domain.values import (
    NONE,
    AtLeast,
    Choice,
    Const,
    Cut,
    Device,
    External,
    Kind,
    Object,
    Role,
    Sequence,
    Symbol,
    Tensor,
    Value,
    alternatives,
)
from placement_lint.flow.events.schema import GradientLost
from placement_lint.flow.models import optimizers
from placement_lint.flow.observers import uncovered_parameters
from placement_lint.flow.state import modules
from placement_lint.flow.state.containers import content
from placement_lint.flow.state.machine import Machine
from placement_lint.rule import Note
from placement_lint.source.wording import source_text

# Of the program: the cuts behind the last loss that went backward, and where that was.
_CUTS = "#cuts"
# Among what is learned: a loss of which not all is known may reach anything.
_ANYTHING = -1
# What is called so is meant to stay as it is, or to follow another network.
_KEPT = re.compile(r"target|teacher|frozen|fixed|random|momentum|ema|prior|reference", re.IGNORECASE)
# Values of these types carry no gradient.
_PLAIN_TYPES = NUMBER_TYPES | {"str", "torch.Size", "torch.dtype", "list", "numpy.ndarray"}


# --- what a backward reaches ---------------------------------------------------------------------------------------


def reached(tensor: Tensor) -> frozenset[int] | None:
    """The modules and Parameters that a backward from a tensor reaches; None where that is not known."""
    if tensor.role is Role.PARAMETER and tensor.uid:
        return tensor.modules | {tensor.uid}
    return tensor.reached


def joined(tensors: Iterable[Tensor]) -> frozenset[int] | None:
    """The same of what is computed from all of them."""
    known = [reached(tensor) for tensor in tensors]
    return frozenset().union(*(one for one in known if one is not None)) if None not in known else None


def after(machine: Machine, result: Value, *given: Value) -> Value:
    """What came of a call that was given these values; what is no tensor may have any of them in it."""
    if isinstance(result, Tensor):
        return accompanied(machine, result, *given)
    if isinstance(result, Sequence):
        return replace(result, items=tuple(after(machine, item, *given) for item in result.items))
    written_into(machine, *given)
    return result


def accompanied(machine: Machine, result: Tensor, *others: Value) -> Tensor:
    """What came of an operation that other values took part in as well, if only perhaps."""
    if result.reached is None:
        return result
    given = [option for value in others for option in _flat(machine, value)]
    tensors = [option for option in given if isinstance(option, Tensor)]
    plain = all(_is_plain(option) for option in given if not isinstance(option, Tensor))
    cuts = result.cuts.union(*(tensor.cuts for tensor in tensors))
    return replace(result, reached=joined((result, *tensors)) if plain else None, cuts=cuts)


def _flat(machine: Machine, value: Value) -> list[Value]:
    """The alternatives of a value, and what is in lists; an unknown value besides where there may be more in them."""
    if not isinstance(value, (Choice, Sequence, Object)):
        return [value]
    flat: list[Value] = []
    for _, option in alternatives(value):
        items = content(machine, option)
        if items is None:
            flat.append(option)
            continue
        flat.extend(inner for item in items.items for inner in _flat(machine, item))
        if not items.exact:
            flat.append(Symbol(0))
    return flat


def _is_plain(value: Value) -> bool:
    return isinstance(value, (Const, AtLeast, Device, External)) or (
        isinstance(value, Symbol) and value.type in _PLAIN_TYPES
    )


# --- cuts ----------------------------------------------------------------------------------------------------------


def cut(machine: Machine, result: Tensor, cut_off: Value, how: str, node: cst.CSTNode) -> Tensor:
    """``cut_off.detach()``: no backward from the result comes back past here."""
    tensors = [option for option in _flat(machine, cut_off) if isinstance(option, Tensor)]
    cuts = frozenset().union(*(tensor.cuts for tensor in tensors))
    behind = (joined(tensors) or frozenset()) & _own(machine)
    return replace(result, reached=frozenset(), cuts=cuts | {Cut(node, how, behind)} if behind else cuts)


def _own(machine: Machine) -> frozenset[int]:
    """The parts of the module whose code cuts; none where it does so on purpose, under a test of its own."""
    module, function = machine.frame.receiver, machine.frame.function
    if not isinstance(module, Object) or module.kind is not Kind.MODULE or function is None:
        return frozenset()
    if not machine.in_forward or machine.without_grad:
        return frozenset()
    if machine.chooses:
        return frozenset()
    children = [child for name, child in modules.children(machine, module) if not _KEPT.search(name)]
    return frozenset(part for child in children for part in _parts(machine, child))


def _parts(machine: Machine, child: Value) -> Iterator[int]:
    """A Parameter, or the layers of a module that begin with random weights: a library's model is trained already."""
    if isinstance(child, Tensor):
        yield child.uid
    elif isinstance(child, Object):
        parts = modules.reachable(machine, child)
        opaque = {identity for identity, part in parts.items() if not isinstance(part, Object) or _is_opaque(part)}
        yield from (modules.registered_below(machine, child) | {child.id}) - opaque


def _is_opaque(module: Object) -> bool:
    return isinstance(module.cls, External) and not module.cls.name.startswith("torch.nn.")


def of_data(machine: Machine, name: str, made: Tensor, arguments: Arguments, node: cst.Call) -> Tensor:
    """``torch.tensor(data)`` takes the values and no gradient; its kind may be the very tensor that they are given."""
    data = arguments.get(0, "data") or NONE
    if name == "torch.tensor":
        return cut(machine, made, data, "torch.tensor", node)
    return made if all(_is_plain(option) for option in _flat(machine, data)) else replace(made, reached=None)


def backward(machine: Machine, loss: Value, node: cst.CSTNode) -> None:
    """``loss.backward()``"""
    for _, option in alternatives(loss):
        known = reached(option) if isinstance(option, Tensor) else None
        given = {_ANYTHING} if known is None else known
        machine.learned |= given
        machine.given_gradients |= given
    found = loss.cuts if isinstance(loss, Tensor) and loss.reached is not None else frozenset()
    machine.write(machine.module_frame, _CUTS, Const((found, Note(node, "the backward is here"))))


def given_away(machine: Machine, tensor: Tensor) -> None:
    """A tensor is given to what cannot be looked into: there may be a backward from it."""
    known = reached(tensor)
    given = tensor.modules | tensor.parameters if known is None else known
    machine.learned |= given
    machine.given_gradients |= given


def loaded(machine: Machine, module: Object | Symbol) -> None:
    """``module.load_state_dict(…)``: it was trained before."""
    machine.learned |= set(modules.reachable(machine, module))


def tied(machine: Machine, owner: Object, value: Value) -> None:
    """``a.weight = b.weight``: what trains one of them trains the other."""
    for _, option in alternatives(value):
        if isinstance(option, Tensor) and option.role is Role.PARAMETER and option.modules:
            machine.learned |= option.modules | {owner.id, option.uid}


def changed(machine: Machine, tensor: Tensor) -> None:
    """``parameter.data.mul_(…)``, once the module is built: it is not left to optimizers."""
    receiver = machine.frame.receiver
    building = isinstance(receiver, Object) and machine.constructing(receiver)
    if not building and tensor.role is Role.PARAMETER:
        machine.learned |= tensor.modules | {tensor.uid}
    elif not building and tensor.lost is not None:
        machine.learned |= tensor.modules | {tensor.lost.uid}


def written_into(machine: Machine, *values: Value) -> None:
    """``t[i] = value``: a backward from whatever ``t`` is part of may reach what the value was computed with."""
    for value in values:
        for option in _flat(machine, value):
            if isinstance(option, Tensor):
                given_away(machine, option)


def collected(machine: Machine, *values: Value) -> None:
    """Values get into a list or dict: which of them it is that somebody takes out, is not always known."""
    written_into(machine, *values)


def stepped(machine: Machine, optimizer: Object, note: Note) -> None:
    """``optimizer.step()``: it holds what lies before a cut."""
    known = machine.read(machine.module_frame, _CUTS)
    if known is not None:
        machine.lift(lambda option: _stepped(machine, optimizer, option, note), known)


def _stepped(machine: Machine, optimizer: Object, known: Value, note: Note) -> Value:
    if isinstance(known, Const) and isinstance(known.value, tuple):
        cuts, back = known.value
        held = optimizers.covered(machine, optimizer)
        label = machine.label(optimizer, "the optimizer")
        for one in cuts:
            event = GradientLost(one.node, machine.scene, source_text(one.node), one.how, label, back, note)
            machine.cut_off.append((event, one.behind, held))
    return NONE


def knows_backwards(machine: Machine) -> bool:
    """Whether all is known that any backward of the program reaches, or gives gradients to in another way."""
    return not (_ANYTHING in machine.learned or machine.gradients_by_hand or machine.overlooks)


def resolve(machine: Machine) -> None:
    """At the end it is known what no backward ever reached."""
    if not knows_backwards(machine):
        return
    looked_after = machine.learned | machine.ever_frozen | machine.given_away
    for event, behind, held in machine.cut_off:
        lost = {part for part in behind if looked_after.isdisjoint(uncovered_parameters.around(machine, part))}
        if lost and lost <= held:
            machine.emit(event)
