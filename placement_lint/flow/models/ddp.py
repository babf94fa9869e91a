"""DistributedDataParallel: what it averages over the ranks, and what never passes through it.

DDP hooks the gradient accumulators of the parameters that it finds when it is built, and arms them at each call of
the wrapper (torch/nn/parallel/distributed.py; torch/csrc/distributed/c10d/reducer.cpp, ``Reducer``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import libcst as cst

from placement_lint.flow.api.torch_names import DTYPES, REPARAMETRIZATIONS
from placement_lint.flow.domain.arguments import Arguments
from placement_lint.flow.domain.record import replace
from placement_lint.flow.domain.values import (
    ABSENT,
    CPU,
    FALSE,
    NONE,
    OWN,
    TRUE,
    Choice,
    Class,
    Comparison,
    Const,
    Device,
    Fact,
    Kind,
    Mapping,
    Object,
    Place,
    Placed,
    Sequence,
    Symbol,
    Tensor,
    Value,
    alternatives,
    compare,
    describe,
)
from placement_lint.flow.events.schema import DdpBypassed, DdpModuleChanged
from placement_lint.flow.models import gradients, modules, optimizers, ranks
from placement_lint.flow.models.gradients import NoGrad
from placement_lint.flow.models.handlers import Handlers
from placement_lint.flow.state.containers import content
from placement_lint.flow.state.heap import ITEMS, MAPPING, Slot
from placement_lint.flow.state.machine import Machine
from placement_lint.flow.state.moment import Calls
from placement_lint.flow.state.names import name_of, value_of
from placement_lint.flow.state.notes import Moment, Notes, Use, noted
from placement_lint.flow.state.signals import Signals
from placement_lint.rule import Note


@dataclass
class Through(Moment):
    """The wrappers that are calling their module."""

    count: int = noted(int)


@dataclass
class Ddp(Notes):
    """What is in DistributedDataParallel."""

    wrappers: list[Object] = noted(list, Use.SHARED | Use.REPEATED)


# Of each part of a module in DDP: the wrapper. Of a wrapper: what was changed since, and what went round it.
_TOLERANT = Slot("tolerant")
_WRAPPER = Slot("ddp")
_CHANGES = Slot("changes since ddp")
_UNREDUCED = Slot("unreduced")
# Of each part of a module: whether it was frozen, now and when it was wrapped; and its dtype once it was converted.
_FLAG_AT_WRAP = Slot("requires grad at ddp")
_DTYPE = Slot("dtype")


def wrapped(machine: Machine, wrapper: Object, inner: Object | Symbol, arguments: Arguments) -> None:
    """``DistributedDataParallel(module)``: it hooks what requires grad at this moment."""
    ids = arguments.get(1, "device_ids")
    if ids not in (None, NONE) and is_on_cpu(machine, inner):
        # The constructor refuses it.
        return
    ranks.needs_group(machine)
    machine.notes[Ddp].wrappers.append(wrapper)
    for name in ("find_unused_parameters", "static_graph"):
        if arguments.keyword(name) not in (None, FALSE):
            machine.write(wrapper.id, _TOLERANT, TRUE)
    for part in modules.reachable(machine, inner).values():
        machine.write(part.id, _WRAPPER, Fact(f"in ddp {wrapper.id}", wrapper))
        flag = machine.read(part.id, gradients.ASKED, unset=_TRAINABLE)
        machine.write(part.id, _FLAG_AT_WRAP, Fact("unknown") if isinstance(flag, Choice) else flag)


def is_on_cpu(machine: Machine, module: Object | Symbol) -> bool:
    """Whether all tensors of a module are on the CPU: where it was put itself says nothing of parts that were moved."""
    places = [place for _, place in modules.placements(machine, module)] or [modules.placed(machine, module)]
    return all(isinstance(place, Placed) and place.place == CPU for place in places)


def wrapper_of(machine: Machine, module: Object | Symbol) -> Value | None:
    """The DDP that a module is in, by itself or as a part of another: a Fact, or a choice of them."""
    part: Object | Symbol | None = module
    while part is not None:
        wrapper = machine.read(part.id, _WRAPPER)
        if wrapper is not None:
            return wrapper
        part = part.parent if isinstance(part, Symbol) else None
    return None


# --- calls through the wrapper, and round it ---------------------------------------------------------------------


@contextmanager
def through(machine: Machine) -> Iterator[None]:
    """While a wrapper calls its module."""
    machine.now[Through].count += 1
    try:
        yield
    finally:
        machine.now[Through].count -= 1


def came_through(machine: Machine, wrapper: Object, result: Value) -> Value:
    """What a wrapper returned: a backward from there is averaged over the ranks."""
    if machine.now[NoGrad].count:
        return result
    return _marked(
        machine, result, lambda tensor: _synced(tensor, tensor.backward.synced | {wrapper.id}, tensor.backward.unsynced)
    )


def came_round(machine: Machine, module: Object | Symbol, arguments: Arguments, result: Value, node: cst.Call) -> Value:
    """What a bare module returned: if it is in a wrapper, that knows nothing of this call."""
    if isinstance(module, Symbol) and module.parent is not None and any(map(_is_synced, arguments.values())):
        # It may be a method that uses no parameter: one that computes the loss.
        return result
    if (
        machine.now[Through].count
        or machine.now[Calls].in_forward
        or machine.now[NoGrad].count
        or not machine.notes[Ddp].wrappers
    ):
        return result
    wrapper = wrapper_of(machine, module)
    if wrapper is None:
        machine.signals.modules.called_beside_ddp(machine, module, node)
    if wrapper is None or modules.has_parameters(machine, module) is False:
        return result

    def mark(around: Value, value: Value) -> Value:
        if not isinstance(around, Fact) or not isinstance(around.details, Object):
            return value
        mark = (around.details.id, _outermost(machine, around, node))
        return _marked(
            machine, value, lambda tensor: _synced(tensor, tensor.backward.synced, tensor.backward.unsynced | {mark})
        )

    return machine.lift(mark, wrapper, result)


def _is_synced(value: Value) -> bool:
    return any(isinstance(option, Tensor) and option.backward.synced for _, option in alternatives(value))


def _outermost(machine: Machine, wrapper: Fact, node: cst.Call) -> cst.CSTNode:
    """The call that the program makes from outside: of the module, or of the method that calls its layers."""
    for frame, call in zip(machine.frames[1:], machine.now[Calls].nodes, strict=True):
        receiver = frame.receiver
        if isinstance(receiver, Object) and wrapper_of(machine, receiver) == wrapper:
            return call
    return node


def _synced(tensor: Tensor, through: frozenset[int], past: frozenset[tuple[int, cst.CSTNode]]) -> Tensor:
    return replace(tensor, backward=replace(tensor.backward, synced=through, unsynced=past))


def _marked(machine: Machine, value: Value, mark: Callable[[Tensor], Tensor]) -> Value:
    """A value with all tensors in it marked."""

    def one(option: Value) -> Value:
        if isinstance(option, Tensor):
            return mark(option)
        if isinstance(option, Object) and option.kind is Kind.DICT:
            mapping = machine.read(option.id, MAPPING)
            if isinstance(mapping, Mapping):
                items = tuple((key, _marked(machine, item, mark)) for key, item in mapping.items)
                machine.write(option.id, MAPPING, replace(mapping, items=items))
            return option
        if isinstance(option, Object) and option.kind is Kind.INSTANCE:
            for name in [*machine.store.variables(option.id)]:
                held = machine.read(option.id, name)
                if any(isinstance(part, Tensor) for _, part in alternatives(held or NONE)):
                    machine.write(option.id, name, machine.lift(one, held or NONE))
            return option
        items_of = content(machine, option)
        if items_of is None:
            return option
        marked = replace(items_of, items=tuple(_marked(machine, item, mark) for item in items_of.items))
        if isinstance(option, Sequence):
            return marked
        assert isinstance(option, Object)
        machine.write(option.id, ITEMS, marked)
        return option

    return machine.lift(one, value)


def severed(tensor: Tensor) -> Tensor:
    """``t.detach()``: no backward comes here."""
    return _synced(tensor, frozenset(), frozenset())


def backward(machine: Machine, loss: Tensor, node: cst.Call) -> None:
    """``loss.backward()``: gradients of what came through a wrapper are averaged, if it still knows its module."""
    note = Note(node, "the backward is here")
    for identity in {identity for identity, _ in loss.backward.unsynced} - loss.backward.synced:
        calls = tuple(call for around, call in loss.backward.unsynced if around == identity)
        machine.write(identity, _UNREDUCED, Fact("unreduced", (calls, note)))
    for wrapper in machine.notes[Ddp].wrappers:
        if wrapper.id in loss.backward.synced:
            _report_changes(machine, wrapper, note)
            machine.signals.training.backward_through_ddp(machine, loss, wrapper, note)


def zeroed(machine: Machine, optimizer: Object) -> None:
    """``optimizer.zero_grad()``: gradients that no rank was told of are forgotten."""
    for wrapper in _stepped_by(machine, optimizer):
        machine.write(wrapper.id, _UNREDUCED, ABSENT)


def stepped(machine: Machine, optimizer: Object, node: cst.CSTNode) -> None:
    """``optimizer.step()``: each rank goes its own way where the gradients were its own."""
    for wrapper in _stepped_by(machine, optimizer):
        fact = machine.read(wrapper.id, _UNREDUCED, unset=NONE)
        machine.lift(lambda option, wrapper=wrapper: _report_bypass(machine, wrapper, option), fact)


def _stepped_by(machine: Machine, optimizer: Object) -> list[Object]:
    wrappers = [wrapper for wrapper in machine.notes[Ddp].wrappers if machine.read(wrapper.id, _UNREDUCED) is not None]
    return [wrapper for wrapper in wrappers if optimizer in optimizers.holders(machine, wrapper)]


def _report_bypass(machine: Machine, wrapper: Object, fact: Value) -> Value:
    if isinstance(fact, Fact) and isinstance(fact.details, tuple):
        calls, note = fact.details
        wrapped = Note(wrapper.node, "wrapped in DistributedDataParallel here")
        label = machine.label(wrapper, "the wrapper")
        for call in calls:
            instead = _callee_through(machine, wrapper, call)
            machine.emit(DdpBypassed(call, machine.scene, label, (wrapped, note), instead))
    return NONE


def _callee_through(machine: Machine, wrapper: Object, call: cst.Call) -> str:
    """What to call instead of the bare module, in the words of the program; empty where it is only a part of it."""
    callee = call.func
    if (
        isinstance(callee, cst.Attribute)
        and callee.attr.value == "module"
        and value_of(machine, callee.value) == wrapper
    ):
        return machine.text(callee.value)
    inner = machine.read(wrapper.id, modules.INNER)
    return name_of(machine, wrapper) if inner is not None and value_of(machine, callee) == inner else ""


# --- changes after wrapping ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Change:
    how: str
    node: cst.CSTNode
    label: str
    # the call that led there from another file
    site: cst.CSTNode | None


def _changed(machine: Machine, module: Object | Symbol, how: str, node: cst.CSTNode, label: str = "") -> None:
    """Something was done to a part of a module that DDP has hooked."""
    wrapper = wrapper_of(machine, module)
    if wrapper is None or machine.now[Calls].in_forward:
        return
    what = _Change(how, node, label or machine.label(module, "the module"), machine.site)
    change = machine.fact(f"{how} {id(node)}", what)

    def note(around: Value) -> Value:
        if isinstance(around, Fact) and isinstance(around.details, Object):
            machine.add(around.details.id, _CHANGES, change)
        return NONE

    machine.lift(note, wrapper)


def _first_hooked(machine: Machine, module: Object | Symbol) -> Object | Symbol | None:
    """The first part of a module that is in DDP."""
    if not machine.notes[Ddp].wrappers:
        return None
    parts = modules.reachable(machine, module).values()
    return next((part for part in parts if machine.read(part.id, _WRAPPER) is not None), None)


def moving(machine: Machine, module: Object | Symbol, target: Place, note: Note) -> None:
    """A module is about to be moved: a real move gives its parameters new accumulators, without the hooks."""
    part = _first_hooked(machine, module)
    if part is None or target == OWN:
        return

    def move(source: Value) -> Value:
        known = isinstance(source, (Device, Symbol)) and source != OWN
        if known and isinstance(source, (Device, Symbol)) and compare(source, target) is Comparison.DIFFERENT:
            _changed(machine, part, "moved", note.node, f"from {describe(source)} to {describe(target)}")
        return NONE

    machine.lift(move, modules.place_of(machine, part))


def converting(machine: Machine, module: Object | Symbol, dtype: str, node: cst.CSTNode) -> None:
    """``module.half()``, ``module.to(torch.float64)``: the same for a real change of the dtype."""
    target = DTYPES.get(dtype)
    if target is None:
        return
    part = _first_hooked(machine, module)

    def convert(before: Value) -> Value:
        if part is not None and before not in (Const(target), NONE):
            _changed(machine, part, "converted", node, f"to {target}")
        return NONE

    machine.lift(convert, _dtype(machine, part) if part is not None else NONE)
    for below in modules.reachable(machine, module).values():
        machine.write(below.id, _DTYPE, Const(target))


def _dtype(machine: Machine, part: Object | Symbol) -> Value:
    built_here = isinstance(part, Object) and (isinstance(part.cls, Class) or part.cls.name.startswith("torch.nn."))
    return machine.read(part.id, _DTYPE, unset=Const("float32") if built_here else NONE)


def replaced(machine: Machine, owner: Object | Symbol, label: str, node: cst.CSTNode) -> None:
    """``owner.name = layer``: parameters that DDP has never seen."""
    _changed(machine, owner, "replaced", node, label)


def renewed(machine: Machine, module: Object | Symbol, how: str, node: cst.CSTNode) -> None:
    """An operation put new Parameter objects into a module."""
    part = _first_hooked(machine, module)
    if part is not None:
        written = machine.text(node.args[0].value) if isinstance(node, cst.Call) and node.args else ""
        _changed(machine, part, how, node, written)


def reparametrized(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``parametrizations.spectral_norm(layer)`` keeps the Parameter, and loses the hook on its accumulator."""
    module = arguments.get(0, "module") or machine.fresh()
    for option in (module,) if isinstance(module, (Object, Symbol)) else ():
        renewed(machine, option, name.rpartition(".")[2], node)
    return module


