"""Where an import leads among the project's own files, as Python would look, and what was looked at on the way.

Nothing is ever imported, and nothing outside the project is opened: a name that is not found stays a library's.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
from array import array
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

from placement_lint.files import EXCLUDED_FOLDERS
from placement_lint.project.index import Import, Index, Lines, read_imports, read_index
from placement_lint.project.relevance import Mentions, read_mentions
from placement_lint.project.shelf import Shelf
from placement_lint.source.outline import bases_of, code_of, defines_class
from placement_lint.source.parsing import read
from placement_lint.source.scan import NEWLINE, UTF_8
from placement_lint.source.text import Unreadable, decode

if TYPE_CHECKING:
    import libcst as cst

Sources = Callable[[str], "bytes | None"]
"""The content of a file by its absolute path; None where there is none."""

INIT = "__init__.py"
_STAR = re.compile(rb"import(?<!\wimport)[\s(\\]*\*")
# The list of names, which is all that the statement says, where nothing else in the file speaks of it.
_ALL = b"__all__"
_ALL_NAMES = re.compile(
    rb"__all__(?<![^\n]__all__)[ \t]*=[ \t]*[\[(]([^\[\]()]*)[\])][ \t]*(?:\#[^\r\n]*)?(?=[\r\n]|\Z)"
)
_QUOTED = re.compile(rb"['\"]([^'\"\s]+)['\"]")
_NEWLINE, _LINE_FEED = re.compile(NEWLINE.pattern.encode()), re.compile(b"\n")
# What the analysis knows without its source: the flow of values through torch itself is in its tables.
_KNOWN = frozenset({"torch", "builtins"})
# How many files a process keeps, and of how many letters it keeps the nodes: twenty bytes each.
_UNITS, _LETTERS = 2048, 300_000
_PATHS = 8192
# How many answers are kept: each keeps the file that it is about.
_ANSWERS = 2048


def digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def read_from_disk(path: str) -> bytes | None:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return None


@dataclass(frozen=True, eq=False)
class Unit:
    """A file of the project as others see it.

    Hundreds of them are kept, so the text is kept in UTF-8: as a str, it takes four bytes a letter for one emoji in it.
    """

    path: str
    content: bytes
    _mentions: dict[Lines, Mentions] = field(default_factory=dict)
    _bases: dict[Lines, frozenset[str] | None] = field(default_factory=dict)
    _told: dict[tuple[Lines, Callable[[str], bool | None]], bool | None] = field(default_factory=dict)

    @property
    def text(self) -> str:
        return self.content.decode(*UTF_8)

    @cached_property
    def index(self) -> Index:
        return _index(self.content)

    def may_bind(self, name: str) -> bool:
        """Whether its top level can have that name, by its words alone: who gathers modules asks hundreds."""
        return name.encode(*UTF_8) in self.content or self._gathers

    def brings(self, words: Set[str]) -> Set[str]:
        """Those of these words that ``import *`` takes from it; nothing is parsed where its ``__all__`` tells."""
        exports = self.exports
        taken = {word for word in words if word[0] != "_"} if exports is None else words & exports
        return taken & self.index.bindings.keys() if taken else taken

    @cached_property
    def exports(self) -> Set[str] | None:
        """The names in its ``__all__``; None where it has none, or computes it."""
        if self._listed is not None or _ALL not in self.content:
            return self._listed
        return set(self.index.exports) if self.index.exports is not None else None

    @property
    def stars(self) -> Sequence[Import]:
        """The modules of which it takes all names."""
        return self.index.stars if self._gathers else ()

    @cached_property
    def _listed(self) -> Set[str] | None:
        """The names in an ``__all__`` that is a plain list; None where there is none."""
        found = _ALL_NAMES.search(self.content) if self.content.count(_ALL) == 1 else None
        return {name.decode(*UTF_8) for name in _QUOTED.findall(found[1])} if found is not None else None

    @cached_property
    def _gathers(self) -> bool:
        return _STAR.search(self.content) is not None

    @cached_property
    def _ends(self) -> array[int]:
        """Where each line ends, after a beginning."""
        newline = _NEWLINE if b"\r" in self.content else _LINE_FEED
        return array("L", (0, *(found.end() for found in newline.finditer(self.content)), len(self.content)))

    def source(self, lines: Lines) -> str:
        return self.content[self._part(lines)].decode(*UTF_8)

    def _part(self, lines: Lines) -> slice:
        return slice(self._ends[lines.first - 1], self._ends[lines.last])

    def mentions(self, lines: Lines) -> Mentions:
        """The words of a statement of the top level."""
        if lines not in self._mentions:
            self._mentions[lines] = read_mentions(self.source(lines))
        return self._mentions[lines]

    def bases(self, lines: Lines) -> frozenset[str] | None:
        """The names in what a class of the top level says that it derives from; None of another statement."""
        if lines not in self._bases:
            text = self.source(lines)
            self._bases[lines] = bases_of(text) if defines_class(text) else None
        return self._bases[lines]

    def tells(self, lines: Lines, wanted: Callable[[str], bool | None]) -> bool | None:
        """Whether a statement of the top level is wanted, by its text."""
        asked = lines, wanted
        if asked not in self._told:
            self._told[asked] = wanted(self.source(lines))
        return self._told[asked]

    def statement(self, lines: Lines) -> Statement:
        """Raises :class:`Unreadable` where libcst refuses what Python accepts."""
        return _statements.get((self, lines), lambda: self._parsed(lines))

    def _parsed(self, lines: Lines) -> Statement:
        return Statement(self, lines, read(self.source(lines), sparing=True))


@dataclass(frozen=True)
class Owner:
    """The class and the function, innermost each, whose bodies a node is in."""

    cls: cst.ClassDef | None = None
    function: cst.FunctionDef | None = None


@dataclass(eq=False)
class Statement:
    """A statement of the top level of a file, parsed by itself."""

    unit: Unit
    lines: Lines
    tree: cst.Module

    @property
    def letters(self) -> int:
        """Of how many letters there are nodes in its tree: what is in functions is not kept."""
        layout = getattr(self.tree, "layout", None)
        return layout.letters if layout is not None else len(self.tree.code)

    @cached_property
    def owners(self) -> dict[cst.CSTNode, Owner]:
        """Every node in it but whitespace, with what it is in the body of."""
        import libcst as cst

        from placement_lint.source.walking import children

        found: dict[cst.CSTNode, Owner] = {}
        waiting: list[tuple[cst.CSTNode, Owner]] = [(self.tree, Owner())]
        while waiting:
            node, owner = waiting.pop()
            found[node] = inner = owner
            if isinstance(node, cst.ClassDef):
                inner = Owner(node)
            elif isinstance(node, cst.FunctionDef):
                inner = Owner(owner.cls, node)
            waiting.extend((child, inner) for child in children(node))
        return found


@lru_cache(_UNITS)
def _index(content: bytes) -> Index:
    return read_index(content.decode(*UTF_8))


@lru_cache(_UNITS)
def _imports(content: bytes) -> tuple[tuple[str, Import], ...]:
    return read_imports(code_of(content.decode(*UTF_8)))


@dataclass(frozen=True)
class Seen:
    """What a file was when it was looked at; without a unit if it cannot be read as Python."""

    digest: str
    unit: Unit | None = field(compare=False)


@lru_cache(_UNITS)
def _seen(path: str, data: bytes) -> Seen:
    try:
        content = decode(data).encode(*UTF_8)
    except Unreadable:
        return Seen(digest(data), None)
    return Seen(digest(data), Unit(path, data if content == data else content))


_statements = Shelf[tuple[Unit, Lines], Statement](_LETTERS, lambda statement: statement.letters)


def forget() -> None:
    """Let go of all files: in a process that lives long, most of what is kept of them is of texts that are no more."""
    _index.cache_clear()
    _imports.cache_clear()
    _seen.cache_clear()
    _statements.clear()


class Place(NamedTuple):
    """Where a module is: its file, or the folder of a package without one."""

    path: str
    is_file: bool = True

    @property
    def folder(self) -> str | None:
        """Where its submodules are; None for a plain module."""
        if not self.is_file:
            return self.path
        folder, name = os.path.split(self.path)
        return folder if name == INIT else None


@lru_cache(_PATHS)
def _above(path: str, level: int) -> str:
    """The folder that so many dots mean in a file."""
    folder = os.path.dirname(path)
    return folder if level == 1 else _above(folder, level - 1)


@lru_cache(_PATHS)
def _below(folder: str, parts: tuple[str, ...]) -> str:
    return os.path.join(folder, *parts)


@lru_cache(_PATHS)
def _candidates(path: str) -> tuple[Place, Place]:
    """Where a module of that path may be."""
    return Place(os.path.join(path, INIT)), Place(f"{path}.py")


Answer = TypeVar("Answer")
Answers: TypeAlias = dict[Hashable, tuple[Any, Mapping[str, "Seen | None"]]]
"""What was answered of files, with all that was looked at for it."""


@dataclass
class Surroundings:
    """The files around the one at ``path``, absolute; ``roots`` are the folders that a project is imported from.

    ``looked_at`` is what was read, and what was looked for and not found, with None: as long as all that is the same,
    so is what the file's imports mean. While no file changes, all files' surroundings may share their ``answers``.
    """

    path: str
    roots: Sequence[str] = ()
    sources: Sources = read_from_disk
    answers: Answers = field(default_factory=dict)
    looked_at: dict[str, Seen | None] = field(default_factory=dict)
    statements: list[Statement] = field(default_factory=list)
    # packages without a file of their own
    folders: set[str] = field(default_factory=set)
    _tops: dict[str, str] = field(default_factory=dict)
    _modules: dict[str, Place | None] = field(default_factory=dict)
    _found: dict[tuple[Import, str], Place | None] = field(default_factory=dict)
    _asked: dict[Hashable, Any] = field(default_factory=dict)

    def unit(self, path: str) -> Unit | None:
        seen = self._look_at(path)
        return seen.unit if seen is not None else None

    def statement(self, unit: Unit, lines: Lines) -> Statement | None:
        try:
            statement = unit.statement(lines)
        except Unreadable:
            return None
        self.statements.append(statement)
        return statement

    def lead_to(self, text: str, matters: Callable[[str], bool]) -> bool:
        """Whether the imports of the file itself, whose text is given, lead to one that matters."""
        waiting = [(self.path, found) for _, found in read_imports(code_of(text))]
        seen: set[str] = set()
        while waiting:
            importer, wanted = waiting.pop()
            for unit in self._imported(wanted, importer):
                if unit.path not in seen:
                    seen.add(unit.path)
                    if matters(unit.text):
                        return True
                    waiting.extend((unit.path, found) for _, found in _imports(unit.content))
        return False

    def _imported(self, wanted: Import, importer: str) -> Iterator[Unit]:
        """The files that an import runs: those of the module that it names, and of one that it takes from there."""
        place = self.find(wanted, importer)
        below = wanted.module.split(".")[1:] if wanted.root else [wanted.name] if wanted.name else []
        while place is not None:
            if place.is_file and place.path != self.path and (unit := self.unit(place.path)) is not None:
                yield unit
            place = self.submodule(place, below.pop(0)) if below else None

    def answer(self, question: Hashable, ask: Callable[[Surroundings], Answer]) -> Answer:
        """The answer to a question about other files: what is around this one does not count, nor who asks first."""
        if question not in self._asked:
            if question not in self.answers:
                if len(self.answers) >= _ANSWERS:
                    self.answers.clear()
                around = Surroundings("", self.roots, self.sources, answers=self.answers)
                self.answers[question] = ask(around), around.looked_at
            self._asked[question], looked_at = self.answers[question]
            self.looked_at.update(looked_at)
        answer: Answer = self._asked[question]
        return answer

    def are_as_before(self, looked_at: Mapping[str, Seen | None]) -> bool:
        """Whether all that was looked at then is now what it was."""
        return all(self._look_at(path) == seen for path, seen in looked_at.items())

    @property
    def reads(self) -> tuple[tuple[str, str | None], ...]:
        """What was looked at: paths with the digests of their contents, None for what did not exist."""
        return tuple((path, seen.digest if seen is not None else None) for path, seen in self.looked_at.items())

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
        for root in self._roots(importer, parts[0]):
            found = self._root_of(root, parts) if wanted.root else self._within(root, parts, wanted.name)
            if found is not None and found.path != importer:
                # A file may be called as a folder that is left out: ``build.py``.
                return None if parts[-1] in EXCLUDED_FOLDERS and found.folder is not None else found
        return None

    def submodule(self, package: Place, name: str) -> Place | None:
        """A module or package below a package."""
        if package.folder is None:
            return None
        path = os.path.join(package.folder, name)
        return self._regular(path) or (Place(path, is_file=False) if path in self.folders else None)

    def _root_of(self, root: str, parts: Sequence[str]) -> Place | None:
        """What ``import a.b.c`` binds: the package ``a``, a folder without a file if there is nothing but ``a.b.c``."""
        first = os.path.join(root, parts[0])
        if found := self._regular(first):
            return found
        if not self._regular(os.path.join(root, *parts)):
            return None
        self.folders.update(os.path.join(root, *parts[:count]) for count in range(1, len(parts)))
        return Place(first, is_file=False)

    def _within(self, folder: str, parts: tuple[str, ...], name: str | None) -> Place | None:
        """The module of that dotted name below a folder; one without a file if that holds the module ``name``."""
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
        """Where Python would look for a module whose name begins so, the likeliest first.

        A script's own folder is the first entry of ``sys.path``, even before the standard library. The folder of a
        package's file is not: it counts last, for what runs as a script all the same.
        """
        folder = os.path.dirname(importer)
        top = self._top_of(folder)
        if top == folder:
            yield folder
        if first in sys.stdlib_module_names:
            return
        yield from dict.fromkeys((top, *self.roots, *(os.path.join(root, "src") for root in self.roots), folder))

    def _top_of(self, folder: str) -> str:
        """The folder in which the package is that a folder belongs to; itself, if it is no package."""
        if folder not in self._tops:
            above = os.path.dirname(folder)
            is_package = self._look_at(os.path.join(folder, INIT)) is not None and above != folder
            self._tops[folder] = self._top_of(above) if is_package else folder
        return self._tops[folder]

    def _look_at(self, path: str) -> Seen | None:
        if path not in self.looked_at:
            data = self.sources(path)
            self.looked_at[path] = _seen(path, data) if data is not None else None
        return self.looked_at[path]
