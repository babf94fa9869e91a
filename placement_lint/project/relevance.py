"""Whether a definition of another file can matter: most of a project's code has nothing to do with tensors.

A definition is told by its words, and by those of all that its names lead to in the project. One that never speaks of
devices, of tensors or of a library for them can neither make nor move any, unless it is handed one.
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

# Words of devices, of tensors, and of the processes that share them.
_CONCERNING = re.compile(
    r"cuda|[cg]pu|device|tensor|parallel|distribut|ddp|grad|optim|world|fork|spawn|worker|(^|[_-])rank([_\d-]|$)|^to$",
    re.IGNORECASE,
)
# What has such a word in it, but names another library for tensors or a package: ``tf_device``, ``faiss-gpu``.
_OTHERS = re.compile(r"tensorflow|(^|[_-])(tf|flax|jax)([_-]|$)|^\w+-[cg]pu$", re.IGNORECASE)
# Words of what moves a module or its tensors, or puts others in their place.
_MOVING = frozenset({"to", "cuda", "cpu", "xpu", "npu", "hpu", "mps", "type", "device", "to_empty", "_apply"})
# The libraries for these.
_LIBRARIES = re.compile(r"torch|lightning|accelerate|deepspeed|diffusers|transformers|timm")
# Where more names than these have to be followed, or into more files, one of them will matter.
_MOST_NAMES, _MOST_FILES = 3_000, 60


def concerns(word: str) -> bool:
    """Whether a name or a text speaks of something that decides where tensors are, or what happens to them."""
    return _CONCERNING.search(word) is not None and _OTHERS.search(word) is None


def is_of_tensors(library: str) -> bool:
    """Whether a name of a library, with the dots before it, belongs to one for tensors."""
    return _LIBRARIES.search(library) is not None


# Of how many texts the words are remembered: who asks whether one matters asks what it leads to next.
_MENTIONS = 4

# Names that lead to no module, though they are not bound.
NO_MODULES = vars(builtins).keys() | {"metaclass"}

Definition = tuple["Unit", Lines]
Wanted: TypeAlias = Callable[[str], "bool | None"]
"""Whether a definition is wanted, by its text; None where that hangs on what it uses."""


@dataclass(frozen=True)
class Mentions:
    """The words of a definition.

    ``concerning`` where one of them decides about tensors by itself, ``moving`` where it may move any.
    """

    concerning: bool
    moving: bool = True
    names: frozenset[str] = frozenset()
    attributes: frozenset[str] = frozenset()
    imports: tuple[Import, ...] = ()


@lru_cache(_MENTIONS)
def read_mentions(text: str) -> Mentions:
    """The words of the text of a definition; one that Python cannot parse may do anything."""
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
    """Whether a definition speaks by itself of what decides about tensors."""
    return read_mentions(text).concerning


def moves(text: str) -> bool | None:
    """Whether a definition may move a tensor or a module; None where that hangs on what it uses."""
    return read_mentions(text).moving or None


def said_bases(text: str) -> frozenset[str] | None:
    """The names in what a class says that it derives from; None of another statement."""
    return bases_of(text) if defines_class(text) else None


@dataclass(frozen=True)
class Lineage:
    """The statements that define what a class derives from, and whether that may lead to a library for tensors."""

    definitions: Collection[Definition] = ()
    of_tensors: bool = False


@dataclass
class Relevance:
    """Queries about the definitions around one file."""

    surroundings: Surroundings

    def matters(self, unit: Unit, lines: Lines) -> bool:
        """Whether the statement, or something that its names lead to, speaks of devices, tensors or processes."""
        return self.surroundings.answer(
            ("matters", unit, lines), lambda around: _Search(around).meets_concern((unit, lines))
        )

    def may_move(self, unit: Unit, lines: Lines) -> bool:
        """Whether the statement, or something of the project that its names lead to, may move a tensor or a module."""
        return self._is_wanted((unit, lines), moves)

    def leads_to(self, place: Place, name: str | None, words: frozenset[str], wanted: Wanted) -> bool:
        """Whether a statement is wanted, by its text, that a name of a module leads to, or of the module itself.

        ``words`` are those of the user: parts of a module that it may mean. A name that leads to a library for tensors,
        or to all that is below a package, is assumed to be wanted.
        """
        led = self.surroundings.answer(("leads", place, name), lambda around: _lead(around, place, name, frozenset()))
        if led.by_words:
            led = _lead(self.surroundings, place, name, words)
        return led.matters or any(self._is_wanted(definition, wanted) for definition in led.definitions)

    def stars_lead_to(self, places: Iterable[Place], words: frozenset[str], wanted: Wanted) -> bool:
        """The same of those words that are names which ``from module import *`` brings from modules."""
        gathered = _gathered(self.surroundings, places)
        return any(
            self.leads_to(place, name, words, wanted)
            for place, unit in gathered.items()
            for name in self.surroundings.brings(unit, words)
        )

    def lineage(self, bases: Iterable[tuple[Place, str | None]], words: frozenset[str]) -> Lineage | None:
        """The classes that are given as names of modules, and their ancestors; None if they are unclear.

        ``words`` are those that name the classes.
        """
        named = frozenset(bases)
        lineage, by_words = self.surroundings.answer(
            ("lineage", named), lambda around: _lineage(around, named, frozenset())
        )
        return _lineage(self.surroundings, named, words)[0] if lineage and by_words else lineage

    def _is_wanted(self, definition: Definition, wanted: Wanted) -> bool:
        """Whether it is, or uses what is, where it is not known by its own text."""
        return self.surroundings.answer((wanted, definition), lambda around: _Search(around).meets(wanted, definition))


class _Led(NamedTuple):
    """Whether a name leads to a library that matters, and else to which statements.

    ``by_words`` if that hangs on the words of who uses the name.
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
    """With whether it hangs on the words."""
    search = _Ancestors(surroundings)
    said = Mentions(False, attributes=words)
    is_unclear = any(search.leads_from(place, name, said) for place, name in bases)
    by_words = search.asks_module
    if is_unclear or any(map(search.is_unclear_from, search.each())):
        return None, by_words
    return Lineage(search.definitions, search.of_tensors), by_words


