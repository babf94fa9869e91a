"""Dicts whose entries are attributes as well, such as ``Munch(net=net)``, and namespaces."""

from __future__ import annotations

from collections.abc import Collection

import libcst as cst

from placement_lint.flow.domain.arguments import Arguments
from placement_lint.flow.domain.record import replace
from placement_lint.flow.domain.values import Class, External, Function, Kind, Mapping, Object, Value
from placement_lint.flow.models.handlers import Handlers
from placement_lint.flow.state.classes import find, has_base
from placement_lint.flow.state.containers import entries, perhaps_replaced
from placement_lint.flow.state.heap import MAPPING
from placement_lint.flow.state.machine import Machine
from placement_lint.source.querying import assignments_to_self

# Libraries' classes and functions, and whether dicts inside of the given one get attributes, too.
_DICTS = {
    "munch.Munch": False,
    "munch.munchify": True,
    "easydict.EasyDict": True,
    "attrdict.AttrDict": True,
    "addict.Dict": True,
    "box.Box": True,
    "ml_collections.ConfigDict": True,
    "omegaconf.DictConfig": True,
    "omegaconf.OmegaConf.create": True,
}
_NAMESPACES = ("types.SimpleNamespace", "argparse.Namespace")
_DICT_BASES = frozenset({"builtins.dict", "collections.OrderedDict"})
# Dicts in dicts get attributes to this depth.
_DEPTH = 4


def build(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``Munch(net=net)``; unknown unless all entries are known."""
    given = _given(machine, arguments)
    return _made(machine, External(name), given, node, _DEPTH if _DICTS[name] else 0) if given else machine.fresh(node)


def _given(machine: Machine, arguments: Arguments) -> Mapping | None:
    """The entries of ``Munch({"a": a}, b=b)`` if all are known, and there are any."""
    if arguments.spread or len(arguments.positional) > 1:
        return None
    start = entries(machine, arguments.positional[0]) if arguments.positional else Mapping(())
    given = start.with_items(arguments.keywords.items())
    return given if given.items and given.rest is None else None


def _made(machine: Machine, cls: External, given: Mapping, node: cst.Call, depth: int) -> Object:
    made = machine.new_object(Kind.DICT, cls, node)

    def inner(value: Value) -> Value:
        if depth and isinstance(value, Object) and value.kind is Kind.DICT:
            return _made(machine, cls, entries(machine, value), node, depth - 1)
        return value

    items = tuple((key, machine.lift(inner, value)) for key, value in given.items)
    machine.write(made.id, MAPPING, replace(given, items=items))
    return made


def namespace(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``SimpleNamespace(net=net)``"""
    if arguments.spread or arguments.positional or not arguments.keywords:
        return machine.fresh(node)
    made = machine.new_object(Kind.INSTANCE, External(name), node)
    for key, value in arguments.keywords.items():
        machine.write(made.id, key, value)
    return made


def is_namespace(value: Object) -> bool:
    return value.kind is Kind.INSTANCE and isinstance(value.cls, External) and value.cls.name in _NAMESPACES


def has_entries_as_attributes(machine: Machine, value: Object) -> bool:
    """Whether the attributes of a value are the entries of the dict that it is."""
    if value.kind is not Kind.DICT:
        return False
    return _shows_entries(machine, value.cls) if isinstance(value.cls, Class) else value.cls.name in _DICTS


def is_made_by(machine: Machine, cls: Class, arguments: Arguments) -> bool:
    """Whether a class of the program makes such a dict of these arguments."""
    return _given(machine, arguments) is not None and _shows_entries(machine, cls)


def fill(machine: Machine, made: Object, arguments: Arguments) -> None:
    """``dict.__init__`` runs for an instance of a subclass."""
    start = entries(machine, arguments.positional[0]) if arguments.positional else Mapping(())
    rest = start.rest or (machine.fresh() if arguments.spread else None)
    machine.write(made.id, MAPPING, replace(start.with_items(arguments.keywords.items()), rest=rest))


def forget_entries(machine: Machine, made: Object, others: Collection[object]) -> None:
    """Entries under unknown names, none of ``others``, were assigned."""
    known = entries(machine, made)
    items = ((key, item if key in others else perhaps_replaced(machine, item)) for key, item in known.items)
    machine.write(made.id, MAPPING, Mapping(tuple(items), machine.fresh()))


def _shows_entries(machine: Machine, cls: Class) -> bool:
    """Whether a subclass of dict looks attributes up in itself: by ``__getattr__``, or ``self.__dict__ = self``."""
    if not has_base(cls, _DICT_BASES):
        return False
    initialiser = find(machine, cls, "__init__")
    shown = isinstance(initialiser, Function) and any(
        name == "__dict__" and isinstance(value, cst.Name) and value.value == "self"
        for name, value in assignments_to_self(initialiser.node)
    )
    return shown or find(machine, cls, "__getattr__") is not None


CALLS: Handlers = {**dict.fromkeys(_DICTS, build), **dict.fromkeys(_NAMESPACES, namespace)}
