"""Modules of the project: the values that imports bind, and the names of other files.

A name of another file is evaluated on demand: the statements of that file that bind it run in its own scope and with
the program's initial state, and so do those for the names that they read. Names that are not read cost nothing, and
circular imports need no special case.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence, Set
from collections.abc import Mapping as Table
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Any

import libcst as cst

from placement_lint.flow.api.torch_names import KNOWN_NAMES, STAR_MODULES, canonical
from placement_lint.flow.domain import partial_text
from placement_lint.flow.domain.path_condition import Question, answered
from placement_lint.flow.domain.record import replace
from placement_lint.flow.domain.values import (
    FALSE,
    MAX_CALLABLES,
    NONE,
    TRUE,
    AtLeast,
    Bound,
    Choice,
    Class,
    Const,
    External,
    Function,
    Imported,
    Kind,
    Mapping,
    Object,
    Pending,
    Symbol,
    Value,
    alternatives,
)
from placement_lint.flow.domain.values import Sequence as Items
from placement_lint.flow.state.heap import ITEMS, MAPPING
from placement_lint.flow.state.machine import Machine
from placement_lint.flow.state.notes import Notes, Use, noted, with_entries
from placement_lint.flow.state.program import Program
from placement_lint.project.finder import Place, Surroundings
from placement_lint.project.index import Import, Lines
from placement_lint.project.registered import registered_in
from placement_lint.project.relevance import Relevance, Wanted
from placement_lint.project.unit import Unit
from placement_lint.source.wording import source_text


@dataclass
class Imports(Notes):
    """The imports of the frames of modules."""

    # by the frame of a module: its star imports
    stars: dict[int, list[Import]] = noted(dict, Use.LASTING)


Execute = Callable[[Machine, Sequence[cst.CSTNode]], None]

# The number of calls that running statements of other files may cost in total.
_FUEL = 60_000
# A package may have hundreds of modules with ``import *``, and a name that it lacks is in none of them.
_SEARCHES = 400


# The state of other modules, which grows as more of them runs, and the remaining budget for them.
_IMPORTED = ("modules", "places", "units", "loaded", "executed", "gathered", "searches", "fuel")


@dataclass
class Project:
    """The modules that a program was found to import, by the paths of their files."""

    around: Surroundings
    execute: Execute
    modules: dict[str, Imported] = field(default_factory=dict)
    # by frame
    places: dict[int, Place] = field(default_factory=dict)
    units: dict[int, Unit | None] = field(default_factory=dict)
    # names that were loaded, and the statements that ran
    loaded: set[tuple[int, str]] = field(default_factory=set)
    executed: set[tuple[int, Lines]] = field(default_factory=set)
    resolving: list[tuple[int, str]] = field(default_factory=list)
    # the number of modules that may still be searched for names of ``import *``, and the modules that had some
    searches: int = _SEARCHES
    gathered: dict[tuple[int, str], Imported] = field(default_factory=dict)
    running: int = 0
    fuel: int = _FUEL
    # the number of queries about the files around the program's file
    asked: int = 0

    @property
    def surroundings(self) -> Surroundings:
        """The files around the program's file; counts the request."""
        self.asked += 1
        return self.around

    @property
    def relevance(self) -> Relevance:
        """The definitions that matter there; counts the request, too."""
        self.asked += 1
        return self._relevance

    @cached_property
    def _relevance(self) -> Relevance:
        return Relevance(self.around)

    @property
    def imported(self) -> dict[str, Any]:
        """The state of other modules: the statements that ran, and the names looked up there."""
        around = {"statements": self.around.statements, "folders": self.around.folders}
        return around | {name: vars(self)[name] for name in _IMPORTED}

    def imports_again(self, imported: Table[str, Any]) -> None:
        """Add this state of other modules."""
        for name, entries in self.imported.items():
            if name in imported:
                with_entries(entries, imported[name])
        self.searches, self.fuel = imported.get("searches", self.searches), imported.get("fuel", self.fuel)


def begin(machine: Machine, surroundings: Surroundings, execute: Execute) -> None:
    """The program's own file is a module too: others may import it."""
    project = machine.project = Project(surroundings, execute)
    place = Place(surroundings.path)
    project.modules[place.path] = Imported(machine.module_frame, "__main__")
    project.places[machine.module_frame] = place
    project.units[machine.module_frame] = None


