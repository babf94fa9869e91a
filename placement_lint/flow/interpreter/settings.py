"""Assignments under unknown names: any setting or part of their owner may have another value afterwards."""

from __future__ import annotations

from collections.abc import Collection

import libcst as cst

from placement_lint.flow.domain.arguments import Arguments
from placement_lint.flow.domain.path_condition import answered
from placement_lint.flow.domain.values import (
    NONE,
    Const,
    Device,
    Kind,
    Mapping,
    Object,
    Role,
    Symbol,
    Tensor,
    Value,
    alternatives,
)
from placement_lint.flow.interpreter import attributes, subscripts
from placement_lint.flow.models import attribute_dicts, modules, optimizers, unregistered
from placement_lint.flow.state import options
from placement_lint.flow.state.containers import entries
from placement_lint.flow.state.machine import Machine
from placement_lint.source.wording import source_text


def assign_some(
    machine: Machine,
    owner: Value,
    name: cst.CSTNode,
    value: Value,
    node: cst.CSTNode,
    others: Collection[object],
) -> Value:
    """Assign an attribute of unknown name, none of ``others``: each of the kind of ``value`` may have been replaced."""
    forget(machine, owner, others=others)
    options = [option for _, option in alternatives(value)]
    brings_part = any(modules.is_module(machine, option) for option in options)
    if isinstance(owner, Symbol) and modules.is_module(machine, owner) and brings_part:
        optimizers.replaced(machine, owner, f"[{source_text(name)}]", None, value, node)
    if not isinstance(owner, Object):
        return NONE
    if attribute_dicts.has_entries_as_attributes(machine, owner):
        subscripts.write(machine, owner, machine.fresh(name), value, node, name)
        return NONE
    is_part = owner.kind is Kind.MODULE and brings_part
    if machine.constructing(owner):
        if is_part:
            attributes.write(machine, owner, f"part {len(machine.store.held(owner.id))}", value, node, node)
        elif owner.kind is Kind.MODULE:
            _register_parameter(machine, owner, value)
        return NONE
    if is_part:
        optimizers.replaced(machine, owner, f"[{source_text(name)}]", None, value, node)
        _replace_some_part(machine, owner, value)
    elif any(isinstance(option, (Tensor, Symbol)) for option in options):
        modules.misplace_some_tensor(machine, owner, value)
    return NONE


def _register_parameter(machine: Machine, owner: Object, value: Value) -> None:
    """A Parameter is assigned under a name that is put together, as in a loop over the layers of a list."""
    if not isinstance(value, Tensor) or value.role is not Role.PARAMETER:
        return
    machine.write(owner.id, f"part {machine.new_id()}", value)
    for layer in unregistered.registered_by_parts(machine, owner, value, all_alike=True):
        machine.write(owner.id, f"part {machine.new_id()}", layer)


def _replace_some_part(machine: Machine, owner: Object, value: Value) -> None:
    for name, held in machine.store.held(owner.id):
        if any(modules.is_module(machine, option) for _, option in alternatives(held)):
            this = answered(machine.opaque(), True)
            machine.write(owner.id, name, machine.either(((this, value), (this.negation, held))))


def update(machine: Machine, settings: Symbol | Object, method: str, arguments: Arguments, node: cst.Call) -> None:
    """``self.__dict__.update(options)`` assigns the known attributes; after other calls, any may have changed."""
    owner = options.owner_of(machine, settings)
    plain = owner is not None and not modules.is_module(machine, owner)
    given = entries(machine, arguments.get(0) or Mapping(())) if plain and method == "update" else None
    known = {key: value for key, value in given.items if isinstance(key, str)} if given is not None else {}
    known |= arguments.keywords if given is not None else {}
    if given is None or given.rest is not None or arguments.spread:
        forget(machine, settings, others=known)
    for name, value in known.items():
        attributes.write(machine, owner or settings, name, value, node, name)


# Maximum nesting of groups of settings: ``cfg.MODEL.HEAD.NAME``.
_DEEPEST_SETTINGS = 4


def forget(machine: Machine, owner: Value, depth: int = 0, text: str = "", others: Collection[object] = ()) -> None:
    """An unknown attribute of a configuration, none of ``others``, is assigned: its settings are no longer certain.

    The previous value becomes the default. Assigning an item of ``owner.__dict__`` assigns an attribute, too.
    """
    owner = options.owner_of(machine, owner) or owner
    if isinstance(owner, Object) and attribute_dicts.has_entries_as_attributes(machine, owner):
        attribute_dicts.forget_entries(machine, owner, others)
    is_group = isinstance(owner, Symbol) or (isinstance(owner, Object) and owner.kind is Kind.INSTANCE)
    if not isinstance(owner, (Object, Symbol)) or not is_group or depth == _DEEPEST_SETTINGS:
        return
    label = text or machine.label(owner)
    # The label of an unnamed value is the call that created it, which is not a name.
    label = "" if label.endswith(")") else label
    for name in [name for name in machine.store.variables(owner.id) if name[0] != "[" and name not in others]:
        value, said = machine.read(owner.id, name), f"{label}.{name}" if label else name
        if isinstance(value, Const):
            machine.override(owner.id, name, said, value)
        elif isinstance(value, Symbol) and value.preferred is None:
            forget(machine, value, depth + 1, said)
        elif value is not None and any(isinstance(option, (Const, Device)) for _, option in alternatives(value)):
            machine.write(owner.id, name, machine.fresh(name))
