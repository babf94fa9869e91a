"""A file of the project for the files that import it, statement by statement, and the queries about it."""

from __future__ import annotations

import pickle
import re
from array import array
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cached_property, lru_cache
from hashlib import blake2b
from io import BytesIO
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias

from placement_lint.project.index import Import, Index, Lines, read_imports, read_index
from placement_lint.project.search_path import MARK, added_folders
from placement_lint.project.shelf import Shelf
from placement_lint.report.results import digest
from placement_lint.source.outline import code_of
from placement_lint.source.parsing import read
from placement_lint.source.scan import NEWLINE, UTF_8
from placement_lint.source.text import Unreadable, decode

if TYPE_CHECKING:
    import libcst as cst

Question: TypeAlias = Callable[[str], Any]
"""A query of the text of a statement: a function that can be pickled; ``str`` for the text itself."""
Title: TypeAlias = tuple[str, int]
"""A statement of the top level: the first name that it binds, and the number of earlier statements that do so."""
Ask: TypeAlias = "str | tuple[str, int, Question]"
"""A query of a file: the bindings of a name, or a question about a statement."""

# Other queries: the whole text with all positions, the star imports, the names in ``__all__``, the names that other
# files may import, the folders that it adds to ``sys.path``, and, as a prefix of a name, whether it can have that name.
WHOLE, STARS, EXPORTS, OFFERS, FOLDERS, MAY_BIND = "#", "*", "=", ".", "/", "?"

_STAR = re.compile(rb"import(?<!\wimport)[\s(\\]*\*")
# The list of names, which is the whole ``__all__`` if nothing else in the file mentions it.
_ALL = b"__all__"
_ALL_NAMES = re.compile(
    rb"__all__(?<![^\n]__all__)[ \t]*=[ \t]*[\[(]([^\[\]()]*)[\])][ \t]*(?:\#[^\r\n]*)?(?=[\r\n]|\Z)"
)
_QUOTED = re.compile(rb"['\"]([^'\"\s]+)['\"]")
_NEWLINE, _LINE_FEED = re.compile(NEWLINE.pattern.encode()), re.compile(b"\n")
# The number of files that a process caches, and of characters whose nodes it caches: twenty bytes each.
_UNITS, _LETTERS = 2048, 300_000
# Cache sizes: pickled questions, and sets of them; similar files have the same questions.
_PRINTS, _RECORDS = 8_192, 2_048


