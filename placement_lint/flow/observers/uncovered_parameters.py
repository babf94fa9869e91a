"""Parameters that get gradients but that no optimizer holds."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial

import libcst as cst

from placement_lint.flow.domain.record import replace
from placement_lint.flow.domain.values import (
    NONE,
    TRUE,
    Kind,
    Object,
    Parameters,
    Role,
    Symbol,
    Tensor,
    Value,
    alternatives,
)
from placement_lint.flow.events.schema import GroupsMiss, OptimizerMisses
from placement_lint.flow.models import gradients, modules, named_parameters, optimizers, schedulers, trainable
from placement_lint.flow.observers.gradient_flow import GradientFlow
from placement_lint.flow.state.containers import content
from placement_lint.flow.state.heap import Slot
from placement_lint.flow.state.machine import Machine
from placement_lint.flow.state.module_notes import ModuleNotes
from placement_lint.flow.state.moment import Calls
from placement_lint.flow.state.notes import Notes, Use, noted
from placement_lint.flow.state.signals import Signals
from placement_lint.rule import Note


@dataclass
class Coverage(Notes):
    """Parameters, and the optimizers that should hold them."""

    # top-level modules that compute losses from the outputs of other modules, and Parameters outside of modules
    criteria: dict[int, Object] = noted(dict)
    loose: dict[int, cst.CSTNode] = noted(dict)
    # by the id of a tensor that may be 0-dim: the module that returned it, a criterion if the tensor is a loss
    perhaps_losses: dict[int, Object] = noted(dict)
    misses: list[tuple[OptimizerMisses, frozenset[int]]] = noted(list, Use.AT_END)
    # top-level modules that the program calls; modules whose parameters it reads, without those below them; parts that
    # the groups of an optimizer miss, with their ids
    called: dict[int, Object] = noted(dict)
    read: set[int] = noted(set, Use.AT_END)
    ungrouped: list[tuple[GroupsMiss, frozenset[int]]] = noted(list, Use.AT_END)


# Of a module: it got a state from elsewhere.
_LOADED = Slot("loaded")


# --- criteria and Parameters outside of modules ------------------------------------------------------------------

_CRITERION = re.compile(r"loss|criterion|objective|penalty", re.IGNORECASE)


def called(machine: Machine, module: Object, inputs: Iterable[Value], result: Value) -> Value:
    """A module is called that may be a criterion: it takes outputs of other modules and returns a number.

    If its result has an unknown shape, a later backward from it shows that it is a number.
    """
    if machine.now[Calls].in_forward:
        return result
    machine.notes[Coverage].called.setdefault(module.id, module)
    if module.id in machine.notes[Coverage].criteria:
        return result
    options = [option for value in inputs for option in _handed(machine, value)]
    given = any(isinstance(option, Tensor) and option.modules for option in options)
    number = any(isinstance(option, Tensor) and option.scalar is True for _, option in alternatives(result))
    named = _CRITERION.search(module.cls.name) is not None
    if not given or not trainable.has_own_parameters(machine, module):
        return result
    if number or named:
        machine.notes[Coverage].criteria[module.id] = module
        return result
    return machine.lift(lambda option: _perhaps_a_loss(machine, module, option), result)


def _perhaps_a_loss(machine: Machine, module: Object, result: Value) -> Value:
    if not isinstance(result, Tensor) or result.scalar is False:
        return result
    identity = machine.new_id()
    machine.notes[Coverage].perhaps_losses[identity] = module
    return replace(result, uid=identity)


def backward(machine: Machine, loss: Value, node: cst.CSTNode) -> None:
    """``loss.backward()``: the loss is a number, so the module that returned it is a criterion."""
    module = machine.notes[Coverage].perhaps_losses.get(loss.uid) if isinstance(loss, Tensor) else None
    if module is not None:
        machine.notes[Coverage].criteria[module.id] = module


def _handed(machine: Machine, value: Value) -> Iterator[Value]:
    """The alternatives of a value, with the items of lists in place of the lists."""
    for _, option in alternatives(value):
        items = content(machine, option)
        for item in items.items if items is not None else (option,):
            yield from (inner for _, inner in alternatives(item))


def note_parameter(machine: Machine, parameter: Tensor, data: Value, node: cst.CSTNode) -> None:
    if not isinstance(data, Tensor):
        return
    receivers = [frame.receiver for frame in machine.frames]
    in_module = any(isinstance(one, Object) and one.kind is Kind.MODULE for one in receivers)
    if not in_module:
        machine.notes[Coverage].loose[parameter.uid] = node


def registered(machine: Machine, value: Value) -> None:
    """A Parameter is registered in a module: it is no longer outside of modules."""
    for _, option in alternatives(value):
        if isinstance(option, Tensor) and option.role is Role.PARAMETER:
            machine.notes[Coverage].loose.pop(option.uid, None)


def asked_for(machine: Machine, module: Object | Symbol) -> None:
    """``module.parameters()``: other code may train these parameters."""
    machine.notes[Coverage].read.add(module.id)
    machine.notes[ModuleNotes].asked_for.update(
        modules.registered_below(machine, module) if isinstance(module, Object) else {module.id}
    )


def loaded(machine: Machine, module: Object | Symbol) -> None:
    """``module.load_state_dict(…)``: the module may stay as it was trained before."""
    for part in modules.reachable(machine, module):
        machine.write(part, _LOADED, TRUE)


def given_away(machine: Machine, value: Value) -> None:
    """A module, or its parameters, are passed to a call that cannot be analysed."""
    module = value.module if isinstance(value, Parameters) else value
    if not isinstance(module, Object) or not (module is not value or modules.is_module(machine, module)):
        return
    asked_for(machine, module)
    machine.notes[ModuleNotes].given_away.update(modules.reachable(machine, module))


def stepped(machine: Machine, optimizer: Object, reached: frozenset[int], note: Note) -> None:
    """An optimizer steps after a backward that reached the modules and Parameters in ``reached``."""
    noted = machine.notes[Coverage]
    if not reached & optimizers.covered(machine, optimizer):
        return
    label = machine.label(optimizer, "the optimizer")
    for module in noted.criteria.values():
        parts = modules.registered_below(machine, module)
        if parts & reached and not any(gradients.is_frozen(machine, part) for part in parts):
            name = machine.label(module, "the criterion")
            event = OptimizerMisses(optimizer.node, machine.scene, label, name, module.node, note)
            noted.misses.append((event, parts))
            _report_dropped(machine, optimizer, event, parts)
    _report_unnamed(machine, optimizer, label, reached, note)
    _note_ungrouped(machine, optimizer, label, reached, note)
    for uid, node in noted.loose.items():
        if uid in reached and not gradients.is_frozen(machine, uid):
            event = OptimizerMisses(optimizer.node, machine.scene, label, "", node, note)
            noted.misses.append((event, frozenset({uid})))


def _report_unnamed(machine: Machine, optimizer: Object, label: str, reached: frozenset[int], note: Note) -> None:
    """Report parts of the model that match none of the names by which the optimizer's groups are selected."""
    given, held = optimizers.given(machine, optimizer), _held(machine)
    parts = named_parameters.left_out(machine, given, reached, held) if given is not None else []
    if parts and machine.notes[ModuleNotes].given_away.isdisjoint(reached):
        named = ", ".join(parts[:_MOST_NAMED]) + (", …" if len(parts) > _MOST_NAMED else "")
        machine.emit(GroupsMiss(optimizer.node, machine.scene, label, named, note))


