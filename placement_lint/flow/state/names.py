"""Names: how they are bound, looked up and imported."""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from placement_lint.flow.domain.values import Const, External, Object, Symbol, Value, alternatives
from placement_lint.flow.state import imports
from placement_lint.flow.state.machine import Machine
from placement_lint.flow.state.notes import Notes, Use, noted
from placement_lint.project.index import Import


@dataclass
class Names(Notes):
    """Names whose values come from other files."""

    # by the id of the value of a flag of another file, which any file may have changed: its value in the source
    flags: dict[int, object] = noted(dict)
    homes: dict[tuple[int, str], int] = noted(dict, Use.LASTING)


_BUILTINS = frozenset(dir(builtins))


def bind(machine: Machine, name: str, value: Value) -> None:
    """Assign a variable of the running frame (or of the one a ``global`` statement named)."""
    machine.write(_home(machine, name), name, value)
    christen(machine, value, name)


def christen(machine: Machine, value: Value, name: str | cst.CSTNode) -> None:
    """Record the name under which the program first binds an object that it has made: messages use it."""
    if isinstance(value, Object) and not machine.constructing(value):
        machine.call_it(value.id, name)


def declare_global(machine: Machine, name: str, nonlocal_: bool) -> None:
    """``global x`` and ``nonlocal x``: assignments go to the frame that has it."""
    frame = machine.frame.id
    module = machine.root(frame)
    home = machine.namespaces.parents.get(frame) if nonlocal_ else module
    imports.load(machine, module, name)
    machine.notes[Names].homes[(frame, name)] = module if home is None else home


def _home(machine: Machine, name: str) -> int:
    frame = machine.frames[-1].id
    return machine.notes[Names].homes.get((frame, name), frame) if machine.notes[Names].homes else frame


def lookup(machine: Machine, name: str, runs: bool = False) -> Value:
    """A name's value: local, enclosing, module level, star imports, builtins; else unknown but equal to itself.

    If the program ``runs`` the name, it raises if no branch bound it.
    """
    frame: int | None = _home(machine, name)
    module = machine.module_frame
    while frame is not None:
        value = machine.variable(frame, name) if runs else machine.read(frame, name)
        if value is not None:
            return _turned(machine, frame, name, imports.resolved(machine, value))
        module, frame = frame, machine.namespaces.parents.get(frame)
    value = imports.member(machine, module, name)
    if value is not None:
        return _turned(machine, module, name, value)
    if name in _BUILTINS:
        return External(f"builtins.{name}")
    return machine.part(module, name, name)


def _turned(machine: Machine, frame: int, name: str, value: Value) -> Value:
    """The value that a function of another file reads: any file may have changed a flag, as ``cuda.ENABLED = True``."""
    if not isinstance(value, Const) or not isinstance(value.value, bool) or frame == machine.module_frame:
        return value
    if frame != machine.root(machine.frame.id) or frame == machine.frame.id:
        return value
    flag = machine.part(frame, name, name)
    machine.notes[Names].flags[flag.id] = value.value
    return flag


def is_bound_here(machine: Machine, name: str) -> bool:
    """Whether an assignment to the name, here, changes an existing variable."""
    return machine.read(_home(machine, name), name) is not None


def value_of(machine: Machine, source: cst.BaseExpression) -> Value | None:
    """The value of a name, or of an attribute reached from one, found without running anything."""
    if isinstance(source, cst.Name):
        return lookup(machine, source.value)
    if isinstance(source, cst.Attribute):
        owner = value_of(machine, source.value)
        return machine.read(owner.id, source.attr.value) if isinstance(owner, (Object, Symbol)) else None
    return None


def name_of(machine: Machine, value: Value) -> str:
    """A variable that holds this value here; empty if there is none."""
    frame: int | None = machine.frame.id
    while frame is not None:
        for name in machine.store.variables(frame):
            if name.isidentifier() and machine.read(frame, name) == value:
                return name
        frame = machine.namespaces.parents.get(frame)
    return ""


def names_of(machine: Machine, frame: int, value: Value) -> Iterator[str]:
    """The variables of a frame that have this value on some path."""
    for name in machine.store.variables(frame):
        known = machine.read(frame, name)
        if known is not None and any(option == value for _, option in alternatives(known)):
            yield name


def visible(machine: Machine) -> frozenset[str]:
    """The variables that have a value here, and the attributes of the running method's ``self``."""
    frame: int | None = machine.frame.id
    receiver = machine.frame.receiver
    names = {f"self.{name}" for name in machine.store.variables(receiver.id)} if isinstance(receiver, Object) else set()
    while frame is not None:
        names.update(machine.store.variables(frame))
        frame = machine.namespaces.parents.get(frame)
    return frozenset(names)


def spelled(machine: Machine, name: str) -> str:
    """This file's spelling of a library's name, by its imports at the top level; empty if it has none."""
    frame = machine.root(machine.frame.id)
    variables = [(variable, machine.read(frame, variable)) for variable in machine.store.variables(frame)]
    spellings = [
        variable + name.removeprefix(value.name)
        for variable, value in variables
        if isinstance(value, External) and f"{name}.".startswith(f"{value.name}.")
    ]
    return min(spellings, key=len, default="")


def import_name(machine: Machine, alias: cst.ImportAlias) -> None:
    """``import a.b`` binds ``a``; ``import a.b as c`` binds ``c`` to ``a.b``."""
    dotted = _dotted(alias.name)
    if alias.asname is None:
        bind(machine, dotted.partition(".")[0], imports.bound(machine, Import(0, dotted, root=True)))
    elif isinstance(alias.asname.name, cst.Name):
        bind(machine, alias.asname.name.value, imports.bound(machine, Import(0, dotted)))


def import_from(machine: Machine, node: cst.ImportFrom) -> None:
    """``from a import b as c``"""
    module, level = _dotted(node.module) if node.module else "", len(node.relative)
    if isinstance(node.names, cst.ImportStar):
        imports.star(machine, Import(level, module, "*"), machine.root(machine.frame.id))
        return
    for alias in node.names:
        target = alias.asname.name if alias.asname else alias.name
        if isinstance(target, cst.Name):
            bind(machine, target.value, imports.bound(machine, Import(level, module, _dotted(alias.name))))


def wanted(node: cst.Import | cst.ImportFrom) -> Iterator[Import]:
    """The imported names of an import statement."""
    if isinstance(node, cst.Import):
        yield from (Import(0, _dotted(alias.name)) for alias in node.names)
        return
    module, level = _dotted(node.module) if node.module else "", len(node.relative)
    names = ["*"] if isinstance(node.names, cst.ImportStar) else [_dotted(alias.name) for alias in node.names]
    yield from (Import(level, module, name) for name in names)


def _dotted(node: cst.BaseExpression) -> str:
    if isinstance(node, cst.Attribute):
        return f"{_dotted(node.value)}.{node.attr.value}"
    return node.value if isinstance(node, cst.Name) else ""
