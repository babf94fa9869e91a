"""Optimizers: which parameters they hold, whether these are still the model's, and where their state is."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Sequence as Many
from dataclasses import dataclass

import libcst as cst

from placement_lint.flow.api.torch_names import OPTIMIZERS
from placement_lint.flow.domain.arguments import Arguments
from placement_lint.flow.domain.values import (
    CPU,
    NONE,
    TRUE,
    Comparison,
    Const,
    Device,
    External,
    Fact,
    Kind,
    Mapping,
    Object,
    Parameters,
    Place,
    Role,
    Sequence,
    Symbol,
    Tensor,
    Value,
    alternatives,
    compare,
)
from placement_lint.flow.events.schema import NonLeafOptimized, OptimizerEmpty, OptimizerStale, OptimizerStateStranded
from placement_lint.flow.models import checkpoints, device_choice, gradients, modules, trainable
from placement_lint.flow.models.gradients import Gradients
from placement_lint.flow.models.handlers import Handlers
from placement_lint.flow.state.containers import content
from placement_lint.flow.state.heap import MAPPING, Slot
from placement_lint.flow.state.machine import Machine
from placement_lint.flow.state.module_notes import ModuleNotes
from placement_lint.flow.state.notes import Notes, Use, noted
from placement_lint.flow.state.program import Program
from placement_lint.flow.state.signals import Signals
from placement_lint.rule import Note
from placement_lint.source.wording import source_text


@dataclass
class Optimizers(Notes):
    """The optimizers, and what became of them."""

    built: list[Object] = noted(list, Use.SHARED | Use.REPEATED)
    # by the id of a module that took a variable's place: itself, the one before, and what is stale by that
    successors: dict[int, tuple[Object, int, object]] = noted(dict)
    # optimizers whose state stayed behind, until the end of the program or a load_state_dict says otherwise
    pending: list[tuple[int, OptimizerStateStranded]] = noted(list)


_KEEPS_STATE = Slot("keeps state")
_COVERED = Slot("covered")  # Const of the ids of the modules and parameters held
_STATE = Slot("state")  # Fact: why there is state, and where it was made
_STRANDED = Slot("stranded")  # Fact: the state stayed behind at a move, or did not
_GRADIENTS = Slot("gradients")  # of the module frame: Const of the ids that the last backward reached, if known
_STEPPED = Slot("stepped")
_STALE = Slot("stale")  # Sequence of Facts: what was replaced since
_LEFT_OUT = Slot("left out")  # Const of the ids that did not ask for gradients when it was built
_BLOCK = Slot("block")  # Fact: the statement that builds it
_GIVEN = Slot("given")  # Sequence: its parameters and its learning rate, as they were given


_TOGETHER = Fact("together")

# Where a simple statement is: the block, and its place there.
Block = tuple[Many[cst.CSTNode], int]


@dataclass(frozen=True)
class _Stale:
    """Held parameters were replaced: ``node`` did it, ``fresh`` are the ids that took the place of ``touched``."""

    node: cst.CSTNode
    replaced: str
    how: str
    fresh: frozenset[int]
    touched: frozenset[int] = frozenset()
    block: Block = ((), 0)


@dataclass(frozen=True)
class _Stranded:
    reason: str
    node: cst.CSTNode
    module: str
    source: Place
    target: Place
    trace: tuple[Note, ...]


def build(
    machine: Machine, name: str, arguments: Arguments, node: cst.Call, written: cst.CSTNode | None = None
) -> Value:
    """``torch.optim.Adam(model.parameters(), lr=…)``; ``written`` is the argument, if not the first."""
    optimizer = machine.new_object(Kind.OPTIMIZER, External(name), node)
    params = arguments.get(0, "params")
    machine.signals.training.optimizer_built(machine, params, node)
    if params is not None and node.args:
        gradients.take(machine, params, _short(name), written or node.args[0].value, node)
        _report_non_leaves(machine, params, node)
        _report_empty(machine, machine.restrict(params), written or node.args[0].value, node)
    machine.lift(lambda *_: _take(machine, optimizer, params), *trainable.flags(machine, params))
    machine.write(optimizer.id, _KEEPS_STATE, Const(_keeps_state(name, arguments)))
    machine.write(optimizer.id, _BLOCK, Fact("block", machine.block_around()))
    machine.write(optimizer.id, _STRANDED, _TOGETHER)
    machine.write(optimizer.id, _GIVEN, Sequence((params or NONE, arguments.get(1, "lr") or NONE)))
    machine.notes[Optimizers].built.append(optimizer)
    if OPTIMIZERS[name].eager:
        note = Note(node, f"`{_short(name)}` creates its state here, on the device of the parameters")
        machine.write(optimizer.id, _STATE, machine.fact("built", note))
    return optimizer


def _report_non_leaves(machine: Machine, params: Value, node: cst.Call) -> None:
    """``Adam([x.to(device)])``: an optimizer needs leaves (torch/optim/optimizer.py, `Optimizer.add_param_group`)."""
    machine.lift(lambda option: _report_non_leaf(machine, option, node), params)


def _report_non_leaf(machine: Machine, option: Value, node: cst.Call) -> Value:
    if isinstance(option, Tensor) and option.leaf.computed is not None:
        made = option.leaf.computed
        machine.emit(NonLeafOptimized(node, machine.scene, source_text(made.node), made.how, made.node))
    for item in trainable.grouped(machine, option):
        _report_non_leaves(machine, item, node)
    return NONE


def _report_empty(machine: Machine, params: Value, written: cst.CSTNode, node: cst.Call) -> None:
    """``Adam([])`` raises, other than a param group without tensors (`Optimizer.__init__`)."""
    if isinstance(params, Object) and content(machine, params) == Sequence(()):
        filtered = isinstance(params.node, (cst.ListComp, cst.GeneratorExp, cst.SetComp))
        machine.emit(OptimizerEmpty(node, machine.scene, source_text(written), params.node, filtered))


def _take(machine: Machine, optimizer: Object, params: Value | None) -> Value:
    """An optimizer takes what its argument holds, as far as that asks for gradients where only such is wanted."""
    excluded, held = trainable.left_out(machine, params), frozenset(_held(machine, params))
    held = held - excluded if trainable.is_filtered(machine, params) else held
    machine.write(optimizer.id, _COVERED, Const(held))
    machine.write(optimizer.id, _LEFT_OUT, Const(excluded - held))
    machine.notes[ModuleNotes].ever_held |= held
    return NONE


def unfrozen(machine: Machine, parts: frozenset[int], flag: Value, node: cst.CSTNode) -> None:
    """Parameters ask for gradients from here on: an optimizer that left them out does not have them."""
    if flag != TRUE:
        return
    for optimizer in machine.notes[Optimizers].built:
        left_out = machine.read(optimizer.id, _LEFT_OUT)
        if left_out is not None:
            machine.lift(lambda ids, held=optimizer: _note_unfrozen(machine, held, ids, parts, node), left_out)


def _note_unfrozen(
    machine: Machine, optimizer: Object, left_out: Value, parts: frozenset[int], node: cst.CSTNode
) -> Value:
    ids = left_out.value if isinstance(left_out, Const) and isinstance(left_out.value, frozenset) else frozenset()
    missed = frozenset(part for part in parts if any(one in ids for one in trainable.around(machine, part)))
    everything = frozenset().union(*(_covered(machine, each) for each in machine.notes[Optimizers].built))
    missed -= everything | machine.notes[ModuleNotes].given_away
    if missed:
        what = _Stale(node, "", "unfrozen", missed, missed, machine.block_around())
        machine.add(optimizer.id, _STALE, machine.fact(f"unfrozen {id(node)}", what))
    return NONE


def given(machine: Machine, optimizer: Object) -> Value | None:
    """What an optimizer was given to train."""
    known = machine.read(optimizer.id, _GIVEN)
    return known.items[0] if isinstance(known, Sequence) else None


def covered(machine: Machine, optimizer: Object) -> frozenset[int]:
    """The ids of all modules and Parameters that an optimizer may hold here."""
    return _covered(machine, optimizer)


def _short(name: str) -> str:
    return name.rpartition(".")[2]


def _keeps_state(name: str, arguments: Arguments) -> bool | None:
    """Whether a step leaves state per parameter; None where an unknown argument decides."""
    deciding = OPTIMIZERS[name].stateful_if
    if OPTIMIZERS[name].unknown:
        return None
    if deciding is None:
        return True
    value = arguments.get(2, deciding)
    if value is None:
        return None if arguments.spread else False
    return bool(value.value) if isinstance(value, Const) else None


def _held(machine: Machine, value: Value | None) -> Iterator[int]:
    """The ids of all modules and parameters that an optimizer's first argument gives it."""
    for _, option in alternatives(value) if value is not None else ():
        if isinstance(option, Parameters):
            for part in modules.reachable(machine, option.module).values():
                yield part.id
                if isinstance(part, Object):
                    yield from (child.uid for _, child in modules.children(machine, part) if isinstance(child, Tensor))
        elif isinstance(option, Tensor):
            yield from option.modules | ({option.uid} if option.uid else frozenset())
        elif isinstance(option, Mapping):
            yield from _held(machine, option.get("params"))
        elif isinstance(option, Object) and option.kind is Kind.DICT:
            yield from _held(machine, machine.read(option.id, MAPPING))
        elif (items := content(machine, option)) is not None:
            for item in items.items:
                yield from _held(machine, item)


