"""Registries of classes, of libraries and of the program: which classes a configuration may name.

Read in mmengine 0.10.7, `registry/registry.py` and `registry/build_functions.py` (`build_from_cfg` calls the class that
`cfg["type"]` names with the other entries), and in fvcore 0.1.5, `common/registry.py`.
https://github.com/open-mmlab/mmengine/blob/v0.10.7/mmengine/registry/registry.py

The classes that other files register are found in the files that the program imports, when a class is first asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import libcst as cst

from placement_lint.flow.domain.arguments import Arguments
from placement_lint.flow.domain.path_condition import answered
from placement_lint.flow.domain.values import (
    NONE,
    TRUE,
    Bound,
    Class,
    Const,
    External,
    Function,
    Kind,
    Mapping,
    Object,
    Partial,
    Symbol,
    Value,
)
from placement_lint.flow.state import imports
from placement_lint.flow.state.classes import resolution_order
from placement_lint.flow.state.containers import content, entries
from placement_lint.flow.state.heap import MAPPING, Slot
from placement_lint.flow.state.machine import Machine
from placement_lint.flow.state.notes import Notes, Use, noted

REGISTRY = External("mmengine.registry.Registry")
REGISTRIES = {
    "mmengine.registry.Registry",
    "mmengine.Registry",
    "mmengine.registry.registry.Registry",
    "mmcv.utils.Registry",
    "mmcv.Registry",
    "mmcv.utils.registry.Registry",
    "fvcore.common.registry.Registry",
    "detectron2.utils.registry.Registry",
}
BUILDERS = {
    "mmengine.registry.build_from_cfg",
    "mmengine.build_from_cfg",
    "mmcv.utils.build_from_cfg",
    "mmcv.build_from_cfg",
}
_REGISTERING = {"register_module", "register"}
METHODS = {*_REGISTERING, "get", "build"}
# What a registering method without a class returns, to decorate one.
ADD = External("placement_lint.registered")

# The methods by which classes of the program register others, and those that find them again.
_ADDERS = {
    *("register", "register_module", "register_class", "register_cls", "register_model", "register_object"),
    *("_register", "_do_register", "_register_module", "_register_class"),
}
_FINDERS = {"get", "build", "create", "make", "__getitem__", "__call__", "get_class"}
_COMPLETE = Slot("complete")


@dataclass
class Registries(Notes):
    """Whether classes of the program are registries, by their ids."""

    classes: dict[int, bool] = noted(dict, Use.DERIVED)


# --- registries of the program ---------------------------------------------------------------------------------------


def is_registry_class(machine: Machine, cls: Class | External) -> bool:
    """Whether a class of the program has methods to register classes and to find them."""
    if not isinstance(cls, Class) or cls.module:
        return False
    known = machine.notes[Registries].classes
    if cls.id not in known:
        names = {name for one in resolution_order(cls) for name in machine.store.names(one.id) if isinstance(name, str)}
        known[cls.id] = bool(names & _FINDERS) and bool(names & _ADDERS)
    return known[cls.id]


def registers(machine: Machine, decorator: Value) -> bool:
    """Whether a decorator registers a class: what a registering method returned, or such a method."""
    if isinstance(decorator, Partial):
        return decorator.function == ADD
    function = decorator.function if isinstance(decorator, Bound) else decorator
    if not isinstance(function, Function):
        return False
    if function.owner is not None:
        return is_registry_class(machine, function.owner)
    around = machine.store.read(function.frame, "self")
    return isinstance(around, Object) and is_registry_class(machine, around.cls)


def classes_in(machine: Machine, value: Value) -> set[object] | None:
    """The keys of a dict in which classes or functions are registered; None for any other value, and an empty one."""
    held = machine.read(value.id, MAPPING) if isinstance(value, Object) and value.kind is Kind.DICT else None
    if not isinstance(held, Mapping) or held.rest is not None or not held.items:
        return None
    return {key for key, _ in held.items} if all(isinstance(one, (Class, Function)) for _, one in held.items) else None


def is_asked(machine: Machine, registry: Object, name: str) -> bool:
    """Whether code outside a registry of the program reads something of it that does not register."""
    if registry.kind is not Kind.INSTANCE or not is_registry_class(machine, registry.cls):
        return False
    within = any(frame.receiver == registry for frame in machine.frames)
    return not within and name not in _ADDERS


def used(machine: Machine, registry: Object, name: str) -> None:
    """An attribute of an object is read: by then all files that the program imports have run."""
    if is_asked(machine, registry, name):
        complete(machine, registry)


def complete(machine: Machine, registry: Object) -> None:
    """Run the definitions of the classes that other files register, once."""
    if machine.project is None or machine.store.read(registry.id, _COMPLETE) is not None:
        return
    machine.store.write_lasting(registry.id, _COMPLETE, TRUE)
    for frame, name in imports.registered_with(machine, registry):
        imports.member(machine, frame, name)


# --- registries of libraries ---------------------------------------------------------------------------------------


def build(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``MODELS = Registry("models")``"""
    made = machine.new_object(Kind.OTHER, REGISTRY, node)
    machine.write(made.id, MAPPING, Mapping(()))
    return made


