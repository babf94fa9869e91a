"""Whether a definition of another file can matter: most of a project's code has nothing to do with tensors.

A definition is told by its words, and by those of all that its names lead to in the project. One that never speaks of
devices, of tensors or of a library for them can neither make nor move any, unless it is handed one.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from placement_lint.project.index import Import, Lines, imported, walk
from placement_lint.source.parsing import python_tree

if TYPE_CHECKING:
    from placement_lint.project.finder import Place, Surroundings, Unit

# Words of devices, of tensors, and of the processes that share them.
_CONCERNING = re.compile(
    r"cuda|[cg]pu|device|tensor|parallel|grad|optim|world|fork|spawn|worker|(^|[_-])rank([_\d-]|$)|^to$", re.IGNORECASE
)
# The libraries for these.
_LIBRARIES = re.compile(r"torch|lightning|accelerate|deepspeed|diffusers|transformers|timm")
# Where names lead to more definitions than this, one of them will matter.
_MOST = 150
# A file that brings more than that by ``import *`` may bring anything.
_MOST_STARS = 20
# Of how many definitions a process keeps the words.
_REMEMBERED = 16_384


def concerns(word: str) -> bool:
    """Whether a name or a text speaks of something that decides where tensors are, or what happens to them."""
    return _CONCERNING.search(word) is not None


def is_of_tensors(library: str) -> bool:
    """Whether a name of a library, with the dots before it, belongs to one for tensors."""
    return _LIBRARIES.search(library) is not None


Definition = tuple["Unit", Lines]


@dataclass(frozen=True)
class Mentions:
    """The words of a definition; ``concerning`` where one of them decides about tensors by itself."""

    concerning: bool
    names: frozenset[str] = frozenset()
    attributes: frozenset[str] = frozenset()
    imports: tuple[Import, ...] = ()


@lru_cache(_REMEMBERED)
def mentions(unit: Unit, lines: Lines) -> Mentions:
    names, attributes, words = set(), set(), set()
    imports: list[Import] = []
    for node in walk(python_tree(unit.source(lines))):
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
    return Mentions(concerning, frozenset(names), frozenset(attributes), tuple(imports))


@dataclass
class Relevance:
    """What is known of the definitions around one file."""

    surroundings: Surroundings
    _known: dict[Definition, bool] = field(default_factory=dict)

    def matters(self, unit: Unit, lines: Lines) -> bool:
        """Whether the statement, or something that its names lead to, speaks of devices, tensors or processes."""
        definition = (unit, lines)
        if definition not in self._known:
            found, matters = self._reached(definition)
            # What is reached from a definition that does not matter does not matter either.
            self._known.update(dict.fromkeys((definition,) if matters else found, matters))
        return self._known[definition]

    def _reached(self, first: Definition) -> tuple[set[Definition], bool]:
        """The definitions that one leads to, itself included, up to the first that speaks of such things."""
        seen = {first}
        waiting = [first]
        while waiting:
            definition = waiting.pop()
            known = self._known.get(definition)
            said = mentions(*definition)
            if known or said.concerning or len(seen) > _MOST:
                return seen, True
            if known is None:
                for found in self._named(definition[0], said):
                    if found is None:
                        return seen, True
                    if found not in seen:
                        seen.add(found)
                        waiting.append(found)
        return seen, False

    def _named(self, unit: Unit, said: Mentions) -> Iterator[Definition | None]:
        """What the names in a definition mean; None for something of a library that matters."""
        for name in said.names:
            yield from self._bound(unit, name, said, frozenset())
        for line in said.imports:
            yield from self._imported(unit, line, said, frozenset())

    def _bound(self, unit: Unit, name: str, said: Mentions, via: frozenset[object]) -> Iterator[Definition | None]:
        bindings = unit.index.bindings.get(name, ())
        for binding in bindings:
            if isinstance(binding, Lines):
                yield unit, binding
            else:
                yield from self._imported(unit, binding, said, via)
        if not bindings and len(unit.index.stars) > _MOST_STARS:
            yield None
        elif not bindings:
            for line in unit.index.stars:
                yield from self._imported(unit, Import(line.level, line.module, name), said, via)

    def _imported(
        self, unit: Unit, wanted: Import, said: Mentions, via: frozenset[object]
    ) -> Iterator[Definition | None]:
        place = self.surroundings.find(wanted, unit.path)
        if place is None:
            yield from [None] if is_of_tensors(wanted.module or wanted.name or "") else []
        elif (unit.path, wanted) not in via:
            via = via | {(unit.path, wanted)}
            module = self._unit(place)
            if wanted.name is None:
                yield from self._asked_for(place, said, via)
            elif module is not None and (wanted.name in module.index.bindings or module.index.stars):
                yield from self._bound(module, wanted.name, said, via)
            elif (inner := self.surroundings.submodule(place, wanted.name)) is not None:
                yield from self._asked_for(inner, said, via)

    def _asked_for(self, place: Place, said: Mentions, via: frozenset[object]) -> Iterator[Definition | None]:
        """What a definition that names a module may ask it for, and modules below it."""
        modules = [place]
        while modules:
            place = modules.pop()
            module = self._unit(place)
            for name in said.attributes:
                if module is not None and name in module.index.bindings:
                    yield from self._bound(module, name, said, via)
                elif (inner := self.surroundings.submodule(place, name)) is not None:
                    modules.append(inner)

    def _unit(self, place: Place) -> Unit | None:
        return self.surroundings.unit(place.path) if place.is_file else None