def _covered(machine: Machine, optimizer: Object) -> frozenset[int]:
    """Everything held on any path: a value held on one of them may be held here."""
    value = machine.read(optimizer.id, _COVERED)
    found: frozenset[int] = frozenset()
    for _, option in alternatives(value) if value is not None else ():
        if isinstance(option, Const) and isinstance(option.value, frozenset):
            found |= option.value
    return found


def holders(machine: Machine, module: Object | Symbol) -> list[Object]:
    """The optimizers that hold parameters of a module."""
    if not machine.notes[Optimizers].built:
        return []
    parts = frozenset(modules.reachable(machine, module))
    return [optimizer for optimizer in machine.notes[Optimizers].built if parts & _covered(machine, optimizer)]


def has_state(machine: Machine, optimizer: Object) -> bool:
    return machine.read(optimizer.id, _STATE) is not None


def has_stepped(machine: Machine, optimizer: Object) -> bool:
    """Whether it trains on each path that leads here."""
    return machine.read(optimizer.id, _STEPPED) == TRUE


def shares_rates(machine: Machine, one: Object, other: Object) -> bool:
    """Whether two optimizers were given the same dict as a param group, or the same tensor as their learning rate."""
    return not _rates(machine, one).isdisjoint(_rates(machine, other))


def _rates(machine: Machine, optimizer: Object) -> set[int]:
    given = machine.read(optimizer.id, _GIVEN)
    params, rate = given.items if isinstance(given, Sequence) else (NONE, NONE)
    listed = [content(machine, option) or Sequence(()) for _, option in alternatives(params)]
    groups = {option.id for items in listed for option in items.items if isinstance(option, Object)}
    return groups | {option.uid for _, option in alternatives(rate) if isinstance(option, Tensor)}


