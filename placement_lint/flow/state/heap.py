"""The store: every mutable fact of the analysed program, with branches that can be rolled back.

A cell is named by its owner (the id of a frame, an object or a class) and a name. Forking copies nothing: a branch
records the values that it overwrites, so that its effect can be read off, undone, and joined with another's.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeAlias

import libcst as cst

from placement_lint.flow.domain.path_condition import Question
from placement_lint.flow.domain.values import ABSENT, Const, Device, External, Fact, Placed, Symbol, Value
from placement_lint.flow.state.notes import Registry


@dataclass(frozen=True, eq=False)
class Slot:
    """A cell of the analysis's own, beside those of a program's variables and attributes."""

    name: str

    def of(self, attribute: str) -> SlotOf:
        return SlotOf(self.name, attribute)


@dataclass(frozen=True)
class SlotOf(Slot):
    """A note of the analysis about an attribute or variable."""

    attribute: str


# The contents of a list or tuple, and of a dict.
ITEMS = Slot("items")
MAPPING = Slot("mapping")

Key: TypeAlias = "str | Slot"
"""The name of a variable or attribute, or a cell of the analysis's own."""
Cell: TypeAlias = "tuple[int, Key]"
Delta = dict[Cell, "Value | None"]

# Values that are never parts of a module: flags, places and the like.
_NO_PARTS = frozenset({type(None), Const, Device, External, Fact, Placed})


@dataclass
class Watch:
    """The reads of cells of owners with an id up to ``newest``, and whether one of the cells was changed.

    ``names`` are those under which an owner had values when they were read, and ``named`` the cells that first had one.
    Every other read is recorded with the value before it: the parts of unknown values, one by one or all that an owner
    had, the questions by their subjects, the notes on things, the definitions of classes. ``outer`` is the watch that
    was active when this one began; it stays active.
    """

    newest: int
    outer: Watch | None = None
    seen: dict[Cell, Value | None] = field(default_factory=dict)
    names: dict[int, tuple[Key, ...]] = field(default_factory=dict)
    named: list[Cell] = field(default_factory=list)
    parts: dict[tuple[int, object], Symbol | None] = field(default_factory=dict)
    all_parts: dict[int, tuple[Symbol, ...]] = field(default_factory=dict)
    questions: dict[Hashable, Question | None] = field(default_factory=dict)
    noted: dict[tuple[Registry, Hashable], object] = field(default_factory=dict)
    definitions: dict[int, cst.ClassDef] = field(default_factory=dict)
    changed: bool = False
    # a variable of a function that was already running was read
    enclosed: bool = False
    # blocks and loops around a statement that ran, which it read
    around: list[object] = field(default_factory=list)
    # the cells written that no branch rolls back
    lasting: dict[Cell, None] = field(default_factory=dict)

    @property
    def asked(self) -> bool:
        """Whether parts of existing unknown values were read."""
        return any(owner <= self.newest for owner, _ in self.parts)


