"""Whether a definition of another file can matter: most of a project's code has nothing to do with tensors.

The check uses the definition's words, and the words of everything in the project that its names lead to. A definition
without any word about devices, tensors or a library for them can neither make nor move a tensor, unless it gets one.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Set
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from placement_lint.project.index import Import, Lines, imported, walk
from placement_lint.source.outline import bases_of, defines_class
from placement_lint.source.parsing import python_tree

if TYPE_CHECKING:
    from placement_lint.project.finder import Place, Surroundings
    from placement_lint.project.unit import Unit

# Words about devices, tensors, and the processes that share them.
_CONCERNING = re.compile(
    r"cuda|[cg]pu|device|tensor|parallel|distribut|ddp|grad|optim|world|fork|spawn|worker|(^|[_-])rank([_\d-]|$)|^to$",
    re.IGNORECASE,
)
# Names with such a word in them that refer to another tensor library or a package: ``tf_device``, ``faiss-gpu``.
_OTHERS = re.compile(r"tensorflow|(^|[_-])(tf|flax|jax)([_-]|$)|^\w+-[cg]pu$", re.IGNORECASE)
# Words for moving or replacing a module or its tensors.
_MOVING = frozenset({"to", "cuda", "cpu", "xpu", "npu", "hpu", "mps", "type", "device", "to_empty", "_apply"})
# The libraries for these.
_LIBRARIES = re.compile(r"torch|lightning|accelerate|deepspeed|diffusers|transformers|timm")
# With more names or files than these to follow, the definition counts as relevant.
_MOST_NAMES, _MOST_FILES = 3_000, 60


def concerns(word: str) -> bool:
    """Whether a name or a string may be about the placement of tensors, or operations on them."""
    return _CONCERNING.search(word) is not None and _OTHERS.search(word) is None


def is_of_tensors(library: str) -> bool:
    """Whether a name of a library, with its dotted prefix, belongs to a library for tensors."""
    return _LIBRARIES.search(library) is not None


# Size of the cache of words, in texts: a check of a text is followed by a check of the names it leads to.
_MENTIONS = 4

# Names that lead to no module, although they are not bound.
NO_MODULES = vars(builtins).keys() | {"metaclass"}

Definition = tuple["Unit", Lines]
Wanted: TypeAlias = Callable[[str], "bool | None"]
"""Whether a definition is wanted, by its text; None if that depends on the definitions that it uses."""


@dataclass(frozen=True)
class Mentions:
    """The words of a definition.

    ``concerning`` if one of them is about tensors by itself, ``moving`` if one may move a tensor.
    """

    concerning: bool
    moving: bool = True
    names: frozenset[str] = frozenset()
    attributes: frozenset[str] = frozenset()
    imports: tuple[Import, ...] = ()


@lru_cache(_MENTIONS)
def read_mentions(text: str) -> Mentions:
    """The words of the text of a definition; if Python cannot parse it, it counts as concerning."""
    names, attributes, words = set(), set(), set()
    imports: list[Import] = []
    try:
        tree = python_tree(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return Mentions(concerning=True)
    for node in walk(tree):
        if isinstance(node, ast.Name):
            names.add(node.id)
        elif isinstance(node, ast.Attribute):
            attributes.add(node.attr)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            imports.extend(found for _, found in imported(node))
        elif isinstance(node, (ast.arg, ast.keyword)):
            words.add(node.arg or "")
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and " " not in node.value:
            words.add(node.value)
    concerning = any(map(concerns, (*names, *attributes, *words)))
    moving = not _MOVING.isdisjoint(names | attributes | words)
    return Mentions(concerning, moving, frozenset(names), frozenset(attributes), tuple(imports))


def is_concerning(text: str) -> bool:
    """Whether a definition is about tensors by its own words."""
    return read_mentions(text).concerning


def moves(text: str) -> bool | None:
    """Whether a definition may move a tensor or a module; None if that depends on the definitions that it uses."""
    return read_mentions(text).moving or None


def said_bases(text: str) -> frozenset[str] | None:
    """The names in the bases of a class; None for another statement."""
    return bases_of(text) if defines_class(text) else None


@dataclass(frozen=True)
class Lineage:
    """The statements that define the ancestors of a class, and whether one may come from a library for tensors."""

    definitions: Collection[Definition] = ()
    of_tensors: bool = False


@dataclass
class Relevance:
    """Queries about the definitions around one file."""

    surroundings: Surroundings

    def matters(self, unit: Unit, lines: Lines) -> bool:
        """Whether the statement, or something that its names lead to, is about devices, tensors or processes."""
        return self.surroundings.answer(
            ("matters", unit, lines), lambda around: _Search(around).meets_concern((unit, lines))
        )

    def may_move(self, unit: Unit, lines: Lines) -> bool:
        """Whether the statement, or something of the project that its names lead to, may move a tensor or a module."""
        return self._is_wanted((unit, lines), moves)

    def leads_to(self, place: Place, name: str | None, words: frozenset[str], wanted: Wanted) -> bool:
        """Whether a name of a module, or the module itself, leads to a statement that is wanted, by its text.

        ``words`` are those of the code that uses it: they may be members of a module. A name that leads to a library
        for tensors, or to everything below a package, is assumed to be wanted.
        """
        led = self.surroundings.answer(("leads", place, name), lambda around: _lead(around, place, name, frozenset()))
        if led.by_words:
            led = _lead(self.surroundings, place, name, words)
        return led.matters or any(self._is_wanted(definition, wanted) for definition in led.definitions)

    def stars_lead_to(self, places: Iterable[Place], words: frozenset[str], wanted: Wanted) -> bool:
        """The same for the names among these words that ``from module import *`` brings from the modules."""
        gathered = _gathered(self.surroundings, places)
        return any(
            self.leads_to(place, name, words, wanted)
            for place, unit in gathered.items()
            for name in self.surroundings.brings(unit, words)
        )

    def lineage(self, bases: Iterable[tuple[Place, str | None]], words: frozenset[str]) -> Lineage | None:
        """The classes that are given as names of modules, and their ancestors; None if they are unclear.

        ``words`` are the words that name the classes.
        """
        named = frozenset(bases)
        lineage, by_words = self.surroundings.answer(
            ("lineage", named), lambda around: _lineage(around, named, frozenset())
        )
        return _lineage(self.surroundings, named, words)[0] if lineage and by_words else lineage

    def _is_wanted(self, definition: Definition, wanted: Wanted) -> bool:
        """Whether it is wanted, or uses a definition that is, if its own text does not decide."""
        return self.surroundings.answer((wanted, definition), lambda around: _Search(around).meets(wanted, definition))


class _Led(NamedTuple):
    """Whether a name leads to a library that matters, and if not, to which statements.

    ``by_words`` if that depends on the words of the code that uses the name.
    """

    matters: bool
    definitions: Collection[Definition]
    by_words: bool


def _lead(surroundings: Surroundings, place: Place, name: str | None, words: frozenset[str]) -> _Led:
    search = _Search(surroundings)
    matters = search.leads_from(place, name, Mentions(False, attributes=words))
    return _Led(matters, search.definitions, search.asks_module)


def _lineage(
    surroundings: Surroundings, bases: Iterable[tuple[Place, str | None]], words: frozenset[str]
) -> tuple[Lineage | None, bool]:
    """The lineage, and whether it depends on the words."""
    search = _Ancestors(surroundings)
    said = Mentions(False, attributes=words)
    is_unclear = any(search.leads_from(place, name, said) for place, name in bases)
    by_words = search.asks_module
    if is_unclear or any(map(search.is_unclear_from, search.each())):
        return None, by_words
    return Lineage(search.definitions, search.of_tensors), by_words


def _gathered(surroundings: Surroundings, places: Iterable[Place]) -> dict[Place, Unit]:
    """The files of modules, and those of all modules that they import with ``*`` in turn."""
    waiting = list(places)
    gathered: dict[Place, Unit] = {}
    while waiting:
        place = waiting.pop()
        unit = surroundings.unit(place.path) if place.is_file and place not in gathered else None
        if unit is not None:
            gathered[place] = unit
            inner = (surroundings.find(line, unit.path) for line in surroundings.stars(unit))
            waiting += [each for each in inner if each is not None]
    return gathered


class _Search:
    """Searches from one definition through everything that its names lead to, each once."""

    def __init__(self, surroundings: Surroundings) -> None:
        self.surroundings = surroundings
        self.definitions: set[Definition] = set()
        # The meaning of a name may depend on the attributes that the definition reads, for example of a module.
        self.asked = defaultdict[tuple[str, frozenset[str]], set[str]](set)
        self.followed = 0
        self.files: set[str] = set()
        self.waiting: list[Definition] = []
        # If a name leads to a module, the result depends on the code that uses it.
        self.asks_module = False

    def each(self) -> Iterator[Definition]:
        """The definitions that were found, including those found during the iteration."""
        while self.waiting:
            yield self.waiting.pop()

    def meets(self, wanted: Wanted, first: Definition) -> bool:
        """Whether a definition, or one that it uses, is wanted."""
        self._found(first)
        for definition in self.each():
            unit, lines = definition
            answer = self.surroundings.tells(unit, lines, wanted)
            if answer:
                return True
            if answer is None:
                deque(self._leads(definition), maxlen=0)
        return self._leads_too_far

    def _leads(self, definition: Definition) -> Iterator[bool]:
        """Follow a definition's names one by one; yields for each whether it leads to a library that matters."""
        unit, lines = definition
        said: Mentions = self.surroundings.tells(unit, lines, read_mentions)
        for name in self._new(unit, said.names, said):
            yield self._binds_concern(unit, name, said)
        for line in said.imports:
            yield self._leads_to_concern(unit, line, said)

    def meets_concern(self, first: Definition) -> bool:
        """Whether a definition, or one that it uses, is about tensors."""
        self._found(first)
        for definition in self.each():
            unit, lines = definition
            if self.surroundings.tells(unit, lines, is_concerning) or any(self._leads(definition)):
                return True
        return self._leads_too_far

    @property
    def _leads_too_far(self) -> bool:
        return self.followed > _MOST_NAMES or len(self.files) > _MOST_FILES

    def _found(self, definition: Definition) -> None:
        if definition not in self.definitions:
            self.definitions.add(definition)
            self.waiting.append(definition)

    def _is_concern(self, unit: Unit, name: str, said: Mentions) -> bool:
        """Whether a name at the top level of a file is from a library that matters; otherwise its meaning is queued."""
        return any(self._binds_concern(unit, new, said) for new in self._new(unit, {name}, said))

    def _new(self, unit: Unit, names: Set[str], said: Mentions) -> Set[str]:
        """Those of these names that the file may bind and that were not followed before for the same attributes."""
        asked = self.asked[unit.path, said.attributes]
        new = names - asked
        asked |= new
        self.followed += len(new)
        bound = self.surroundings.bound(unit, new)
        return new if self.surroundings.stars(unit) else bound

    def _binds_concern(self, unit: Unit, name: str, said: Mentions) -> bool:
        around = self.surroundings
        bindings = around.sources_of(unit, name) or [line._replace(name=name) for line in around.stars(unit)]
        for binding in bindings:
            if isinstance(binding, Lines):
                self._found((unit, binding))
        return any(self._leads_to_concern(unit, each, said) for each in bindings if isinstance(each, Import))

    def _leads_to_concern(self, unit: Unit, wanted: Import, said: Mentions) -> bool:
        place = self.surroundings.find(wanted, unit.path)
        if place is None:
            return is_of_tensors(wanted.module or wanted.name or "")
        return self.leads_from(place, wanted.name, said)

    def leads_from(self, place: Place, name: str | None, said: Mentions) -> bool:
        """The same for a name of a module, or for the module itself."""
        module = self._unit(place, name or "")
        if name is not None and module is not None and self.surroundings.bindings(module, name):
            return self._is_concern(module, name, said)
        inner = self.surroundings.submodule(place, name) if name is not None else place
        if inner is None:
            return module is not None and self._is_concern(module, name or "", said)
        self.asks_module = True
        asked = self._unit(inner, "")
        # Through a package a definition may reach everything below it.
        if asked is None or inner.folder is not None:
            return True
        return any(self._is_concern(asked, name, said) for name in self.surroundings.bound(asked, said.attributes))

    def _unit(self, place: Place, name: str) -> Unit | None:
        """The file of a module, if it can have that name at its top level."""
        unit = self.surroundings.unit(place.path) if place.is_file and not self._leads_too_far else None
        if unit is None or not self.surroundings.may_bind(unit, name):
            return None
        self.files.add(unit.path)
        return unit


class _Ancestors(_Search):
    """Searches from one class through its ancestors."""

    of_tensors = False

    def is_unclear_from(self, definition: Definition) -> bool:
        """Follow the bases of a class; True if they are unclear."""
        unit, lines = definition
        bases = self.surroundings.tells(unit, lines, said_bases)
        if bases is None:
            self.of_tensors = True
            return False
        self.of_tensors |= not bases <= self.surroundings.bound(unit, bases) | NO_MODULES
        said = Mentions(False, attributes=bases)
        return any(self._is_concern(unit, name, said) for name in bases)

    def _leads_to_concern(self, unit: Unit, wanted: Import, said: Mentions) -> bool:
        place = self.surroundings.find(wanted, unit.path)
        if place is None:
            # The definitions of a library are known without its text.
            self.of_tensors |= is_of_tensors(wanted.module or wanted.name or "")
            return False
        return self.leads_from(place, wanted.name, said)
