"""Reads of `owner[key]`, with slices and unknown keys, and writes."""

from __future__ import annotations

import libcst as cst

from placement_lint.flow.api.torch_names import CONTAINERS, ITEM_TYPES
from placement_lint.flow.domain import folding
from placement_lint.flow.domain.aliasing import within
from placement_lint.flow.domain.arguments import Arguments
from placement_lint.flow.domain.path_condition import ALWAYS, answered, any_of
from placement_lint.flow.domain.record import replace
from placement_lint.flow.domain.values import (
    NONE,
    Bound,
    Choice,
    Class,
    Const,
    Device,
    External,
    Function,
    Imported,
    Kind,
    Loaded,
    Mapping,
    Object,
    Parameters,
    Sequence,
    Slice,
    StateDict,
    Symbol,
    Tensor,
    Value,
    alternatives,
    is_option,
)
from placement_lint.flow.interpreter import attributes, calls, children_dict, iteration, settings
from placement_lint.flow.models import (
    checkpoints,
    environment,
    modules,
    optimizers,
    registries,
    schedulers,
    state_dicts,
    state_keys,
    tensors,
    unregistered,
    wrappers,
)
from placement_lint.flow.state import imports, options
from placement_lint.flow.state.classes import find
from placement_lint.flow.state.containers import FACTORY, content, perhaps_filled, perhaps_replaced, present
from placement_lint.flow.state.heap import ITEMS, MAPPING
from placement_lint.flow.state.machine import Machine
from placement_lint.flow.state.module_notes import ModuleNotes
from placement_lint.flow.state.moment import Around
from placement_lint.flow.state.names import christen
from placement_lint.source.querying import mentions

# The modules that are imported, by their names.
_MODULES = External("sys.modules")


def read(machine: Machine, owner: Value, key: Value, node: cst.Subscript) -> Value:
    """``owner[key]``"""
    owner = _not_none(machine, owner)
    return machine.lift(lambda option, chosen: _item(machine, option, chosen, node), owner, key)


def _not_none(machine: Machine, owner: Value) -> Value:
    """Continue where an owner that is None on other paths is not: there, this raises TypeError."""
    is_none = any_of(guard for guard, option in alternatives(owner) if option == NONE)
    if isinstance(owner, Choice) and is_none.possible and not machine.does_without("TypeError"):
        machine.survive(is_none.negation)
        return machine.restrict(owner)
    return owner


def _item(machine: Machine, owner: Value, key: Value, node: cst.Subscript) -> Value:
    attributes.note_other(machine, owner, node)
    if isinstance(owner, (Object, Symbol)) and isinstance(key, Const) and type(key.value) is int:
        _is_not_empty(machine, owner)
    if isinstance(owner, Tensor):
        return tensors.index(machine, owner, key, node)
    if isinstance(owner, Loaded):
        entry = replace(owner, entries=(*owner.entries, key.value if isinstance(key, Const) else None))
        checkpoints.taken(machine, entry)
        return entry
    if owner == _MODULES:
        own = key == machine.store.read(machine.root(machine.frame.id), "__name__")
        return imports.running_module(machine) if own else machine.fresh(node)
    if isinstance(owner, (Imported, External)) and owner != environment.ENVIRON:
        return attributes.chosen(machine, owner, key)
    if isinstance(owner, Object):
        return _item_of_object(machine, owner, key, node)
    if isinstance(owner, Mapping):
        return (owner.get(key.value) if isinstance(key, Const) else owner.rest) or machine.fresh()
    if isinstance(owner, Sequence):
        return _item_of_sequence(machine, owner, key)
    if owner == environment.ENVIRON:
        return environment.variable(machine, key, node)
    if (module := children_dict.owner_of(machine, owner)) is not None:
        return children_dict.read(machine, module, key, node)
    if isinstance(owner, Bound):
        return schedulers.item(machine, owner, key)
    namespace = options.shown(machine, owner)
    if namespace is not None and isinstance(key, Const) and isinstance(key.value, str):
        return options.option(machine, namespace, key.value, node)
    if isinstance(owner, Symbol):
        if owner.scattered:
            of_rows = key == Const(0) or not isinstance(key, Const)
            return machine.fresh(node, ITEM_TYPES.get(owner.type, ""), of_rows)
        if isinstance(key, Const):
            return item_of_unknown(machine, owner, key, node)
        return machine.part(owner.id, ("item", key), node, owner, ITEM_TYPES.get(owner.type, ""))
    return machine.fresh()


