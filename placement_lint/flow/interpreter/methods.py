"""Methods of lists, dicts, strings and unknown values, and the contents of module containers."""

from __future__ import annotations

import libcst as cst

from placement_lint.flow.api.bounds import LONGEST
from placement_lint.flow.domain import folding, partial_text
from placement_lint.flow.domain.aliasing import within
from placement_lint.flow.domain.arguments import Arguments
from placement_lint.flow.domain.record import replace
from placement_lint.flow.domain.values import (
    ACCELERATORS,
    CPU,
    NONE,
    Backward,
    Const,
    Device,
    External,
    Kind,
    Loaded,
    Mapping,
    Object,
    Placed,
    Sequence,
    Source,
    StateDict,
    StateKey,
    Symbol,
    Tensor,
    Value,
    alternatives,
    is_option,
)
from placement_lint.flow.interpreter import (
    calls,
    cuda_guards,
    expressions,
    library,
    module_methods,
    settings,
    subscripts,
)
from placement_lint.flow.models import (
    async_copy,
    checkpoints,
    file_names,
    frameworks,
    modules,
    non_movable,
    optimizers,
    schedulers,
    state_dicts,
    state_keys,
    unregistered,
    visible_devices,
)
from placement_lint.flow.state import extent, options, texts
from placement_lint.flow.state.containers import content, entries, perhaps_replaced
from placement_lint.flow.state.heap import ITEMS, MAPPING
from placement_lint.flow.state.machine import Machine
from placement_lint.flow.state.module_notes import ModuleNotes


def items_of_container(machine: Machine, arguments: Arguments) -> Value:
    """The items of ``nn.Sequential(a, b)``, ``nn.ModuleList([a, b])`` or ``nn.ModuleDict({...})``."""
    for value in arguments.positional:
        machine.signals.program.container_filled(machine, value)
        for item in (content(machine, value) or Sequence((value,))).items:
            machine.signals.modules.child_registered(machine, item)
    if len(arguments.positional) == 1:
        only = arguments.positional[0]
        if isinstance(only, Object) and only.kind is Kind.DICT:
            return machine.read(only.id, MAPPING) or Mapping(())
        if isinstance(only, Mapping):
            return only
        items = content(machine, only)
        if items is not None:
            return items
        if isinstance(only, Symbol):
            return Sequence((), exact=False)
    return Sequence(arguments.positional, not arguments.spread)


def extend_container(machine: Machine, module: Object, name: str, arguments: Arguments) -> None:
    """``module_list.append(layer)``"""
    before = modules.stored_items(machine, module)
    known = before if isinstance(before, Sequence) else Sequence((), exact=False)
    added = arguments.positional[-1:]
    if name == "extend" and added:
        more = content(machine, added[0])
        added = more.items if more is not None else ()
    added = tuple(modules.as_content(machine, module, value) for value in added)
    for value in added:
        machine.signals.program.container_filled(machine, value)
        machine.signals.program.value_kept(machine, value)
        machine.signals.program.values_collected(machine, (value,))
        machine.signals.modules.child_registered(machine, value)
        optimizers.replaced(machine, module, name, None, value, module.node)
    machine.write(module.id, ITEMS, Sequence((*known.items, *added), known.exact))


