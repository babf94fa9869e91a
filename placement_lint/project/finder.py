"""Resolution of imports to the project's own files, following Python's search order, with the files read for it.

Nothing is ever imported, and no file outside the project is opened: a name that is not found counts as a library's.
"""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple, TypeAlias, TypeVar

from placement_lint.project.files import EXCLUDED_FOLDERS
from placement_lint.project.index import Binding, Import, Lines, read_imports
from placement_lint.project.search_path import added_folders
from placement_lint.project.unit import (
    EXPORTS,
    FOLDERS,
    MAY_BIND,
    OFFERS,
    STARS,
    WHOLE,
    Ask,
    Question,
    Seen,
    Statement,
    Unit,
    seen,
)
from placement_lint.report.results import Read
from placement_lint.source.outline import code_of
from placement_lint.source.text import Unreadable

Sources = Callable[[str], "bytes | None"]
"""The content of a file by its absolute path; None if there is none."""

INIT = "__init__.py"
# The files by which a folder is installed.
PROJECT_FILES = ("setup.py", "pyproject.toml", "setup.cfg")
# Modules that are analysed without their source: the flow of values through torch itself is in its tables.
_KNOWN = frozenset({"torch", "builtins", "placement_lint"})
_PATHS = 8192
# Size of the cache of answers: each keeps its file in memory.
_ANSWERS = 2048


def read_from_disk(path: str) -> bytes | None:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return None


class Place(NamedTuple):
    """The location of a module: its file, or the folder of a package without one."""

    path: str
    is_file: bool = True

    @property
    def folder(self) -> str | None:
        """The folder of its submodules; None for a plain module."""
        if not self.is_file:
            return self.path
        folder, name = os.path.split(self.path)
        return folder if name == INIT else None


@lru_cache(_PATHS)
def _above(path: str, level: int) -> str:
    """The folder that ``level`` dots mean in a file."""
    folder = os.path.dirname(path)
    return folder if level == 1 else _above(folder, level - 1)


@lru_cache(_PATHS)
def _below(folder: str, parts: tuple[str, ...]) -> str:
    return os.path.join(folder, *parts)


@lru_cache(_PATHS)
def _candidates(path: str) -> tuple[Place, Place]:
    """The possible locations of a module of that path."""
    return Place(os.path.join(path, INIT)), Place(f"{path}.py")


Asked: TypeAlias = Mapping[str, Set[Ask]]
"""The queries of files, by their paths."""

Answer = TypeVar("Answer")
Answers: TypeAlias = dict[Hashable, tuple[Any, Mapping[str, "Seen | None"], Asked]]
"""Answers about files, with all files that were read for them, and the queries of each."""