@dataclass(frozen=True, eq=False)
class Unit:
    """A file of the project for the files that import it. They query it through their ``Surroundings``.

    Hundreds of units are cached, so the text is kept in UTF-8: a str with one emoji takes four bytes per character.
    """

    path: str
    content: bytes
    _told: dict[tuple[Lines, Question], Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        return self.content.decode(*UTF_8)

    @cached_property
    def index(self) -> Index:
        return _index(self.content)

    def may_bind(self, name: str) -> bool:
        """Whether its top level can have that name, by its text alone: star imports cause hundreds of such queries."""
        return name.encode(*UTF_8) in self.content or self._gathers

    @cached_property
    def exports(self) -> Set[str] | None:
        """The names in its ``__all__``; None if it has none, or computes it."""
        if self._listed is not None or _ALL not in self.content:
            return self._listed
        return set(self.index.exports) if self.index.exports is not None else None

    @property
    def imports(self) -> Sequence[tuple[str, Import]]:
        """All its imports, also those inside functions, with the names they bind."""
        return _imports(self.content)

    @property
    def folders(self) -> Sequence[str]:
        """The folders that it adds to ``sys.path``."""
        return added_folders(self.text, self.path) if MARK.encode() in self.content else ()

    @property
    def stars(self) -> Sequence[Import]:
        """The modules from which it imports all names."""
        return self.index.stars if self._gathers else ()

    @cached_property
    def _listed(self) -> Set[str] | None:
        """The names in an ``__all__`` that is a plain list; None if there is none."""
        found = _ALL_NAMES.search(self.content) if self.content.count(_ALL) == 1 else None
        return {name.decode(*UTF_8) for name in _QUOTED.findall(found[1])} if found is not None else None

    @cached_property
    def _gathers(self) -> bool:
        return _STAR.search(self.content) is not None

    @cached_property
    def _ends(self) -> array[int]:
        """The end of each line, after a leading 0."""
        newline = _NEWLINE if b"\r" in self.content else _LINE_FEED
        return array("L", (0, *(found.end() for found in newline.finditer(self.content)), len(self.content)))

    def source(self, lines: Lines) -> str:
        return self.content[self._part(lines)].decode(*UTF_8)

    def _part(self, lines: Lines) -> slice:
        return slice(self._ends[lines.first - 1], self._ends[lines.last])

    def tells(self, lines: Lines, question: Question) -> Any:
        """The answer to a question about the text of a top-level statement."""
        asked = lines, question
        if asked not in self._told:
            self._told[asked] = question(self.source(lines))
        return self._told[asked]

    def statement(self, lines: Lines) -> Statement:
        """Raises :class:`Unreadable` if libcst rejects code that Python accepts."""
        return _statements.get((self, lines), lambda: self._parsed(lines))

    def _parsed(self, lines: Lines) -> Statement:
        return Statement(self, lines, read(self.source(lines), sparing=True))

    # --- queries and their answers ---

    @cached_property
    def _titles(self) -> dict[Lines, Title]:
        titles: dict[Lines, Title] = {}
        for name, bindings in self.index.bindings.items():
            for place, each in enumerate(bindings):
                if isinstance(each, Lines):
                    titles.setdefault(each, (name, place))
        return titles

    def about(self, lines: Lines, question: Question) -> Ask:
        """A question about a statement, in a form that also applies to another content."""
        return (*self._titles[lines], question)

    def record(self, asks: frozenset[Ask]) -> tuple[bytes, int]:
        """These queries in a canonical form for storage, and a fingerprint of their answers."""
        return _record(self, asks)

    def fingerprint(self, asked: bytes) -> int:
        """A number for the answers to these queries: equal as long as the answers are."""
        return sum(_printed(self, ask)[1] for ask in _unpacked(asked))

    def learnt(self, ask: Ask) -> object:
        """The answer, in a form that is the same in every process."""
        if isinstance(ask, tuple):
            return self._learnt_of_statement(*ask)
        if ask == STARS:
            return self.stars
        if ask == EXPORTS:
            return sorted(self.exports) if self.exports is not None else None
        if ask == OFFERS:
            return self.index.offers
        if ask == FOLDERS:
            return self.folders
        if ask.startswith(MAY_BIND):
            return self.may_bind(ask.removeprefix(MAY_BIND))
        return self._learnt_of_name(ask)

    def _learnt_of_name(self, name: str) -> object:
        """The imports and statements that bind a name, and the changes that functions make to it."""
        index = self.index
        bindings = index.bindings.get(name, ())
        changes = name in index.rebound, name in index.changed
        if not bindings and not any(changes):
            return None
        known = [self._titles[each] if isinstance(each, Lines) else each for each in bindings]
        return known, [index.taken.get((name, each)) for each in bindings], changes

    def _learnt_of_statement(self, name: str, place: int, question: Question) -> object:
        lines = next(islice(self.index.bindings.get(name, ()), place, None), None)
        if not isinstance(lines, Lines):
            return None
        return self.source(lines) if question is str else _sorted(self.tells(lines, question))


@lru_cache(_RECORDS)
def _record(unit: Unit, asks: frozenset[Ask]) -> tuple[bytes, int]:
    printed = sorted(_printed(unit, ask) for ask in asks)
    return b"".join(packed for packed, _ in printed), sum(number for _, number in printed)


@lru_cache(_PRINTS)
def _printed(unit: Unit, ask: Ask) -> tuple[bytes, int]:
    """A query in its stored form, and a fingerprint of it with its answer."""
    packed = pickle.dumps(ask, protocol=5)
    learnt = repr(unit.learnt(ask)).encode(*UTF_8)
    return packed, int.from_bytes(blake2b(packed + learnt, digest_size=8).digest(), "big")


def _unpacked(asked: bytes) -> Iterator[Ask]:
    """Pickles in a row, each with its own end marker."""
    stream = BytesIO(asked)
    while stream.tell() < len(asked):
        yield pickle.load(stream)


def _sorted(answer: object) -> object:
    """An answer in a form that is the same in every process: sets have no order of their own."""
    if isinstance(answer, frozenset):
        return sorted(answer)
    if is_dataclass(answer):
        return [_sorted(getattr(answer, each.name)) for each in fields(answer)]
    return answer


@dataclass(frozen=True)
class Owner:
    """The innermost class and the innermost function whose bodies contain a node."""

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
        """The number of characters with nodes in its tree: nodes in functions are not kept."""
        layout = getattr(self.tree, "layout", None)
        return layout.letters if layout is not None else len(self.tree.code)

    @cached_property
    def owners(self) -> dict[cst.CSTNode, Owner]:
        """Every node in it except whitespace, with the definitions whose bodies contain it."""
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
    """The state of a file when it was read; without a unit if it cannot be read as Python."""

    digest: str
    unit: Unit | None = field(compare=False)

    def fingerprint(self, asked: bytes) -> int | None:
        """The unit's fingerprint, if there is a unit."""
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
    """Drop all files: in a long-lived process, most of the cache is about texts that no longer exist."""
    _index.cache_clear()
    _imports.cache_clear()
    seen.cache_clear()
    _record.cache_clear()
    _printed.cache_clear()
    _statements.clear()
