"""Forwards kept from one text of a document to the next: models are called all over it, and few edits concern them.

A forward that leaves nothing behind has as its outcome what it returns, and what it notes of nodes. That is used again
where all that it saw is as it was: its inputs, the cells that it read, the scene, and what the rooms had noted.
So it is with other methods of a model that are called from outside of it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator
from collections.abc import Mapping as Table
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from placement_lint.flow.condition import Question
from placement_lint.flow.copying import replace
from placement_lint.flow.machine import Machine
from placement_lint.flow.registries import REGISTRIES, copied, empty_registries, with_entries
from placement_lint.flow.store import Cell, Watch
from placement_lint.flow.told import Teller, UntoldError
from placement_lint.flow.values import Choice, Role, Sequence, Symbol, Tensor, Value

if TYPE_CHECKING:
    from placement_lint.flow.placements import PlacementLog

Run: TypeAlias = "Callable[[], tuple[Value, Watch | None]]"
"""Runs a forward and says what it returns, and what it saw; None where it left anything behind."""

# What a forward notes of nodes, and nobody asks for while the program runs.
_NOTED = ("called", "devices_read", "handed_on", "inputs", "lengths", "read_of_others", "reads")
# What grows with all that comes up, and is about that alone.
_GROWING = ("labels", "outer")
# What no forward asks for, or only to say more of what happens in it.
_UNASKED = frozenset(
    {
        *_NOTED,
        *_GROWING,
        "asked_for",
        "chosen",
        "classes",
        "events",
        "files",
        "functions",
        "global_ranks",
        "groups",
        "idle",
        "busy",
        "late_restrictions",
        "loads",
        "loops_setting",
        "misses",
        "module_classes",
        "parallels",
        "pending",
        "rebinds",
        "reduced",
        "requests",
        "sampled",
        "shared_changes",
        "sharing",
        "sites",
        "unmapped",
        "uses",
        "uses_of_current",
        "uses_of_own",
        "wrapped_in",
    }
)
_ASKED = tuple(name for name in REGISTRIES if name not in _UNASKED)
_LEFT = tuple(name for name in REGISTRIES if name not in _NOTED and name not in _GROWING)


class _Counts(NamedTuple):
    """How far the numbers are that are given in order, and what was spent."""

    ids: int
    visits: int
    questions: int
    spent: int


@dataclass(frozen=True)
class _Notes:
    """What was noted in the registries for nodes, and of the placements."""

    entries: dict[str, Any]
    log: PlacementLog | None

    def tell(self, machine: Machine) -> None:
        for name, entries in self.entries.items():
            with_entries(getattr(machine, name), entries)
        if machine.log is not None and self.log is not None:
            machine.log.take(self.log)


@dataclass(frozen=True)
class _Forward:
    """What a forward saw, and what came of it; ``newest`` is the last id that had been given."""

    noted_before: Table[str, Any]
    seen: Table[Cell, object]
    names: Table[int, tuple[str, ...]]
    value: Value
    notes: _Notes
    newest: int
    cost: _Counts

    def again(self, machine: Machine, teller: Teller) -> tuple[Value, Watch] | None:
        """What comes of it without running it; None where it would see something else."""
        if not self._sees_the_same(machine, teller):
            return None
        value = _in_this_run(self.value, teller, self.newest, machine.newest - self.newest)
        if value is None:
            return None
        seen = {cell: machine.store.read(*cell) for cell in self.seen}
        watch = Watch(machine.newest, seen=seen, names=dict(self.names))
        self.notes.tell(machine)
        machine.skip(self.cost.ids, self.cost.visits)
        machine.fuel -= self.cost.spent
        machine.spent += self.cost.spent
        Question.last += self.cost.questions
        return value, watch

    def _sees_the_same(self, machine: Machine, teller: Teller) -> bool:
        store = machine.store
        if any(getattr(machine, name) != registry for name, registry in self.noted_before.items()):
            return False
        if any(tuple(store.names(owner)) != names for owner, names in self.names.items()):
            return False
        try:
            return all(teller.told(store.read(*cell)) == seen for cell, seen in self.seen.items())
        except UntoldError:
            return False


@dataclass
class Recollection:
    """The forwards of one document, by all that they are told when they are called."""

    _known: Table[object, list[_Forward]] = field(default_factory=dict)
    _again: dict[object, list[_Forward]] = field(default_factory=dict)
    _teller: Teller = field(default_factory=Teller)

    def begin(self) -> None:
        """The next text is looked at: of those before, what came up in the last one is known."""
        self._known, self._again, self._teller = self._again, defaultdict(list), Teller()

    def run(self, machine: Machine, call: Hashable, run: Run) -> tuple[Value, Watch | None]:
        """What a forward returns, and what it saw."""
        try:
            key = self._teller.told((call, machine.again, len(machine.loops), machine.default_was_set))
        except UntoldError:
            return run()
        for known in self._known.get(key, ()):
            outcome = known.again(machine, self._teller)
            if outcome is not None:
                self._again[key].append(known)
                return outcome
        value, watch, forward = _first(machine, self._teller, run)
        if forward is not None:
            self._again[key].append(forward)
        return value, watch


def _first(machine: Machine, teller: Teller, run: Run) -> tuple[Value, Watch | None, _Forward | None]:
    """Run a forward, and say what is to be kept of it, where that is possible."""
    noted_before = {name: copied(getattr(machine, name)) for name in _ASKED}
    left, before = left_behind(machine), _counts(machine)
    grown = {name: len(getattr(machine, name)) for name in _GROWING}
    with _noting_apart(machine) as notes:
        value, watch = run()
    if watch is None or watch.asked or left_behind(machine) != left:
        return value, watch, None
    added = {identity for name, length in grown.items() for identity in islice(getattr(machine, name), length, None)}
    newest = before.ids
    if any(identity <= newest for identity in added) or max(_ids_in(notes), default=0) > newest:
        return value, watch, None
    try:
        seen = {cell: teller.told(known) for cell, known in watch.seen.items()}
    except UntoldError:
        return value, watch, None
    if not _is_older(value, newest) or _in_this_run(value, teller, newest, 0) is None:
        return value, watch, None
    cost = _Counts(*(now - then for now, then in zip(_counts(machine), before, strict=True)))
    return value, watch, _Forward(noted_before, seen, watch.names, value, notes, newest, cost)


@contextmanager
def _noting_apart(machine: Machine) -> Iterator[_Notes]:
    """Have what is noted of nodes by itself; afterwards it is where it belongs as well."""
    empty = empty_registries()
    log = machine.log
    notes = _Notes({name: empty[name] for name in _NOTED}, log.another() if log is not None else None)
    machine.log = notes.log
    try:
        with machine.noting(notes.entries):
            yield notes
    finally:
        machine.log = log
        notes.tell(machine)


def _counts(machine: Machine) -> _Counts:
    return _Counts(machine.newest, machine.visits, Question.last, machine.spent)


# --- what can be kept --------------------------------------------------------------------------------------------


def left_behind(machine: Machine) -> object:
    """All that a forward may have changed elsewhere: where the program is, what was noted, and what may be spent."""
    # which statement ran last is asked by that statement only
    moment = {name: state for name, state in machine.moment().items() if name != "statement"}
    asked = machine.project.asked if machine.project is not None else 0
    sizes = [_size(getattr(machine, name)) for name in _LEFT]
    return moment, sizes, machine.ventures, machine.abroad, machine.plain, asked


def _size(registry: Any) -> Any:
    """How much is noted; the content of what is neither a list, a set nor a dict."""
    if isinstance(registry, dict):
        return len(registry) + sum(len(entry) for entry in registry.values() if isinstance(entry, (list, set, dict)))
    return len(registry) if isinstance(registry, (list, set)) else registry


def _ids_in(notes: _Notes) -> Iterator[int]:
    yield from (owner for owner, _ in notes.entries["reads"])
    inputs = (notes.entries["lengths"], *notes.entries["handed_on"].values())
    yield from (one.id for one in chain.from_iterable(inputs) if isinstance(one, Symbol))
    for placement in notes.log.placements.values() if notes.log is not None else ():
        yield from placement.objects


def _is_older(value: Value, newest: int) -> bool:
    """Whether all that a value is about was there before, but perhaps a tensor itself and its unknown place."""
    if isinstance(value, Choice):
        return all(_is_older(option, newest) for _, option in value.alternatives)
    if isinstance(value, Sequence):
        return all(_is_older(item, newest) for item in value.items)
    if not isinstance(value, Tensor):
        return True
    # An input that is handed back would be another one the next time.
    handed_back = 0 < value.uid <= newest and value.role not in (Role.PARAMETER, Role.BUFFER)
    return not handed_back and all(identity <= newest for identity in _ids_of(value))


def _ids_of(tensor: Tensor) -> Iterator[int]:
    if isinstance(tensor.place, Symbol):
        yield from (tensor.place.parent.id,) if tensor.place.parent is not None else ()
    elif isinstance(tensor.place.index, Symbol):
        yield tensor.place.index.id
    yield from (*tensor.modules, *tensor.parameters, *tensor.synced)
    yield from (identity for identity, _ in tensor.unsynced)
    yield from (held.owner.id for held in (tensor.holder, tensor.memory, tensor.alias) if held is not None)
    if tensor.lost is not None:
        yield tensor.lost.uid


def _in_this_run(value: Value, teller: Teller, newest: int, shift: int) -> Value | None:
    """The same in another run, where ids beyond the ``newest`` are higher by ``shift``; None if that cannot be said."""
    if isinstance(value, Choice):
        options = [
            (teller.here(guard), _in_this_run(option, teller, newest, shift)) for guard, option in value.alternatives
        ]
        known = [(guard, option) for guard, option in options if guard is not None and option is not None]
        return Choice(tuple(known)) if len(known) == len(options) else None
    if isinstance(value, Sequence):
        items = [_in_this_run(item, teller, newest, shift) for item in value.items]
        known_items = tuple(item for item in items if item is not None)
        return replace(value, items=known_items) if len(known_items) == len(items) else None
    if isinstance(value, Tensor) and isinstance(value.place, Symbol) and value.place.id > newest:
        value = replace(value, place=replace(value.place, id=value.place.id + shift))
    return replace(value, uid=value.uid + shift) if isinstance(value, Tensor) and value.uid > newest else value
