"""The device of each tensor and each part of a module, step by step, for each kind of machine.

A step is a statement of the analysed file that makes, moves or renames one of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice

import libcst as cst

from placement_lint.flow.domain.path_condition import MANY_GPUS, NO_GPU, ONE_GPU, Condition, machines
from placement_lint.flow.domain.values import (
    ACCELERATORS,
    Class,
    Kind,
    Object,
    Placed,
    Role,
    Tensor,
    Value,
    alternatives,
)
from placement_lint.flow.events.schema import Event
from placement_lint.flow.models import modules
from placement_lint.flow.observers.placements import PlacementLog, is_exact_device
from placement_lint.flow.observers.visits import names_read
from placement_lint.flow.state.machine import Frame, Machine
from placement_lint.flow.state.names import value_of
from placement_lint.rule import Note

KINDS = (NO_GPU, ONE_GPU, MANY_GPUS)
_NOUNS = {Role.PLAIN: "tensor", Role.PARAMETER: "Parameter", Role.BUFFER: "buffer", Role.BATCH: "batch"}
# Maximum number of parts of a module that count as operands of a statement that reads it.
MOST_PARTS = 4
# Maximum depth of the shown parts of modules.
_DEPTH = 20

Key = tuple[object, str]
"""The subject of a bar: an attribute with the identity of its module, or a variable with that of its frame."""


@dataclass(eq=False)
class Bar:
    """A tensor or module on one device; ``end`` is its last step, None for the last step of the program.

    ``history`` are the notes of a tensor, which identify its copies, and ``frame`` the frame of a local variable.
    """

    label: str
    what: str
    device: str
    start: int
    node: cst.CSTNode
    how: str
    history: tuple[Note, ...] = ()
    frame: int | None = None
    # the label is a name inside the class
    inside: bool = False
    end: int | None = None


@dataclass(frozen=True)
class Move:
    step: int
    source: Bar
    target: Bar
    node: cst.CSTNode


@dataclass
class View:
    """The timeline for one kind of machine.

    ``visits`` are the first executions of statements: the step, and the bars of the values that they read.
    """

    machines: int
    bars: list[Bar] = field(default_factory=list)
    moves: list[Move] = field(default_factory=list)
    visits: dict[cst.CSTNode, tuple[int, list[Bar]]] = field(default_factory=dict)
    open: dict[Key, Bar] = field(default_factory=dict)
    noted: set[Note] = field(default_factory=set)

    def close(self, key: Key, end: int) -> None:
        """Remove the bar of a key; the bar ends if it has no other key."""
        bar = self.open.pop(key)
        if bar not in self.open.values():
            bar.end = end


@dataclass(frozen=True)
class _State:
    """The current state of one key; ``device`` is None if unknown."""

    key: Key
    label: str
    what: str
    device: str | None
    note: Note | None
    history: tuple[Note, ...] = ()


class TimelineLog(PlacementLog):
    """Records the program as one view for each kind of machine."""

    def __init__(self) -> None:
        super().__init__()
        self.views = [View(kind) for kind in KINDS]
        self.step = 0
        self._is_new_step = True
        self._is_passing = False
        self._modules: dict[int, tuple[Object, str, bool]] = {}
        self._unseen_moves: dict[int, set[int]] = {}
        self._statement: cst.CSTNode = cst.Pass()

    # --- records of the analysis -----------------------------------------------------------------------------

    def reached(self, machine: Machine, statement: cst.CSTNode) -> None:
        if not machine.at_home:
            return
        self._see_moves(machine)
        self._leave_functions(machine.frames)
        self._statement, self._is_new_step = statement, True
        read = None
        for view in self.views:
            if statement not in view.visits and _runs_on(machine, view):
                read = list(names_read(machine, statement)) if read is None else read
                bars = [bar for name, value in read for bar in self._bars(machine, view, name, value)]
                view.visits[statement] = self.step, list(dict.fromkeys(bars))

    def assigned(self, machine: Machine, target: cst.BaseExpression, value: Value, statement: cst.CSTNode) -> None:
        self._see_moves(machine)
        name = machine.text(target)
        inside = _is_inside(machine, target)
        for view in self.views:
            if not _runs_on(machine, view):
                continue
            options = _options(machine, value, view)
            parts = [part for part in map(_module, options) if part is not None]
            if parts:
                self._modules.update((part.id, (part, name, inside)) for part in parts if self._names(part, inside))
                self._show_module(machine, view, parts[0], statement)
            self._show(view, self._of_tensor(machine, target, name, options), statement, machine, inside)

    def entered(self, machine: Machine, parameters: cst.Parameters, function: cst.CSTNode) -> None:
        """Record the parameters of a call: a tensor argument is the same tensor under another name."""
        self._is_passing = True
        super().entered(machine, parameters, function)
        self._is_passing = False

    def moved(self, identity: int, note: Note) -> None:
        self._unseen_moves[identity] = {view.machines for view in self.views}

    def ended(self, machine: Machine, events: Iterable[Event]) -> None:
        self._see_moves(machine)

    # --- tensors ---------------------------------------------------------------------------------------------

    def _of_tensor(
        self, machine: Machine, target: cst.BaseExpression, name: str, options: list[Value]
    ) -> Iterator[_State]:
        """The state of a variable that holds or held a tensor."""
        key = _variable(machine, target)
        tensors = [option for option in options if isinstance(option, Tensor)]
        if not options or len(tensors) != len(options):
            yield _State(key, name, "", None, None)
            return
        places = {None if tensor.assumed else _device(tensor.place) for tensor in tensors}
        history = tensors[0].history
        yield _State(
            key,
            name,
            _NOUNS.get(tensors[0].role, "tensor"),
            places.pop() if len(places) == 1 else None,
            history[-1] if history else None,
            history,
        )

    # --- modules ---------------------------------------------------------------------------------------------

    def _names(self, module: Object, inside: bool) -> bool:
        """Whether a name replaces the current one of a module: the first name outside of classes is preferred."""
        known = self._modules.get(module.id)
        return known is None or (known[2] and not inside)

    def _see_moves(self, machine: Machine) -> None:
        """Show the parts of modules that moved since the last statement, on the machines of the current path."""
        if not self._unseen_moves or not machine.at_home:
            return
        for view in self.views:
            waiting = {identity for identity, kinds in self._unseen_moves.items() if view.machines in kinds}
            if not waiting or not _runs_on(machine, view):
                continue
            for module, _, _ in list(self._modules.values()):
                if not waiting.isdisjoint(modules.reachable(machine, module)):
                    self._show_module(machine, view, module, self._statement)
            for identity in waiting:
                self._unseen_moves[identity].discard(view.machines)
        self._unseen_moves = {identity: kinds for identity, kinds in self._unseen_moves.items() if kinds}

    def _show_module(self, machine: Machine, view: View, module: Object, statement: cst.CSTNode) -> None:
        _, name, inside = self._modules[module.id]
        here = _here(machine, view)
        states = list(_parts(machine, module, name, here, frozenset(), _DEPTH))
        self._show(view, states, statement, machine, inside)

    # --- bars ------------------------------------------------------------------------------------------------

    def _show(
        self, view: View, states: Iterable[_State], statement: cst.CSTNode, machine: Machine, inside: bool
    ) -> None:
        for state in states:
            known = view.open.get(state.key)
            if self._is_passing and (same := _open_bar_of(view, state)) is not None:
                view.open[state.key] = same
                continue
            if known is not None and _is_same(known, state):
                if known.inside and not inside:
                    known.label, known.inside = state.label, False
                continue
            if known is None and state.device is None:
                continue
            self._begin_step()
            source = _source(view, state)
            if known is not None:
                view.close(state.key, self.step - 1)
            if state.device is not None:
                self._open(view, state, source, statement, machine, inside)

    def _open(
        self,
        view: View,
        state: _State,
        source: Bar | None,
        statement: cst.CSTNode,
        machine: Machine,
        inside: bool,
    ) -> None:
        # A result inherits the history of its operands: only its first note, or that of a move, is about the result.
        made = not state.history or (len(state.history) == 1 and state.note not in view.noted)
        note = state.note if made or source is not None else None
        view.noted.update(state.history or filter(None, [state.note]))
        node, how = (note.node, note.message.removesuffix(" here")) if note is not None else (statement, "computed")
        local = state.key[0] == machine.frame.id and machine.frame.function is not None
        bar = Bar(
            state.label,
            state.what,
            str(state.device),
            self.step,
            node,
            how,
            state.history,
            machine.frame.id if local else None,
            inside,
        )
        view.bars.append(bar)
        view.open[state.key] = bar
        if source is not None:
            view.moves.append(Move(self.step, source, bar, node))

    def _begin_step(self) -> None:
        if self._is_new_step:
            self.step += 1
            self._is_new_step = False

    def _leave_functions(self, frames: Iterable[Frame]) -> None:
        """Local variables end with the call of their function."""
        running = {frame.id for frame in frames}
        for view in self.views:
            for key, bar in list(view.open.items()):
                if bar.frame is not None and bar.frame not in running:
                    view.close(key, max(self.step, bar.start))

    def _bars(self, machine: Machine, view: View, name: cst.CSTNode, value: Value) -> Iterator[Bar]:
        """The bars for the value of a name: the bar of the variable, or those of the first parts of a module."""
        if isinstance(name, cst.BaseExpression) and (bar := view.open.get(_variable(machine, name))):
            yield bar
        parts = [part for option in _options(machine, value, view) if (part := _module(option))]
        below = (view.open.get((identity, "")) for part in parts for identity in modules.reachable(machine, part))
        yield from islice(filter(None, below), MOST_PARTS)


def _open_bar_of(view: View, state: _State) -> Bar | None:
    """The open bar of the same tensor under another name."""
    found = (bar for bar in reversed(view.open.values()) if _is_same(bar, state))
    return next(found, None) if state.history and state.device is not None else None


def _is_same(bar: Bar, state: _State) -> bool:
    return bar.device == state.device and bar.what == state.what and bar.history == state.history


def _source(view: View, state: _State) -> Bar | None:
    """The bar on the previous device: found by identity for a part of a module, by history for a tensor."""
    known = view.open.get(state.key)
    if not state.history:
        return known if known is not None and known.device != state.device else None
    if state.note in view.noted:
        return None
    copied = (
        bar for bar in reversed(view.bars) if bar.device != state.device and _precedes(bar.history, state.history)
    )
    return next(copied, None)


def _precedes(earlier: tuple[Note, ...], later: tuple[Note, ...]) -> bool:
    return 0 < len(earlier) < len(later) and later[: len(earlier)] == earlier


# --- devices on one kind of machine ------------------------------------------------------------------------------


def _here(machine: Machine, view: View) -> Condition:
    return machine.path & machines(view.machines)


def _runs_on(machine: Machine, view: View) -> bool:
    return bool(machine.path.machines & view.machines)


def _options(machine: Machine, value: Value, view: View) -> list[Value]:
    here = _here(machine, view)
    return [option for guard, option in alternatives(machine.restrict(value)) if (guard & here).possible]


def _device(place: Value) -> str | None:
    """The name of the device's lane; the current device is the first of its kind."""
    if not is_exact_device(place):
        return None
    return f"{place}:0" if place.index is None and place.kind in ACCELERATORS else str(place)


