"""Results of the analysis of uncalled definitions, kept from one text of a document to the next.

A keystroke changes only a small part of a text. A result consists of the entries that the analysis added to the
machine's registries; it is reused while everything that the analysis read from outside is unchanged. It is kept only
if the analysis read only names of libraries, constants, functions and classes, and if no entry is compared with
entries of other definitions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Mapping as Table
from collections.abc import Sequence as Many
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import libcst as cst

from placement_lint.flow.domain.path_condition import Memory, current
from placement_lint.flow.domain.values import (
    Choice,
    Class,
    Const,
    Device,
    External,
    Fact,
    Function,
    Imported,
    Mapping,
    Pending,
    Sequence,
    Value,
)
from placement_lint.flow.incremental.effect_memo import Recollection
from placement_lint.flow.models.ddp import Ddp
from placement_lint.flow.models.gradients import Gradients
from placement_lint.flow.models.lightning import Lightning
from placement_lint.flow.models.optimizers import Optimizers
from placement_lint.flow.observers.placements import PlacementLog
from placement_lint.flow.state.heap import Cell, Key
from placement_lint.flow.state.machine import Machine
from placement_lint.flow.state.module_notes import ModuleNotes
from placement_lint.flow.state.notes import Registry, added, copied, empty, registries, with_entries
from placement_lint.rule import Note

Definition: TypeAlias = "cst.ClassDef | cst.FunctionDef"
Look: TypeAlias = Callable[[Machine, Definition, "Many[Value]", Callable[[], None]], None]
"""Analyses a definition, given its values and the function that does it."""

# Each definition has a separate range of ids, above those of the program's own statements.
_NUMBERS = 2**60


class _Unsettled(Exception):
    """A value may differ in another run."""


@dataclass(frozen=True)
class _Outcome:
    """The result of one analysis: its inputs, and its entries in the registries and in the placement log."""

    about: object
    surroundings: object
    seen: Table[Cell, object]
    names: Table[int, tuple[Key, ...]]
    # the first move of each of the classes that it read
    moved: Table[int, Note | None]
    noted: Table[Registry, Any]
    log: PlacementLog | None
    # the budget that it used
    spent: int

    def holds(self, machine: Machine, about: object) -> bool:
        if self.about != about or self.surroundings != _surroundings(machine):
            return False
        if any(machine.notes[ModuleNotes].moved.get(identity) != note for identity, note in self.moved.items()):
            return False
        store = machine.store
        try:
            return all(_settled(machine, store.read(*cell)) == seen for cell, seen in self.seen.items()) and all(
                tuple(store.names(owner)) == names for owner, names in self.names.items()
            )
        except _Unsettled:
            return False

    def tell(self, machine: Machine) -> None:
        """Apply the recorded entries to the machine."""
        machine.budget.spent += self.spent
        notes = machine.notes
        for one, entries in self.noted.items():
            notes.set_registry(one, with_entries(notes.get_registry(one), entries))
        if isinstance(machine.log, PlacementLog) and self.log is not None:
            machine.log.take(self.log)


@dataclass
class Outcomes:
    """Results of one document, by definition; None for a definition that was not analysed or cannot be kept.

    ``forwards`` holds the recorded runs of statements and of calls of modules.
    """

    forwards: Recollection = field(default_factory=Recollection)
    conditions: Memory = field(default_factory=Memory)
    _known: dict[cst.CSTNode, _Outcome | None] = field(default_factory=dict)
    _again: dict[cst.CSTNode, _Outcome | None] = field(default_factory=dict)
    # definitions whose results cannot be kept
    _open: set[cst.CSTNode] = field(default_factory=set)
    # the number of definitions of each name so far, and the first id of each definition
    _named: Counter[str] = field(default_factory=Counter)
    _first: dict[tuple[str, int], int] = field(default_factory=dict)

    def begin(self) -> Look:
        """Start the next text; returns the function that analyses each definition."""
        self._again = {}
        self._named.clear()
        return self._look

    def pass_over(self, definition: Definition) -> None:
        """Skip a definition that is not analysed this time."""
        self._number(definition.name.value)

    def end(self) -> None:
        self._known = self._again
        self._open &= self._known.keys()

    def _look(self, machine: Machine, definition: Definition, values: Many[Value], look: Callable[[], None]) -> None:
        number = self._number(definition.name.value)
        machine.number(number, number)
        current().last = number
        about = _about(machine, values)
        outcome = self._known.get(definition)
        if outcome is not None and outcome.holds(machine, about):
            outcome.tell(machine)
        elif definition not in self._known or definition in self._open:
            # The user may be editing it, so the next text will have a different definition.
            look()
            outcome = None
        else:
            with machine.without_recollection():
                outcome = _outcome(machine, about, values, look)
            if outcome is None:
                self._open.add(definition)
        self._again[definition] = outcome

    def _number(self, name: str) -> int:
        """The first id for a definition: the same in each text, so that most results of its analysis stay equal."""
        self._named[name] += 1
        return self._first.setdefault((name, self._named[name]), (len(self._first) + 1) * _NUMBERS)


def _outcome(machine: Machine, about: object, values: Many[Value], look: Callable[[], None]) -> _Outcome | None:
    """Analyse, and return the result; None if it cannot be kept."""
    surroundings, abroad, moved = _surroundings(machine), _abroad(machine), {**machine.notes[ModuleNotes].moved}
    spent, lasting = machine.budget.spent, machine.namespaces.ids - machine.store.passing
    with machine.store.watched(machine.newest) as watch:
        look()
    cells = [(cell, value) for cell, value in watch.seen.items() if cell[0] in lasting]
    names = {owner: names for owner, names in watch.names.items() if owner in lasting}
    try:
        seen = {cell: _settled(machine, value) for cell, value in cells}
    except _Unsettled:
        return None
    if about is None or watch.asked or abroad != _abroad(machine):
        return None
    spent = machine.budget.spent - spent
    noted, log = _noted(machine, look)
    if not registries().weighed.isdisjoint(noted):
        return None
    moves = {one: moved.get(one) for one in _classes((*values, *watch.seen.values()))}
    return _Outcome(about, surroundings, seen, names, moves, noted, log, spent)


def _noted(machine: Machine, look: Callable[[], None]) -> tuple[dict[Registry, Any], PlacementLog | None]:
    """All entries that an analysis adds, including those that other definitions have added, too."""
    known = registries()
    noted = empty(known.own) | {one: copied(machine.notes.get_registry(one)) for one in known.shared}
    before = {one: copied(registry) for one, registry in noted.items()}
    log, spent, questions = machine.log, machine.budget.spent, current().last
    machine.log = own = PlacementLog() if log is not None else None
    try:
        with machine.notes.replaced(noted):
            look()
    finally:
        machine.log, machine.budget.spent, current().last = log, spent, questions
    return {one: entries for one, now in noted.items() if (entries := added(before[one], now))}, own


# --- inputs --------------------------------------------------------------------------------------------------------


def _surroundings(machine: Machine) -> object:
    """The part of other definitions' notes that an analysis reads as a whole: whether there are any."""
    return (
        bool(machine.notes[Optimizers].built),
        bool(machine.notes[Ddp].wrappers),
        machine.notes[Gradients].by_hand,
        machine.notes[Lightning].on_cpu,
    )


