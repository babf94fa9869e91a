"""A file of the project as others see it, statement by statement, and what they can learn of it."""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING

from placement_lint.project.index import Import, Index, Lines, read_imports, read_index
from placement_lint.project.relevance import Mentions, read_mentions
from placement_lint.project.shelf import Shelf
from placement_lint.source.outline import bases_of, code_of, defines_class
from placement_lint.source.parsing import read
from placement_lint.source.scan import NEWLINE, UTF_8
from placement_lint.source.text import Unreadable, decode

if TYPE_CHECKING:
    import libcst as cst

_STAR = re.compile(rb"import(?<!\wimport)[\s(\\]*\*")
# The list of names, which is all that the statement says, where nothing else in the file speaks of it.
_ALL = b"__all__"
_ALL_NAMES = re.compile(
    rb"__all__(?<![^\n]__all__)[ \t]*=[ \t]*[\[(]([^\[\]()]*)[\])][ \t]*(?:\#[^\r\n]*)?(?=[\r\n]|\Z)"
)
_QUOTED = re.compile(rb"['\"]([^'\"\s]+)['\"]")
_NEWLINE, _LINE_FEED = re.compile(NEWLINE.pattern.encode()), re.compile(b"\n")
# What else than names may be asked of a file: its text with all places in it, the modules of which it takes all names,
# the names in its ``__all__``, and those that others may ask for.
WHOLE, STARS, EXPORTS, OFFERS = "#", "*", "=", "."
# How many files a process keeps, and of how many letters it keeps the nodes: twenty bytes each.
_UNITS, _LETTERS = 2048, 300_000


def digest(data: bytes) -> str:
    return blake2b(data, digest_size=16).hexdigest()


@dataclass(frozen=True, eq=False)
class Unit:
    """A file of the project as others see it. What they want to know of it they ask their ``Surroundings``.

    Hundreds of them are kept, so the text is kept in UTF-8: as a str, it takes four bytes a letter for one emoji in it.
    """

    path: str
    content: bytes
    _mentions: dict[Lines, Mentions] = field(default_factory=dict)
    _bases: dict[Lines, frozenset[str] | None] = field(default_factory=dict)
    _prints: dict[str, int] = field(default_factory=dict)
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

    @cached_property
    def exports(self) -> Set[str] | None:
        """The names in its ``__all__``; None where it has none, or computes it."""
        if self._listed is not None or _ALL not in self.content:
            return self._listed
        return set(self.index.exports) if self.index.exports is not None else None

    @property
    def imports(self) -> Sequence[tuple[str, Import]]:
        """All its imports, also those inside functions, with the names they bind."""
        return _imports(self.content)

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

    def fingerprint(self, asked: Iterable[str]) -> int:
        """A number for all that is learnt by asking for these names: as long as it is the same, so is that."""
        return sum(map(self._print, asked))

    def _print(self, name: str) -> int:
        if name not in self._prints:
            learnt = repr(self._learnt(name)).encode(*UTF_8)
            self._prints[name] = int.from_bytes(blake2b(learnt, digest_size=8).digest(), "big")
        return self._prints[name]

    def _learnt(self, name: str) -> object:
        if name == STARS:
            return self.stars
        if name == EXPORTS:
            return sorted(self.exports) if self.exports is not None else None
        if name == OFFERS:
            return self.index.offers
        return self._learnt_of_name(name) if self.may_bind(name) else None

    def _learnt_of_name(self, name: str) -> object:
        index = self.index
        bindings = index.bindings.get(name, ())
        changes = name in index.rebound, name in index.changed
        if not bindings and not any(changes):
            return None
        # Where a branch has the name from, its text says as well.
        return name, [self.source(each) if isinstance(each, Lines) else each for each in bindings], changes


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

    def fingerprint(self, asked: Iterable[str]) -> int | None:
        """The unit's, if there is one."""
        return self.unit.fingerprint(asked) if self.unit is not None else None


@lru_cache(_UNITS)
def seen(path: str, data: bytes) -> Seen:
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
    seen.cache_clear()
    _statements.clear()
