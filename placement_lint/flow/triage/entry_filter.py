"""Triage check of entry points: whether analysing a definition by itself can lead to a finding; most cannot.

The arguments of an entry point are unknown, and its callees are analysed separately. So a finding begins with the
definition's own code, or with that of a function to which it passes a tensor or a setting, a class that makes tensors,
or a variable of the module. A model that only combines layers that begin nothing cannot lead to a finding. Tensors on
the CPU lead to a finding only in a module, which may be on a GPU, or beside tensors on a GPU.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from collections.abc import Sequence as Many
from dataclasses import dataclass

import libcst as cst

from placement_lint.flow.domain.values import (
    Class,
    Const,
    External,
    Function,
    Imported,
    Pending,
    Symbol,
    Value,
    alternatives,
)
from placement_lint.flow.interpreter import inline_policy
from placement_lint.flow.models import ranks
from placement_lint.flow.models.device_choice import DeviceChoices
from placement_lint.flow.state import imports
from placement_lint.flow.state.imports import Imports
from placement_lint.flow.state.machine import Machine
from placement_lint.flow.state.program import Program
from placement_lint.flow.triage.definition_facts import Facts, read
from placement_lint.flow.triage.predicates import (
    Sought,
    begins,
    begins_beside_tensors,
    begins_in_module,
    beside_tensors,
    externally_written,
    given_numbers,
    in_forward,
    in_module,
    in_statement,
    loads,
    may_begin,
    may_begin_in_entry,
    meets,
    meets_in_forward_only,
    meets_on_gpu,
    names_gpu,
    packs,
    refuted_in_entry_by,
    runs_parts_aside,
    targets,
    told_device,
    told_device_beside_tensors,
    uncalled,
)
from placement_lint.source.wording import lines_of, source_text

# Methods that return the options of the command line.
PARSING = ("parse_args", "parse_known_args")
# The depth to which lists and dicts of the module are searched.
_DEEPEST = 3


@dataclass(frozen=True, eq=False)
class Known:
    """A function or class of the program, by its text; for a class, ``bases`` are the texts of its base classes.

    ``itself`` are the words by which it may refer to itself and to its base classes.
    """

    facts: Facts
    itself: Set[str]
    is_class: bool = False
    is_module: bool = False
    bases: Many[Facts] = ()


@dataclass(frozen=True, eq=False)
class Meaning:
    """The possible meanings of a name of the module: definitions, other values, and names of other files."""

    known: Many[Known] = ()
    others: Many[Value] = ()
    is_imported: bool = False


class Prospects:
    """The possible findings of the definitions of one program, once its own statements have run.

    ``options`` are the names with access to the options of the command line. A program that ``chooses`` its device, or
    is one of several processes, may load a checkpoint onto the wrong device.
    """

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        # the meanings of names, the names that each leads to, and whether it is wanted, once they are computed
        self._meanings: dict[str, Meaning] = {}
        self._reached: dict[str, Set[str]] = {}
        self._wanted: dict[tuple[str, Sought], bool] = {}
        self._facts: dict[cst.CSTNode, Facts] = {}
        self._known: dict[cst.CSTNode | int, Known] = {}
        frame = machine.module_frame
        self.names = {*machine.store.variables(frame)}
        self._options_of = {name: self._values_of(frame, name) for name in self.names}
        self._elsewhere = {
            name: [option for option in options if isinstance(option, (Imported, Pending))]
            for name, options in self._options_of.items()
        }
        self._gathers = bool(machine.notes[Imports].stars.get(frame))
        self._has_lengths = any(
            packs(self._facts_of(machine.definition(cls))) for cls in machine.notes[Program].classes
        )
        self.options = {name for name, values in self._options_of.items() if any(map(_is_options, values))}
        self.chooses = bool(machine.notes[DeviceChoices].chosen) or ranks.joined(machine) is not None

    def _values_of(self, frame: int, name: str) -> Many[Value]:
        value = self.machine.read(frame, name)
        return [option for _, option in alternatives(value)] if value is not None else []

    def promising(self, values: Many[Class | Function]) -> bool:
        """Whether something may be found in a function, or in a class with its methods."""
        first = values[0]
        return self._is_inside_another(values) or self._hands_lengths_on(first) or self._promises(self._know(first))

    def _is_inside_another(self, values: Many[Class | Function]) -> bool:
        """Whether it is nested in a function, which may have begun something already."""
        frames = {value.frame for value in values if isinstance(value, Function)}
        return frames != {self.machine.module_frame}

    def _hands_lengths_on(self, value: Class | Function) -> bool:
        """Whether it may pass lengths, which are on the CPU, as inputs of modules."""
        return self._has_lengths and isinstance(value, Class) and value.module

    # --- definitions -------------------------------------------------------------------------------------------------

    def _promises(self, known: Known) -> bool:
        """Whether a definition begins a finding, uses a definition that does, or may refute one."""
        facts = known.facts.with_inherited(known.bases)
        return self._begins(facts, known) or self._meets(facts, known)

    def _begins(self, facts: Facts, known: Known) -> bool:
        """The same without tensors on the CPU, which lead to findings where they meet others."""
        if may_begin_in_entry(facts) or (may_begin(facts) and self._has_options(facts)):
            return True
        if (loads(facts) and self.chooses) or self._makes_modules(facts) or self._moves_where_module_says(facts):
            return True
        others = facts.words - known.itself
        if self._comes_upon(facts, others, self._sought(facts, known.is_module)):
            return True
        written = externally_written(facts)
        return bool(written) and self._uses(others, refuted_in_entry_by(written))

    def _meets(self, facts: Facts, known: Known) -> bool:
        """Whether CPU tensors that it makes, or gets from definitions that it uses, may meet those on other devices."""
        if meets_on_gpu(facts, known.is_module):
            return True
        others = facts.words - known.itself
        found = [
            sought
            for words, sought in self._sought_beside(facts, known.is_module)
            if self._comes_upon(facts, words & others, sought)
        ]
        # Most use nothing that is sought, whatever the words.
        if not (found and known.is_module and meets_in_forward_only(facts)):
            return bool(found)
        return any(self._comes_upon(facts, facts.words_in_forward & others, sought) for sought in found)

    def _has_options(self, facts: Facts) -> bool:
        """Whether it has access to the options of the command line, which may name devices."""
        return facts.has(*PARSING) or not self.options.isdisjoint(facts.words)

    def _sought(self, facts: Facts, is_module: bool) -> Sought:
        """The predicate by which a finding may begin in a definition that it uses."""
        if self._has_options(facts):
            return begins_in_module if is_module else begins_beside_tensors if facts.is_of_cpu else begins
        return beside_tensors if not is_module and meets(facts) else uncalled

    def _sought_beside(self, facts: Facts, is_module: bool) -> Iterator[tuple[Set[str], Sought]]:
        """The same for definitions that return tensors, or receive a device for them, by the words that count."""
        if self._has_options(facts):
            return
        if is_module:
            yield facts.words, in_module if runs_parts_aside(facts) else in_forward
        else:
            words = facts.words if names_gpu(facts) else given_numbers(facts)
            yield words, told_device_beside_tensors if meets(facts) else told_device

    def _moves_where_module_says(self, facts: Facts) -> bool:
        """Whether the device of a move is a name of the module that may stand for a device."""
        meanings = map(self._meaning, targets(facts) & self.names)
        return any(
            meaning.is_imported or any(not isinstance(other, External) for other in meaning.others)
            for meaning in meanings
        )

    def _makes_modules(self, facts: Facts) -> bool:
        """Whether a forward may make modules."""
        return any(map(self._may_be_module, facts.made_in_forward))

    def _may_be_module(self, name: str) -> bool:
        """Whether a name may stand for a class of modules with weights: not if it is known to stand for another."""
        meaning = self._meaning(name)
        if meaning.is_imported or not (meaning.known or meaning.others):
            return True
        return any(known.is_module or not known.is_class for known in meaning.known) or any(
            map(self._may_learn, meaning.others)
        )

    # --- used definitions --------------------------------------------------------------------------------------------

    def _comes_upon(self, facts: Facts, words: Set[str], sought: Sought) -> bool:
        """Whether it references a matching definition, and not only in type tests and annotations."""
        return bool(words) and self._uses(words, sought) and self._uses(words & facts.used, sought)

    def _uses(self, words: Set[str], sought: Sought) -> bool:
        used = (name for name in words & self.names if self._gives(name, words, sought))
        return any(self._reaches(name, sought) for name in used) or self._uses_one_of_elsewhere(words, sought)

    def _gives(self, name: str, words: Set[str], sought: Sought) -> bool:
        """Whether a name stands for more than modules whose tensors none of these words reads."""
        meaning = self._meaning(name)
        if sought is not in_forward or meaning.others or not all(known.is_module for known in meaning.known):
            return True
        return any(uncalled(known.facts, True) or not words.isdisjoint(known.facts.givers) for known in meaning.known)

    def _reaches(self, name: str, sought: Sought) -> bool:
        """Whether it, or a function of the module that it uses directly or indirectly, is wanted."""
        if name not in self._reached:
            self._reached[name] = self._reached_from(name)
        return any(self._is_wanted(each, sought) for each in self._reached[name])

    def _reached_from(self, name: str) -> Set[str]:
        reached, waiting = {name}, [name]
        while waiting:
            functions = (known for known in self._meaning(waiting.pop()).known if not known.is_class)
            new = self.names & set[str]().union(*(function.facts.words for function in functions)) - reached
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
        """Whether the use of a definition, with what it inherits, may begin a finding."""
        if any(sought(facts, known.is_module) for facts in (known.facts, *known.bases)):
            return True
        return not known.is_class and self._uses_one_of_elsewhere(known.facts.words, sought)

    def _meaning(self, name: str) -> Meaning:
        if name not in self._meanings:
            self._meanings[name] = self._meant_by(name)
        return self._meanings[name]

    # --- the names of the module -------------------------------------------------------------------------------------

    def _meant_by(self, name: str) -> Meaning:
        options = self._options_of.get(name, ())
        return Meaning(
            [self._know(option) for option in options if isinstance(option, (Class, Function))],
            [option for option in options if not isinstance(option, (Class, Function, Imported, Pending))],
            bool(self._elsewhere.get(name)),
        )

    def _know(self, value: Class | Function) -> Known:
        key = value.node if isinstance(value, Function) else value.id
        if key not in self._known:
            bases = list(_bases(value))
            self._known[key] = Known(
                self._facts_of(value.node if isinstance(value, Function) else self.machine.definition(value)),
                {value.name, *(base.name for base in bases)},
                isinstance(value, Class),
                isinstance(value, Class) and value.module,
                [self._facts_of(self.machine.definition(base)) for base in bases],
            )
        return self._known[key]

    def _facts_of(self, node: cst.ClassDef | cst.FunctionDef | cst.Lambda) -> Facts:
        if node not in self._facts:
            # the lines of a lambda may be no statement
            self._facts[node] = read(source_text(node) if isinstance(node, cst.Lambda) else lines_of(node))
        return self._facts[node]

    def _may_learn(self, other: Value) -> bool:
        """Whether a value that is not a definition may be a class of modules: only torch's have known weights."""
        return not isinstance(other, External) or other.name.startswith("torch.")

    def _leads_to(self, other: Value, sought: Sought, depth: int = 0) -> bool:
        """Whether the use of a value that is not a definition may begin a finding."""
        if isinstance(other, (Class, Function)):
            return self._is_sought(self._know(other), sought)
        if isinstance(other, (External, Imported, Pending)):
            return False
        if isinstance(other, Const):
            # A text with spaces does not name a device.
            return " " not in str(other.value) and inline_policy.decides(self.machine, other)
        held = inline_policy.inside(self.machine, other) if depth < _DEEPEST else []
        if held is None:
            return inline_policy.decides(self.machine, other)
        return any(self._leads_to(each, sought, depth + 1) for each in held)

    def _uses_one_of_elsewhere(self, words: Set[str], sought: Sought) -> bool:
        """Whether one of these words leads to a statement of another file that is sought."""
        imported = (value for name in words & self._elsewhere.keys() for value in self._elsewhere[name])
        if any(imports.leads_to(self.machine, value, words, in_statement(sought)) for value in imported):
            return True
        return self._gathers and imports.stars_lead_to(self.machine, words - self.names, in_statement(sought))


def _is_options(value: Value) -> bool:
    return isinstance(value, Symbol) and any(f"{name}(" in value.text for name in PARSING)


def _bases(value: Value) -> Iterator[Class]:
    """All classes that one derives from."""
    for base in value.bases if isinstance(value, Class) else ():
        if isinstance(base, Class):
            yield base
            yield from _bases(base)
