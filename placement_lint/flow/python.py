"""Python itself: builtin functions, methods of containers and strings, and iteration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import libcst as cst

from placement_lint.flow import attributes, calls, library, modules, optimizers
from placement_lint.flow.arguments import Arguments
from placement_lint.flow.classes import find, is_subclass
from placement_lint.flow.containers import content
from placement_lint.flow.events import ParametersRead, ReplicaLossUsed
from placement_lint.flow.machine import Machine
from placement_lint.flow.values import (
    ABSENT,
    CPU,
    NONE,
    REPLICA,
    AtLeast,
    Class,
    Const,
    External,
    Function,
    Kind,
    Mapping,
    Object,
    Parameters,
    Role,
    Sequence,
    Source,
    Super,
    Symbol,
    Tensor,
    Value,
    alternatives,
    describe,
)
from placement_lint.flow.vocabulary import MODULE_ATTRIBUTES
from placement_lint.rule import Note

# --- iteration ---------------------------------------------------------------------------------------------


def element(machine: Machine, iterable: Value, node: cst.CSTNode) -> Value:
    """What one step of ``for x in iterable`` yields."""
    return machine.lift(lambda option: _element(machine, option, node), iterable)


def _element(machine: Machine, iterable: Value, node: cst.CSTNode) -> Value:
    if isinstance(iterable, Object) and iterable.kind is Kind.LOADER:
        return _batch(machine, iterable, node)
    if isinstance(iterable, Object) and isinstance(iterable.cls, Class):
        return _element_of_instance(machine, iterable, iterable.cls, node)
    if isinstance(iterable, Tensor):
        return replace(iterable, uid=0, scalar=None)
    items = content(machine, iterable) or _module_items(machine, iterable)
    if items is not None and items.items:
        return items.items[0]
    if isinstance(iterable, Object) and iterable.kind is Kind.DATASET:
        return _sample(machine, iterable, node)
    return machine.fresh()


def _module_items(machine: Machine, value: Value) -> Sequence | None:
    if isinstance(value, Object) and value.kind is Kind.MODULE:
        items = modules.items_of(machine, value)
        return items if isinstance(items, Sequence) else None
    return None


def each(machine: Machine, iterable: Value) -> tuple[Value, ...] | None:
    """All that an iterable of known content yields, in order; None where that is not known."""
    items = content(machine, iterable) or _module_items(machine, iterable)
    if items is not None and items.items and (items.exact or len(items.items) > 1):
        return items.items
    return None


def _element_of_instance(machine: Machine, instance: Object, cls: Class, node: cst.CSTNode) -> Value:
    items = _module_items(machine, instance)
    if items is not None and items.items:
        return items.items[0]
    for name, arguments in (("__iter__", Arguments()), ("__getitem__", Arguments((machine.fresh("index"),)))):
        method = find(machine, cls, name)
        if isinstance(method, Function):
            result = calls.call_function(machine, method, arguments, node, instance)
            return element(machine, result, node) if name == "__iter__" and result != instance else result
    return machine.fresh()


def _batch(machine: Machine, loader: Object, node: cst.CSTNode) -> Value:
    """A DataLoader's batch: its dataset's samples, collated (torch/utils/data/_utils/collate.py)."""
    dataset = machine.read(loader.id, "dataset") or machine.fresh()
    collate = machine.read(loader.id, "#collate")
    sample = machine.lift(lambda option: _sample(machine, option, node), dataset)
    rows = machine.read(loader.id, "#rows")
    if collate is not None:
        return _collated_by(machine, collate, sample, node)
    sizes = rows.value if isinstance(rows, Const) and isinstance(rows.value, frozenset) else frozenset()
    return machine.lift(lambda option: _collated(machine, option, node, sizes), sample)


def _sample(machine: Machine, dataset: Value, node: cst.CSTNode) -> Value:
    if not isinstance(dataset, Object):
        return machine.fresh("sample")
    stored = machine.read(dataset.id, "#tensors")
    if isinstance(stored, Sequence) and stored.items:
        return stored
    if isinstance(dataset.cls, Class):
        method = find(machine, dataset.cls, "__getitem__")
        if isinstance(method, Function):
            arguments = Arguments((machine.fresh("index"),))
            result = calls.call_function(machine, method, arguments, node, dataset)
            machine.dead = False
            return result
    return machine.fresh("sample")


def _collated_by(machine: Machine, collate: Value, sample: Value, node: cst.CSTNode) -> Value:
    if isinstance(collate, Symbol) or isinstance(collate, External):
        return machine.fresh("batch")
    samples = machine.new_list(Sequence((sample,), exact=False), node)
    call = node if isinstance(node, cst.Call) else cst.Call(func=cst.Name("collate_fn"))
    result = calls.call(machine, collate, Arguments((samples,)), call)
    machine.dead = False
    return result


def _collated(machine: Machine, sample: Value, node: cst.CSTNode, rows: frozenset[int]) -> Value:
    """Tensors are stacked where they are, numbers and arrays become CPU tensors, strings stay lists."""
    if isinstance(sample, Tensor):
        note = Note(node, f"a batch comes out of the loader on {describe(sample.place)} here")
        return replace(
            sample,
            scalar=False,
            role=Role.BATCH,
            source=Source.LOADER,
            rows=rows,
            history=(note,),
            uid=machine.new_id(),
            holder=None,
        )
    if isinstance(sample, Const) and isinstance(sample.value, str):
        return machine.fresh()
    if isinstance(sample, Object) and sample.kind is Kind.DICT:
        sample = machine.read(sample.id, "#map") or sample
    if isinstance(sample, Mapping):
        items = tuple((key, _collated(machine, item, node, rows)) for key, item in sample.items)
        collated = machine.new_object(Kind.DICT, External("builtins.dict"), node)
        machine.write(collated.id, "#map", Mapping(items, sample.rest))
        return collated
    items_of = content(machine, sample)
    if items_of is not None and items_of.items:
        parts = tuple(
            machine.lift(lambda option: _collated(machine, option, node, rows), item)
            for item in items_of.items
        )
        return Sequence(parts, items_of.exact)
    note = Note(node, "a batch comes out of the loader on the CPU here")
    return Tensor(
        CPU, False, Role.BATCH, source=Source.LOADER, history=(note,), rows=rows, uid=machine.new_id()
    )


# --- containers ----------------------------------------------------------------------------------------------


def items_of_container(machine: Machine, arguments: Arguments) -> Value:
    """What ``nn.Sequential(a, b)``, ``nn.ModuleList([a, b])`` or ``nn.ModuleDict({...})`` contains."""
    if len(arguments.positional) == 1:
        only = arguments.positional[0]
        if isinstance(only, Object) and only.kind is Kind.DICT:
            return machine.read(only.id, "#map") or Mapping(())
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
    before = machine.read(module.id, modules.ITEMS)
    known = before if isinstance(before, Sequence) else Sequence((), exact=False)
    added = arguments.positional[-1:]
    if name == "extend" and added:
        more = content(machine, added[0])
        added = more.items if more is not None else ()
    for value in added:
        optimizers.replaced(machine, module, name, None, value, module.node)
    machine.write(module.id, modules.ITEMS, Sequence((*known.items, *added), known.exact))


def call_method(machine: Machine, receiver: Value, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """A method of a list, dict, string or unknown value."""
    if isinstance(receiver, Object):
        if receiver.kind is Kind.LIST:
            return _list_method(machine, receiver, name, arguments, node)
        if receiver.kind is Kind.DICT:
            return _dict_method(machine, receiver, name, arguments, node)
        if receiver.kind is Kind.OTHER:
            return _scaler_method(machine, name, arguments, node)
    if isinstance(receiver, Mapping):
        return _mapping_method(machine, receiver, name, arguments)
    if isinstance(receiver, Const) and isinstance(receiver.value, str) and name == "format":
        values = arguments.positional
        if all(isinstance(value, Const) for value in values) and not arguments.keywords:
            try:
                return Const(
                    receiver.value.format(*(value.value for value in values if isinstance(value, Const)))
                )
            except (IndexError, KeyError, ValueError):
                return machine.fresh()
        return formatted(machine, receiver.value.partition("{")[0], values)
    if isinstance(receiver, Symbol):
        return _method_of_unknown(machine, receiver, name, arguments, node)
    return machine.fresh(node)


def _list_method(machine: Machine, target: Object, name: str, arguments: Arguments, node: cst.Call) -> Value:
    items = machine.read(target.id, "#items")
    known = items if isinstance(items, Sequence) else Sequence((), exact=False)
    added: tuple[Value, ...] = ()
    if name in ("append", "insert"):
        added = arguments.positional[-1:]
    elif name == "extend":
        more = content(machine, arguments.get(0) or NONE)
        added, known = (more.items, known) if more is not None else ((), replace(known, exact=False))
    elif name == "pop" and known.items:
        return known.items[-1]
    elif name in ("clear", "remove", "sort", "reverse"):
        kept = () if name == "clear" else known.items
        machine.write(target.id, "#items", Sequence(kept, exact=name == "clear"))
    if added:
        room = known.items if len(known.items) < _LONGEST else known.items[:-1]
        exact = known.exact and len(known.items) < _LONGEST
        machine.write(target.id, "#items", Sequence((*room, *added), exact))
        if target.id in machine.holders:
            for value in added:
                attributes.hold(machine, value, machine.holders[target.id])
    return NONE if name != "copy" else machine.new_list(known, node)


# Longer lists are all alike: the last item stands for the rest.
_LONGEST = 24


def _dict_method(machine: Machine, target: Object, name: str, arguments: Arguments, node: cst.Call) -> Value:
    mapping = machine.read(target.id, "#map")
    if not isinstance(mapping, Mapping):
        return machine.fresh()
    if name == "update":
        other = arguments.get(0)
        if isinstance(other, Object) and other.kind is Kind.DICT:
            other = machine.read(other.id, "#map")
        added = other if isinstance(other, Mapping) else Mapping((), machine.fresh())
        for key, value in (*added.items, *arguments.keywords.items()):
            mapping = mapping.with_item(key, value)
        machine.write(target.id, "#map", replace(mapping, rest=mapping.rest or added.rest))
        return NONE
    if name == "setdefault" and isinstance(key := arguments.get(0), Const):
        if mapping.get(key.value) is None:
            machine.write(target.id, "#map", mapping.with_item(key.value, arguments.get(1) or NONE))
    return _mapping_method(machine, mapping, name, arguments)


def _mapping_method(machine: Machine, mapping: Mapping, name: str, arguments: Arguments) -> Value:
    values = tuple(value for _, value in mapping.items) + (
        (mapping.rest,) if mapping.rest is not None else ()
    )
    exact = mapping.rest is None
    if name == "values":
        return Sequence(values, exact)
    if name == "items":
        keys = [key for key, _ in mapping.items]
        pairs = tuple(
            Sequence((Const(keys[place]) if place < len(keys) else machine.fresh(), value))
            for place, value in enumerate(values)
        )
        return Sequence(pairs, exact)
    if name == "keys":
        return Sequence(tuple(Const(key) for key, _ in mapping.items), exact)
    if name in ("get", "pop", "setdefault") and isinstance(key := arguments.get(0), Const):
        found = mapping.get(key.value)
        return found if found is not None else arguments.get(1) or NONE
    return machine.fresh()


def _scaler_method(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``scaler.scale(loss)`` is a tensor like the loss; ``scaler.step(optimizer)`` steps it."""
    given = arguments.get(0)
    if name == "step" and isinstance(given, Object) and given.kind is Kind.OPTIMIZER:
        optimizers.step(machine, given, node)
    return given if name == "scale" and given is not None else NONE