class Store:
    """Cells and their values; None stands for a cell that does not exist."""

    def __init__(self) -> None:
        self._cells: dict[Cell, Value | None] = {}
        self._names: dict[int, dict[Key, None]] = {}
        # the values that may be parts of owners, cached until one of them changes
        self._held: dict[int, list[tuple[Key, Value]]] = {}
        self._journals: list[Delta] = []
        # the frames of functions: their cells are dropped when they return
        self.passing: set[int] = set()
        self.watch: Watch | None = None

    def read(self, owner: int, name: Key) -> Value | None:
        value = self._cells.get((owner, name))
        watch = self.watch
        if watch is not None and owner <= watch.newest:
            watch.seen.setdefault((owner, name), value)
            if owner in self.passing:
                watch.enclosed = True
        return value

    def write(self, owner: int, name: Key, value: Value | None) -> None:
        cell, cells = (owner, name), self._cells
        before = cells.get(cell)
        if self.watch is not None and owner <= self.watch.newest:
            self._note_write(cell, before, value)
        if self._journals:
            self._journals[-1].setdefault(cell, before)
        else:
            self._note_lasting((cell,))
        if before is None and cell not in cells:
            self._name(cell)
        if value is not before:
            cells[cell] = value
            if owner in self._held:
                self._note_change(owner, before, value)

    def write_lasting(self, owner: int, name: Key, value: Value) -> None:
        """Write a value that no branch rolls back."""
        journals, self._journals = self._journals, []
        self.write(owner, name, value)
        self._journals = journals

    def _note_write(self, cell: Cell, before: Value | None, after: Value | None) -> None:
        watch, changes = self.watch, before != after
        while watch is not None and cell[0] <= watch.newest:
            watch.seen.setdefault(cell, before)
            if cell[0] in self.passing:
                watch.enclosed = True
            else:
                watch.changed = watch.changed or changes
            watch = watch.outer

    def _note_lasting(self, cells: Iterable[Cell]) -> None:
        if self.watch is not None:
            self.watch.lasting.update(dict.fromkeys(cells))

    def _name(self, cell: Cell) -> None:
        """A cell gets a value for the first time: the cells of an owner are listed in that order."""
        self._names.setdefault(cell[0], {})[cell[1]] = None
        if self.watch is not None:
            self.watch.named.append(cell)

    def name_again(self, cells: Iterable[Cell]) -> None:
        """These cells had values for the first time, in this order, even if they have none now."""
        for cell in cells:
            if cell not in self._cells:
                self._cells[cell] = None
                self._name(cell)

    def _note_change(self, owner: int, before: Value | None, after: Value | None) -> None:
        """Discard the cached contents of an owner if one of these may be a part of it."""
        if not (type(before) in _NO_PARTS and type(after) in _NO_PARTS):
            del self._held[owner]

    def names(self, owner: int) -> Iterator[Key]:
        """The names under which ``owner`` has a value now, in the order they first appeared."""
        names = tuple(name for name in self._names.get(owner, ()) if self._cells.get((owner, name)) is not None)
        if self.watch is not None and owner <= self.watch.newest:
            self.watch.names.setdefault(owner, names)
        return iter(names)

    def variables(self, owner: int) -> Iterator[str]:
        """The names of the program's own variables and attributes."""
        return (name for name in self.names(owner) if isinstance(name, str))

    def held(self, owner: int) -> list[tuple[Key, Value]]:
        """The named values that may be parts of ``owner``: the same list until one of them changes."""
        held = self._held.get(owner)
        if held is None:
            cells, names = self._cells, self._names.get(owner, ())
            values = ((name, cells.get((owner, name))) for name in names)
            held = [(name, value) for name, value in values if value is not None and type(value) not in _NO_PARTS]
            self._held[owner] = held
        watch = self.watch
        if watch is not None and owner <= watch.newest:
            self.names(owner)
            for name, value in held:
                watch.seen.setdefault((owner, name), value)
        return held

    def under(self, names: Collection[Key]) -> Iterator[Value]:
        """All values that owners have under one of these names."""
        return (value for (_, name), value in self._cells.items() if name in names and value is not None)

    def drop(self, owner: int) -> None:
        """Forget all cells of an owner that was created in the innermost branch and cannot be reached any more."""
        journal = self._journals[-1] if self._journals else {}
        self._held.pop(owner, None)
        for name in self._names.pop(owner, ()):
            self._cells.pop((owner, name), None)
            journal.pop((owner, name), None)

    @property
    def depth(self) -> int:
        return len(self._journals)

    def begin(self) -> None:
        """Start a branch."""
        self._journals.append({})

    def changes(self, depth: int) -> Delta:
        """The cells written since the branch at ``depth`` began, with their current values."""
        return {cell: self._cells.get(cell) for journal in self._journals[depth:] for cell in journal}

    def changed(self, newest: int) -> list[Value]:
        """The current values of the cells that the innermost branch changed, of owners with an id up to ``newest``."""
        cells = ((cell, before) for cell, before in self._journals[-1].items() if cell[0] <= newest)
        changed = (self._cells.get(cell) for cell, before in cells if self._cells.get(cell) != before)
        return [value if value is not None else ABSENT for value in changed]

    def roll_back(self) -> None:
        """End the innermost branch and undo it."""
        cells, held = self._cells, self._held
        for cell, value in self._journals.pop().items():
            undone = cells.get(cell)
            if undone is not value:
                cells[cell] = value
                if cell[0] in held:
                    self._note_change(cell[0], undone, value)

    def commit(self) -> None:
        """End the innermost branch and keep its writes."""
        journal = self._journals.pop()
        if self._journals:
            outer = self._journals[-1]
            for cell, value in journal.items():
                outer.setdefault(cell, value)
        else:
            self._note_lasting(journal)

    @contextmanager
    def lasting(self) -> Iterator[None]:
        """No branch rolls back the cells that are written here."""
        journals, self._journals = self._journals, []
        try:
            yield
        finally:
            self._journals = journals

    @contextmanager
    def watched(self, newest: int) -> Iterator[Watch]:
        """Record the reads and changes of cells that exist already, while the body runs."""
        outer, self.watch = self.watch, Watch(newest, self.watch)
        try:
            yield self.watch
        finally:
            watch, self.watch = self.watch, outer
            watch.outer = None
            if outer is not None:
                self._tell(watch, outer)

    def is_as_seen(self, watch: Watch) -> bool:
        """Whether all that was read is still the same."""
        return all(self.read(*cell) == value for cell, value in watch.seen.items()) and all(
            tuple(self.names(owner)) == names for owner, names in watch.names.items()
        )

    def _tell(self, watch: Watch, outer: Watch) -> None:
        """Copy the records of the inner watch to the outer one."""
        for cell, value in watch.seen.items():
            if cell[0] <= outer.newest:
                outer.seen.setdefault(cell, value)
                outer.enclosed = outer.enclosed or cell[0] in self.passing
        for owner, names in watch.names.items():
            if owner <= outer.newest:
                outer.names.setdefault(owner, names)
        for kind in ("parts", "all_parts", "questions", "noted", "definitions"):
            known = vars(outer)[kind]
            for one, before in vars(watch)[kind].items():
                known.setdefault(one, before)
        outer.named.extend(watch.named)
        outer.around.extend(watch.around)
        outer.lasting.update(watch.lasting)