@dataclass
class Surroundings:
    """The files around the file at ``path``, absolute, with the text ``program``.

    ``roots`` are the folders from which a project is imported. ``looked_at`` are the files that were read, with None
    for those that were not found: while all of that is unchanged, the file's imports have the same meaning. Most files
    are queried little, so the queries ``asked`` of a unit are recorded: a changed file counts as unchanged as long as
    the answers are. While no file changes, the surroundings of all files may share their ``answers``.
    """

    path: str
    roots: Sequence[str] = ()
    sources: Sources = read_from_disk
    answers: Answers = field(default_factory=dict)
    program: str = ""
    looked_at: dict[str, Seen | None] = field(default_factory=dict)
    asked: defaultdict[str, set[Ask]] = field(default_factory=lambda: defaultdict(set))
    statements: list[Statement] = field(default_factory=list)
    # packages without a file of their own
    folders: set[str] = field(default_factory=set)
    _tops: dict[str, str] = field(default_factory=dict)
    _inners: dict[str, Sequence[str]] = field(default_factory=dict)
    _modules: dict[str, Place | None] = field(default_factory=dict)
    _found: dict[tuple[Import, str], Place | None] = field(default_factory=dict)
    _answered: dict[Hashable, Any] = field(default_factory=dict)
    # the folders that the program adds to ``sys.path``, once they are needed
    _added: Sequence[str] | None = None

    def unit(self, path: str) -> Unit | None:
        seen = self._look_at(path)
        return seen.unit if seen is not None else None

    # --- queries of a unit ---

    def text(self, unit: Unit) -> str:
        self.asked[unit.path].add(WHOLE)
        return unit.text

    def first_line(self, statement: Statement) -> int:
        """The line on which a statement begins, which depends on all text before it."""
        self.asked[statement.unit.path].add(WHOLE)
        return statement.lines.first

    def tells(self, unit: Unit, lines: Lines, question: Question) -> Any:
        """The answer to a question about the text of a top-level statement."""
        self.asked[unit.path].add(unit.about(lines, question))
        return unit.tells(lines, question)

    def rely_on(self, unit: Unit, lines: Lines) -> None:
        """Record that the whole text of a top-level statement matters."""
        self.asked[unit.path].add(unit.about(lines, str))

    def bindings(self, unit: Unit, name: str) -> Sequence[Binding]:
        """The statements that bind a name at its top level, or change its value."""
        self.asked[unit.path].add(name)
        return unit.index.bindings.get(name, ())

    def sources_of(self, unit: Unit, name: str) -> Sequence[Binding]:
        """The same, but only the imports of a branch that takes the name from elsewhere."""
        return [each for found in self.bindings(unit, name) for each in unit.index.taken.get((name, found), (found,))]

    def bound(self, unit: Unit, names: Set[str]) -> Set[str]:
        """Those of these names that its top level binds."""
        self.asked[unit.path] |= names
        return names & unit.index.bindings.keys()

    def may_bind(self, unit: Unit, name: str) -> bool:
        """Whether its top level can have that name; true for an empty name."""
        if not name:
            return True
        self.asked[unit.path].add(f"{MAY_BIND}{name}")
        return unit.may_bind(name)

    def is_rebound(self, unit: Unit, name: str) -> bool:
        """Whether its functions assign to that variable of an enclosing scope."""
        self.asked[unit.path].add(name)
        return name in unit.index.rebound

    def is_changed(self, unit: Unit, name: str) -> bool:
        """Whether its functions change the value of that name in place."""
        self.asked[unit.path].add(name)
        return name in unit.index.changed

    def stars(self, unit: Unit) -> Sequence[Import]:
        """The modules from which it imports all names."""
        self.asked[unit.path].add(STARS)
        return unit.stars

    def exports(self, unit: Unit) -> Set[str] | None:
        """The names in its ``__all__``; None if it has none, or computes it."""
        self.asked[unit.path].add(EXPORTS)
        return unit.exports

    def offers(self, unit: Unit) -> Sequence[str]:
        """The names that other files may import."""
        self.asked[unit.path].add(OFFERS)
        return unit.index.offers

    def brings(self, unit: Unit, words: Set[str]) -> Set[str]:
        """The words among these that ``import *`` takes from it; nothing is parsed if its ``__all__`` decides."""
        exports = self.exports(unit)
        taken = {word for word in words if word[0] != "_"} if exports is None else words & exports
        return self.bound(unit, taken) if taken else taken

    def statement(self, unit: Unit, lines: Lines) -> Statement | None:
        self.rely_on(unit, lines)
        try:
            statement = unit.statement(lines)
        except Unreadable:
            return None
        self.statements.append(statement)
        return statement

    def reached(self, text: str) -> Iterator[Unit]:
        """The files that a text of the file itself imports, directly or through others."""
        return self._reached(
            [found for _, found in read_imports(code_of(text))], lambda unit: (found for _, found in unit.imports)
        )

    def run_by(self, wanted: Import) -> Iterator[Unit]:
        """The files that an import of the file itself runs, and that these run; not by imports inside functions."""
        return self._reached([wanted], lambda unit: unit.index.imports)

    def _reached(self, wanted: Iterable[Import], inner: Callable[[Unit], Iterable[Import]]) -> Iterator[Unit]:
        """Each file that imports of the file itself run, and that ``inner`` imports of these files run, once.

        All of such a file may matter, also its imports.
        """
        waiting = [(self.path, found) for found in wanted][::-1]
        seen: set[str] = set()
        while waiting:
            importer, found = waiting.pop()
            for unit in self._imported(found, importer):
                if unit.path not in seen:
                    seen.add(unit.path)
                    self.asked[unit.path].add(WHOLE)
                    yield unit
                    waiting.extend((unit.path, each) for each in reversed([*inner(unit)]))

    def imported_by(self, path: str, text: str) -> Iterator[Unit]:
        """The files that another file imports directly."""
        for _, wanted in read_imports(code_of(text)):
            yield from self._imported(wanted, path)

    def _imported(self, wanted: Import, importer: str) -> Iterator[Unit]:
        """The files that an import runs: those of the module that it names, and of the submodule that it takes."""
        place = self.find(wanted, importer)
        below = wanted.module.split(".")[1:] if wanted.root else [wanted.name] if wanted.name else []
        while place is not None:
            if place.is_file and place.path != self.path and (unit := self.unit(place.path)) is not None:
                yield unit
            place = self.submodule(place, below.pop(0)) if below else None

    def answer(self, question: Hashable, ask: Callable[[Surroundings], Answer]) -> Answer:
        """The answer to a question about other files, which depends neither on this file nor on the first caller."""
        if question not in self._answered:
            if question not in self.answers:
                if len(self.answers) >= _ANSWERS:
                    self.answers.clear()
                around = Surroundings("", self.roots, self.sources, answers=self.answers)
                self.answers[question] = ask(around), around.looked_at, around.asked
            self._answered[question], looked_at, asked = self.answers[question]
            self.looked_at.update(looked_at)
            self._ask_again(asked)
        answer: Answer = self._answered[question]
        return answer

    def _ask_again(self, asked: Asked) -> None:
        for path, asks in asked.items():
            self.asked[path] |= asks

    def are_as_before(self, looked_at: Mapping[str, Seen | None]) -> bool:
        """Whether all files that were read then are unchanged; their single queries are no longer known."""
        self._ask_again(dict.fromkeys(looked_at, frozenset((WHOLE,))))
        return all(self._look_at(path) == seen for path, seen in looked_at.items())

    @property
    def reads(self) -> tuple[Read, ...]:
        """The files that were read, and the queries of each."""
        return tuple(self._read(path, seen) for path, seen in self.looked_at.items() if seen is not None)

    def _read(self, path: str, seen: Seen) -> Read:
        asks = self.asked[path]
        if WHOLE in asks or seen.unit is None:
            return Read(path, seen.digest)
        return Read(path, seen.digest, *seen.unit.record(frozenset(asks)))

    @property
    def absent(self) -> tuple[str, ...]:
        """The paths that were searched and not found."""
        return tuple(path for path, seen in self.looked_at.items() if seen is None)

    def find(self, wanted: Import, importer: str) -> Place | None:
        """The module that an import in the file ``importer`` takes a name from, or binds itself."""
        asked = (wanted, importer)
        if asked not in self._found:
            self._found[asked] = self._find(wanted, importer)
        return self._found[asked]

    def _find(self, wanted: Import, importer: str) -> Place | None:
        parts = tuple(wanted.module.split(".")) if wanted.module else ()
        if wanted.level:
            return self._within(_above(importer, wanted.level), parts, wanted.name)
        if parts[0] in _KNOWN or not EXCLUDED_FOLDERS.isdisjoint(parts[:-1]):
            return None
        for root in chain(self._roots(importer, parts[0]), self._added_roots(parts[0])):
            found = self._root_of(root, parts) if wanted.root else self._within(root, parts, wanted.name)
            if found is not None and found.path != importer:
                # A file may have the name of an excluded folder: ``build.py``.
                return None if parts[-1] in EXCLUDED_FOLDERS and found.folder is not None else found
        return None

    def submodule(self, package: Place, name: str) -> Place | None:
        """A module or package below a package."""
        if package.folder is None:
            return None
        path = os.path.join(package.folder, name)
        return self._regular(path) or (Place(path, is_file=False) if path in self.folders else None)

    def _root_of(self, root: str, parts: Sequence[str]) -> Place | None:
        """The binding of ``import a.b.c``: the package ``a``, a folder without a file if only ``a.b.c`` exists."""
        first = os.path.join(root, parts[0])
        if found := self._regular(first):
            return found
        if not self._regular(os.path.join(root, *parts)):
            return None
        self.folders.update(os.path.join(root, *parts[:count]) for count in range(1, len(parts)))
        return Place(first, is_file=False)

    def _within(self, folder: str, parts: tuple[str, ...], name: str | None) -> Place | None:
        """The module of that dotted name below a folder; one without a file if it contains the module ``name``."""
        path = _below(folder, parts)
        if found := self._regular(path):
            return found
        return Place(path, is_file=False) if name and self._regular(_below(path, (name,))) else None

    def _regular(self, path: str) -> Place | None:
        if path not in self._modules:
            there = (it for it in _candidates(path) if it.path == self.path or self._look_at(it.path) is not None)
            self._modules[path] = next(there, None)
        return self._modules[path]

    def _roots(self, importer: str, first: str) -> Iterator[str]:
        """The folders that Python would search for a module whose name begins so, the most likely first.

        A script's own folder is the first entry of ``sys.path``, even before the standard library. The folder of a
        package's file is not in it: it comes last, in case the file runs as a script nevertheless.
        """
        folder = os.path.dirname(importer)
        top = self._top_of(folder)
        if top == folder:
            yield folder
        if first in sys.stdlib_module_names:
            return
        yield from dict.fromkeys((top, *self._with_sources(self.roots), *self._with_sources(self._inner(top)), folder))

    @staticmethod
    def _with_sources(roots: Sequence[str]) -> Iterator[str]:
        yield from roots
        yield from (os.path.join(root, "src") for root in roots)

    def _inner(self, folder: str) -> Sequence[str]:
        """The folders around a file, inside the project, that are projects of their own, innermost first."""
        if folder not in self._inners:
            above = os.path.dirname(folder)
            outer = self._inner(above) if self._is_inside(above) and folder not in self.roots else ()
            is_project = any(self._look_at(os.path.join(folder, name)) is not None for name in PROJECT_FILES)
            self._inners[folder] = (folder, *outer) if is_project else outer
        return self._inners[folder]

    def _added_roots(self, first: str) -> Sequence[str]:
        """The folders that the program, or a file that it imports directly, adds to ``sys.path``.

        They are searched after all others: most programs add none. A relative one depends on the working directory,
        which is usually the program's own folder or that of the project. Folders outside the project are excluded.
        """
        if first in sys.stdlib_module_names:
            return ()
        if self._added is None:
            self._added = ()
            added = dict.fromkeys(added_folders(self.program, self.path))
            for unit in self.imported_by(self.path, self.program):
                self.asked[unit.path].add(FOLDERS)
                added.update(dict.fromkeys(unit.folders))
            here = (os.path.dirname(self.path), *self.roots)
            paths = dict.fromkeys(os.path.normpath(os.path.join(start, folder)) for folder in added for start in here)
            self._added = tuple(filter(self._is_inside, paths))
            self._found.clear()
        return self._added

    def _is_inside(self, folder: str) -> bool:
        """Whether a folder is inside the project, and not in an excluded folder such as an environment."""
        parts = [os.path.relpath(folder, root).split(os.sep) for root in self.roots]
        return any(os.pardir not in each and EXCLUDED_FOLDERS.isdisjoint(each) for each in parts)

    def _top_of(self, folder: str) -> str:
        """The folder that contains the package of a folder; the folder itself if it is not in a package."""
        if folder not in self._tops:
            above = os.path.dirname(folder)
            is_package = self._look_at(os.path.join(folder, INIT)) is not None and above != folder
            self._tops[folder] = self._top_of(above) if is_package else folder
        return self._tops[folder]

    def _look_at(self, path: str) -> Seen | None:
        if path not in self.looked_at:
            data = self.sources(path)
            self.looked_at[path] = seen(path, data) if data is not None else None
        return self.looked_at[path]
