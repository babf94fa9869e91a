"""What is assigned on a wrapper: it stays there, and the module inside goes on reading its own.

Neither DataParallel nor DistributedDataParallel passes an assignment on: ``nn.Module.__setattr__`` gives the wrapper
itself an attribute, a layer or a Parameter of that name.
"""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from placement_lint.flow.domain.arguments import Arguments
from placement_lint.flow.domain.path_condition import Condition
from placement_lint.flow.domain.record import replace
from placement_lint.flow.domain.values import (
    NONE,
    Class,
    Const,
    Function,
    Kind,
    Object,
    Role,
    Symbol,
    Tensor,
    Value,
    alternatives,
)
from placement_lint.flow.events.schema import WrapperAttributeWritten
from placement_lint.flow.models import modules, wrappers
from placement_lint.flow.state.accesses import Accesses
from placement_lint.flow.state.classes import class_id, find
from placement_lint.flow.state.machine import Machine
from placement_lint.flow.state.module_notes import ModuleNotes
from placement_lint.flow.state.notes import Notes, Use, noted
from placement_lint.rule import Note
from placement_lint.source.querying import assignments_in
from placement_lint.source.wording import source_text


@dataclass
class WrapperAttributes(Notes):
    """Attributes of wrappers."""

    # what is assigned on a wrapper (its id) around a module that has another of that name; the attributes of wrappers
    # that are read, and those of modules in one that are assigned
    writes: list[tuple[WrapperAttributeWritten, int, Object]] = noted(list, Use.AT_END)
    fields: set[tuple[int, str, Condition]] = noted(set, Use.AT_END)
    # modules of which the program may assign attributes under names that are not written out
    open: set[int] = noted(set, Use.AT_END)


def written(
    machine: Machine, wrapper: Object, name: str, value: Value, node: cst.CSTNode, text: str | cst.CSTNode
) -> None:
    """``wrapper.name = value``"""
    inner = machine.read(wrapper.id, modules.INNER)
    own = wrappers.has_attribute(machine, wrapper, name) or machine.constructing(wrapper)
    if inner is not None and not own:
        machine.lift(lambda module, new: _written(machine, wrapper, module, name, new, node, text), inner, value)


def _written(
    machine: Machine,
    wrapper: Object,
    module: Value,
    name: str,
    value: Value,
    node: cst.CSTNode,
    text: str | cst.CSTNode,
) -> Value:
    if not isinstance(module, Object) or module.kind is not Kind.MODULE:
        return NONE
    own = _own(machine, module, name)
    missing = own is None and _surely_lacks(machine, module, name)
    if missing or (
        own is not None and all(_differs(machine, option, value) for _, option in alternatives(machine.restrict(own)))
    ):
        kind = wrappers.kind_of(wrapper)
        wrapped = Note(wrapper.node, f"wrapped in {kind} here")
        label, part = source_text(text), _is_part(value)
        event = WrapperAttributeWritten(node, machine.scene, label, kind, name, wrapped, part, missing)
        machine.notes[WrapperAttributes].writes.append((event, wrapper.id, module))
    return NONE


def _own(machine: Machine, module: Object, name: str) -> Value | None:
    """What the module inside has under that name itself."""
    stored = machine.read(module.id, name)
    if stored is not None or not isinstance(module.cls, Class):
        return stored
    inherited = find(machine, module.cls, name)
    return None if isinstance(inherited, Function) else inherited


def _surely_lacks(machine: Machine, module: Object, name: str) -> bool:
    """Whether a module has no attribute of that name, unless something sets one later."""
    cls = module.cls
    if not isinstance(cls, Class) or not modules.registers_only_what_is_seen(machine, module):
        return False
    return all(find(machine, cls, each) is None for each in (name, *_HOOKS))


_HOOKS = ("__getattr__", "__getattribute__")


def _differs(machine: Machine, own: Value, value: Value) -> bool:
    """Whether the module surely has something else, at some time at least: what a loop computes changes."""
    if isinstance(value, Symbol):
        return isinstance(own, Const) and bool(machine.loops_around())
    if _is_part(value):
        return not _is_same(own, value)
    return isinstance(own, Const) and own != value


def _is_part(value: Value) -> bool:
    """Whether it is a layer or a Parameter."""
    if isinstance(value, Tensor):
        return value.role is Role.PARAMETER and bool(value.uid)
    return isinstance(value, Object) and value.kind is Kind.MODULE


def _is_same(own: Value, value: Value) -> bool:
    if isinstance(own, Tensor) and isinstance(value, Tensor):
        return own.uid == value.uid
    return own == value


def read(machine: Machine, wrapper: Object, name: str) -> None:
    """``wrapper.name``: the program may well keep something of its own there."""
    if not wrappers.has_attribute(machine, wrapper, name):
        machine.notes[WrapperAttributes].fields.add((wrapper.id, name, machine.path))


def may_be_written(machine: Machine, function: Function, arguments: Arguments) -> None:
    """A function that is not analysed may assign the attributes of a wrapper that it assigns of anything."""
    for value in arguments.values():
        if isinstance(value, Object) and value.kind is Kind.WRAPPER:
            for target, _ in assignments_in(function.node):
                if isinstance(target, cst.Attribute):
                    machine.write(value.id, target.attr.value, machine.fresh())


def written_inside(machine: Machine, module: Object, name: str) -> None:
    """``wrapper.module.name = value``, or the module itself assigns it: then what the wrapper has is something else."""
    if module.id in machine.notes[ModuleNotes].wraps:
        machine.notes[WrapperAttributes].fields.add((module.id, name, machine.path))


def any_may_be_written(machine: Machine, owner: Value) -> None:
    """``setattr(module, name, value)`` with an unknown name, ``module.__dict__``"""
    if isinstance(owner, Object) and owner.kind is Kind.MODULE:
        machine.notes[WrapperAttributes].open.add(owner.id)


def finish(machine: Machine) -> None:
    """What was assigned is missed where the module inside reads its own."""
    for event, wrapper, module in machine.notes[WrapperAttributes].writes:
        readers = machine.notes[Accesses].reads.get((class_id(module), event.name), {})
        nodes = dict.fromkeys(node for (node, _), updating in readers.items() if not updating)
        reads = tuple(Note(node, "read here") for node in nodes)
        if event.missing and module.id in machine.notes[WrapperAttributes].open | machine.notes[ModuleNotes].given_away:
            continue
        if reads and not _is_looked_after(machine, event, {wrapper, module.id}):
            machine.emit(replace(event, reads=reads, always=event.node not in machine.notes[Accesses].read_of_others))


def _is_looked_after(machine: Machine, event: WrapperAttributeWritten, owners: set[int]) -> bool:
    return any(
        owner in owners and name == event.name and not event.scene.when.excludes(path)
        for owner, name, path in machine.notes[WrapperAttributes].fields
    )