def item_of_unknown(machine: Machine, owner: Symbol, key: Const, node: cst.CSTNode) -> Value:
    """What the program stored under the key, or else the same unknown value each time."""
    part = machine.part(owner.id, ("item", key.value), node, owner, ITEM_TYPES.get(owner.type, ""))
    stored = machine.read(owner.id, f"[{key.value!r}]")
    return stored if stored is not None else part


def _is_not_empty(machine: Machine, owner: Object | Symbol) -> None:
    """``ids[0]``: from here on, a test of the length of ``ids`` holds, and it is not None."""
    size = machine.known_part(owner.id, ("len", content(machine, owner)))
    tests = [(size, True), *(((test.__name__, owner, NONE), False) for test in (cst.Is, cst.Equal))]
    for subject, answer in tests if not machine.now[Around].tried else ():
        question = machine.known_question(subject) if subject is not None else None
        if question is not None:
            machine.survive(answered(question, answer))


def _item_of_object(machine: Machine, owner: Object, key: Value, node: cst.Subscript) -> Value:
    if wrappers.lacks_operation(machine, owner, "__getitem__", node, node.value):
        return machine.fresh()
    if isinstance(owner.cls, Class):
        registries.used(machine, owner, "__getitem__")
        method = find(machine, owner.cls, "__getitem__")
        if isinstance(method, Function):
            return calls.call_function(machine, method, Arguments((key,)), node, owner)
    mapping = machine.read(owner.id, MAPPING)
    if isinstance(mapping, Mapping):
        mapping = within(mapping, owner.alias)
        known = isinstance(key, (Const, Device))
        found = mapping.get(_entry(key)) if known else any_entry(machine, mapping, key, node.slice[0])
        if isinstance(found, Object) and isinstance(key, Symbol) and _is_of_earlier_round(machine, found, key):
            return machine.read(found.id, modules.INNER, unset=found)
        return found if found is not None else _made_on_demand(machine, owner, mapping, key, node)
    items = modules.items_of(machine, owner)
    if isinstance(items, Sequence):
        found = _item_of_sequence(machine, items, key)
        if not isinstance(key, Slice) or not isinstance(found, Sequence):
            return found
        if owner.kind is Kind.LIST:
            return machine.new_list(found, node)
        if isinstance(owner.cls, External) and owner.cls.name in CONTAINERS:
            if not found.items and not found.exact:
                return _unknown_part(machine, owner, key, node)
            # a slice is another container of the same class (torch/nn/modules/container.py, `__getitem__`)
            container = modules.new_module(machine, owner.cls, node)
            machine.write(container.id, ITEMS, found)
            return container
        return found
    if isinstance(items, Mapping) and isinstance(key, Const) and (held := items.get(key.value)) is not None:
        return held
    return _unknown_part(machine, owner, key, node) if owner.kind is Kind.MODULE else machine.fresh()


def _is_of_earlier_round(machine: Machine, found: Object, key: Symbol) -> bool:
    """Whether an entry was wrapped earlier in this loop than its key was drawn: this key's own is not wrapped yet."""
    rounds = machine.now[Around].rounds
    return found.kind is Kind.WRAPPER and bool(rounds) and rounds[-1] < found.id < key.id


def _unknown_part(machine: Machine, owner: Object, key: Value, node: cst.Subscript) -> Value:
    """One or several modules in a container, which are where it is."""
    part = machine.part(owner.id, ("item", key), node, owner)
    modules.treat_as_module(machine, part)
    return part


def _made_on_demand(machine: Machine, owner: Object, mapping: Mapping, key: Value, node: cst.Subscript) -> Value:
    """The value that a ``defaultdict`` creates for a missing key."""
    noted = machine.notes[ModuleNotes]
    factory = machine.read(owner.id, FACTORY)
    if factory is None or factory == NONE:
        return machine.fresh()
    made = calls.call(machine, factory, Arguments(), cst.Call(func=node.value))
    known = isinstance(key, (Const, Device))
    machine.write(owner.id, MAPPING, mapping.with_item(_entry(key), made) if known else mapping)
    if isinstance(made, Object) and owner.id in noted.holders:
        noted.holders.setdefault(made.id, noted.holders[owner.id])
    return made