def _classes(values: Iterable[Value | None]) -> Iterator[int]:
    """The ids of the classes among values, and of their bases."""
    for value in values:
        if isinstance(value, Class):
            yield value.id
            yield from _classes(value.bases)


def _abroad(machine: Machine) -> object:
    """The number of uses of other files: their content and the budget for them are not recorded."""
    return machine.budget.ventures, machine.project.asked if machine.project is not None else 0


def _about(machine: Machine, values: Many[Value]) -> object:
    """A key for the definitions that are analysed; None if it may differ each time."""
    try:
        return tuple(_settled(machine, value) for value in values)
    except _Unsettled:
        return None


def _settled(machine: Machine, value: Value | None) -> object:
    """A key with all facts about a value that are the same in another run.

    Raises _Unsettled for a value with state in the store, or an unknown value.
    """
    if value is None or isinstance(value, (External, Const, Device)):
        return value
    if isinstance(value, Function) and machine.root(value.frame) == value.frame:
        return Function, value.node, value.frame
    if isinstance(value, Class):
        definition = machine.namespaces.definitions[value.id]
        return Class, value.id, definition, *(_settled(machine, base) for base in value.bases)
    if isinstance(value, Fact):
        return Fact, value.name, value.details
    if isinstance(value, Imported):
        return Imported, value.frame
    if isinstance(value, Pending):
        return Pending, value.module.frame, value.name
    if isinstance(value, Sequence):
        return Sequence, value.exact, *(_settled(machine, item) for item in value.items)
    if isinstance(value, Mapping):
        items = ((key, _settled(machine, item)) for key, item in value.items)
        return Mapping, *items, _settled(machine, value.rest)
    if isinstance(value, Choice) and not any(cube.answers for guard, _ in value.alternatives for cube in guard.cubes):
        return Choice, *((guard, _settled(machine, option)) for guard, option in value.alternatives)
    raise _Unsettled