def short(optimizer: Object) -> str:
    """The name of its class, without the package."""
    return _short(optimizer.cls.name)


def call_method(machine: Machine, optimizer: Object, name: str, arguments: Arguments, node: cst.Call) -> Value:
    if name == "step":
        if arguments.values():
            machine.signals.training.backward(machine, NONE, node)
        step(machine, optimizer, node)
        return NONE
    if name == "zero_grad":
        machine.signals.training.gradients_zeroed(machine, optimizer)
    if name == "add_param_group":
        _add(machine, optimizer, frozenset(_held(machine, arguments.get(0, "param_group"))))
        return NONE
    if name == "__init__":
        machine.lift(lambda *_: _take(machine, optimizer, arguments.get(0, "params")))
        machine.write(optimizer.id, _STALE, Sequence(()))
        machine.write(optimizer.id, _STATE, Fact("none yet"))
        _catch_up(machine, optimizer)
        return NONE
    if name == "load_state_dict":
        machine.signals.program.values_given_away(machine, (optimizer,), node)
        checkpoints.restored(machine, arguments.get(0, "state_dict"))
        _catch_up(machine, optimizer)
        note = Note(node, "the loaded state is put where the parameters are now")
        machine.write(optimizer.id, _STATE, machine.fact("loaded", note))
        return NONE
    return machine.fresh(name)


