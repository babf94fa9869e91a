"""Assignments to `requires_grad`, or to a misspelling of it."""

from __future__ import annotations

import libcst as cst

from placement_lint.flow.domain.path_condition import answered
from placement_lint.flow.domain.values import Class, Kind, Object, Role, Symbol, Tensor, Value
from placement_lint.flow.events.schema import GradFlagAssigned
from placement_lint.flow.interpreter import builtins
from placement_lint.flow.models import gradients, modules, trainable
from placement_lint.flow.state.classes import find, resolution_order
from placement_lint.flow.state.machine import Machine
from placement_lint.flow.state.module_notes import ModuleNotes
from placement_lint.source.querying import attributes_read
from placement_lint.source.wording import source_text


def check(machine: Machine, owner: Value, name: str, node: cst.CSTNode, text: str | cst.CSTNode) -> None:
    """Emit an event for an assignment to ``requires_grad``, or to a misspelling of it, on a module or tensor."""
    on_module = _is_surely_module(machine, owner)
    if not on_module and not isinstance(owner, Tensor):
        return
    if isinstance(owner, Object) and (_is_option(machine, owner) or _defines(machine, owner, name)):
        return
    label = source_text(text)
    leaf = isinstance(owner, Tensor) and (owner.role is Role.PARAMETER or bool(owner.uid))
    written, thing = source_text(_written(node)), label.removesuffix(f".{name}")
    machine.emit(
        GradFlagAssigned(node, machine.scene, label, thing, name, written, on_module, leaf, _before(machine, owner))
    )


def _before(machine: Machine, owner: Value) -> bool | None:
    """The flag that a tensor, or all parameters of a module, had until now; None if that is unknown."""
    if isinstance(owner, (Object, Symbol)):
        return trainable.present_flag(machine, owner)
    plain = isinstance(owner, Tensor) and owner.role is Role.PLAIN and gradients.are_not_asked_for(machine, owner)
    return False if plain else None


def _written(node: cst.CSTNode) -> cst.CSTNode:
    """The expression that a statement assigns, or that is passed to ``setattr``."""
    if isinstance(node, (cst.Assign, cst.AnnAssign, cst.AugAssign)) and node.value is not None:
        return node.value
    return node.args[2].value if isinstance(node, cst.Call) and len(node.args) > 2 else node


def _is_surely_module(machine: Machine, value: Value) -> bool:
    if isinstance(value, Symbol):
        classes = machine.notes[ModuleNotes].modules_by_test.get(value.id, ())
        tests = (builtins.class_question(machine, value, cls) for cls in classes)
        return value.id in machine.notes[ModuleNotes].modules_by_name or any(
            machine.path.implies(answered(test, True)) for test in tests
        )
    return isinstance(value, Object) and value.kind in (Kind.MODULE, Kind.WRAPPER)


def _is_option(machine: Machine, owner: Object) -> bool:
    """Whether an ``__init__`` may only store an option: its class extends no layer, so it has no weights to freeze."""
    return machine.constructing(owner) and not (isinstance(owner.cls, Class) and modules.extends_layer(owner.cls))


def _defines(machine: Machine, owner: Object, name: str) -> bool:
    if machine.read(owner.id, name) is not None:
        return True
    return isinstance(owner.cls, Class) and (
        find(machine, owner.cls, name) is not None or _reads(machine, owner.cls, name)
    )


def _reads(machine: Machine, cls: Class, name: str) -> bool:
    """Whether the methods of a class read an attribute: then it is a flag of that class."""
    return any(name in attributes_read(machine.definition(one), "self") for one in resolution_order(cls))
