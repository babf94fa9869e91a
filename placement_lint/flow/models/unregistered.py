"""Modules and Parameters that only a plain list, tuple or dict holds: nothing registers them."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from placement_lint.flow.api.torch_names import CONTAINERS, MODULE_ATTRIBUTES, NAMES_OF_PARAMETERS
from placement_lint.flow.domain.record import replace
from placement_lint.flow.domain.values import (
    NONE,
    External,
    Fact,
    Holder,
    Kind,
    Mapping,
    Object,
    Role,
    Sequence,
    Tensor,
    Value,
    alternatives,
)
from placement_lint.flow.events.schema import UnregisteredUsed
from placement_lint.flow.models import gradients, modules
from placement_lint.flow.state.containers import content
from placement_lint.flow.state.heap import ITEMS, MAPPING
from placement_lint.flow.state.machine import Machine
from placement_lint.flow.state.module_notes import ModuleNotes
from placement_lint.flow.state.moment import Calls
from placement_lint.flow.state.names import spelled
from placement_lint.rule import Note


def used(machine: Machine, identity: int, node: cst.CSTNode, module: Object | None = None) -> None:
    """A module or Parameter takes part in a forward: is a plain list or dict all that holds it?"""
    holder = machine.notes[ModuleNotes].unregistered.get(identity)
    if holder is None or holder.owner not in machine.now[Calls].in_forward or _cared_for(machine, identity, holder):
        return
    if holder.content == "parameter" and identity in machine.notes[ModuleNotes].ever_held:
        # Somebody has given it to an optimizer by itself.
        return
    needed = frozenset({identity}) if module is None else _needed(machine, module)
    if not any(needed <= modules.registered_below(machine, around) for around in _around(machine)):
        machine.emit(
            UnregisteredUsed(
                holder.node,
                machine.scene,
                holder.owner.cls.name,
                holder.name,
                holder.container,
                holder.content,
                Note(node, "used here"),
                modules.moved_on_the_way(machine),
                registering(machine, holder),
                holder,
            )
        )


def _needed(machine: Machine, module: Object) -> frozenset[int]:
    """What has to be registered for a module to be moved, trained and saved: itself, or all parts of a container."""
    parts = modules.registered_below(machine, module) - {module.id}
    contained = isinstance(module.cls, External) and module.cls.name in CONTAINERS
    return parts if contained and parts else frozenset({module.id})


def _around(machine: Machine) -> Iterator[Object]:
    """The modules whose methods run: the outermost forward's, and those whose other methods have led there."""
    yield machine.now[Calls].in_forward[0]
    for frame in machine.frames:
        if isinstance(frame.receiver, Object) and modules.is_module(machine, frame.receiver):
            yield frame.receiver


def _cared_for(machine: Machine, identity: int, holder: Holder) -> bool:
    """Whether a module is kept out of its holder on purpose, as a teacher is: frozen and moved separately.

    Either of the two is enough for a module that existed before the holder.
    """
    signs = (identity in machine.notes[ModuleNotes].moved, gradients.flag_of(machine, identity) == Fact("frozen"))
    return any(signs) if identity < holder.owner.id else all(signs)


# By the plain container and what it holds: the one of torch.nn that registers it.
_REGISTERING = {
    ("list", "module"): "ModuleList",
    ("tuple", "module"): "ModuleList",
    ("dict", "module"): "ModuleDict",
    ("list", "parameter"): "ParameterList",
    ("tuple", "parameter"): "ParameterList",
    ("dict", "parameter"): "ParameterDict",
}


def registering(machine: Machine, holder: Holder) -> str:
    """The name, in this file, of the container that could hold all that the plain one does; empty if there is none."""
    held = machine.read(holder.owner.id, holder.name)
    items = _all_held(machine, held) if held is not None and holder.registrable else None
    if not items or not all(_is_content(machine, item, holder.content) for item in items):
        return ""
    return spelled(machine, f"torch.nn.{_REGISTERING[holder.container, holder.content]}")