def running_file(machine: Machine) -> str:
    """The path of the file whose code is running; empty if a program is analysed alone."""
    return machine.project.places[machine.root(machine.frame.id)].path if machine.project is not None else ""


def running_module(machine: Machine) -> Imported:
    """The module whose code is running: ``globals()``, ``sys.modules[__name__]``."""
    return Imported(machine.root(machine.frame.id), "__main__")


def note_use(machine: Machine, callee: Value, call: cst.Call) -> None:
    """Record that a plain function of another file is called, and where."""
    function = callee.function if isinstance(callee, Bound) else callee
    if machine.project is None or not isinstance(function, Function):
        return
    root, owner = machine.root(function.frame), function.owner
    if root != machine.module_frame and not (owner is not None and owner.module):
        name = (machine.project.places[root].path, owner.name if owner is not None else "", function.name)
        machine.notes[Program].uses.setdefault(name, set()).add(machine.site or call)


# --- values of imports -------------------------------------------------------------------------------------


# The oldest version of Python that programs are expected to run on.
PYTHON = (3, 8)
VERSION = "sys.version_info"
_VERSION_PARTS = (f"{VERSION}.major", f"{VERSION}.minor")
# Names of libraries whose values are constants.
_CONSTANTS: dict[str, Value] = {
    _VERSION_PARTS[0]: Const(PYTHON[0]),
    _VERSION_PARTS[1]: AtLeast(PYTHON[1]),
    "six.PY2": FALSE,
    "six.PY3": TRUE,
    "typing.TYPE_CHECKING": FALSE,
    "typing_extensions.TYPE_CHECKING": FALSE,
    **{
        f"accelerate.{module}DistributedType.{name}": Const(name)
        for module in ("", "state.", "utils.", "utils.dataclasses.")
        for name in ("NO", "MULTI_CPU", "MULTI_GPU", "MULTI_XPU", "MULTI_NPU", "DEEPSPEED", "FSDP", "MEGATRON_LM")
    },
}


def library(name: str) -> Value:
    """A name of a library, by its full name."""
    return _CONSTANTS.get(name) or External(canonical(name))


def item(name: str, index: int) -> Value | None:
    """An item of a library's tuple; None if it is unknown."""
    return library(_VERSION_PARTS[index]) if name == VERSION and index in range(len(_VERSION_PARTS)) else None


def bound(machine: Machine, wanted: Import) -> Value:
    """The value that an import binds, in the file whose code is running."""
    return _bound(machine, wanted, machine.root(machine.frame.id))


def _bound(machine: Machine, wanted: Import, frame: int) -> Value:
    module = _find(machine, wanted, frame)
    if wanted.name is None:
        return module or library(wanted.module.partition(".")[0] if wanted.root else wanted.module)
    name = ".".join(part for part in (wanted.module, wanted.name) if part)
    name = "." * wanted.level + name
    return Pending(module, wanted.name, name) if module is not None else library(name)


def star(machine: Machine, wanted: Import, frame: int) -> None:
    """``from module import *``: its names are looked up there when they are read."""
    machine.notes[Imports].stars.setdefault(frame, []).append(wanted)
    if machine.project is not None:
        machine.project.gathered.clear()


def asks_for_gpus(machine: Machine, several: Iterator[Import]) -> bool:
    """Whether an import of the program's file runs a file whose top level initialises CUDA."""
    around = machine.project.surroundings if machine.project is not None else None
    return around is not None and any(unit.index.asks_for_gpus for each in several for unit in around.run_by(each))


def is_missing(machine: Machine, wanted: Import) -> bool | None:
    """Whether an import surely fails: True for a file that should be in the project, None for a possible library."""
    if machine.project is None:
        return None
    module = _find(machine, wanted, machine.root(machine.frame.id))
    if module is None:
        return True if wanted.level else None
    found = wanted.name in (None, "*") or _provides(machine, module, wanted.name or "")
    return False if found else None


def _find(machine: Machine, wanted: Import, frame: int, name: str = "") -> Imported | None:
    """The module that an import leads to from the file of a module's frame, if it can have that name."""
    project = machine.project
    if project is None:
        return None
    importer = project.places[frame]
    place = project.surroundings.find(wanted, importer.path if importer.is_file else os.path.join(importer.path, "_"))
    if place is None or not _may_bind(project, place, name):
        return None
    return _module(machine, project, place, wanted.module)


