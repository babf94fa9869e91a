"""Calls of Python's standard library."""

from __future__ import annotations

import libcst as cst

from placement_lint.flow.domain import partial_text
from placement_lint.flow.domain.arguments import Arguments
from placement_lint.flow.domain.path_condition import answered
from placement_lint.flow.domain.values import (
    FALSE,
    NONE,
    TRUE,
    Bound,
    Class,
    Const,
    External,
    Function,
    Imported,
    Kind,
    Mapping,
    Object,
    Parameters,
    Partial,
    Sequence,
    StateDict,
    Symbol,
    Tensor,
    Value,
)
from placement_lint.flow.interpreter import builtins
from placement_lint.flow.interpreter import calls as calling
from placement_lint.flow.models import gradients, modules
from placement_lint.flow.models.handlers import Handlers
from placement_lint.flow.state import imports
from placement_lint.flow.state.classes import NAMED_TUPLE
from placement_lint.flow.state.containers import FACTORY, content
from placement_lint.flow.state.heap import MAPPING
from placement_lint.flow.state.machine import Machine
from placement_lint.project.index import Import
from placement_lint.source.remembered import remembered


def _deque(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    return builtins.call_builtin(machine, "list", Arguments(arguments.positional[:1]), node)


def _defaultdict(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``defaultdict(list)``: a dict with a factory for missing values."""
    made = machine.new_object(Kind.DICT, External("builtins.dict"), node)
    machine.write(made.id, MAPPING, Mapping(()))
    machine.write(made.id, FACTORY, arguments.get(0) or NONE)
    return made


def _deepcopy(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    original = arguments.get(0, "x") or machine.fresh()

    def copy(value: Value) -> Value:
        if isinstance(value, Object) and modules.is_module(machine, value):
            return modules.copied(machine, value, node)
        return value if isinstance(value, (Tensor, Const, StateDict)) else machine.fresh()

    return machine.lift(copy, original)


def _partial(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    function, *rest = arguments.positional or (machine.fresh(),)
    return Partial(function, tuple(rest), tuple(arguments.keywords.items()))


def _wraps(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``functools.wraps(f)`` is ``partial(update_wrapper, wrapped=f)``."""
    return Partial(External("functools.update_wrapper"), (), (("wrapped", arguments.get(0, "wrapped") or NONE),))


def _method_of_object(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``types.MethodType(function, instance)``"""

    def bind(function: Value, receiver: Value) -> Value:
        if isinstance(function, Function):
            return Bound(receiver, function.name, function, node)
        return Partial(function, (receiver,), ())

    return machine.lift(bind, arguments.get(0) or machine.fresh(), arguments.get(1) or machine.fresh())


def _field(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``dataclasses.field(default_factory=list)``: the default value."""
    factory = arguments.keyword("default_factory")
    if factory is not None:
        return calling.call(machine, factory, Arguments(), node)
    return arguments.keyword("default") or machine.fresh("field")


def _import_module(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``importlib.import_module("package.module")``, and the module that an option names by default."""
    if arguments.get(1, "package") is not None:
        return machine.fresh(node)

    def imported(wanted: Value) -> Value:
        text = partial_text.letters(wanted)
        if text[:1] in ("", ".") or partial_text.HOLE in text:
            return machine.fresh(node)
        module = imports.bound(machine, Import(0, text))
        if isinstance(wanted, Const):
            return module
        is_default = imports.is_key(machine, wanted, text, node.args[0].value if node.args else None)
        other = machine.fresh(node)
        return machine.either([(answered(is_default, True), module), (answered(is_default, False), other)])

    return machine.lift(imported, arguments.get(0, "name") or NONE)


def _chain(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``itertools.chain(a.parameters(), b.parameters())``"""
    items: list[Value] = []
    for value in arguments.positional:
        inner = content(machine, value)
        item = value.listed() if isinstance(value, Parameters) else value
        items.extend(inner.items if inner is not None else (item,))
    return gradients.over(machine, machine.new_list(Sequence(tuple(items), exact=False), node), NONE)


def _chain_of(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``itertools.chain.from_iterable(net.parameters() for net in nets)``"""
    items = content(machine, arguments.get(0) or NONE)
    return _chain(machine, name, Arguments(items.items), node) if items is not None else machine.fresh()


def _named_tuple(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``namedtuple("Point", ["x", "y"])``: a class, unless its fields are not written out."""
    called, given = arguments.get(0, "typename"), arguments.get(1, "field_names")
    items = content(machine, given) if given is not None else None
    names = items.items if items is not None and items.exact else ()
    texts = given.value.replace(",", " ").split() if isinstance(given, Const) and isinstance(given.value, str) else []
    fields = tuple(str(one.value) for one in names if isinstance(one, Const)) if names else tuple(texts)
    if arguments.spread or not isinstance(called, Const) or not fields or len(fields) < len(names):
        return machine.fresh(node)
    cls = Class(machine.new_namespace(), str(called.value), (NAMED_TUPLE,), fields, file=imports.running_file(machine))
    machine.namespaces.definitions[cls.id] = _definition(node)
    defaults = content(machine, arguments.keyword("defaults") or NONE)
    for field, value in zip(reversed(fields), reversed(defaults.items if defaults is not None else ()), strict=False):
        machine.write(cls.id, field, value)
    return cls


@remembered
def _definition(node: cst.Call) -> cst.ClassDef:
    """A definition for the class that a call makes, which has none in the source."""
    return cst.ClassDef(cst.Name("namedtuple"), cst.IndentedBlock([]))


def _is_class(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``inspect.isclass(thing)``"""

    def test(option: Value) -> Value:
        if isinstance(option, (External, Imported, Symbol)):
            return machine.ask(machine.question(("isclass", option), text=node))
        return TRUE if isinstance(option, Class) else FALSE

    return machine.lift(test, arguments.get(0) or NONE)


def _exit(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    machine.dead = True
    return NONE


def identity(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """A function that returns its first argument."""
    return next(iter(arguments.values()), None) or machine.fresh(node)


CALLS: Handlers = {
    "copy.deepcopy": _deepcopy,
    "collections.deque": _deque,
    "collections.namedtuple": _named_tuple,
    "collections.defaultdict": _defaultdict,
    "functools.partial": _partial,
    "functools.wraps": _wraps,
    "types.MethodType": _method_of_object,
    "itertools.chain": _chain,
    "importlib.import_module": _import_module,
    "builtins.__import__": _import_module,
    "itertools.chain.from_iterable": _chain_of,
    "inspect.isclass": _is_class,
    "dataclasses.field": _field,
    "sys.exit": _exit,
    "os._exit": _exit,
    "builtins.exit": _exit,
    "builtins.quit": _exit,
    "copy.copy": identity,
    "functools.update_wrapper": identity,
    "collections.OrderedDict": builtins.ordered_dict,
}
