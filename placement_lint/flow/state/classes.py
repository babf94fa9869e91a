"""Classes of the program: their bases, and where an attribute is found."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from placement_lint.flow.api.torch_names import (
    CONTAINERS,
    LOSS_MODULES,
    MODULE_BASES,
    PARAMETRIC_LAYERS,
    WRAPPERS,
    builds_module,
)
from placement_lint.flow.domain.values import Choice, Class, External, Function, Object, Value
from placement_lint.flow.state.heap import Key, Slot
from placement_lint.flow.state.machine import Machine

# For a class attribute that is a property: the method that runs on assignment.
SETTER = Slot("setter")
# The base of classes whose instances are tuples with names for their items.
NAMED_TUPLE = External("typing.NamedTuple")


def module_base(base: Value) -> str | None:
    """The library class that makes its subclasses modules, if this is one."""
    if isinstance(base, External):
        known = base.name in MODULE_BASES or base.name in PARAMETRIC_LAYERS or base.name in CONTAINERS
        if known or base.name in LOSS_MODULES or builds_module(base.name):
            return base.name
    return None


def is_module_class(bases: tuple[Value, ...]) -> bool:
    for base in bases:
        options = [value for _, value in base.alternatives] if isinstance(base, Choice) else [base]
        if any(module_base(option) or (isinstance(option, Class) and option.module) for option in options):
            return True
    return False


def resolution_order(cls: Class) -> Iterator[Class]:
    """The class and its bases of this program, depth first, each once."""
    seen: set[int] = set()
    waiting: list[Value] = [cls]
    while waiting:
        current = waiting.pop(0)
        if isinstance(current, Class) and current.id not in seen:
            seen.add(current.id)
            yield current
            waiting[:0] = list(current.bases)


def find(machine: Machine, cls: Class, name: Key, beyond: Class | None = None) -> Value | None:
    """A class attribute along the resolution order; ``beyond`` starts after that class, as super() does."""
    order = list(resolution_order(cls))
    if beyond is not None and beyond in order:
        order = order[order.index(beyond) + 1 :]
    for current in order:
        value = machine.read(current.id, name)
        if value is not None:
            return value
    return None


def foreign_bases(cls: Class) -> list[Value]:
    """The bases that are not classes of this program, over the whole hierarchy."""
    return [base for current in resolution_order(cls) for base in current.bases if not isinstance(base, Class)]


def has_unknown_base(cls: Class) -> bool:
    """Whether it extends a class that is neither the program's, Python's, nor PyTorch's.

    Such a class may be a module, and what its constructor does with its arguments is unknown.
    """
    return any(
        not isinstance(base, External) or base.name.partition(".")[0] not in _KNOWN_LIBRARIES
        for base in foreign_bases(cls)
    )


_KNOWN_LIBRARIES = {"torch", *sys.stdlib_module_names}


def wrapper_base(cls: Value) -> str:
    """The wrapper of PyTorch that a class is, or derives from: ``torch.nn.DataParallel``; empty if there is none."""
    bases = foreign_bases(cls) if isinstance(cls, Class) else [cls]
    return next((base.name for base in bases if isinstance(base, External) and base.name in WRAPPERS), "")


def has_base(cls: Value, names: frozenset[str]) -> bool:
    """Whether a class of this program derives from one of these library classes."""
    return isinstance(cls, Class) and any(
        isinstance(base, External) and base.name in names for base in foreign_bases(cls)
    )


def is_subclass(cls: Class | External, other: Value) -> bool | None:
    """Whether one class derives from another; None if that is unknown."""
    if other in (cls, External("builtins.object")):
        return True
    if isinstance(cls, External):
        if not isinstance(other, External):
            return False
        if other.name in WRAPPERS:
            return False
        if other.name == "torch.nn.Module":
            none = cls.name.startswith(("torch.utils.data.", "torch.optim."))
            return True if cls.name.startswith("torch.nn.") or cls.name in MODULE_BASES else False if none else None
        others = ("torch.", "builtins.")
        if cls.name in WRAPPERS and _is_of_a_library(other):
            return None if other.name.rpartition(".")[2] == WRAPPERS[cls.name] else False
        if not cls.name.startswith("torch.") or not other.name.startswith(others):
            return None
        return None if _is_extended(other) and cls.name not in WRAPPERS else False
    if any(current == other for current in resolution_order(cls)):
        return True
    if isinstance(other, External):
        bases = foreign_bases(cls)
        if other in bases or (NAMED_TUPLE in bases and other.name == "builtins.tuple"):
            return True
        if other.name == "torch.nn.Module":
            return cls.module or bool(wrapper_base(cls)) or None
        if all(isinstance(base, External) and base.name in MODULE_BASES for base in bases):
            return False if other.name.startswith("torch.nn.") else None
        return None
    return False if isinstance(other, Class) else None


def tests_by_descent(machine: Machine, cls: Class) -> bool:
    """Whether ``isinstance`` with this class means that its argument was made from it or a class below it.

    A metaclass may decide otherwise, as that of abstract classes and protocols does.
    """
    bases = foreign_bases(cls)
    if not all(base in _BASES_WITHOUT_METACLASS or module_base(base) for base in bases):
        return False
    definitions = (machine.definition(one) for one in resolution_order(cls))
    return not any(definition.keywords for definition in definitions)


_BASES_WITHOUT_METACLASS = (External("builtins.object"), NAMED_TUPLE)


def _is_of_a_library(cls: External) -> bool:
    """Whether another library defines or exports it, and it is a class: a constant may be a tuple of classes."""
    library, _, name = cls.name.partition(".")
    return library not in _KNOWN_LIBRARIES and not name.rpartition(".")[2].isupper()


def _is_extended(cls: External) -> bool:
    """Whether other classes of PyTorch may derive from this one."""
    name = cls.name.rpartition(".")[2]
    return name.startswith("_") or name in _EXTENDED


# Classes from which others of PyTorch derive, besides those whose names begin with an underscore.
_EXTENDED = frozenset({"Adam", "Dataset", "Hardtanh", "IterableDataset", "LRScheduler", "Optimizer", "RNNBase",
                       "RNNCellBase", "Sampler"})  # fmt: skip


def class_id(owner: Object) -> int:
    """The id that an object's attributes are known by: its class's, or its own if the class is not the program's."""
    return owner.cls.id if isinstance(owner.cls, Class) else owner.id


def methods(machine: Machine, cls: Class) -> Iterator[Function]:
    """The methods of a class and of its ancestors."""
    for one in resolution_order(cls):
        values = (machine.read(one.id, name) for name in machine.store.names(one.id))
        yield from (value for value in values if isinstance(value, Function))