def _gathered(surroundings: Surroundings, places: Iterable[Place]) -> dict[Place, Unit]:
    """The files of modules, and of all whose names they gather in turn."""
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
    """Goes from one definition to all that its names lead to, each once."""

    def __init__(self, surroundings: Surroundings) -> None:
        self.surroundings = surroundings
        self.definitions: set[Definition] = set()
        # What a name means may depend on what the definition that has it asks for: of a module, say.
        self.asked = defaultdict[tuple[str, frozenset[str]], set[str]](set)
        self.followed = 0
        self.files: set[str] = set()
        self.waiting: list[Definition] = []
        # If a name leads to a module, the result depends on the code that uses it.
        self.asks_module = False

    def each(self) -> Iterator[Definition]:
        """The definitions that were found, and those that are while one looks at them."""
        while self.waiting:
            yield self.waiting.pop()

    def meets(self, wanted: Wanted, first: Definition) -> bool:
        """Whether a definition is wanted, or one that it uses."""
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
        """Go on to what a definition's names lead to, one by one: each time, whether to a library that matters."""
        unit, lines = definition
        said: Mentions = self.surroundings.tells(unit, lines, read_mentions)
        for name in self._new(unit, said.names, said):
            yield self._binds_concern(unit, name, said)
        for line in said.imports:
            yield self._leads_to_concern(unit, line, said)

    def meets_concern(self, first: Definition) -> bool:
        """Whether a definition, or one that it uses, speaks of what matters."""
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
        """Whether a name at the top level of a file is of a library that matters; else what it means is to be seen."""
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
        """The same of a name of a module, or of the module itself."""
        module = self._unit(place, name or "")
        if name is not None and module is not None and self.surroundings.bindings(module, name):
            return self._is_concern(module, name, said)
        inner = self.surroundings.submodule(place, name) if name is not None else place
        if inner is None:
            return module is not None and self._is_concern(module, name or "", said)
        self.asks_module = True
        asked = self._unit(inner, "")
        # Through a package a definition may ask for all that is below it.
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
    """Goes from one class to those that it derives from."""

    of_tensors = False

    def is_unclear_from(self, definition: Definition) -> bool:
        """Go on to what a class derives from; True where it is not clear what that is."""
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