def _entry(key: Value) -> object:
    """The key of a dict entry: the value of a constant, or a device."""
    return key.value if isinstance(key, Const) else key


def any_entry(
    machine: Machine, mapping: Mapping, key: Value, written: cst.CSTNode | None, default: Value | None = None
) -> Value | None:
    """The value for an unknown key: a choice of all values, each if the key equals its key, or the default.

    Nothing says that a key is meant that is no option of the program, and for which its value would be wrong.
    """
    if any(isinstance(name, Device) for name, _ in mapping.items):
        return None
    values = {value for _, value in mapping.items} | ({default} if default is not None else set())
    if mapping.rest is not None or len(values) == 1:
        values.add(mapping.rest or next(iter(values)))
        # Without a default, a key that is read is there.
        values = {present(value) for value in values} if default is None else values
        return values.pop() if len(values) == 1 else None
    ways, missing = [], ALWAYS
    for name, value in mapping.items:
        question = imports.is_key(machine, key, name, written)
        if not isinstance(key, Symbol) or not is_option(key):
            question.say(by_name=True)
        if default is None and name == mapping.items[-1][0]:
            # Any other key raises.
            question.require(True, machine.path & missing)
        ways.append((missing & answered(question, True), value))
        missing = missing & answered(question, False)
    return machine.either([*ways, (missing, default)] if default is not None else ways)


def _item_of_sequence(machine: Machine, sequence: Sequence, key: Value) -> Value:
    if isinstance(key, Const) and type(key.value) is int and sequence.items:
        position = key.value
        if sequence.exact:
            known = -len(sequence.items) <= position < len(sequence.items)
            return sequence.items[position] if known else machine.fresh()
        if sequence.around is not None:
            return sequence.items[position] if sequence.has_in_place(position) else machine.fresh()
        return _one_of(machine, sequence.items[position if 0 <= position < len(sequence.items) else -1])
    machine.signals.program.values_collected(machine, sequence.items)
    if isinstance(key, Slice):
        return _sliced(sequence, key)
    if sequence.items and not isinstance(key, Const):
        # In a loop that fills the list, the index usually refers to the last item.
        return _one_of(machine, sequence.items[-1])
    return machine.fresh()


def _one_of(machine: Machine, item: Value) -> Value:
    """The item at an uncertain position, which may be another generator of parameters than ``item``."""
    item = iteration.step(machine, item)
    return replace(item, uid=machine.new_id()) if isinstance(item, Parameters) else item


def _sliced(sequence: Sequence, key: Slice) -> Sequence:
    """The items of a slice; if it is unknown which they are, those that may be, unless they differ in kind."""
    items, start = sequence.items, _skipped(key)
    if sequence.exact and key.bounds is not None:
        return Sequence(folding.part(items, key.bounds) or ())
    if not sequence.exact and start is not None and sequence.around is None:
        return Sequence(items[start:] or items[-1:], exact=False)
    if start is not None and sequence.around is not None and start <= sequence.around[0]:
        return Sequence(items[start:], False, (sequence.around[0] - start, sequence.around[1]))
    options = [option for item in items for _, option in alternatives(item)]
    kinds = {(type(option), option.kind if isinstance(option, Object) else None) for option in options}
    return Sequence(items if len(kinds) == 1 else (), exact=False)


def _skipped(key: Slice) -> int | None:
    """The number of items before a slice that has all that follow; None for any other slice."""
    start, stop, step = key.bounds if key.bounds is not None else (None, 0, None)
    if stop is not None or step not in (None, 1):
        return None
    return 0 if start is None else start if isinstance(start, int) and start >= 0 else None


def write(machine: Machine, owner: Value, key: Value, value: Value, node: cst.CSTNode, text: str | cst.CSTNode) -> None:
    """``owner[key] = value``"""
    machine.lift(lambda option, chosen: _write_item(machine, option, chosen, value, node, text), owner, key)


