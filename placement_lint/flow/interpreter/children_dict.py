"""``module._modules``: the dict of a module's children by their names (torch/nn/modules/module.py)."""

from __future__ import annotations

import libcst as cst

from placement_lint.flow.domain.arguments import Arguments
from placement_lint.flow.domain.values import Bound, Const, Object, Sequence, Symbol, Value
from placement_lint.flow.interpreter import attributes, calls, settings, subscripts
from placement_lint.flow.models import modules
from placement_lint.flow.state.machine import Machine

# The method of the module that lists the same.
_LISTS = {"items": "named_children", "values": "children"}


def owner_of(machine: Machine, value: Value) -> Object | Symbol | None:
    """The module whose dict of children this is."""
    owner = value.receiver if isinstance(value, Bound) and value.name == "_modules" else None
    return owner if isinstance(owner, (Object, Symbol)) and modules.is_module(machine, owner) else None


def read(machine: Machine, module: Object | Symbol, key: Value, node: cst.CSTNode) -> Value:
    """``module._modules[key]``"""
    known = dict(modules.children(machine, module)) if isinstance(module, Object) else {}
    if isinstance(key, Const) and key.value in known:
        return known[key.value]
    part = machine.part(module.id, ("item", key), node, module)
    modules.treat_as_module(machine, part)
    return part


def write(
    machine: Machine, module: Object | Symbol, key: Value, value: Value, node: cst.CSTNode, text: str | cst.CSTNode
) -> None:
    """``module._modules[key] = value``: like ``setattr(module, key, value)``, and an item of a container."""
    if isinstance(key, Const) and isinstance(key.value, str):
        items = modules.stored_items(machine, module) if isinstance(module, Object) else None
        if isinstance(items, Sequence) and key.value.isdigit():
            subscripts.write(machine, module, Const(int(key.value)), value, node, text)
        else:
            attributes.write(machine, module, key.value, value, node, text)
    else:
        name = text.slice[0] if isinstance(text, cst.Subscript) else node
        settings.assign_some(machine, module, name, value, node, ())


def call_method(
    machine: Machine, module: Object | Symbol, name: str, arguments: Arguments, node: cst.Call
) -> Value | None:
    """``module._modules.items()``; None for a method that is not known."""
    if name == "get" and (key := arguments.get(0)) is not None:
        return read(machine, module, key, node)
    return calls.call(machine, Bound(module, _LISTS[name], node=node), Arguments(), node) if name in _LISTS else None
