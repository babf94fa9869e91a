"""Whether a look at a definition by itself can come to anything: most definitions have nothing to begin with.

Of its arguments nothing is known, and what it calls is looked at by itself. So a finding begins with what its own text
says, or that of what it uses: a function to which it hands a tensor or a setting, a class that makes tensors, a
variable of the module. A model that only puts together layers that begin nothing has nothing to be found in it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Set
from collections.abc import Sequence as Many

import libcst as cst

from placement_lint.flow import imports, relevance
from placement_lint.flow.beginnings import Text, read
from placement_lint.flow.machine import Machine
from placement_lint.flow.values import Class, Const, External, Function, Imported, Pending, Value, alternatives
from placement_lint.source.wording import lines_of

# How deep in lists and dicts of the module something is looked for.
_DEEPEST = 3


class Prospects:
    """What there is to expect of the definitions of one program, once its own statements have run."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self._texts: dict[cst.CSTNode, Text] = {}
        frame = machine.module_frame
        # what the names of the module stand for, by whether other files define that
        self._here: dict[str, list[Value]] = {}
        self._elsewhere: dict[str, list[Imported | Pending]] = {}
        for name in machine.store.names(frame):
            value = machine.read(frame, name)
            options = [option for _, option in alternatives(value)] if value is not None else []
            self._here[name] = [option for option in options if not isinstance(option, (Imported, Pending))]
            self._elsewhere[name] = [option for option in options if isinstance(option, (Imported, Pending))]
        self._has_lengths = any(self._text(machine.definition(cls)).packs for cls in machine.classes)
        self._beginnings = self._with_users({name for name in self._here if self._begins_by_itself(name)})

    def promises(self, values: Many[Class | Function]) -> bool:
        """Whether something may be found by looking at a definition: a function, or a class with its methods."""
        return self._is_inside_another(values) or self._hands_lengths_on(values[0]) or self._says_something(values[0])

    def _is_inside_another(self, values: Many[Class | Function]) -> bool:
        """Whether it is in a function, which may have begun something already."""
        frames = {value.frame for value in values if isinstance(value, Function)}
        return frames != {self.machine.module_frame}

    def _hands_lengths_on(self, value: Class | Function) -> bool:
        """Whether it may tell which inputs of modules are lengths, and so on the CPU."""
        return self._has_lengths and isinstance(value, Class) and value.module

    def _says_something(self, value: Class | Function) -> bool:
        """Whether it, or what it inherits, begins a finding, uses what does, or may refute one."""
        bases = list(_bases(value))
        said = self._text(value.node if isinstance(value, Function) else self.machine.definition(value))
        inherited = [self._text(self.machine.definition(base)).leaves_to(said) for base in bases]
        said = Text("\n".join((said.code, *inherited))) if any(inherited) else said
        return said.begins or said.tends or self._uses_a_beginning(said.words - {base.name for base in bases})

    def _text(self, node: cst.ClassDef | cst.FunctionDef | cst.Lambda) -> Text:
        if node not in self._texts:
            self._texts[node] = read(lines_of(node))
        return self._texts[node]

    def _uses_a_beginning(self, words: Set[str]) -> bool:
        return not words.isdisjoint(self._beginnings) or self._uses_one_of_elsewhere(words)

    def _uses_one_of_elsewhere(self, words: Set[str]) -> bool:
        imported = (value for name in words & self._elsewhere.keys() for value in self._elsewhere[name])
        if any(imports.leads_to(self.machine, value, words, _is_beginning) for value in imported):
            return True
        return imports.stars_lead_to(self.machine, words - self._here.keys(), _is_beginning)

    # --- the names of the module ---------------------------------------------------------------------------

    def _with_users(self, beginnings: set[str]) -> set[str]:
        """And all functions of the module that use them, be it through others."""
        users = defaultdict[str, list[str]](list)
        for name, values in self._here.items():
            for value in values:
                for word in self._text(value.node).words if isinstance(value, Function) else ():
                    users[word].append(name)
        waiting = list(beginnings)
        while waiting:
            new = set(users.pop(waiting.pop(), ())) - beginnings
            beginnings |= new
            waiting.extend(new)
        return beginnings

    def _begins_by_itself(self, name: str) -> bool:
        return any(self._is_beginning(value) for value in self._here[name])

    def _is_beginning(self, value: Value, depth: int = 0) -> bool:
        """Whether a finding may begin where a value of the module is used."""
        if isinstance(value, Function):
            said = self._text(value.node)
            return said.begins or self._uses_one_of_elsewhere(said.words)
        if isinstance(value, Class):
            definition = self.machine.definitions.get(value.id)
            return definition is not None and _gives(self._text(definition), module=value.module)
        if isinstance(value, (External, Imported, Pending)):
            return False
        if isinstance(value, Const):
            # A sentence names no device.
            return " " not in str(value.value) and relevance.decides(self.machine, value)
        held = relevance.inside(self.machine, value) if depth < _DEEPEST else []
        if held is None:
            return relevance.decides(self.machine, value)
        return any(self._is_beginning(each, depth + 1) for each in held)


def _bases(value: Value) -> Iterator[Class]:
    """All classes that one derives from."""
    for base in value.bases if isinstance(value, Class) else ():
        if isinstance(base, Class):
            yield base
            yield from _bases(base)


def _is_beginning(statement: str) -> bool:
    """The same of what a statement of another file defines."""
    said = read(statement)
    return _gives(said, module=said.is_class)


def _gives(said: Text, module: bool) -> bool:
    """Whether what is found may begin where it is used.

    A module is looked at by itself with all that it may be given. But it may give tensors, and tell what others are.
    """
    return said.makes_tensors or said.packs if module else said.begins
