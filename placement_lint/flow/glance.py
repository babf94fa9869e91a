"""A glance at a file: whether anything can come of it, by its text and those of what it uses, before it is parsed.

Most files of a project only define what begins nothing, as configurations, tokenizers and layers do: they need not run.
It is coarser than what the prospects of each definition are, once they have run, and never more hopeless.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain

from placement_lint.flow.beginnings import Said, read
from placement_lint.flow.sought import (
    begins,
    begins_beside_tensors,
    begins_in_module,
    in_statement,
    may_be_tended,
    while_it_runs,
)
from placement_lint.flow.texts import without_strings
from placement_lint.project.finder import Place, Surroundings, Unit
from placement_lint.project.index import Import, Lines, read_imports, without_imports
from placement_lint.project.relevance import NO_MODULES, Relevance, Wanted, concerns, is_of_tensors
from placement_lint.source.outline import bases_of, defines_class, outlined
from placement_lint.source.scan import words_of

_SHORT_STRING = re.compile(r"""['"]([^'"\s]*)['"]""")
# A class in a block, which may be one of modules.
_INNER_CLASS = re.compile(r"\n[ \t]+class[ \t]+\w+[ \t]*[\[(]")
# A name that is given a value, and so not asked for.
_GIVEN_VALUE = re.compile(r"^[ \t]*\w+[ \t]*=(?!=)", re.MULTILINE)
# Functions that give modules whose names are texts, and what gives something of a module so.
_ASKING_BY_NAME = ("import_module", "__import__")
_ASKING_A_MODULE_BY_NAME = ("getattr", "__dict__")
# Of how many definitions of other files what they say is remembered.
_REMEMBERED = 32


def may_tell(text: str, surroundings: Surroundings) -> bool:
    """Whether there may be a finding in a file, or something that refutes one in another file."""
    return _Glance(text, surroundings).may_tell


@dataclass(frozen=True)
class _Ancestors:
    """What the classes say that one derives from, and whether it may be a module."""

    said: Sequence[Said]
    of_tensors: bool


class _Glance:
    def __init__(self, text: str, surroundings: Surroundings) -> None:
        self.surroundings = surroundings
        self.relevance = Relevance(surroundings)
        self.outline = outlined(text)
        self.definitions = defaultdict[str, list[str]](list)
        for each in self.outline.definitions.values():
            self.definitions[each.name].append(each.text)
        self._known: dict[frozenset[str], _Ancestors | None] = {}

    @property
    def may_tell(self) -> bool:
        rest = read(self.outline.rest)
        return (
            any(map(concerns, _SHORT_STRING.findall(rest.code)))
            or any(map(_may_begin, self._all_said))
            or (self._makes_tensors and (self._tells_device or self._has_inner_classes))
            or self._may_tell_as_it_runs(rest)
            or any(map(self._may_tell, chain.from_iterable(self.definitions.values())))
        )

    @cached_property
    def _all_said(self) -> Sequence[Said]:
        return [*map(read, (self.outline.rest, *chain.from_iterable(self.definitions.values())))]

    @cached_property
    def _makes_tensors(self) -> bool:
        """Whether there are tensors on the CPU: something is found of them in a module, or beside what is elsewhere."""
        return any(said.is_of_cpu for said in self._all_said)

    @property
    def _tells_device(self) -> bool:
        """Whether something is told where to be, or that there is a GPU."""
        return any(said.places or said.knows_of_gpu for said in self._all_said)

    @property
    def _has_inner_classes(self) -> bool:
        return any(_INNER_CLASS.search(said.code) is not None for said in self._all_said)

    def _may_tell_as_it_runs(self, rest: Said) -> bool:
        """Whether its own statements may."""
        return self._uses(_asked_for(rest), while_it_runs) or self._looks_after_others(rest, rest.words)

    @cached_property
    def _imports(self) -> Mapping[str, Sequence[tuple[Import, Place | None]]]:
        """Its imports by the names that they bind, with where that is to be found; in no place if a library has it."""
        imports = defaultdict[str, list[tuple[Import, Place | None]]](list)
        for name, found in read_imports(self.outline.code):
            imports[name].append((found, self.surroundings.find(found, self.surroundings.path)))
        return imports

    def _places(self, names: Set[str]) -> Iterator[tuple[Place, str | None]]:
        """Where those of these names are to be found that other files of the project define."""
        for name in names & self._imports.keys():
            yield from ((place, found.name) for found, place in self._imports[name] if place is not None)

    def _may_tell(self, text: str) -> bool:
        """Whether a definition may, with what it inherits and uses."""
        own, bases = read(text), bases_of(text)
        ancestors = self._ancestors(bases)
        if ancestors is None:
            return True
        left = [each for each in (base.leaves_to(own) for base in ancestors.said) if each]
        said = own.after(left) if left else own
        words = said.words - {base for base in bases if f"{base}." not in own.code}
        if ancestors.of_tensors:
            sought, meets_tensors = begins_in_module, self._makes_tensors or said.is_of_cpu
        else:
            sought, meets_tensors = begins_beside_tensors if said.is_of_cpu else begins, False
        return (
            meets_tensors
            or (bool(left) and _may_begin(said))
            or self._uses(words, in_statement(sought))
            or self._looks_after_others(said, words)
        )

    def _looks_after_others(self, said: Said, words: Set[str]) -> bool:
        return bool(said.tended) and self._uses(words, in_statement(may_be_tended(said.tended)))

    def _ancestors(self, bases: frozenset[str]) -> _Ancestors | None:
        """What a class with these bases derives from; None where that is not clear."""
        if bases not in self._known:
            here = self._above(bases)
            words = bases.union(*map(bases_of, here))
            elsewhere = self.relevance.lineage(self._places(words), words)
            unknown = words - self.definitions.keys() - self._imports.keys() - NO_MODULES
            # What is not known may be something that is gathered.
            if elsewhere is None or (unknown and self._gathered):
                self._known[bases] = None
            else:
                libraries = [found for word in words for found, place in self._imports.get(word, ()) if place is None]
                of_tensors = any(is_of_tensors(found.module or found.name or "") for found in libraries)
                self._known[bases] = _Ancestors(
                    [*map(read, here), *(_said_elsewhere(*definition) for definition in elsewhere.definitions)],
                    of_tensors or elsewhere.of_tensors or bool(unknown) or not all(map(defines_class, here)),
                )
        return self._known[bases]

    def _above(self, bases: Iterable[str]) -> Sequence[str]:
        """The texts of those that this file defines."""
        waiting, known = list(bases), set[str]()
        found: list[str] = []
        while waiting:
            name = waiting.pop()
            if name not in known and name in self.definitions:
                known.add(name)
                found += self.definitions[name]
                waiting += chain.from_iterable(map(bases_of, self.definitions[name]))
        return found

    @property
    def _gathered(self) -> Sequence[Place]:
        """The modules of which it takes all names."""
        return [place for place, _ in self._places({"*"})]

    def _uses(self, words: Set[str], wanted: Wanted) -> bool:
        """Whether one of these words leads to a statement of another file that is wanted."""
        said = frozenset(words)
        if any(self.relevance.leads_to(place, name, said, wanted) for place, name in self._places(said)):
            return True
        gathered = self._gathered
        return bool(gathered) and self.relevance.stars_lead_to(gathered, said.difference(self.definitions), wanted)


@lru_cache(_REMEMBERED)
def _said_elsewhere(unit: Unit, lines: Lines) -> Said:
    """What a definition of another file says: many classes of a project derive from the same few."""
    return read(unit.source(lines))


def _may_begin(said: Said) -> bool:
    """Whether something may begin with it by itself, wherever it is used."""
    return said.begins or said.hides or bool(said.made_in_forward) or said.has(*_ASKING_BY_NAME)


def _asked_for(rest: Said) -> set[str]:
    """The words of what runs that may lead to other files: not what is only imported, or given a value."""
    code = rest.code if rest.has(*_ASKING_A_MODULE_BY_NAME) else without_strings(rest.code)
    return set(words_of(_GIVEN_VALUE.sub("", without_imports(code))))
