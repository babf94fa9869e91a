"""The store: every changeable fact of the analysed program, with branches that can be taken back.

A cell is named by its owner (the id of a frame, an object or a class) and a name. Forking copies nothing:
a branch notes what it overwrites, so that its effect can be read off, undone, and joined with another's.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from placement_lint.flow.values import ABSENT, Const, Device, External, Fact, Placed, Value

Cell = tuple[int, str]
Delta = dict[Cell, "Value | None"]

# What no module holds as a part of it: flags, places and what else the rooms remember of one.
_NO_PARTS = frozenset({type(None), Const, Device, External, Fact, Placed})


@dataclass
class Watch:
    """What was seen of the cells of owners with an id up to ``newest``, and whether one of them was changed.

    ``names`` are those under which an owner had values when somebody asked; ``asked`` whether somebody asked for parts
    of one that are not known, and ``enclosed`` for a variable of a function that was running already. ``outer`` is the
    watch that was kept when this one began, and goes on.
    """

    newest: int
    outer: Watch | None = None
    seen: dict[Cell, Value | None] = field(default_factory=dict)
    names: dict[int, tuple[str, ...]] = field(default_factory=dict)
    changed: bool = False
    asked: bool = False
    enclosed: bool = False


class Store:
    """Cells and their values; None stands for a cell that does not exist."""

    def __init__(self) -> None:
        self._cells: dict[Cell, Value | None] = {}
        self._names: dict[int, dict[str, None]] = {}
        # what may be parts of owners, as far as it was asked for and did not change since
        self._held: dict[int, list[tuple[str, Value]]] = {}
        self._journals: list[Delta] = []
        # the frames of functions: what is written there goes when they return
        self.passing: set[int] = set()
        self._watch: Watch | None = None

    def read(self, owner: int, name: str) -> Value | None:
        value = self._cells.get((owner, name))
        watch = self._watch
        if watch is not None and owner <= watch.newest:
            if owner in self.passing:
                watch.enclosed = True
            else:
                watch.seen.setdefault((owner, name), value)
        return value

    def write(self, owner: int, name: str, value: Value | None) -> None:
        cell = (owner, name)
        before = self._cells.get(cell)
        watch = self._watch
        while watch is not None and owner <= watch.newest and owner not in self.passing and before != value:
            watch.seen.setdefault(cell, before)
            watch.changed = True
            watch = watch.outer
        if self._journals and cell not in self._journals[-1]:
            self._journals[-1][cell] = before
        if cell not in self._cells:
            self._names.setdefault(owner, {})[name] = None
        if value is not before:
            self._cells[cell] = value
            self._note_change(owner, before, value)

    def _note_change(self, owner: int, before: Value | None, after: Value | None) -> None:
        """What an owner holds is to be looked for anew, if one of these may be a part of it."""
        if owner in self._held and not (type(before) in _NO_PARTS and type(after) in _NO_PARTS):
            del self._held[owner]

    def names(self, owner: int) -> Iterator[str]:
        """The names under which ``owner`` has a value now, in the order they first appeared."""
        names = tuple(name for name in self._names.get(owner, ()) if self._cells.get((owner, name)) is not None)
        if self._watch is not None and owner <= self._watch.newest:
            self._watch.names.setdefault(owner, names)
        return iter(names)

    def held(self, owner: int) -> list[tuple[str, Value]]:
        """Those of them whose values may be parts of ``owner``: the same list until one of them changes."""
        held = self._held.get(owner)
        if held is None:
            cells, names = self._cells, self._names.get(owner, ())
            values = ((name, cells.get((owner, name))) for name in names)
            held = [(name, value) for name, value in values if value is not None and type(value) not in _NO_PARTS]
            self._held[owner] = held
        watch = self._watch
        if watch is not None and owner <= watch.newest:
            self.names(owner)
            for name, value in held:
                watch.seen.setdefault((owner, name), value)
        return held

    def drop(self, owner: int) -> None:
        """Forget all cells of an owner that came up in the innermost branch and that nobody can name any more."""
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
        """What has been written since the branch at ``depth`` began, as it is now."""
        return {cell: self._cells.get(cell) for journal in self._journals[depth:] for cell in journal}

    def changed(self, newest: int) -> list[Value]:
        """The values now of what the innermost branch changed of owners with an id up to ``newest``."""
        cells = ((cell, before) for cell, before in self._journals[-1].items() if cell[0] <= newest)
        changed = (self._cells.get(cell) for cell, before in cells if self._cells.get(cell) != before)
        return [value if value is not None else ABSENT for value in changed]

    def roll_back(self) -> None:
        """End the innermost branch and undo it."""
        for cell, value in self._journals.pop().items():
            undone = self._cells.get(cell)
            if undone is not value:
                self._cells[cell] = value
                self._note_change(cell[0], undone, value)

    def commit(self) -> None:
        """End the innermost branch and keep what it wrote."""
        journal = self._journals.pop()
        if self._journals:
            outer = self._journals[-1]
            for cell, value in journal.items():
                outer.setdefault(cell, value)

    @contextmanager
    def lasting(self) -> Iterator[None]:
        """What is written here no branch takes back."""
        journals, self._journals = self._journals, []
        try:
            yield
        finally:
            self._journals = journals

    @contextmanager
    def watched(self, newest: int) -> Iterator[Watch]:
        """Note what is read and changed meanwhile of all that is there already."""
        outer, self._watch = self._watch, Watch(newest, self._watch)
        try:
            yield self._watch
        finally:
            watch, self._watch = self._watch, outer
            if outer is not None:
                _tell(watch, outer)

    def ask(self, owner: int) -> None:
        """Somebody asks for a part of an owner that is not known."""
        watch = self._watch
        while watch is not None and owner <= watch.newest:
            watch.asked = True
            watch = watch.outer

    def is_as_seen(self, watch: Watch) -> bool:
        """Whether all that was read is still the same."""
        return all(self._cells.get(cell) == value for cell, value in watch.seen.items()) and all(
            tuple(self.names(owner)) == names for owner, names in watch.names.items()
        )


def _tell(watch: Watch, outer: Watch) -> None:
    """What was seen meanwhile, the watch around it has seen as well."""
    for cell, value in watch.seen.items():
        if cell[0] <= outer.newest:
            outer.seen.setdefault(cell, value)
    for owner, names in watch.names.items():
        if owner <= outer.newest:
            outer.names.setdefault(owner, names)