def _add(machine: Machine, optimizer: Object, added: frozenset[int]) -> None:
    machine.write(optimizer.id, _COVERED, Const(_covered(machine, optimizer) | added))
    machine.notes[ModuleNotes].ever_held |= added
    _refresh(machine, optimizer, added)


def regrouped(machine: Machine, optimizer: Object, value: Value) -> None:
    """The program itself puts something into the param groups: of what cannot be told, it may be all that is new."""
    added = frozenset(_held(machine, value))
    _add(machine, optimizer, added)
    if not added:
        machine.write(optimizer.id, _STALE, Sequence(()))


def step(machine: Machine, optimizer: Object, node: cst.Call) -> None:
    """``optimizer.step()``: the moment at which what is wrong with an optimizer takes effect."""
    machine.signals.training.optimizer_stepping(machine, optimizer, node)
    note = Note(node, "the optimizer steps here")
    stranded = machine.read(optimizer.id, _STRANDED)
    if stranded is not None:
        machine.lift(lambda fact: _report_stranded(machine, optimizer, fact, note), stranded)
    stale = machine.read(optimizer.id, _STALE)
    if stale is not None:
        machine.lift(lambda facts: _report_stale(machine, optimizer, facts, note), stale)
    _report_successor(machine, optimizer, note)
    machine.signals.training.optimizer_stepped(machine, optimizer, _reached(machine), note)
    machine.write(optimizer.id, _STEPPED, Const(True))
    if machine.read(optimizer.id, _KEEPS_STATE) == Const(True):
        first = Note(node, "the first step makes the state here, where the parameters are now")
        machine.write(optimizer.id, _STATE, machine.read(optimizer.id, _STATE, unset=Fact("stepped", first)))


# --- state left behind ---------------------------------------------------------------------------------------


def before_move(machine: Machine, module: Object | Symbol, target: Place, note: Note) -> None:
    """A module is about to be moved: state that was made for its parameters stays where it is."""
    moving: dict[int, Object | Symbol] | None = None
    for optimizer in machine.notes[Optimizers].built:
        state = machine.read(optimizer.id, _STATE)
        if state is None:
            continue
        moving = moving or modules.reachable(machine, module)
        covered = _covered(machine, optimizer)
        if not covered.isdisjoint(moving):
            # A part of several models may have moved with another one before.
            held = [part for identity, part in moving.items() if identity in covered]
            shared = next((part for part in held if isinstance(part, Object)), held[0])
            source = modules.place_of(machine, module if module.id in covered else shared)
            machine.lift(
                lambda fact, before, place, held=optimizer: _strand(
                    machine, held, module, fact, before, place, target, note
                ),
                state,
                machine.read(optimizer.id, _STRANDED, unset=_TOGETHER),
                source,
            )


def state_taken(machine: Machine, optimizer: Object) -> None:
    """The program reads ``optimizer.state``: it may move the state itself, to an unknown device."""
    if has_state(machine, optimizer):
        machine.write(optimizer.id, _STATE, Fact("taken"))
        _catch_up(machine, optimizer)


def _catch_up(machine: Machine, optimizer: Object) -> None:
    """No state is left behind any more."""
    machine.write(optimizer.id, _STRANDED, _TOGETHER)
    machine.notes[Optimizers].pending = [
        (held, event) for held, event in machine.notes[Optimizers].pending if held != optimizer.id
    ]