_TRAINABLE = Fact("trainable")


def flagged(machine: Machine, parts: frozenset[int], flag: Value | None, node: cst.CSTNode) -> None:
    """``requires_grad`` is set on the parameters of these modules."""
    if isinstance(flag, Const) and isinstance(flag.value, bool):
        name = "trainable" if flag.value else "frozen"
        for identity in parts:
            machine.write(identity, gradients.ASKED, machine.fact(name, _Change(name, node, "", machine.site)))


def _report_changes(machine: Machine, wrapper: Object, trained: Note) -> None:
    changes = machine.read(wrapper.id, _CHANGES)
    if changes is not None:
        machine.lift(lambda facts: _report_each(machine, wrapper, facts, trained), changes)
    tolerant = machine.read(wrapper.id, _TOLERANT) is not None
    parts = modules.reachable(machine, wrapper)
    flags = [(machine.read(part, _FLAG_AT_WRAP), machine.read(part, gradients.ASKED)) for part in parts]
    trained_at_wrap = [now for before, now in flags if isinstance(before, Fact) and before.name == "trainable"]
    if trained_at_wrap and all(isinstance(now, Fact) and now.name == "frozen" for now in trained_at_wrap):
        # It only passes gradients on while another model is trained: no gradient of its own is missing.
        return
    for before, now in flags:
        if isinstance(before, Fact) and now is not None and before.name != "unknown":
            machine.lift(
                lambda flag, before=before: _report_flag(machine, wrapper, before, flag, trained, tolerant), now
            )