def _write_item(
    machine: Machine, owner: Value, key: Value, value: Value, node: cst.CSTNode, text: str | cst.CSTNode
) -> Value:
    namespace = options.shown(machine, owner)
    if namespace is not None and isinstance(key, Const) and isinstance(key.value, str):
        attributes.write(machine, namespace, key.value, value, node, text)
        return NONE
    if (module := children_dict.owner_of(machine, owner)) is not None:
        children_dict.write(machine, module, key, value, node, text)
        return NONE
    if isinstance(owner, Symbol) and isinstance(key, Const):
        machine.write(owner.id, f"[{key.value!r}]", value)
    elif not isinstance(key, Const):
        # For an object whose items are also attributes, such as EasyDict, it may be any setting.
        settings.forget(machine, owner)
    if owner == environment.ENVIRON:
        environment.write(machine, key, value, node)
    source = text.value if isinstance(text, cst.Subscript) else None
    machine.signals.program.item_assigned(machine, owner, key, value, source, node)
    if isinstance(owner, (Loaded, StateDict)):
        state_dicts.keys_used(machine, owner)
    if isinstance(owner, Bound):
        schedulers.item_changed(machine, owner, key, value, node)
    if modules.is_module(machine, owner) and isinstance(owner, (Object, Symbol)):
        optimizers.replaced(machine, owner, f"[{key.value!r}]" if isinstance(key, Const) else "[…]", None, value, node)
    if not isinstance(owner, Object):
        return NONE
    machine.signals.program.value_kept(machine, value)
    machine.signals.program.values_given_away(machine, (value,), node)
    machine.signals.program.values_collected(machine, (value,))
    mapping = machine.read(owner.id, MAPPING)
    if isinstance(mapping, Mapping):
        machine.write(owner.id, MAPPING, _with_key(machine, mapping, key, value, source))
    items = modules.stored_items(machine, owner)
    if isinstance(items, Mapping):
        machine.write(owner.id, ITEMS, _with_key(machine, items, key, value, source))
    if isinstance(items, Sequence):
        machine.signals.program.items_replaced(machine, items)
        machine.write(owner.id, ITEMS, _with_item(machine, items, key, value))
    if owner.id in machine.notes[ModuleNotes].holders:
        unregistered.hold(machine, value, machine.notes[ModuleNotes].holders[owner.id])
    christen(machine, value, text)
    return NONE


def _with_key(
    machine: Machine, mapping: Mapping, key: Value, value: Value, owner: cst.BaseExpression | None
) -> Mapping:
    """The content of a dict with one more entry; ``owner`` is the expression for the dict."""
    if isinstance(key, (Const, Device)):
        return mapping.with_item(_entry(key), value)
    entry = state_keys.put(machine, mapping, key, value)
    if entry is not None:
        return entry
    # Another unknown key may have got another value before, and need not have been this one. A loop over the dict
    # replaces the value of each key.
    loops = machine.now[Around].loops
    each = owner is not None and any(isinstance(loop, cst.For) and mentions(loop.iter, owner) for loop in loops)
    rest = value if each or mapping.rest is None else _perhaps_wrapped(machine, mapping.rest, value)
    return Mapping(tuple((name, _perhaps_wrapped(machine, item, value)) for name, item in mapping.items), rest)


def _perhaps_wrapped(machine: Machine, item: Value, value: Value) -> Value:
    """``models[name] = DataParallel(models[name])``: which of the models are wrapped now is unknown."""
    if isinstance(value, Object) and value.kind is Kind.WRAPPER and machine.read(value.id, modules.INNER) == item:
        return machine.fresh()
    return perhaps_replaced(machine, item, value)


def _with_item(machine: Machine, items: Sequence, key: Value, value: Value) -> Sequence:
    if isinstance(key, Const) and isinstance(key.value, int) and (items.exact or key.value >= 0):
        changed = dict(enumerate(items.items))
        position = key.value if key.value >= 0 else key.value + len(items.items)
        if position in changed:
            return Sequence(tuple({**changed, position: value}.values()), items.exact)
    # at an unknown position
    return Sequence(tuple(perhaps_filled(machine, item, value) for item in items.items), exact=False)