def call_method(machine: Machine, receiver: Value, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """A method of a list, dict, string or unknown value."""
    prepares = isinstance(receiver, Object) and receiver.cls == frameworks.ACCELERATOR
    if name.endswith("backward") and not prepares:
        machine.signals.training.backward(machine, receiver, node)
    if isinstance(receiver, Object):
        if isinstance(receiver.cls, External) and name in library.methods_of(receiver.cls):
            return library.call_method(machine, receiver, name, arguments, node)
        if receiver.kind is Kind.LIST:
            return _list_method(machine, receiver, name, arguments, node)
        if receiver.kind is Kind.DICT:
            return _dict_method(machine, receiver, name, arguments, node)
        if receiver.kind is Kind.OTHER:
            return _scaler_method(machine, name, arguments, node)
        if receiver.kind is Kind.INSTANCE and name in non_movable.MOVES:
            # Its class inherits the method from an unknown base class, which may be a module and move its submodules.
            modules.forget_places(machine, receiver)
    if isinstance(receiver, StateKey):
        return state_keys.call_method(machine, receiver, name, arguments.positional)
    if isinstance(receiver, Const) and name == "join" and isinstance(key := arguments.get(0), StateKey):
        return state_keys.join(machine, receiver.value, key)
    if isinstance(receiver, (Loaded, StateDict)) and name in _USES_KEYS:
        state_dicts.keys_used(machine, receiver)
    if isinstance(receiver, StateDict) and name == "update":
        checkpoints.restored(machine, arguments.get(0))
    if isinstance(receiver, StateDict):
        return _state_method(machine, receiver, name, node)
    if isinstance(receiver, Loaded):
        return _loaded_method(machine, receiver, name, arguments, node)
    if isinstance(receiver, Mapping):
        return _mapping_method(machine, receiver, name, arguments)
    if isinstance(receiver, Const) and isinstance(receiver.value, str) and name == "split":
        return _split(machine, receiver.value, arguments, node)
    if isinstance(receiver, Const) and isinstance(receiver.value, str) and name in folding.TEXT_METHODS:
        return _computed(machine, receiver.value, name, arguments, node)
    if isinstance(receiver, Const) and isinstance(receiver.value, str) and name == "format":
        values = arguments.positional
        if ":" in receiver.value:
            for written, value in zip(node.args, values, strict=False):
                expressions.used_as_number(machine, value, written.value, node)
        if all(isinstance(value, Const) for value in values) and not arguments.keywords:
            given = [value.value for value in values if isinstance(value, Const)]
            return folding.formatted(receiver.value, given) or machine.fresh()
        letters = partial_text.formatted(receiver.value, values, arguments.keywords)
        return formatted(machine, receiver.value.partition("{")[0], values, letters)
    if isinstance(receiver, Device) and name == "startswith":
        return _begins_with(machine, receiver, arguments.get(0), node)
    if isinstance(receiver, Symbol):
        return _method_of_unknown(machine, receiver, name, arguments, node)
    return machine.fresh(node)


def _begins_with(machine: Machine, device: Device, start: Value | None, node: cst.Call) -> Value:
    """``str(device).startswith("cuda")``"""
    known = device.kind in ACCELERATORS or device == CPU
    if not known or not isinstance(start, Const) or not isinstance(start.value, str) or not start.value.isalpha():
        return machine.fresh(node)
    return cuda_guards.kept(Const(device.kind.startswith(start.value)), node if start.value == "cuda" else None)


def _split(machine: Machine, text: str, arguments: Arguments, node: cst.Call) -> Value:
    """``"0,1".split(",")``"""
    separator = arguments.get(0, "sep") or NONE
    parts = folding.split(text, separator.value) if isinstance(separator, Const) else None
    return machine.new_list(Sequence(tuple(parts)), node) if parts is not None else machine.fresh(node)


def _computed(machine: Machine, text: str, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``"CUDA:0 ".strip().lower()``, ``"Conv2d".find("Conv")``"""
    given = [value.value for value in arguments.positional if isinstance(value, Const)]
    if len(given) < len(arguments.positional) or arguments.keywords:
        return machine.fresh(node)
    return folding.text_method(text, name, given) or machine.fresh(node)


# Methods that read or change the keys of a dict.
_USES_KEYS = {"keys", "items", "pop", "popitem", "update", "setdefault"}


def extend_list(machine: Machine, target: Object, arguments: Arguments, node: cst.CSTNode) -> None:
    """``items += more``, which is an in-place ``extend``."""
    _list_method(machine, target, "extend", arguments, node)


def _list_method(machine: Machine, target: Object, name: str, arguments: Arguments, node: cst.CSTNode) -> Value:
    items = machine.read(target.id, ITEMS)
    known = items if isinstance(items, Sequence) else Sequence((), exact=False)
    added: tuple[Value, ...] = ()
    machine.signals.program.container_changed(machine, target, name, None, arguments.values(), node)
    if name in ("append", "insert", "add"):
        added = arguments.positional[-1:]
    elif name == "extend":
        more = content(machine, arguments.get(0) or NONE)
        added, known = (more.items, known) if more is not None else ((), replace(known, exact=False))
    elif name == "pop" and known.items:
        return known.items[-1]
    elif name in ("clear", "remove", "sort", "reverse"):
        kept = () if name == "clear" else known.items
        machine.write(target.id, ITEMS, Sequence(kept, exact=name == "clear"))
    for value in added:
        machine.signals.program.value_kept(machine, value)
        machine.signals.program.values_collected(machine, (value,))
    machine.signals.program.values_given_away(machine, added, node)
    if added:
        room = known.items if len(known.items) < LONGEST else known.items[:-1]
        exact = known.exact and len(known.items) < LONGEST
        machine.write(target.id, ITEMS, extent.joined(Sequence(room, exact), Sequence(added)))
        if target.id in machine.notes[ModuleNotes].holders:
            for value in added:
                unregistered.hold(machine, value, machine.notes[ModuleNotes].holders[target.id])
    return NONE if name != "copy" else machine.new_list(known, node)


def _dict_method(machine: Machine, target: Object, name: str, arguments: Arguments, node: cst.Call) -> Value:
    mapping = machine.read(target.id, MAPPING)
    if not isinstance(mapping, Mapping):
        return machine.fresh()
    machine.signals.program.container_changed(machine, target, name, None, arguments.values(), node)
    mapping = within(mapping, target.alias)
    if name in options.OVERRIDING and name != "update":
        settings.forget(machine, target)
    if name == "update":
        added = entries(machine, arguments.get(0) or Mapping(()))
        if added.rest is not None:
            items = tuple((key, perhaps_replaced(machine, value)) for key, value in mapping.items)
            mapping = replace(mapping, items=items)
        mapping = mapping.with_items((*added.items, *arguments.keywords.items()))
        machine.write(target.id, MAPPING, replace(mapping, rest=mapping.rest or added.rest))
        return NONE
    if name == "setdefault" and isinstance(key := arguments.get(0), Const) and mapping.get(key.value) is None:
        machine.write(target.id, MAPPING, mapping.with_item(key.value, arguments.get(1) or NONE))
    if name in ("pop", "popitem"):
        _remove(machine, target, mapping, arguments.get(0))
    if name == "clear":
        machine.write(target.id, MAPPING, Mapping(()))
    return _mapping_method(machine, mapping, name, arguments)


def delete_item(machine: Machine, owner: Value, key: Value) -> Value:
    """``del owner[key]``"""
    mapping = machine.read(owner.id, MAPPING) if isinstance(owner, Object) else None
    if isinstance(owner, Object) and isinstance(mapping, Mapping):
        _remove(machine, owner, mapping, key)
    return NONE


def _remove(machine: Machine, owner: Object, mapping: Mapping, key: Value | None) -> None:
    """Remove a key from a dict; if it is unknown, so are the keys that are left."""
    if isinstance(key, Const):
        left = tuple((name, value) for name, value in mapping.items if name != key.value)
        machine.write(owner.id, MAPPING, Mapping(left, mapping.rest))
    else:
        machine.write(owner.id, MAPPING, Mapping(mapping.items, mapping.rest or machine.fresh()))


def _mapping_method(machine: Machine, mapping: Mapping, name: str, arguments: Arguments) -> Value:
    values = tuple(value for _, value in mapping.items) + ((mapping.rest,) if mapping.rest is not None else ())
    exact = mapping.rest is None
    if name == "values":
        return Sequence(values, exact)
    if name == "items":
        keys = [key for key, _ in mapping.items]
        pairs = tuple(
            Sequence((Const(keys[place]) if place < len(keys) else options.other_key(machine, keys), value))
            for place, value in enumerate(values)
        )
        return Sequence(pairs, exact)
    if name == "keys":
        return Sequence(tuple(Const(key) for key, _ in mapping.items), exact)
    if name in ("get", "pop", "setdefault") and (key := arguments.get(0)) is not None:
        default = arguments.get(1, "default")
        if isinstance(key, Const):
            found = mapping.get(key.value)
            return found if found is not None else default or NONE
        if name == "get" and mapping.items:
            return subscripts.any_entry(machine, mapping, key, None, default or NONE) or machine.fresh()
    return machine.fresh()


def _loaded_method(machine: Machine, loaded: Loaded, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """A method of a loaded value: dict methods return its entries."""
    key = arguments.get(0)
    if name in ("get", "pop") and isinstance(key, Const):
        entry = replace(loaded, entries=(*loaded.entries, key.value))
        checkpoints.taken(machine, entry)
        return entry
    if name in ("items", "values"):
        entry = replace(loaded, entries=(*loaded.entries, None))
        key = state_keys.key_of(loaded)
        return Sequence((Sequence((key, entry)) if name == "items" else entry,), exact=False)
    if name == "keys":
        return Sequence((state_keys.key_of(loaded),), exact=False)
    if name in ("to", "cuda"):
        module_methods.target_of(machine, None, name, arguments, node)
    if name in ("to", "cuda", "float", "half"):
        checkpoints.kept(machine, loaded)
    checkpoints.given(machine, name, Arguments((loaded,)))
    return machine.fresh(node)


def _state_method(machine: Machine, state: StateDict, name: str, node: cst.Call) -> Value:
    """A method of a module's state dict that returns its entries."""
    if name == "items":
        return Sequence((Sequence((state_keys.key_of(state), _entry(machine, state, node))),), exact=False)
    if name == "keys":
        return Sequence((state_keys.key_of(state),), exact=False)
    if name == "values":
        return Sequence((_entry(machine, state, node),), exact=False)
    return machine.fresh(node)


def _entry(machine: Machine, state: StateDict, node: cst.Call) -> Value:
    """A detached tensor in a module's state dict: it stays on the module's current device (``Module.state_dict``)."""
    places = {place for _, place in modules.placements(machine, state.owner)}
    placed = places.pop() if len(places) == 1 else None
    if not isinstance(placed, Placed) or not isinstance(placed.place, (Device, Symbol)):
        return machine.fresh("entry")
    scalar = False if modules.has_only_layers(machine, state.owner) else None
    return Tensor(
        placed.place,
        scalar,
        source=Source.MODULE,
        created=node,
        backward=Backward(reached=frozenset()),
        uid=machine.new_id(),
    )


def _scaler_method(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``scaler.scale(loss)`` returns a tensor like the loss; ``scaler.step(optimizer)`` steps the optimizer."""
    given = arguments.get(0)
    if name == "step" and isinstance(given, Object) and given.kind is Kind.OPTIMIZER:
        optimizers.step(machine, given, node)
    return given if name == "scale" and given is not None else NONE


def _method_of_unknown(machine: Machine, receiver: Symbol, name: str, arguments: Arguments, node: cst.Call) -> Value:
    async_copy.method_of_unknown(machine, name, arguments)
    if name in ("to", "cuda", "cpu"):
        module_methods.move(machine, receiver, name, arguments, node)
        return receiver
    if name == "load_state_dict" and schedulers.is_scheduler(receiver):
        checkpoints.restored_to_scheduler(machine, arguments.get(0, "state_dict"))
        return NONE
    if name in ("parameters", "train", "eval", "state_dict", "load_state_dict"):
        return module_methods.call(machine, receiver, name, arguments, node)
    given = arguments.get(0)
    if name == "step" and isinstance(given, Object) and given.kind is Kind.OPTIMIZER:
        optimizers.step(machine, given, node)
    if name == "step":
        schedulers.step(machine, receiver, node)
    if name in ("Process", "Pool", "Popen"):
        visible_devices.hand_down(machine)
    if isinstance(given, Const) and (name == "get" or (name == "pop" and isinstance(given.value, str))):
        return subscripts.item_of_unknown(machine, receiver, given, node)
    if name == "startswith" and receiver.letters and isinstance(given, Const) and isinstance(given.value, str):
        begins = partial_text.begins_with(receiver, given.value)
        return machine.fresh(node) if begins is None else Const(begins)
    if file_names.gives_stamp(receiver, name):
        return file_names.stamp(machine, name, arguments, node)
    if name == "split" and is_option(receiver):
        return machine.part(receiver.id, ("split", given), node, receiver)
    _forget_what_it_holds(machine, receiver)
    return calls.foreign(machine, arguments, node)


def _forget_what_it_holds(machine: Machine, holder: Symbol) -> None:
    """``nets.items()`` exposes the modules in a container, which other code may then move; so may other methods."""
    for name in machine.store.names(holder.id):
        for _, held in alternatives(machine.read(holder.id, name) or NONE):
            if isinstance(held, Object) and modules.is_module(machine, held):
                modules.forget_places(machine, held)


def formatted(machine: Machine, prefix: str, values: tuple[Value, ...], letters: str) -> Value:
    """``f"cuda:{rank}"``: a device with an index that is unknown but equal to itself; else a text known in part."""
    from placement_lint.flow.domain.values import Device

    if prefix == "cuda:" and len(values) == 1:
        value = values[0]
        if isinstance(value, Symbol):
            return Device("cuda", value)
        if isinstance(value, Const) and type(value.value) is int:
            return Device("cuda", value.value)
    if not prefix and len(values) == 1 and isinstance(values[0], Symbol) and letters == partial_text.letters(values[0]):
        return replace(values[0], type="str")
    return texts.made(machine, letters, values)