def _method_of_unknown(
    machine: Machine, receiver: Symbol, name: str, arguments: Arguments, node: cst.Call
) -> Value:
    if name in ("to", "cuda", "cpu"):
        library.move_unknown(machine, receiver, name, arguments, node)
        return receiver
    if name in ("parameters", "train", "eval", "state_dict", "load_state_dict"):
        return library.call_module_method(machine, receiver, name, arguments, node)
    given = arguments.get(0)
    if name == "step" and isinstance(given, Object) and given.kind is Kind.OPTIMIZER:
        optimizers.step(machine, given, node)
    if name == "get" and isinstance(given, Const):
        return machine.part(receiver.id, ("item", given.value), node, receiver)
    return calls.foreign(machine, arguments, node)


def formatted(machine: Machine, prefix: str, values: tuple[Value, ...]) -> Value:
    """``f"cuda:{rank}"``: a device with an index that is unknown but equal to itself."""
    from placement_lint.flow.values import Device

    if prefix == "cuda:" and len(values) == 1:
        value = values[0]
        if isinstance(value, Symbol):
            return Device("cuda", value)
        if isinstance(value, Const) and type(value.value) is int:
            return Device("cuda", value.value)
    return machine.fresh("text")


# --- builtin functions -----------------------------------------------------------------------------------------