def _all_held(machine: Machine, held: Value) -> tuple[Value, ...] | None:
    """The items of a list or tuple, or of a dict whose keys a ModuleDict takes; None where they are not known."""
    if isinstance(held, Object) and held.kind is Kind.DICT:
        mapping = machine.read(held.id, MAPPING)
        if not isinstance(mapping, Mapping) or mapping.rest is not None:
            return None
        names = [key for key, _ in mapping.items if isinstance(key, str) and key and "." not in key]
        reserved = MODULE_ATTRIBUTES.intersection(names)
        return tuple(item for _, item in mapping.items) if len(names) == len(mapping.items) and not reserved else None
    items = content(machine, held)
    return items.items if items is not None else None


def _is_content(machine: Machine, item: Value, kind: str) -> bool:
    return all(
        modules.is_module(machine, option)
        if kind == "module"
        else isinstance(option, Tensor) and option.role is Role.PARAMETER
        for _, option in alternatives(item)
    )


def registered_by_parts(machine: Machine, owner: Object, parameter: Value, *, all_alike: bool = False) -> list[Object]:
    """The layer in a plain list whose last Parameter is registered by this: as good as registering the layer.

    If ``all_alike``, what is done with it is done with all layers of its class in the list.
    """
    if not isinstance(parameter, Tensor) or parameter.role is not Role.PARAMETER:
        return []
    registered = modules.registered_below(machine, owner)
    for identity in parameter.modules:
        holder = machine.notes[ModuleNotes].unregistered.get(identity)
        held = (machine.read(holder.owner.id, holder.name) if holder is not None else None) or NONE
        layers = [item for item in (content(machine, held) or Sequence(())).items if isinstance(item, Object)]
        layer = next((one for one in layers if one.id == identity), None)
        if layer is not None:
            names = NAMES_OF_PARAMETERS.get(layer.cls.name, ("weight", "bias"))
            if {machine.part(identity, name, name).id for name in names} <= registered:
                return [one for one in layers if one == layer or (all_alike and one.cls == layer.cls)]
    return []


def note_container(machine: Machine, owner: Object, name: str, value: Value, node: cst.CSTNode) -> None:
    """Record that a plain list or dict is stored on a module, which does not register its contents."""
    noted = machine.notes[ModuleNotes]
    initialised = machine.read(owner.id, modules.INITIALISED) is not None
    for _, option in alternatives(value):
        held: tuple[Value, ...] = ()
        container = "tuple"
        if isinstance(option, Object) and option.kind is Kind.DICT:
            container = "dict"
            mapping = machine.read(option.id, MAPPING)
            held = tuple(item for _, item in mapping.items) if isinstance(mapping, Mapping) else ()
            noted.holders[option.id] = Holder(owner, name, node, container, registrable=initialised)
        elif isinstance(option, Object) and option.kind is Kind.LIST:
            container = "list"
            noted.holders[option.id] = Holder(owner, name, node, container, registrable=initialised)
            held = _items(machine, option)
        elif isinstance(option, Sequence):
            held = option.items
        for item in held:
            if isinstance(item, Object) and item.kind in (Kind.LIST, Kind.DICT):
                noted.holders.setdefault(item.id, Holder(owner, name, node, container, registrable=initialised))
            hold(machine, item, Holder(owner, name, node, container, registrable=initialised))


def hold(machine: Machine, item: Value, holder: Holder) -> None:
    for _, option in alternatives(item):
        if modules.is_module(machine, option) and isinstance(option, Object):
            for part in modules.reachable(machine, option):
                machine.notes[ModuleNotes].unregistered.setdefault(part, replace(holder, content="module"))
        elif isinstance(option, Tensor) and option.role is Role.PARAMETER and option.uid:
            machine.notes[ModuleNotes].unregistered.setdefault(option.uid, replace(holder, content="parameter"))
        elif isinstance(option, Sequence):
            for inner in option.items:
                hold(machine, inner, holder)


def _items(machine: Machine, value: Object) -> tuple[Value, ...]:
    items = machine.read(value.id, ITEMS)
    return items.items if isinstance(items, Sequence) else ()