def _report_each(machine: Machine, wrapper: Object, facts: Value, trained: Note) -> Value:
    for fact in facts.items if isinstance(facts, Sequence) else ():
        _report(machine, wrapper, fact, trained)
    return NONE


def _report_flag(machine: Machine, wrapper: Object, before: Fact, flag: Value, trained: Note, tolerant: bool) -> Value:
    if not isinstance(flag, Fact) or flag.name == before.name or (tolerant and flag.name == "frozen"):
        return NONE
    _report(machine, wrapper, flag, trained)
    return NONE


def _report(machine: Machine, wrapper: Object, fact: Value, trained: Note) -> None:
    if not isinstance(fact, Fact) or not isinstance(change := fact.details, _Change):
        return
    wrapped = Note(wrapper.node, "wrapped in DistributedDataParallel here")
    label = machine.label(wrapper, "the wrapper")
    with machine.reaching(fact.reach):
        scene = replace(machine.scene, site=change.site)
        machine.emit(DdpModuleChanged(change.node, scene, label, change.how, change.label, (wrapped, trained)))


CALLS: Handlers = dict.fromkeys(REPARAMETRIZATIONS, reparametrized)


def listen(signals: Signals) -> None:
    signals.modules.moving.connect(moving)
    signals.modules.parameters_renewed.connect(renewed)
    signals.modules.layer_replaced.connect(replaced)
    signals.modules.requires_grad_set.connect(flagged)
    signals.training.gradients_zeroed.connect(zeroed)
    signals.training.optimizer_stepping.connect(stepped)