def call_method(machine: Machine, target: Object, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``MODELS.register_module()``, ``MODELS.get(name)``, ``MODELS.build(cfg)``"""
    if name in _REGISTERING:
        return _register(machine, target, arguments, node)
    complete(machine, target)
    given = arguments.get(0, "cfg" if name == "build" else "key") or machine.fresh(node)
    return _one(machine, target, given) if name == "get" else _built(machine, target, given, node)


def build_from_cfg(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``build_from_cfg(cfg, MODELS)``"""
    registry = arguments.get(1, "registry")
    given = arguments.get(0, "cfg") or machine.fresh(node)
    if not isinstance(registry, Object) or registry.cls != REGISTRY:
        return machine.fresh(node)
    complete(machine, registry)
    return _built(machine, registry, given, node)


def _register(machine: Machine, target: Object, arguments: Arguments, node: cst.Call) -> Value:
    given = arguments.keyword("module") or arguments.keyword("obj")
    first = arguments.get(0)
    if given is None and isinstance(first, (Class, Function)):
        given = first
    label = arguments.keyword("name") or (first if isinstance(first, Const) else NONE)
    if given is None or given == NONE:
        return Partial(ADD, (target, label), ())
    return add(machine, ADD.name, Arguments((target, label, given)), node)


def add(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``@MODELS.register_module(name)`` above a class"""
    registry, label, cls = (*arguments.positional, NONE, NONE, NONE)[:3]
    held = machine.read(registry.id, MAPPING) if isinstance(registry, Object) else None
    if not isinstance(registry, Object) or not isinstance(held, Mapping) or not isinstance(cls, (Class, Function)):
        return cls
    listed = content(machine, label)
    for one in listed.items if listed is not None else (label,):
        key = one.value if isinstance(one, Const) and isinstance(one.value, str) else cls.name
        held = held.with_item(key, cls)
    machine.write(registry.id, MAPPING, held)
    return cls


def _one(machine: Machine, registry: Object, key: Value) -> Value:
    """The class of a name: that of a constant, else one of all."""
    held = machine.read(registry.id, MAPPING)
    if isinstance(key, Class):
        return key
    if not isinstance(held, Mapping) or not held.items:
        return machine.fresh("registered")
    if isinstance(key, Const):
        return held.get(key.value) or machine.fresh("registered")
    if len(held.items) == 1:
        return held.items[0][1]
    options = []
    for name, cls in held.items:
        question = imports.is_key(machine, key, name)
        question.say(by_name=True)
        options.append((answered(question, True), cls))
    return machine.either(options)


def _built(machine: Machine, registry: Object, cfg: Value, node: cst.Call) -> Value:
    return machine.lift(partial(_build, machine, registry, node), cfg)


def _build(machine: Machine, registry: Object, node: cst.Call, cfg: Value) -> Value:
    known = isinstance(cfg, Mapping) or (isinstance(cfg, Object) and cfg.kind is Kind.DICT)
    held = entries(machine, cfg) if known else Mapping((), machine.fresh())
    kind = dict(held.items).get("type") or machine.fresh("type")
    if isinstance(cfg, Symbol):
        kind = machine.part(cfg.id, ("item", "type"), f"{cfg.text}.type")
    options = {str(key): value for key, value in held.items if key != "type"}
    cls = machine.lift(partial(_one, machine, registry), kind)
    return machine.evaluator.call(machine, cls, Arguments((), options, spread=held.rest is not None), node)
