"""Possible findings in a program's uncalled definitions, by their texts and those of the definitions that they use.

Their arguments are unknown, and their callees are analysed separately. So a finding begins with the definition's own
text, or with that of a function to which it passes a tensor or a setting, a class that makes tensors, or a
variable of the module. A model that only combines layers that begin nothing cannot lead to a finding. Tensors on the
CPU lead to a finding only in a module, which may be on a GPU, or beside tensors on a GPU.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Set
from collections.abc import Sequence as Many
from dataclasses import dataclass

from placement_lint.flow.domain.values import Value
from placement_lint.flow.triage.definition_facts import Said
from placement_lint.flow.triage.predicates import (
    Sought,
    begins,
    begins_beside_tensors,
    begins_in_module,
    beside_tensors,
    in_forward,
    in_module,
    tended,
    told_device,
    told_device_beside_tensors,
    uncalled,
)

# Methods that return the options of the command line.
PARSING = ("parse_args", "parse_known_args")


@dataclass(frozen=True, eq=False)
class Known:
    """A function or class of the program, by its text; for a class, ``bases`` are the texts of its base classes.

    ``itself`` are the words by which it may refer to itself and to its base classes.
    """

    said: Said
    itself: Set[str]
    is_class: bool = False
    is_module: bool = False
    bases: Many[Said] = ()


@dataclass(frozen=True, eq=False)
class Meaning:
    """The possible meanings of a name of the module: definitions, other values, and names of other files."""

    known: Many[Known] = ()
    others: Many[Value] = ()
    is_imported: bool = False


class Outlook(ABC):
    """Possible findings, as far as the meanings of the module's ``names`` can be known.

    ``options`` are the names with access to the options of the command line. A program that ``chooses`` its device, or
    is one of several processes, may load a checkpoint onto the wrong device.
    """

    names: Set[str]
    options: Set[str]
    chooses: bool

    def __init__(self) -> None:
        # the meanings of names, the names that each leads to, and whether it is wanted, once they are computed
        self._meanings: dict[str, Meaning] = {}
        self._reached: dict[str, Set[str]] = {}
        self._wanted: dict[tuple[str, Sought], bool] = {}

    @abstractmethod
    def _meant_by(self, name: str) -> Meaning:
        """The meaning of one of the names."""

    @abstractmethod
    def _moves_by(self, other: Value) -> bool:
        """Whether a value that is not a definition may be the device of a move."""

    @abstractmethod
    def _may_learn(self, other: Value) -> bool:
        """Whether a value that is not a definition may be a class of modules: only torch's have known weights."""

    @abstractmethod
    def _leads_to(self, other: Value, sought: Sought) -> bool:
        """Whether the use of a value that is not a definition may begin a finding."""

    @abstractmethod
    def _uses_one_of_elsewhere(self, words: Set[str], sought: Sought) -> bool:
        """Whether one of these words leads to a statement of another file that is sought."""

    # --- definitions -------------------------------------------------------------------------------------------------

    def _with_inherited(self, known: Known) -> Said:
        """The text of a definition, with the inherited lines of a class."""
        said, bases = known.said, known.bases
        if not bases:
            return said
        requested, asked = _requested(said.requests, bases)
        later = requested
        if any(base.leaves_less_to_builders(requested) for base in bases):
            in_forward_only = known.is_module and said.alone.meets_in_forward_only
            run_later = said.alone.in_forward if in_forward_only else said.run_later
            later, _ = _requested(said.requests_by(*run_later), bases)
        # Methods of its own that its bases call are run by it.
        run = asked & said.methods.keys()
        inherited = [*(base.leaves_of(requested, later) for base in bases), *(f"self.{name}" for name in sorted(run))]
        return said.after(inherited) if any(inherited) else said

    def _promises(self, said: Said, known: Known) -> bool:
        """Whether it, or a part of it, begins a finding, uses a definition that does, or may refute one."""
        return self._begins(said, known) or self._meets(said, known)

    def _begins(self, said: Said, known: Known) -> bool:
        """The same without tensors on the CPU, which lead to findings where they meet others."""
        if said.alone.begins or (said.begins and self._has_options(said)):
            return True
        if (said.alone.loads and self.chooses) or self._makes_modules(said) or self._moves_where_module_says(said):
            return True
        others = said.words - known.itself
        if self._comes_upon(said, others, self._sought(said, known.is_module)):
            return True
        return bool(said.tended) and self._uses(others, tended(said.tended))

    def _meets(self, said: Said, known: Known) -> bool:
        """Whether CPU tensors that it makes, or gets from definitions that it uses, may meet those on other devices."""
        if said.alone.meets_on_gpu(known.is_module):
            return True
        others = said.words - known.itself
        found = [
            sought
            for words, sought in self._sought_beside(said, known.is_module)
            if self._comes_upon(said, words & others, sought)
        ]
        # Most use nothing that is sought, whatever the words.
        if not (found and known.is_module and said.alone.meets_in_forward_only):
            return bool(found)
        return any(self._comes_upon(said, said.alone.words_in_forward & others, sought) for sought in found)

    def _has_options(self, said: Said) -> bool:
        """Whether it has access to the options of the command line, which may name devices."""
        return said.has(*PARSING) or not self.options.isdisjoint(said.words)

    def _sought(self, said: Said, is_module: bool) -> Sought:
        """The predicate by which a finding may begin in a definition that it uses."""
        if self._has_options(said):
            return begins_in_module if is_module else begins_beside_tensors if said.is_of_cpu else begins
        return beside_tensors if not is_module and said.alone.meets else uncalled

    def _sought_beside(self, said: Said, is_module: bool) -> Iterator[tuple[Set[str], Sought]]:
        """The same for definitions that return tensors, or receive a device for them, by the words that count."""
        if self._has_options(said):
            return
        if is_module:
            yield said.words, in_module if said.alone.runs_parts_aside else in_forward
        else:
            words = said.words if said.alone.names_gpu else said.alone.given_numbers
            yield words, told_device_beside_tensors if said.alone.meets else told_device

    def _moves_where_module_says(self, said: Said) -> bool:
        """Whether the device of a move is a name of the module that may stand for a device."""
        meanings = map(self._meaning, said.alone.targets & self.names)
        return any(meaning.is_imported or any(map(self._moves_by, meaning.others)) for meaning in meanings)

    def _makes_modules(self, said: Said) -> bool:
        """Whether a forward may make modules."""
        return any(map(self._may_be_module, said.made_in_forward))

    def _may_be_module(self, name: str) -> bool:
        """Whether a name may stand for a class of modules with weights: not if it is known to stand for another."""
        meaning = self._meaning(name)
        if meaning.is_imported or not (meaning.known or meaning.others):
            return True
        return any(known.is_module or not known.is_class for known in meaning.known) or any(
            map(self._may_learn, meaning.others)
        )

    # --- used definitions --------------------------------------------------------------------------------------------

    def _comes_upon(self, said: Said, words: Set[str], sought: Sought) -> bool:
        """Whether it references a matching definition, and not only in type tests and annotations."""
        return bool(words) and self._uses(words, sought) and self._uses(words & said.used, sought)

    def _uses(self, words: Set[str], sought: Sought) -> bool:
        used = (name for name in words & self.names if self._gives(name, words, sought))
        return any(self._reaches(name, sought) for name in used) or self._uses_one_of_elsewhere(words, sought)

    def _gives(self, name: str, words: Set[str], sought: Sought) -> bool:
        """Whether a name stands for more than modules whose tensors none of these words reads."""
        meaning = self._meaning(name)
        if sought is not in_forward or meaning.others or not all(known.is_module for known in meaning.known):
            return True
        said = [known.said for known in meaning.known]
        return any(uncalled(each, True) or not words.isdisjoint(each.givers) for each in said)

    def _reaches(self, name: str, sought: Sought) -> bool:
        """Whether it, or a function of the module that it uses directly or indirectly, is wanted."""
        if name not in self._reached:
            self._reached[name] = self._reached_from(name)
        return any(self._is_wanted(each, sought) for each in self._reached[name])

    def _reached_from(self, name: str) -> Set[str]:
        reached, waiting = {name}, [name]
        while waiting:
            functions = (known for known in self._meaning(waiting.pop()).known if not known.is_class)
            new = self.names & set[str]().union(*(function.said.words for function in functions)) - reached
            reached |= new
            waiting.extend(new)
        return reached

    def _is_wanted(self, name: str, sought: Sought) -> bool:
        if (name, sought) not in self._wanted:
            meaning = self._meaning(name)
            self._wanted[name, sought] = any(self._is_sought(known, sought) for known in meaning.known) or any(
                self._leads_to(other, sought) for other in meaning.others
            )
        return self._wanted[name, sought]

    def _is_sought(self, known: Known, sought: Sought) -> bool:
        """Whether the use of a definition may begin a finding."""
        if sought(known.said, known.is_module):
            return True
        return not known.is_class and self._uses_one_of_elsewhere(known.said.words, sought)

    def _meaning(self, name: str) -> Meaning:
        if name not in self._meanings:
            self._meanings[name] = self._meant_by(name)
        return self._meanings[name]


def _requested(names: frozenset[str], bases: Many[Said]) -> tuple[frozenset[str], set[str]]:
    """The names that a class with these names requests from its bases, directly or not, and those the bases read."""
    requested, asked = names, set[str]()
    new: Set[str] = names
    while new:
        found = set[str]().union(*(base.requests_by(*new & base.methods.keys()) for base in bases))
        asked |= found
        new = found - requested
        requested |= new
    return requested, asked