def _may_bind(project: Project, place: Place, name: str) -> bool:
    unit = project.surroundings.unit(place.path) if place.is_file else None
    return unit is None or project.surroundings.may_bind(unit, name)


def _module(machine: Machine, project: Project, place: Place, name: str) -> Imported:
    known = project.modules.get(place.path)
    if known is None:
        known = project.modules[place.path] = Imported(machine.new_frame(None), name)
        project.places[known.frame] = place
        unit = project.surroundings.unit(place.path) if place.is_file else None
        project.units[known.frame] = unit
        machine.store.write_lasting(known.frame, "__name__", Const(name))
        for line in project.surroundings.stars(unit) if unit is not None else ():
            star(machine, line, known.frame)
    return known


# --- names of other files ------------------------------------------------------------------------------------


def resolved(machine: Machine, value: Value) -> Value:
    """The value of a use: a name that was only imported so far is looked up now."""
    if isinstance(value, Pending):
        found = attribute(machine, value.module, value.name)
        return found if found is not None else library(value.library)
    if isinstance(value, Choice) and any(isinstance(option, Pending) for _, option in value.alternatives):
        return machine.either([(guard, resolved(machine, option)) for guard, option in value.alternatives])
    return value


def attribute(machine: Machine, module: Imported, name: str) -> Value | None:
    """``module.name``: the value that its file binds, or a submodule."""
    value = member(machine, module.frame, name)
    return value if value is not None else _submodule(machine, module, name)


def member(machine: Machine, frame: int, name: str) -> Value | None:
    """The value that the file of a module's frame binds to a name, itself or by ``import *``; None if it has none."""
    project = machine.project
    own = machine.read(frame, name) if frame == machine.module_frame else None
    if project is None:
        return own if own is not None else _starred(machine, frame, name)
    if (frame, name) in project.resolving:
        return None
    project.resolving.append((frame, name))
    try:
        if own is None:
            load(machine, frame, name)
        value = own if own is not None else machine.read(frame, name)
        return resolved(machine, value) if value is not None else _starred(machine, frame, name)
    finally:
        project.resolving.pop()


def _starred(machine: Machine, frame: int, name: str) -> Value | None:
    project = machine.project
    known = project.gathered.get((frame, name)) if project is not None else None
    if known is not None and (value := _exported(machine, known, name)) is not None:
        return value
    for line in reversed(machine.notes[Imports].stars.get(frame, [])):
        if project is not None:
            project.searches -= 1
            if project.searches < 0:
                return None
        module = _find(machine, line, frame, name)
        if module is None:
            full = canonical(f"{line.module}.{name}")
            if line.module in STAR_MODULES and full in KNOWN_NAMES:
                return External(full)
        elif (value := _exported(machine, module, name)) is not None:
            # A nested search skips the names that the outer one is resolving, so its result is not cached.
            if project is not None and len(project.resolving) == 1:
                project.gathered[frame, name] = module
            return value
    return None


def _exported(machine: Machine, module: Imported, name: str) -> Value | None:
    """The value that ``import *`` binds to a name: a submodule only if ``__all__`` names it."""
    exports = _exports(machine, module)
    if exports is None:
        return member(machine, module.frame, name) if not name.startswith("_") else None
    return attribute(machine, module, name) if name in exports else None


def _exports(machine: Machine, module: Imported) -> Set[str] | None:
    project = machine.project
    unit = project.units[module.frame] if project is not None else None
    return project.surroundings.exports(unit) if project is not None and unit is not None else None


def _provides(machine: Machine, module: Imported, name: str) -> bool:
    project = machine.project
    unit = project.units[module.frame] if project is not None else None
    if project is not None and unit is not None and project.surroundings.bindings(unit, name):
        return True
    return attribute(machine, module, name) is not None


def _submodule(machine: Machine, module: Imported, name: str) -> Imported | None:
    project = machine.project
    assert project is not None
    place = project.surroundings.submodule(project.places[module.frame], name)
    return _module(machine, project, place, f"{module.name}.{name}") if place is not None else None


def assign(machine: Machine, module: Imported, name: str, value: Value) -> None:
    """``module.name = value``"""
    load(machine, module.frame, name)
    machine.write(module.frame, name, value)