# Maximum number of parts that a message names.
_MOST_NAMED = 3


def _held(machine: Machine) -> frozenset[int]:
    """The ids of all that the optimizers hold."""
    built = machine.notes[optimizers.Optimizers].built
    return frozenset().union(*(optimizers.covered(machine, each) for each in built))


def _note_ungrouped(machine: Machine, optimizer: Object, label: str, reached: frozenset[int], note: Note) -> None:
    """Note the parts of a module that no optimizer holds, if this one is given most of its parts, one by one."""
    given = trainable.modules_given(machine, optimizers.given(machine, optimizer))
    owner = next(filter(None, (_owner(machine, one, given) for one in machine.notes[Coverage].called.values())), None)
    if owner is None or len(given) < _FEWEST_PARTS:
        return
    ids = {(name, part): _ids(machine, part) & reached for name, part in modules.children(machine, owner)}
    trained = {one: parts for one, parts in ids.items() if parts}
    missed = [one for one, parts in trained.items() if parts.isdisjoint(_held(machine))]
    if 2 * len(missed) < len(trained):
        for name, part in missed:
            event = GroupsMiss(optimizer.node, machine.scene, label, name, note)
            held, holder = machine.read(owner.id, name, unset=part), part if isinstance(part, Object) else owner
            state = machine.read(holder.id, _LOADED, unset=NONE)
            machine.lift(partial(_note_missed, machine, event, part), held, state)


