"""The text of a file: its definitions, and the files that define the names it uses, found without parsing it."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

from placement_lint.flow.triage.definition_facts import Facts, name_of, read
from placement_lint.project.finder import Place, Surroundings
from placement_lint.project.index import Import, read_imports
from placement_lint.project.relevance import NO_MODULES, Relevance, Wanted, is_of_tensors
from placement_lint.source.outline import bases_of, defines_class, outlined


@dataclass(frozen=True)
class Ancestors:
    """The classes that one derives from, and whether it may be a module."""

    facts: Sequence[Facts]
    may_be_module: bool


class Written:
    """A file, by its text and the texts of its imports; ``definitions`` are the texts of the named definitions."""

    def __init__(self, text: str, surroundings: Surroundings) -> None:
        self.surroundings = surroundings
        self.relevance = Relevance(surroundings)
        self.text = text
        self.outline = outlined(text)
        self.definitions = defaultdict[str, list[str]](list)
        for each in self.outline.definitions.values():
            self.definitions[each.name].append(each.text)
        self._known: dict[frozenset[str], Ancestors | None] = {}

    @cached_property
    def imports(self) -> Mapping[str, Sequence[tuple[Import, Place | None]]]:
        """Its imports by the names that they bind, with the place of each; None if a library defines it."""
        imports = defaultdict[str, list[tuple[Import, Place | None]]](list)
        for name, found in read_imports(self.outline.code):
            imports[name].append((found, self.surroundings.find(found, self.surroundings.path)))
        return imports

    def _places(self, names: Set[str]) -> Iterator[tuple[Place, str | None]]:
        """The places of those of these names that other files of the project define."""
        for name in names & self.imports.keys():
            yield from ((place, found.name) for found, place in self.imports[name] if place is not None)

    def libraries(self, names: Set[str]) -> Iterator[str]:
        """The libraries that define these names."""
        for name in names & self.imports.keys():
            yield from (found.module or found.name or "" for found, place in self.imports[name] if place is None)

    @property
    def gathered(self) -> Sequence[Place]:
        """The modules from which it imports all names."""
        return [place for place, _ in self._places({"*"})]

    def leads_to(self, words: Set[str], wanted: Wanted) -> bool:
        """Whether one of these words leads to a statement of another file that is wanted."""
        said = frozenset(words)
        if any(self.relevance.leads_to(place, name, said, wanted) for place, name in self._places(said)):
            return True
        gathered = self.gathered
        return bool(gathered) and self.relevance.stars_lead_to(gathered, said.difference(self.definitions), wanted)

    def ancestors(self, bases: frozenset[str]) -> Ancestors | None:
        """The ancestors of a class with these bases; None if they are unclear."""
        if bases not in self._known:
            here = self._above(bases)
            words = bases.union(*map(bases_of, here))
            elsewhere = self.relevance.lineage(self._places(words), words)
            unknown = words - self.definitions.keys() - self.imports.keys() - NO_MODULES
            # An unknown name may come from a star import.
            if elsewhere is None or (unknown and self.gathered):
                self._known[bases] = None
            else:
                of_tensors = elsewhere.of_tensors or any(map(is_of_tensors, self.libraries(words)))
                for definition in elsewhere.definitions:
                    self.surroundings.rely_on(*definition)
                there = [unit.source(lines) for unit, lines in elsewhere.definitions]
                may_be_module = of_tensors or bool(unknown) or not all(map(defines_class, here))
                self._known[bases] = Ancestors([read(text) for text in (*here, *there)], may_be_module)
        return self._known[bases]

    def _above(self, bases: Iterable[str]) -> Sequence[str]:
        """The texts of the ancestors that this file defines."""
        waiting, known = list(bases), set[str]()
        found: list[str] = []
        while waiting:
            name = waiting.pop()
            if name not in known and name in self.definitions:
                known.add(name)
                found += self.definitions[name]
                waiting += chain.from_iterable(map(bases_of, self.definitions[name]))
        return found


def words_of_bases(facts: Facts, bases: frozenset[str]) -> Set[str]:
    """The words with which a class names its bases, except those with an attribute access."""
    return bases - {name_of(node.value) for node in facts.all(ast.Attribute)}