def _strand(
    machine: Machine,
    optimizer: Object,
    module: Object | Symbol,
    state: Value,
    before: Value,
    source: Value,
    target: Place,
    note: Note,
) -> Value:
    left = before.details if isinstance(before, Fact) else None
    if isinstance(left, _Stranded) and compare(left.source, target) is Comparison.SAME:
        # Moved back to where the state is.
        machine.write(optimizer.id, _STRANDED, _TOGETHER)
        return NONE
    if not isinstance(state, Fact) or not isinstance(state.details, Note):
        return NONE
    if not isinstance(source, (Device, Symbol)):
        return NONE
    culprit, reach = (note.node, machine.tested) if state.name == "stepped" else (state.details.node, state.reach)
    label = machine.label(module, "the model")
    stranded = Fact("stranded", _Stranded(state.name, culprit, label, source, target, (state.details, note)), reach)
    leaves = device_choice.differ(machine, source, target)
    stays = leaves.negation
    return machine.fork(((leaves, lambda: _leave(machine, optimizer, stranded)), (stays, lambda: NONE)))


def _leave(machine: Machine, optimizer: Object, fact: Fact) -> Value:
    machine.write(optimizer.id, _STRANDED, fact)
    stranded = fact.details
    assert isinstance(stranded, _Stranded)
    unused = stranded.reason == "built" and machine.read(optimizer.id, _STEPPED) is None
    if unused and stranded.target != CPU:
        with machine.reaching(fact.reach):
            event = _stranded_event(machine, optimizer, stranded, ())
        machine.notes[Optimizers].pending.append((optimizer.id, event))
    return NONE


def _report_stranded(machine: Machine, optimizer: Object, fact: Value, stepped: Note) -> Value:
    if isinstance(fact, Fact) and isinstance(fact.details, _Stranded):
        with machine.reaching(fact.reach):
            machine.emit(_stranded_event(machine, optimizer, fact.details, (stepped,)))
    return NONE


def _stranded_event(
    machine: Machine, optimizer: Object, what: _Stranded, more: tuple[Note, ...]
) -> OptimizerStateStranded:
    return OptimizerStateStranded(
        what.node,
        machine.scene,
        machine.label(optimizer, "the optimizer"),
        _short(optimizer.cls.name),
        what.reason,
        what.module,
        what.source,
        what.target,
        (*what.trace, *more),
    )


# --- parameters replaced ---------------------------------------------------------------------------------------


def replaced(
    machine: Machine, owner: Object | Symbol, name: str, before: Value | None, after: Value, node: cst.CSTNode
) -> None:
    """``owner.name = after``: optimizers that hold the owner's parameters do not hold these."""
    if (machine.notes[Optimizers].built or machine.notes[ModuleNotes].wraps) and _brings_parameters(machine, after):
        fresh = _added(machine, owner, after) or frozenset(_ids(machine, after))
        # A part that was registered under an unknown name has a cell whose name is none.
        part = name if name.startswith("[") else ".…" if " " in name else f".{name}"
        label = f"{machine.label(owner, 'model')}{part}"
        machine.signals.modules.layer_replaced(machine, owner, label, node)
        gone = frozenset(_ids(machine, before)) if before is not None else frozenset()
        made = modules.made_here(machine, after)
        how = "made in forward" if made is not None else "replaced"
        _mark_stale(machine, frozenset({owner.id}) | gone, _Stale(made or node, label, how, fresh))


def _added(machine: Machine, owner: Object | Symbol, after: Value) -> frozenset[int]:
    """The trainable parts of an adapter around a part of its owner, besides that part; empty if there are none."""
    if not isinstance(owner, Object) or not isinstance(after, Object):
        return frozenset()
    held, given = modules.registered_below(machine, owner), modules.registered_below(machine, after)
    parts = modules.reachable(machine, after).values()
    learns = any(
        part.id not in held and isinstance(part, Object) and modules.learns_itself(machine, part) for part in parts
    )
    return given - held if learns and given & held else frozenset()


