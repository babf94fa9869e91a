"""Triage check of entry points: whether analysing a definition by itself can lead to a finding; most cannot."""

from __future__ import annotations

from collections.abc import Iterator, Set
from collections.abc import Sequence as Many

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
from placement_lint.flow.triage.definition_facts import Said, read
from placement_lint.flow.triage.entry_facts import FORWARDS
from placement_lint.flow.triage.lexical import attributes_of_self
from placement_lint.flow.triage.predicates import Sought, in_statement
from placement_lint.flow.triage.reachability import PARSING, Known, Meaning, Outlook
from placement_lint.source.wording import lines_of

# The depth to which lists and dicts of the module are searched.
_DEEPEST = 3


class Prospects(Outlook):
    """The possible findings of the definitions of one program, once its own statements have run."""

    def __init__(self, machine: Machine) -> None:
        super().__init__()
        self.machine = machine
        self._texts: dict[cst.CSTNode, Said] = {}
        self._known: dict[cst.CSTNode | int, Known] = {}
        frame = machine.module_frame
        self.names = {*machine.store.variables(frame)}
        self._options_of = {name: self._values_of(frame, name) for name in self.names}
        self._elsewhere = {
            name: [option for option in options if isinstance(option, (Imported, Pending))]
            for name, options in self._options_of.items()
        }
        self._gathers = bool(machine.notes[Imports].stars.get(frame))
        self._has_lengths = any(self._said(machine.definition(cls)).packs for cls in machine.notes[Program].classes)
        self.options = {name for name, values in self._options_of.items() if any(map(_is_options, values))}
        self.chooses = bool(machine.notes[DeviceChoices].chosen) or ranks.joined(machine) is not None

    def _values_of(self, frame: int, name: str) -> Many[Value]:
        value = self.machine.read(frame, name)
        return [option for _, option in alternatives(value)] if value is not None else []

    def promising(self, values: Many[Class | Function]) -> Many[Class | Function]:
        """The parts of a definition to analyse: a function, or a class with methods; empty if nothing can be found."""
        first, *methods = values
        if self._is_inside_another(values) or self._hands_lengths_on(first):
            return values
        known = self._know(first)
        said = self._with_inherited(known)
        if not self._promises(said, known):
            return ()
        return (first, *self._promising_methods(said, known, methods)) if methods else values

    def _is_inside_another(self, values: Many[Class | Function]) -> bool:
        """Whether it is nested in a function, which may have begun something already."""
        frames = {value.frame for value in values if isinstance(value, Function)}
        return frames != {self.machine.module_frame}

    def _hands_lengths_on(self, value: Class | Function) -> bool:
        """Whether it may pass lengths, which are on the CPU, as inputs of modules."""
        return self._has_lengths and isinstance(value, Class) and value.module

    def _promising_methods(self, said: Said, cls: Known, methods: Many[Class | Function]) -> Many[Function]:
        """All methods, unless nothing begins before they run: then only those that may lead to a finding themselves."""
        known = [method for method in methods if isinstance(method, Function)]
        later = [method for method in known if method.name != "__init__"]
        if (
            len(later) < 2
            or said.alone.adds_in_forward
            or self._makes_modules(said)
            or self._begins_before_methods(said, cls)
        ):
            return known
        # An inherited forward may run any of them; the readers of what a forward leaves matter, too.
        left = said.alone.left_in_forward
        forwards = FORWARDS if left or self._meets(said, cls) else ()
        return [
            each
            for each in later
            if each.name in forwards
            or not left.isdisjoint(attributes_of_self(said.run_by(each.name)))
            or self._promises(Said(said.run_by(each.name)), cls)
        ] or known

    def _begins_before_methods(self, said: Said, cls: Known) -> bool:
        """Whether a finding may begin before any of its methods runs, unless only a forward can complete it."""
        before = Said(said.before_methods)
        in_forward_only = cls.is_module and said.alone.meets_in_forward_only
        return self._begins(before, cls) or (not in_forward_only and self._meets(before, cls))

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
                self._said(value.node if isinstance(value, Function) else self.machine.definition(value)),
                {value.name, *(base.name for base in bases)},
                isinstance(value, Class),
                isinstance(value, Class) and value.module,
                [self._said(self.machine.definition(base)) for base in bases],
            )
        return self._known[key]

    def _said(self, node: cst.ClassDef | cst.FunctionDef | cst.Lambda) -> Said:
        if node not in self._texts:
            self._texts[node] = read(lines_of(node))
        return self._texts[node]

    def _moves_by(self, other: Value) -> bool:
        return not isinstance(other, External)

    def _may_learn(self, other: Value) -> bool:
        return not isinstance(other, External) or other.name.startswith("torch.")

    def _leads_to(self, other: Value, sought: Sought, depth: int = 0) -> bool:
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