# With one part alone, the program may train only that on purpose.
_FEWEST_PARTS = 2


def _owner(machine: Machine, module: Object, parts: frozenset[int]) -> Object | None:
    """The innermost module, from this one on, that all of these are parts of."""
    if not parts <= modules.registered_below(machine, module) - {module.id}:
        return None
    below = (child for _, child in modules.children(machine, module) if isinstance(child, Object))
    return next(filter(None, (_owner(machine, child, parts) for child in below)), module)


def _ids(machine: Machine, part: Value) -> frozenset[int]:
    """The ids of a module and all below it, or of a Parameter."""
    if isinstance(part, Object):
        return modules.registered_below(machine, part)
    return frozenset({part.uid}) if isinstance(part, Tensor) and part.role is Role.PARAMETER else frozenset()


def _note_missed(machine: Machine, event: GroupsMiss, part: Value, held: Value, state: Value) -> Value:
    ids = _ids(machine, part)
    frozen = any(gradients.is_frozen(machine, one) or one in machine.notes[ModuleNotes].ever_frozen for one in ids)
    made_here = isinstance(part, Tensor) or (isinstance(part, Object) and trainable.has_own_parameters(machine, part))
    if held == part and state != TRUE and made_here and not frozen:
        machine.notes[Coverage].ungrouped.append((replace(event, scene=machine.scene), ids))
    return NONE


def _report_dropped(machine: Machine, optimizer: Object, missed: OptimizerMisses, parts: frozenset[int]) -> None:
    """``optimizer = SGD(net.parameters())`` replaces an optimizer that also held the parameters of the criterion."""
    before = [*schedulers.predecessors(machine, optimizer)]
    others = [each for each in machine.notes[optimizers.Optimizers].built if each not in before]
    held = frozenset().union(*(optimizers.covered(machine, each) for each in others))
    holder = next((each for each in before if parts & optimizers.covered(machine, each)), None)
    if holder is not None and not parts & held:
        label = machine.label(holder, "the optimizer")
        machine.emit(replace(missed, before=Note(holder.node, f"`{label}` gets them here")))


def finish(machine: Machine) -> None:
    """Report after the whole program, when the parameters that no optimizer ever held are known."""
    for event, parts in machine.notes[Coverage].misses:
        if parts.isdisjoint(machine.notes[ModuleNotes].ever_held) and parts.isdisjoint(
            machine.notes[ModuleNotes].asked_for
        ):
            machine.emit(event)
    about = machine.notes[ModuleNotes]
    handled = about.ever_held | about.given_away | machine.notes[Coverage].read | machine.notes[GradientFlow].changed
    for missed, parts in machine.notes[Coverage].ungrouped:
        if parts.isdisjoint(handled):
            machine.emit(missed)


# --- signals ----------------------------------------------------------------------------------------------------------


def listen(signals: Signals) -> None:
    signals.tensors.parameter_made.connect(note_parameter)
    signals.training.backward.connect(backward)
    signals.training.optimizer_stepped.connect(stepped)
    signals.modules.child_registered.connect(registered)
    signals.modules.parameters_asked_for.connect(asked_for)
    signals.modules.state_loaded.connect(loaded)
    signals.program.given_to_unknown.connect(given_away)