def renewed(
    machine: Machine, module: Object | Symbol, how: str, node: cst.CSTNode, touched: frozenset[int] = frozenset()
) -> None:
    """The parameters of a module, or those among them that are ``touched``, are new objects from here on."""
    machine.signals.modules.parameters_renewed(machine, module, how, node)
    written = source_text(node.args[0].value) if isinstance(node, cst.Call) and node.args else "the model"
    label, fresh = machine.label(module, written), frozenset({machine.new_id()})
    parts = touched or frozenset(modules.reachable(machine, module))
    _mark_stale(machine, parts, _Stale(node, label, how, fresh, parts, machine.block_around()))


def _refresh(machine: Machine, optimizer: Object, added: frozenset[int]) -> None:
    """A param group brings what was replaced back in."""

    def remaining(facts: Value) -> Value:
        items = facts.items if isinstance(facts, Sequence) else ()
        return Sequence(tuple(fact for fact in items if not _touched(fact) & added))

    stale = machine.read(optimizer.id, _STALE)
    if stale is not None:
        machine.write(optimizer.id, _STALE, machine.lift(remaining, stale))


def _touched(fact: Value) -> frozenset[int]:
    return fact.details.touched if isinstance(fact, Fact) and isinstance(fact.details, _Stale) else frozenset()


def _mark_stale(machine: Machine, touched: frozenset[int], what: _Stale) -> None:
    concerned = {one for part in touched for one in trainable.around(machine, part)}
    for optimizer in machine.notes[Optimizers].built:
        covered = _covered(machine, optimizer)
        if covered & concerned and not what.fresh & covered:
            machine.add(optimizer.id, _STALE, machine.fact(f"stale {id(what.node)}", what))


def _brings_parameters(machine: Machine, value: Value) -> bool:
    return all(_is_or_has_parameters(machine, option) for _, option in alternatives(value))


def _is_or_has_parameters(machine: Machine, value: Value) -> bool:
    if isinstance(value, Tensor):
        return value.role is Role.PARAMETER and not gradients.is_frozen(machine, value.uid)
    return (
        isinstance(value, Object)
        and modules.is_module(machine, value)
        and modules.has_parameters(machine, value) is not False
    )


def _ids(machine: Machine, value: Value) -> Iterator[int]:
    for _, option in alternatives(value):
        if isinstance(option, Tensor):
            yield option.uid
            # the layer of a library that it was read from
            yield from option.modules
        elif isinstance(option, (Object, Symbol)):
            yield from modules.reachable(machine, option)


def _report_stale(machine: Machine, optimizer: Object, facts: Value, stepped: Note) -> Value:
    covered = _covered(machine, optimizer)
    known = [fact for fact in facts.items if isinstance(fact, Fact)] if isinstance(facts, Sequence) else []
    held = frozenset().union(*(_covered(machine, each) for each in machine.notes[Optimizers].built))

    def is_missed(what: _Stale) -> bool:
        return _is_missed(machine, what.fresh - held) if what.how == "unfrozen" else not what.fresh & covered

    done = [(fact.reach, fact.details) for fact in known if isinstance(fact.details, _Stale)]
    stale = [(reach, what) for reach, what in done if is_missed(what)]
    for reach, what in stale:
        moved = _statements_between(machine, optimizer, [other.block for _, other in stale])
        with machine.reaching(reach):
            _emit_stale(machine, optimizer, what, stepped, moved)
    return NONE


def _is_missed(machine: Machine, parts: frozenset[int]) -> bool:
    """Whether the last backward reached one of these parts, as far as that is known."""
    reached = _reached(machine)
    wider = {one for part in parts for one in trainable.around(machine, part)}
    return bool(parts) and (not reached or not reached.isdisjoint(wider))


def _emit_stale(
    machine: Machine, optimizer: Object, what: _Stale, stepped: Note, statements: tuple[cst.CSTNode, ...] = ()
) -> None:
    label = machine.label(optimizer, "the optimizer")
    built = Note(optimizer.node, f"`{label}` gets the parameters here")
    cls = _short(optimizer.cls.name)
    machine.emit(
        OptimizerStale(what.node, machine.scene, label, cls, what.replaced, what.how, built, stepped, statements)
    )


