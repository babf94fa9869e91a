"""Whether a look at a definition by itself can come to anything: most definitions have nothing to begin with.

Of its arguments nothing is known, and what it calls is looked at by itself. So a finding begins with what its own text
says, or that of what it uses: a function to which it hands a tensor or a setting, a class that makes tensors, a
variable of the module. A model that only puts together layers that begin nothing has nothing to be found in it; and of
tensors on the CPU something is found only in a module, which may be on a GPU, or beside what is on one.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from collections.abc import Sequence as Many
from functools import lru_cache

import libcst as cst

from placement_lint.flow import imports, ranks, relevance
from placement_lint.flow.alone import FORWARDS
from placement_lint.flow.beginnings import Said, read
from placement_lint.flow.machine import Machine
from placement_lint.flow.sought import (
    Sought,
    begins,
    begins_beside_tensors,
    begins_in_module,
    in_statement,
)
from placement_lint.flow.texts import attributes_of_self
from placement_lint.flow.values import Class, Const, External, Function, Imported, Pending, Symbol, Value, alternatives
from placement_lint.source.wording import lines_of

# How deep in lists and dicts of the module something is looked for.
_DEEPEST = 3
# What gives the options of the command line.
_PARSING = ("parse_args", "parse_known_args")


def uncalled(said: Said, is_module: bool) -> bool:
    """Whether a finding may begin where it is used by what nobody calls, and hands it nothing that is known."""
    return begins(said, is_module) if is_module else said.alone.begins


def beside_tensors(said: Said, is_module: bool) -> bool:
    """The same where there are tensors on the CPU: it may give others that are on a GPU."""
    return uncalled(said, is_module) or (not is_module and said.alone.tells_own_places)


def told_device(said: Said, is_module: bool) -> bool:
    """The same where it may be told a GPU by a name or number."""
    return uncalled(said, is_module) or (not is_module and said.is_of_cpu and said.alone.tells_places)


def told_device_beside_tensors(said: Said, is_module: bool) -> bool:
    """The same where both is so."""
    return uncalled(said, is_module) or (not is_module and said.alone.tells_places)


def in_forward(said: Said, is_module: bool) -> bool:
    """The same in a module that runs others in its forward only: theirs are not looked into."""
    return uncalled(said, is_module) or (bool(said.givers) if is_module else said.alone.gives_or_meets)


def in_module(said: Said, is_module: bool) -> bool:
    """The same in a module, which may be on a GPU."""
    return uncalled(said, is_module) or (said.gives_tensors if is_module else said.alone.gives_or_meets)


@lru_cache(256)
def _tended(names: frozenset[str]) -> Sought:
    """Whether there may be something to be found about it that others refute by what they do with these attributes."""

    def is_sought(said: Said, is_module: bool) -> bool:
        return (
            is_module
            and said.runs
            and said.may_be_tended(names)
            and (said.alone.begins or said.alone.meets_on_gpu(is_module))
        )

    return is_sought


class Prospects:
    """What there is to expect of the definitions of one program, once its own statements have run."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self._texts: dict[cst.CSTNode, Said] = {}
        frame = machine.module_frame
        # what the names of the module stand for, by whether other files define that
        self._here: dict[str, list[Value]] = {}
        self._elsewhere: dict[str, list[Imported | Pending]] = {}
        for name in machine.store.names(frame):
            value = machine.read(frame, name)
            options = [option for _, option in alternatives(value)] if value is not None else []
            self._here[name] = [option for option in options if not isinstance(option, (Imported, Pending))]
            self._elsewhere[name] = [option for option in options if isinstance(option, (Imported, Pending))]
        self._gathers = bool(machine.stars.get(frame))
        self._has_lengths = any(self._said(machine.definition(cls)).packs for cls in machine.classes)
        self._options = {name for name, values in self._here.items() if any(map(_is_options, values))}
        # a checkpoint is loaded wrongly by a program that chooses its device, or by one of several processes
        self._chooses = bool(machine.chosen) or ranks.joined(machine) is not None
        # to which others each name of the module leads, and whether it is wanted, once somebody asked
        self._reached: dict[str, Set[str]] = {}
        self._wanted: dict[tuple[str, Sought], bool] = {}

    def promising(self, values: Many[Class | Function]) -> Many[Class | Function]:
        """What there is to look at of a definition: of a function, or of a class with its methods."""
        first, *methods = values
        if self._is_inside_another(values) or self._hands_lengths_on(first):
            return values
        said = self._with_inherited(first)
        if not self._promises(said, first):
            return ()
        return (first, *self._promising_methods(said, first, methods)) if methods else values

    def _is_inside_another(self, values: Many[Class | Function]) -> bool:
        """Whether it is in a function, which may have begun something already."""
        frames = {value.frame for value in values if isinstance(value, Function)}
        return frames != {self.machine.module_frame}

    def _hands_lengths_on(self, value: Class | Function) -> bool:
        """Whether it may tell which inputs of modules are lengths, and so on the CPU."""
        return self._has_lengths and isinstance(value, Class) and value.module

    def _with_inherited(self, value: Class | Function) -> Said:
        """What a definition says, and a class inherits."""
        said = self._said(value.node if isinstance(value, Function) else self.machine.definition(value))
        bases = [self._said(self.machine.definition(base)) for base in _bases(value)]
        if not bases:
            return said
        requested, asked = _requested(said.requests, bases)
        later = requested
        if any(base.leaves_less_to_builders(requested) for base in bases):
            in_forward_only = _is_module(value) and said.alone.meets_in_forward_only
            run_later = said.alone.in_forward if in_forward_only else said.run_later
            later, _ = _requested(said.requests_by(*run_later), bases)
        # What its bases run of its methods, it runs.
        run = asked & said.methods.keys()
        inherited = [*(base.leaves_of(requested, later) for base in bases), *(f"self.{name}" for name in sorted(run))]
        return said.after(inherited) if any(inherited) else said

    def _promises(self, said: Said, value: Class | Function) -> bool:
        """Whether it, or a part of it, begins a finding, uses what does, or may refute one."""
        return self._begins(said, value) or self._meets(said, value)

    def _begins(self, said: Said, value: Class | Function) -> bool:
        """The same without tensors on the CPU, of which something is found where they meet others."""
        if said.alone.begins or (said.begins and self._has_options(said)):
            return True
        if (said.alone.loads and self._chooses) or self._makes_modules(said) or self._moves_where_module_says(said):
            return True
        others = _others(said, value)
        if self._comes_upon(said, others, self._sought(said, _is_module(value))):
            return True
        return bool(said.tended) and self._uses(others, _tended(said.tended))

    def _meets(self, said: Said, value: Class | Function) -> bool:
        """Whether tensors on the CPU, of its own or given by what it uses, may meet those that are elsewhere."""
        is_module = _is_module(value)
        if said.alone.meets_on_gpu(is_module):
            return True
        others = _others(said, value)
        return any(self._comes_upon(said, words & others, each) for words, each in self._sought_beside(said, is_module))

    def _has_options(self, said: Said) -> bool:
        """Whether it knows the options of the command line, which may name devices."""
        return said.has(*_PARSING) or not self._options.isdisjoint(said.words)

    def _sought(self, said: Said, is_module: bool) -> Sought:
        """With what a finding may begin in what it uses."""
        if self._has_options(said):
            return begins_in_module if is_module else begins_beside_tensors if said.is_of_cpu else begins
        return beside_tensors if not is_module and said.alone.meets else uncalled

    def _sought_beside(self, said: Said, is_module: bool) -> Iterator[tuple[Set[str], Sought]]:
        """The same of what gives tensors, or is told where to place them, by the words that count for it."""
        if self._has_options(said):
            return
        if is_module:
            words = said.alone.words_in_forward if said.alone.meets_in_forward_only else said.words
            yield words, in_module if said.alone.runs_parts_aside else in_forward
        else:
            words = said.words if said.alone.names_gpu else said.alone.given_numbers
            yield words, told_device_beside_tensors if said.alone.meets else told_device

    def _moves_where_module_says(self, said: Said) -> bool:
        """Whether it tells where to move something by a name of the module, which may stand for a device."""
        names = said.alone.targets & self._here.keys()
        return any(
            self._elsewhere.get(name)
            or any(not isinstance(value, (External, Class, Function)) for value in self._here[name])
            for name in names
        )

    def _makes_modules(self, said: Said) -> bool:
        """Whether a forward may make modules."""
        return any(map(self._may_be_module, said.made_in_forward))

    def _may_be_module(self, name: str) -> bool:
        """Whether a name may stand for a class of modules: one that is defined here may not if it is none."""
        values = self._here.get(name, [])
        known = bool(values) and not self._elsewhere.get(name)
        return not (known and all(isinstance(value, Class) and not value.module for value in values))

    def _promising_methods(self, said: Said, cls: Class | Function, methods: Many[Class | Function]) -> Many[Function]:
        """All, unless nothing is begun before they run: what others do of them makes no difference then."""
        known = [method for method in methods if isinstance(method, Function)]
        later = [method for method in known if method.name != "__init__"]
        if (
            len(later) < 2
            or said.alone.adds_in_forward
            or self._makes_modules(said)
            or self._begins_before_methods(said, cls)
        ):
            return known
        # What a forward inherits may run any of them; of what one leaves it counts who reads it.
        left = said.alone.left_in_forward
        forwards = FORWARDS if left or self._meets(said, cls) else ()
        return [
            each
            for each in later
            if each.name in forwards
            or not left.isdisjoint(attributes_of_self(said.run_by(each.name)))
            or self._promises(Said(said.run_by(each.name)), cls)
        ] or known

    def _begins_before_methods(self, said: Said, cls: Class | Function) -> bool:
        """Whether something is begun before any of its methods runs that not only a forward finishes."""
        before = Said(said.before_methods)
        in_forward_only = _is_module(cls) and said.alone.meets_in_forward_only
        return self._begins(before, cls) or (not in_forward_only and self._meets(before, cls))

    def _said(self, node: cst.ClassDef | cst.FunctionDef | cst.Lambda) -> Said:
        if node not in self._texts:
            self._texts[node] = read(lines_of(node))
        return self._texts[node]

    def _comes_upon(self, said: Said, words: Set[str], sought: Sought) -> bool:
        """Whether it uses something that is sought, and does not only ask, or say, that something is of that class."""
        return bool(words) and self._uses(words, sought) and self._uses(words & said.used, sought)

    def _uses(self, words: Set[str], sought: Sought) -> bool:
        used = (name for name in words & self._here.keys() if self._gives(name, words, sought))
        return any(self._reaches(name, sought) for name in used) or self._uses_one_of_elsewhere(words, sought)

    def _gives(self, name: str, words: Set[str], sought: Sought) -> bool:
        """Whether a name stands for more than modules with tensors that none of these words asks for."""
        if sought is not in_forward:
            return True
        modules = [each for each in self._here[name] if isinstance(each, Class) and each.module]
        if len(modules) != len(self._here[name]):
            return True
        said = [self._said(self.machine.definition(cls)) for cls in modules]
        return any(uncalled(each, True) or not words.isdisjoint(each.givers) for each in said)

    def _uses_one_of_elsewhere(self, words: Set[str], sought: Sought) -> bool:
        imported = (value for name in words & self._elsewhere.keys() for value in self._elsewhere[name])
        if any(imports.leads_to(self.machine, value, words, in_statement(sought)) for value in imported):
            return True
        return self._gathers and imports.stars_lead_to(self.machine, words - self._here.keys(), in_statement(sought))

    # --- the names of the module ---------------------------------------------------------------------------

    def _reaches(self, name: str, sought: Sought) -> bool:
        """Whether it is wanted, or something that it uses as a function of the module, be it through others."""
        if name not in self._reached:
            self._reached[name] = self._reached_from(name)
        return any(self._is_wanted(each, sought) for each in self._reached[name])

    def _reached_from(self, name: str) -> Set[str]:
        reached, waiting = {name}, [name]
        while waiting:
            functions = (value for value in self._here[waiting.pop()] if isinstance(value, Function))
            new = self._here.keys() & set[str]().union(*(self._said(each.node).words for each in functions)) - reached
            reached |= new
            waiting.extend(new)
        return reached

    def _is_wanted(self, name: str, sought: Sought) -> bool:
        if (name, sought) not in self._wanted:
            self._wanted[name, sought] = any(self._leads_to(value, sought) for value in self._here[name])
        return self._wanted[name, sought]

    def _leads_to(self, value: Value, sought: Sought, depth: int = 0) -> bool:
        """Whether a finding may begin where a value of the module is used."""
        if isinstance(value, Function):
            said = self._said(value.node)
            return sought(said, False) or self._uses_one_of_elsewhere(said.words, sought)
        if isinstance(value, Class):
            definition = self.machine.definitions.get(value.id)
            return definition is not None and sought(self._said(definition), value.module)
        if isinstance(value, (External, Imported, Pending)):
            return False
        if isinstance(value, Const):
            # A sentence names no device.
            return " " not in str(value.value) and relevance.decides(self.machine, value)
        held = relevance.inside(self.machine, value) if depth < _DEEPEST else []
        if held is None:
            return relevance.decides(self.machine, value)
        return any(self._leads_to(each, sought, depth + 1) for each in held)


def _is_options(value: Value) -> bool:
    return isinstance(value, Symbol) and any(f"{name}(" in value.text for name in _PARSING)


def _requested(names: frozenset[str], bases: Many[Said]) -> tuple[frozenset[str], set[str]]:
    """What a class that asks for these names asks of those that it derives from, and what these ask for then."""
    requested, asked = names, set[str]()
    new: Set[str] = names
    while new:
        found = set[str]().union(*(base.requests_by(*new & base.methods.keys()) for base in bases))
        asked |= found
        new = found - requested
        requested |= new
    return requested, asked


def _is_module(value: Class | Function) -> bool:
    return isinstance(value, Class) and value.module


def _others(said: Said, value: Class | Function) -> Set[str]:
    """The words of a definition, without its own name and those of what it derives from."""
    return said.words - {value.name, *(base.name for base in _bases(value))}


def _bases(value: Value) -> Iterator[Class]:
    """All classes that one derives from."""
    for base in value.bases if isinstance(value, Class) else ():
        if isinstance(base, Class):
            yield base
            yield from _bases(base)