def _module(value: Value) -> Object | None:
    return value if isinstance(value, Object) and value.kind in (Kind.MODULE, Kind.WRAPPER) else None


def _parts(
    machine: Machine, module: Object, name: str, here: Condition, around: frozenset[int], depth: int
) -> Iterator[_State]:
    """The states of the layers, parameters and buffers of a module, each labelled with its path."""
    if module.id in around or not depth:
        return
    wrapped = module.kind is Kind.WRAPPER
    if not wrapped and modules.has_own_tensors(machine, module):
        yield _part(module.id, name, _class_name(module), modules.placed(machine, module), machine, here)
    for attribute, child in dict(modules.children(machine, module)).items():
        below = name if wrapped else f"{name}.{attribute}" if attribute.isidentifier() else f"{name}[…]"
        if isinstance(child, Tensor):
            held = machine.lift(_placed, machine.read(module.id, attribute) or child)
            yield _part((module.id, attribute), below, _NOUNS[child.role], held, machine, here)
        elif isinstance(child, Object):
            yield from _parts(machine, child, below, here, around | {module.id}, depth - 1)


def _part(identity: object, name: str, what: str, place: Value, machine: Machine, here: Condition) -> _State:
    placed = [option for guard, option in alternatives(machine.restrict(place)) if (guard & here).possible]
    places = {_device(option.place) if isinstance(option, Placed) else None for option in placed}
    notes = [option.note for option in placed if isinstance(option, Placed)]
    device = places.pop() if len(places) == 1 else None
    return _State((identity, ""), name, what, device, notes[0] if notes else None)


def _placed(held: Value) -> Value:
    """The place of a registered tensor, in the form of a module's place cell."""
    if not isinstance(held, Tensor):
        return held
    return Placed(held.place, held.history[-1] if held.history else None)


def _class_name(module: Object) -> str:
    return module.cls.name if isinstance(module.cls, Class) else module.cls.name.rpartition(".")[2]


def _variable(machine: Machine, target: cst.BaseExpression) -> Key:
    """The key of a target: a name of the frame, or an attribute of the object before the dot."""
    if isinstance(target, cst.Attribute):
        owner = value_of(machine, target.value)
        if isinstance(owner, Object):
            return owner.id, target.attr.value
    return machine.frame.id, machine.text(target)


def _is_inside(machine: Machine, target: cst.BaseExpression) -> bool:
    """Whether a target is an attribute of the receiver of the running method."""
    if not isinstance(target, cst.Attribute) or machine.frame.receiver is None:
        return False
    return value_of(machine, target.value) == machine.frame.receiver