def _statements_between(machine: Machine, optimizer: Object, changes: list[Block]) -> tuple[cst.CSTNode, ...]:
    """From the statement that builds the optimizer to the last change, where these are simple ones of one block."""
    fact = machine.read(optimizer.id, _BLOCK)
    if not isinstance(fact, Fact) or not isinstance(fact.details, tuple):
        return ()
    lines, first = fact.details
    last = max(place for _, place in changes)
    between = lines[first : last + 1]
    if any(block is not lines or place <= first for block, place in changes):
        return ()
    alone = [line.body[0] for line in between if isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1]
    return tuple(alone) if len(alone) == len(between) else ()


# --- a new model under the old optimizer -------------------------------------------------------------------------


def backward(machine: Machine, loss: Value, node: cst.CSTNode) -> None:
    """``loss.backward()``: the modules whose parameters have gradients now."""
    if loss != NONE:
        reached = Const(loss.modules | gradients.parameters(loss)) if isinstance(loss, Tensor) else machine.fresh()
        machine.write(machine.module_frame, _GRADIENTS, reached)


def _reached(machine: Machine) -> frozenset[int]:
    """The modules and Parameters that the last backward reached, on one of the paths that lead here."""
    known = alternatives(machine.read(machine.module_frame, _GRADIENTS, unset=NONE))
    values = (option.value for _, option in known if isinstance(option, Const))
    return frozenset().union(*(value for value in values if isinstance(value, frozenset)))


def succeeded(machine: Machine, name: str, before: Value | None, after: Value, node: cst.CSTNode) -> None:
    """``model = copy.deepcopy(model)``: a variable goes from one module to another."""
    noted = machine.notes[Optimizers]
    if not noted.built or before is None or before == after:
        return
    for _, old in alternatives(before):
        for _, new in alternatives(after):
            if isinstance(old, Object) and isinstance(new, Object) and _takes_the_place(machine, old, new):
                known = noted.successors.get(new.id)
                if known is None or known[1] != old.id:
                    noted.successors[new.id] = (
                        new,
                        old.id,
                        _Stale(node, name, "succeeded", frozenset()),
                    )


def _takes_the_place(machine: Machine, old: Object, new: Object) -> bool:
    both = old != new and modules.is_module(machine, old) and modules.is_module(machine, new)
    return both and old.id not in modules.reachable(machine, new)


def note_copy(machine: Machine, original: Object, twin: Object, how: str, node: cst.CSTNode) -> None:
    """``copy.deepcopy(model)``: if the copy is what trains, the original's optimizer is of no use to it."""
    what = _Stale(node, machine.label(original, "the model"), how, frozenset())
    machine.notes[Optimizers].successors[twin.id] = (twin, original.id, what)


def _report_successor(machine: Machine, optimizer: Object, stepped: Note) -> None:
    covered = _covered(machine, optimizer)
    reached = machine.read(machine.module_frame, _GRADIENTS)
    if reached is None or machine.notes[Gradients].by_hand:
        return

    def report(reached: Value) -> Value:
        parts = reached.value if isinstance(reached, Const) and isinstance(reached.value, frozenset) else frozenset()
        for successor, predecessor, what in machine.notes[Optimizers].successors.values():
            held = predecessor in covered and not covered & parts
            if held and parts & frozenset(modules.reachable(machine, successor)):
                assert isinstance(what, _Stale)
                _emit_stale(machine, optimizer, what, stepped)
                break
        return NONE

    machine.lift(report, reached)


def finish(machine: Machine) -> None:
    """Report the optimizers whose state is where their parameters are no longer."""
    machine.notes[Program].events.extend(event for _, event in machine.notes[Optimizers].pending)


CALLS: Handlers = dict.fromkeys(OPTIMIZERS, build)


def listen(signals: Signals) -> None:
    signals.modules.moving.connect(before_move)
    signals.modules.copied.connect(note_copy)
    signals.modules.requires_grad_set.connect(unfrozen)
    signals.training.backward.connect(backward)