def chosen(machine: Machine, module: Imported, key: Value, written: cst.CSTNode | None = None) -> Value:
    """``getattr(module, key)``: one of the module's members, each under the condition that the key is its name.

    Only its functions and classes count, or only its module classes if there are any, or only its functions if the
    program's default is one. Names that it imports from a library, as ``from torch.nn import Parameter``, are for its
    own use.
    """
    if isinstance(key, Const):
        found = attribute(machine, module, key.value) if isinstance(key.value, str) else None
        return found if found is not None else machine.fresh()
    names = _offered(machine, module, set())
    values = {name: attribute(machine, module, name) for name in names} if len(names) <= _MOST_OFFERED else {}
    # A function that looks up a name in its own file does not mean itself.
    running = [frame.function for frame in machine.frames]
    values = {name: value for name, value in values.items() if value not in running}
    callables = {name: value for name, value in values.items() if isinstance(value, (Class, Function))}
    by_default = callables.get(partial_text.letters(key))
    if isinstance(by_default, Function):
        callables = {name: value for name, value in callables.items() if isinstance(value, Function)}
    elif any(_is_module(value) for value in callables.values()):
        callables = {name: value for name, value in callables.items() if _is_module(value) is not False}
    if not callables or len(callables) > MAX_CALLABLES:
        return machine.fresh()
    options = []
    for name, value in callables.items():
        question = is_key(machine, key, name, written)
        question.say(by_name=True)
        options.append((answered(question, True), value))
    return machine.either(options)


def is_key(machine: Machine, key: Value, name: object, written: cst.CSTNode | None = None) -> Question:
    """Whether a computed key or name is this one; without words if the program has none for the key."""
    source = source_text(key.source) if isinstance(key, Symbol) else ""
    source = source or (source_text(written) if written is not None else "")
    return machine.equality(key, Const(name), f"{source} == {name!r}" if source else "")


# Past this many names of a module, it is not decided which of them is meant.
_MOST_OFFERED = 64


def _is_module(value: Value | None) -> bool | None:
    """Whether it is the class of a module; None for a function, which may return one."""
    return value.module if isinstance(value, Class) else None


def _offered(machine: Machine, module: Imported, seen: set[int]) -> dict[str, None]:
    """The names that other files may read from a module, including those of its star imports."""
    if module.frame == machine.module_frame:
        return dict.fromkeys(machine.store.variables(module.frame))
    project = machine.project
    unit = project.units[module.frame] if project is not None else None
    if project is None or unit is None or module.frame in seen:
        return {}
    seen.add(module.frame)
    names = dict.fromkeys(project.surroundings.offers(unit))
    if project.surroundings.exports(unit) is None:
        for line in machine.notes[Imports].stars.get(module.frame, []):
            inner = _find(machine, line, module.frame)
            names |= _offered(machine, inner, seen) if inner is not None else {}
    return names


def members(machine: Machine, module: Imported) -> Mapping:
    """What ``module.__dict__`` shows of a module: the functions and classes that its own file defines.

    What it imports is for its own use.
    """
    project = machine.project
    unit = project.units[module.frame] if project is not None else None
    if project is None or unit is None:
        return Mapping((), machine.fresh())
    names = project.surroundings.offers(unit)
    own = [name for name in names if isinstance(project.surroundings.bindings(unit, name)[-1], Lines)]
    values = [(name, member(machine, module.frame, name)) for name in own[:_MOST_OFFERED]]
    return Mapping(tuple((name, value) for name, value in values if isinstance(value, (Class, Function))))


# The number of imported files in which registered classes are searched, and of classes that may be found.
_REACHED, _MOST_REGISTERED = 400, 64


def registered_with(machine: Machine, registry: Object) -> list[tuple[int, str]]:
    """The classes of other files that a decorator registers with a registry: the frames of their modules, and names.

    A file runs if the program, or a file that runs, imports it. The registry is known by its names at the top level of
    the files that were read.
    """
    project = machine.project
    if project is None:
        return []
    frames = [module.frame for module in project.modules.values()]
    names = {
        name
        for frame in frames
        for name in machine.store.names(frame)
        if isinstance(name, str) and _holds(machine, frame, name, registry)
    }
    found = []
    around = project.surroundings
    for unit in islice(around.reached(around.program), _REACHED):
        if classes := registered_in(unit, names):
            place = Place(unit.path)
            module = _module(machine, project, place, os.path.basename(unit.path).partition(".")[0])
            found += [(module.frame, name) for name in classes]
    return found if len(found) <= _MOST_REGISTERED else []