def call_builtin(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    handler = _BUILTINS.get(name)
    if handler is not None:
        return handler(machine, arguments, node)
    return machine.fresh(f"{name}()")


def _isinstance(machine: Machine, arguments: Arguments, node: cst.Call) -> Value:
    value, classes = arguments.get(0) or NONE, arguments.get(1) or NONE

    def test(option: Value, target: Value) -> Value:
        targets = target.items if isinstance(target, Sequence) else (target,)
        if isinstance(option, Tensor) and option.role is Role.PARAMETER and option.place == REPLICA:
            machine.emit(ParametersRead(node, machine.scene, machine.text(node), "isinstance"))
        answers = [_is_instance(machine, option, one) for one in targets]
        if True in answers:
            return Const(True)
        if None in answers:
            return machine.ask(machine.question(("isinstance", option, target), text=node))
        return Const(False)

    return machine.lift(test, value, classes)


def _is_instance(machine: Machine, value: Value, cls: Value) -> bool | None:
    if isinstance(value, Object) and isinstance(cls, (Class, External)):
        if value.kind in (Kind.LIST, Kind.DICT):
            return (
                cls in (value.cls, External("collections.abc.Mapping"))
                if value.kind is Kind.DICT
                else cls == value.cls
            )
        return is_subclass(value.cls, cls)
    if isinstance(value, Tensor) and value.role is Role.PARAMETER and cls == External("torch.nn.Parameter"):
        return value.place != REPLICA
    if isinstance(value, Tensor) and value.role is not Role.BATCH and isinstance(cls, External):
        return cls.name in ("torch.Tensor", "torch.nn.Parameter")
    if isinstance(value, Sequence) and isinstance(cls, External):
        return cls.name == "builtins.tuple"
    if isinstance(value, Const) and isinstance(cls, External) and cls.name.startswith("builtins."):
        return type(value.value).__name__ == cls.name.partition(".")[2]
    return None


def _hasattr(machine: Machine, arguments: Arguments, node: cst.Call) -> Value:
    owner, name = arguments.get(0) or NONE, arguments.get(1) or NONE

    def test(option: Value, attribute: Value) -> Value:
        if isinstance(attribute, Const) and isinstance(attribute.value, str):
            known = _has_attribute(machine, option, attribute.value)
            if known is not None:
                return Const(known)
        return machine.ask(machine.question(("hasattr", option, attribute), text=node))

    return machine.lift(test, owner, name)


def _has_attribute(machine: Machine, owner: Value, name: str) -> bool | None:
    if not isinstance(owner, Object):
        return None
    stored = machine.store.read(owner.id, name)
    if stored is not None:
        found = {option is not ABSENT for _, option in alternatives(machine.restrict(stored))}
        return found.pop() if len(found) == 1 else None
    if owner.kind is Kind.WRAPPER:
        return name in MODULE_ATTRIBUTES
    if isinstance(owner.cls, Class):
        if find(machine, owner.cls, name) is not None:
            return True
        return (name in MODULE_ATTRIBUTES and name != "module") if owner.kind is Kind.MODULE else None
    return False if owner.kind is Kind.MODULE and name == "module" else None


def _getattr(machine: Machine, arguments: Arguments, node: cst.Call) -> Value:
    owner, name, default = arguments.get(0) or NONE, arguments.get(1), arguments.get(2)
    if not isinstance(name, Const) or not isinstance(name.value, str):
        return machine.fresh()
    label = name.value

    def get(option: Value) -> Value:
        if default is not None and _has_attribute(machine, option, label) is not True:
            if _has_attribute(machine, option, label) is False:
                return default
            return machine.fresh(label)
        written = (
            cst.Attribute(value=node.args[0].value, attr=cst.Name(label)) if label.isidentifier() else None
        )
        return attributes.read(machine, option, label, written) if written is not None else machine.fresh()

    return machine.lift(get, owner)


def _setattr(machine: Machine, arguments: Arguments, node: cst.Call) -> Value:
    owner, name, value = arguments.get(0), arguments.get(1), arguments.get(2)
    if owner is not None and value is not None and isinstance(name, Const) and isinstance(name.value, str):
        attributes.write(
            machine, owner, name.value, value, node, f"{machine.text(node.args[0].value)}.{name.value}"
        )
    return NONE


def _super(machine: Machine, arguments: Arguments, node: cst.Call) -> Value:
    frame = next((frame for frame in reversed(machine.frames) if frame.receiver is not None), None)
    if frame is None or frame.function is None or frame.function.owner is None or frame.receiver is None:
        return machine.fresh("super()")
    return Super(frame.receiver, frame.function.owner)


def _number(name: str) -> Callable[[Machine, Arguments, cst.Call], Value]:
    def convert(machine: Machine, arguments: Arguments, node: cst.Call) -> Value:
        def one(value: Value) -> Value:
            if isinstance(value, Tensor):
                if value.per_replica and name in ("float", "int", "bool"):
                    label = machine.text(node.args[0].value)
                    machine.emit(ReplicaLossUsed(node, machine.scene, label, f"{name}({label})", value))
                return machine.fresh(f"{name}()")
            return value if isinstance(value, (Const, AtLeast, Symbol)) else machine.fresh()

        given = arguments.get(0)
        if isinstance(given, Const) and name in ("int", "str"):
            return Const(str(given.value)) if name == "str" else given
        return machine.lift(one, given) if given is not None else machine.fresh()

    return convert


def _length(machine: Machine, arguments: Arguments, node: cst.Call) -> Value:
    items = content(machine, arguments.get(0) or NONE)
    if items is not None and items.exact:
        return Const(len(items.items))
    return machine.part(_owner(arguments), "len", node) if _owner(arguments) else machine.fresh()


def _owner(arguments: Arguments) -> int:
    value = arguments.get(0)
    return value.id if isinstance(value, (Object, Symbol)) else 0


def _range(machine: Machine, arguments: Arguments, node: cst.Call) -> Value:
    bounds = [
        value.value
        for value in arguments.positional
        if isinstance(value, Const) and isinstance(value.value, int)
    ]
    if bounds and len(bounds) == len(arguments.positional):
        numbers = range(*bounds)
        if len(numbers) <= _LONGEST:
            return Sequence(tuple(Const(number) for number in numbers))
    return Sequence((machine.fresh("i"),), exact=False)


def _enumerate(machine: Machine, arguments: Arguments, node: cst.Call) -> Value:
    iterable = arguments.get(0) or NONE
    known = each(machine, iterable)
    if known is not None:
        return Sequence(tuple(Sequence((Const(place), item)) for place, item in enumerate(known)), exact=True)
    pair = Sequence((machine.fresh("i"), element(machine, iterable, node)))
    return Sequence((pair,), exact=False)


def _zip(machine: Machine, arguments: Arguments, node: cst.Call) -> Value:
    columns = [each(machine, value) for value in arguments.positional]
    if columns and all(column is not None for column in columns):
        return Sequence(tuple(Sequence(row) for row in zip(*(column or () for column in columns))))
    row = tuple(element(machine, value, node) for value in arguments.positional)
    return Sequence((Sequence(row),), exact=False)


def _next(machine: Machine, arguments: Arguments, node: cst.Call) -> Value:
    given = arguments.get(0) or NONE
    if isinstance(given, Parameters):
        return machine.lift(
            lambda place: (
                Tensor(place, False, Role.PARAMETER, modules=frozenset({given.module.id}))
                if not isinstance(place, Const)
                else machine.fresh()
            ),
            modules.place_of(machine, given.module),
        )
    return element(machine, given, node)


def _same(machine: Machine, arguments: Arguments, node: cst.Call) -> Value:
    return arguments.get(0) or machine.fresh()


def _listed(machine: Machine, arguments: Arguments, node: cst.Call) -> Value:
    given = arguments.get(0)
    if given is None:
        return machine.new_list(Sequence(()), node)
    if isinstance(given, Parameters):
        return given

    def make(value: Value) -> Value:
        items = content(machine, value)
        if items is None:
            items = Sequence((element(machine, value, node),), exact=False)
        return machine.new_list(items, node)

    return machine.lift(make, given)


def _tuple(machine: Machine, arguments: Arguments, node: cst.Call) -> Value:
    items = content(machine, arguments.get(0) or Sequence(()))
    return items if items is not None else machine.fresh()


def _dict(machine: Machine, arguments: Arguments, node: cst.Call) -> Value:
    base = arguments.get(0)
    if isinstance(base, Object) and base.kind is Kind.DICT:
        base = machine.read(base.id, "#map")
    start = base if isinstance(base, Mapping) else Mapping((), None if base is None else machine.fresh())
    for key, value in arguments.keywords.items():
        start = start.with_item(key, value)
    result = machine.new_object(Kind.DICT, External("builtins.dict"), node)
    machine.write(result.id, "#map", start)
    return result


def _filter(machine: Machine, arguments: Arguments, node: cst.Call) -> Value:
    given = arguments.get(1) or NONE
    return replace(given, filtered=True) if isinstance(given, Parameters) else machine.fresh()


def _map(machine: Machine, arguments: Arguments, node: cst.Call) -> Value:
    function, iterable = arguments.get(0) or NONE, arguments.get(1) or NONE
    known = each(machine, iterable) or (element(machine, iterable, node),)
    return Sequence(
        tuple(calls.call(machine, function, Arguments((item,)), node) for item in known), exact=False
    )


def _sum(machine: Machine, arguments: Arguments, node: cst.Call) -> Value:
    items = content(machine, arguments.get(0) or NONE)
    found = [item for item in items.items if isinstance(item, Tensor)] if items is not None else []
    return replace(found[0], uid=0) if found else machine.fresh("sum")


def _print(machine: Machine, arguments: Arguments, node: cst.Call) -> Value:
    return NONE


_BUILTINS: dict[str, Callable[[Machine, Arguments, cst.Call], Value]] = {
    "isinstance": _isinstance,
    "hasattr": _hasattr,
    "getattr": _getattr,
    "setattr": _setattr,
    "super": _super,
    "float": _number("float"),
    "int": _number("int"),
    "bool": _number("bool"),
    "str": _number("str"),
    "len": _length,
    "range": _range,
    "enumerate": _enumerate,
    "zip": _zip,
    "next": _next,
    "iter": _same,
    "sorted": _same,
    "reversed": _same,
    "list": _listed,
    "tuple": _tuple,
    "dict": _dict,
    "filter": _filter,
    "map": _map,
    "sum": _sum,
    "print": _print,
}