def _holds(machine: Machine, frame: int, name: str, registry: Object) -> bool:
    return any(option == registry for _, option in alternatives(machine.store.read(frame, name) or NONE))


# --- running statements of other files -------------------------------------------------------------------------


def load(machine: Machine, frame: int, name: str) -> None:
    """Run the statements that bind a name at the top level of a module, once."""
    project = machine.project
    unit = project.units.get(frame) if project is not None else None
    if project is None or unit is None or (frame, name) in project.loaded:
        return
    project.loaded.add((frame, name))
    for binding in project.surroundings.bindings(unit, name):
        if isinstance(binding, Import):
            machine.store.write_lasting(frame, name, _bound(machine, binding, frame))
        elif (frame, binding) not in project.executed:
            project.executed.add((frame, binding))
            _run(machine, project, unit, frame, binding)
    _forget_what_functions_change(machine, project, unit, frame, name)


def _run(machine: Machine, project: Project, unit: Unit, frame: int, lines: Lines) -> None:
    statement = project.surroundings.statement(unit, lines)
    if statement is None:
        return
    body = statement.tree.body
    with machine.apart(frame), _fuel(machine, project):
        machine.scope("module", lambda: project.execute(machine, body))


def matters(machine: Machine, function: Function) -> bool:
    """Whether a function may involve tensors; assumed of one in this file, or in another function."""
    return _may(machine, function, Relevance.matters)


def may_move(machine: Machine, function: Function) -> bool:
    """Whether a function may move its arguments; assumed of one in this file, or in another function."""
    return _may(machine, function, Relevance.may_move)


def _may(machine: Machine, function: Function, may: Callable[[Relevance, Unit, Lines], bool]) -> bool:
    project = machine.project
    unit = project.units.get(function.frame) if project is not None else None
    if project is None or unit is None:
        return True
    name = function.owner.name if function.owner is not None else function.name
    bindings = project.surroundings.bindings(unit, name)
    lines = [binding for binding in bindings if isinstance(binding, Lines)]
    return not lines or any(may(project.relevance, unit, each) for each in lines)


def leads_to(machine: Machine, value: Imported | Pending, words: Set[str], wanted: Wanted) -> bool:
    """Whether an imported name leads to a statement of another file that is wanted, by its text.

    ``words`` are those of the code that uses the name; see :meth:`Relevance.leads_to`.
    """
    project = machine.project
    module, name = (value.module, value.name) if isinstance(value, Pending) else (value, None)
    return project is not None and project.relevance.leads_to(
        project.places[module.frame], name, frozenset(words), wanted
    )


def stars_lead_to(machine: Machine, words: Set[str], wanted: Wanted) -> bool:
    """The same for the names among these words that ``from module import *`` brings."""
    project, frame = machine.project, machine.module_frame
    modules = [_find(machine, line, frame) for line in machine.notes[Imports].stars.get(frame, [])]
    places = [project.places[module.frame] for module in modules if project is not None and module is not None]
    return project is not None and project.relevance.stars_lead_to(places, frozenset(words), wanted)


@contextmanager
def _fuel(machine: Machine, project: Project) -> Iterator[None]:
    """Other files have a budget of their own, so that the result does not depend on the importing code."""
    before = machine.budget.fuel
    machine.budget.fuel = machine.budget.fuel if project.running else project.fuel
    project.running += 1
    try:
        yield
    finally:
        project.running -= 1
        if not project.running:
            project.fuel, machine.budget.fuel = machine.budget.fuel, before


def _forget_what_functions_change(machine: Machine, project: Project, unit: Unit, frame: int, name: str) -> None:
    """Make names unknown that functions of another file assign: not all of its callers are analysed."""
    if project.surroundings.is_rebound(unit, name):
        with machine.apart(frame):
            machine.write(frame, name, machine.part(frame, name, name))
    elif project.surroundings.is_changed(unit, name) and isinstance(value := machine.read(frame, name), Object):
        with machine.apart(frame):
            mapping, items = machine.read(value.id, MAPPING), machine.read(value.id, ITEMS)
            if value.kind is Kind.DICT and isinstance(mapping, Mapping):
                machine.write(value.id, MAPPING, replace(mapping, rest=machine.fresh()))
            elif value.kind is Kind.LIST and isinstance(items, Items):
                machine.write(value.id, ITEMS, replace(items, exact=False))
