"""Builtin functions of Python."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Many

import libcst as cst

from placement_lint.flow.api.torch_names import (
    LEGACY_TYPE,
    MODULE_ATTRIBUTES,
    SIZE,
    TENSOR_ATTRIBUTES,
    TENSOR_MOVES,
    WRAPPERS,
)
from placement_lint.flow.domain import folding, partial_text
from placement_lint.flow.domain.arguments import Arguments
from placement_lint.flow.domain.path_condition import Condition, Question, answered
from placement_lint.flow.domain.record import replace
from placement_lint.flow.domain.values import (
    ABSENT,
    ARRAYS,
    FALSE,
    MAX_CALLABLES,
    NAMESPACE,
    NONE,
    REPLICA,
    TRUE,
    AtLeast,
    Bound,
    Choice,
    Class,
    Const,
    Device,
    External,
    Function,
    Imported,
    Kind,
    Mapping,
    Object,
    Parameters,
    Role,
    Sequence,
    StateDict,
    Super,
    Symbol,
    Tensor,
    Value,
    alternatives,
    is_compiled,
    is_option,
)
from placement_lint.flow.events.schema import ParametersRead
from placement_lint.flow.interpreter import attributes, calls, iteration, settings
from placement_lint.flow.models import (
    async_copy,
    attribute_dicts,
    checkpoints,
    gradients,
    non_movable,
    replica_losses,
    tensors,
    wrapper_attributes,
    wrappers,
)
from placement_lint.flow.state import devices, extent, imports, options
from placement_lint.flow.state.classes import find, is_module_class, is_subclass, methods, tests_by_descent
from placement_lint.flow.state.containers import content, depends, entries, length
from placement_lint.flow.state.devices import Context
from placement_lint.flow.state.heap import MAPPING
from placement_lint.flow.state.machine import Machine
from placement_lint.flow.state.module_notes import ModuleNotes
from placement_lint.source.querying import as_expression, last_name, reads_attribute

# Functions that iterate over all items of their arguments.
_TAKES_ALL = {"list", "tuple", "sum", "sorted", "set", "max", "min", "dict", "enumerate", "zip"}


def call_builtin(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    if name in _TAKES_ALL:
        machine.signals.program.values_collected(machine, arguments.positional)
        for value in arguments.positional:
            gradients.consume(machine, value, node)
    handler = _BUILTINS.get(name)
    if handler is not None:
        return handler(machine, arguments, node)
    return machine.fresh(f"{name}()", scattered=depends(machine, *arguments.values()))


def _isinstance(machine: Machine, arguments: Arguments, node: cst.Call) -> Value:
    value, classes = arguments.get(0) or NONE, arguments.get(1) or NONE
    return machine.lift(lambda option, target: is_instance_of(machine, option, target, node), value, classes)


def is_instance_of(machine: Machine, value: Value, target: Value, node: cst.Call) -> Value:
    """``isinstance(value, target)``, also for a tuple of classes; asks a question if the answer is unknown."""
    targets = target.items if isinstance(target, Sequence) else (target,)
    if isinstance(value, Tensor) and isinstance(target, External) and LEGACY_TYPE.fullmatch(target.name):
        return _is_of_legacy_type(machine, value, target, node)
    if isinstance(value, Tensor) and value.role is Role.PARAMETER and value.place == REPLICA:
        machine.emit(ParametersRead(node, machine.scene, machine.text(node), "isinstance"))
    answers = [_is_instance(machine, value, one) for one in targets]
    if True in answers:
        return Const(True)
    if None in answers:
        if isinstance(value, Symbol) and all(is_module_class((one,)) for one in targets):
            machine.notes[ModuleNotes].modules_by_test.setdefault(value.id, set()).add(target)
        return machine.ask(class_question(machine, value, target, node))
    return Const(False)


def _is_of_legacy_type(machine: Machine, tensor: Tensor, cls: External, node: cst.Call) -> Value:
    """``isinstance(x, torch.cuda.FloatTensor)`` tests a tensor's device and its dtype."""
    on_gpu = tensors.attribute(machine, tensor, "is_cuda", node)
    machine.now[Context].saw_gpu = machine.now[Context].saw_gpu or on_gpu == TRUE
    wants_gpu = cls.name.startswith("torch.cuda.")

    def test(found: Value) -> Value:
        if not isinstance(found, Const):
            return found if wants_gpu else machine.fresh(node, "bool")
        if bool(found.value) is not wants_gpu:
            return FALSE
        return TRUE if cls.name.endswith(".FloatTensor") else machine.ask(class_question(machine, tensor, cls, node))

    return machine.lift(test, on_gpu)


def class_question(machine: Machine, value: Value, target: Value, node: cst.CSTNode | str = "") -> Question:
    """The question of ``isinstance(value, target)``."""
    return machine.question(("isinstance", value, target), text=node)


def _is_instance(machine: Machine, value: Value, cls: Value) -> bool | None:
    if (
        isinstance(value, Symbol)
        and value.id in machine.notes[ModuleNotes].wraps
        and isinstance(cls, External)
        and cls.name in WRAPPERS
    ):
        return False
    if isinstance(value, Tensor) and value.role is Role.BATCH and isinstance(cls, External):
        # The type of a batch of unknown samples is unknown; in programs that test it, it usually is a tensor.
        return cls.name == "torch.Tensor"
    if value in ARRAYS and isinstance(cls, External):
        return cls.name == "numpy.ndarray"
    if isinstance(value, Parameters) and isinstance(cls, External) and cls.name.startswith("torch."):
        # a generator
        return False
    if isinstance(cls, External) and devices.is_device(machine, value):
        return cls.name == "torch.device"
    if isinstance(value, Object) and value.kind is Kind.WRAPPER and isinstance(cls, Symbol):
        # An unknown class with the same name as the wrapper's class.
        return True if last_name(as_expression(cls.source)) == value.cls.name.rpartition(".")[2] else None
    if isinstance(value, Object) and isinstance(cls, (Class, External)):
        if value.kind in (Kind.MODULE, Kind.WRAPPER) and cls in _TENSOR_CLASSES:
            return False
        if value.kind is Kind.DICT:
            return cls == value.cls or _stands_for("dict", cls)
        if value.kind is Kind.LIST:
            return cls == value.cls or _stands_for("list", cls)
        return is_subclass(value.cls, cls)
    if isinstance(value, Tensor) and value.role is Role.PARAMETER and cls == External("torch.nn.Parameter"):
        return value.place != REPLICA
    if isinstance(value, Tensor) and value.role is not Role.BATCH and isinstance(cls, External):
        return cls.name == "torch.Tensor" or _stands_for("Tensor", cls)
    if isinstance(value, Symbol) and value.type == "torch.Tensor" and isinstance(cls, External):
        return cls.name == "torch.Tensor"
    kind = _built_in(value)
    if kind and isinstance(cls, Class) and tests_by_descent(machine, cls):
        return False
    if isinstance(value, Sequence) and isinstance(cls, External):
        return _stands_for("tuple", cls)
    if isinstance(cls, External) and isinstance(value, (Mapping, StateDict)):
        return _is_dict(cls)
    if kind and isinstance(cls, External) and cls.name.partition(".")[0] in _KNOWN_LIBRARIES:
        return _stands_for(kind, cls)
    return None


def _built_in(value: Value) -> str:
    """The name of the built-in class of a value; empty if that is unknown."""
    if isinstance(value, Const):
        return type(value.value).__name__
    if isinstance(value, Symbol):
        return _BUILT_IN_TYPES.get(value.type, "")
    return "tuple" if isinstance(value, Sequence) else ""


_BUILT_IN_TYPES = {SIZE: "int", "int": "int", "float": "float", "bool": "bool", "str": "str"}


def _stands_for(name: str, cls: Class | External) -> bool:
    """Whether a class is the built-in class of this name, or an abstract base class of it."""
    if not isinstance(cls, External):
        return False
    module, _, last = cls.name.rpartition(".")
    if name == "bool" and cls.name == "builtins.int":
        return True
    return cls.name == f"builtins.{name}" or (module in _ABSTRACT and last in _KIND_OF.get(name, ()))


# Modules that define abstract base classes of containers; newer versions of PyTorch have no torch._six.
_ABSTRACT = {"collections.abc", "collections", "typing", "torch._six", "torch._six.container_abcs"}
_COLLECTION = {"Iterable", "Sized", "Container", "Collection", "Reversible"}
_KIND_OF = {
    "list": _COLLECTION | {"Sequence", "MutableSequence", "List"},
    "tuple": _COLLECTION | {"Sequence", "Tuple"},
    "dict": _COLLECTION | {"Mapping", "MutableMapping", "Dict"},
    "str": _COLLECTION | {"Sequence", "string_classes"},
    "Tensor": _COLLECTION,
}
# Libraries for whose classes it is known whether a constant is an instance.
_KNOWN_LIBRARIES = ("builtins", "collections", "numpy", "torch", "typing")
_TENSOR_CLASSES = (External("torch.Tensor"), External("torch.nn.Parameter"))


def _is_dict(cls: External) -> bool | None:
    """Whether a dict of unknown kind is an instance of this class; None if unknown."""
    if cls.name.startswith("torch."):
        return False
    if cls.name.rpartition(".")[2] in ("dict", "Mapping", "MutableMapping"):
        return True
    return False if cls.name in ("builtins.list", "builtins.tuple", "builtins.str") else None


def _issubclass(machine: Machine, arguments: Arguments, node: cst.Call) -> Value:
    """``issubclass(type(m), C)`` asks the same as ``isinstance(m, C)``."""

    def test(cls: Value, target: Value) -> Value:
        owner = cls.parent if isinstance(cls, Symbol) else None
        if owner is not None and machine.known_part(owner.id, "__class__") == cls:
            return is_instance_of(machine, owner, target, node)
        targets = target.items if isinstance(target, Sequence) else (target,)
        if isinstance(cls, (Class, External)) and all(isinstance(one, (Class, External)) for one in targets):
            answers = [is_subclass(cls, one) for one in targets]
            if None not in answers or True in answers:
                return Const(True in answers)
        return machine.ask(machine.question(("issubclass", cls, target), text=node))

    return machine.lift(test, arguments.get(0) or NONE, arguments.get(1) or NONE)


def _hasattr(machine: Machine, arguments: Arguments, node: cst.Call) -> Value:
    owner, name = arguments.get(0) or NONE, arguments.get(1) or NONE

    def test(option: Value, attribute: Value) -> Value:
        if attribute == Const("_orig_mod") and isinstance(option, Object) and is_compiled(option):
            return machine.either([(option.compiled, TRUE), (option.compiled.negation, FALSE)])
        if isinstance(attribute, Const) and isinstance(attribute.value, str):
            known = _has_attribute(machine, option, attribute.value)
            if known is not None:
                return Const(known)
            if isinstance(option, Object) and machine.read(option.id, attribute.value) is not None:
                held = machine.read(option.id, attribute.value, unset=ABSENT)
                return machine.lift(lambda value: Const(value is not ABSENT), held)
        return machine.ask(machine.question(("hasattr", option, attribute), text=node))

    return machine.lift(test, owner, name)


def _type(machine: Machine, arguments: Arguments, node: cst.Call) -> Value:
    def of(value: Value) -> Value:
        if isinstance(value, Tensor) and value.role in (Role.PLAIN, Role.BATCH):
            return External("torch.Tensor")
        if value in ARRAYS:
            return External("numpy.ndarray")
        if isinstance(value, Object) and not is_compiled(value):
            return value.cls
        if isinstance(value, (Sequence, Const)):
            return External(f"builtins.{'tuple' if isinstance(value, Sequence) else type(value.value).__name__}")
        if isinstance(value, Symbol):
            return machine.part(value.id, "__class__", node, value)
        return machine.fresh(node)

    return machine.lift(of, arguments.get(0) or NONE)


def _callable(machine: Machine, arguments: Arguments, node: cst.Call) -> Value:
    def test(option: Value) -> Value:
        if isinstance(option, (Const, Function, Class)):
            return Const(not isinstance(option, Const))
        return machine.ask(machine.question(("callable", option), text=node))

    return machine.lift(test, arguments.get(0) or NONE)


def _has_attribute(machine: Machine, owner: Value, name: str) -> bool | None:
    if isinstance(owner, Symbol) and name == "module" and owner.id in machine.notes[ModuleNotes].wraps:
        # The program wraps this value elsewhere: here it is the bare module.
        return False
    if name in non_movable.MOVES and non_movable.kind(owner) is not None:
        return False
    if isinstance(owner, Sequence):
        return hasattr((), name)
    if isinstance(owner, Tensor) and (
        name in TENSOR_MOVES or (name in TENSOR_ATTRIBUTES and owner.role is not Role.BATCH)
    ):
        return True
    if not isinstance(owner, Object):
        return None
    if name == "_orig_mod" and is_compiled(owner):
        return True if machine.path.implies(owner.compiled) else None
    if owner.kind is Kind.DICT and attribute_dicts.has_entries_as_attributes(machine, owner):
        return True if name in dict(entries(machine, owner).items) else None
    if owner.kind in (Kind.LIST, Kind.DICT):
        return hasattr([] if owner.kind is Kind.LIST else {}, name)
    stored = machine.store.read(owner.id, name)
    if stored is not None:
        found = {option is not ABSENT for guard, option in alternatives(stored) if not machine.path.excludes(guard)}
        return found.pop() if len(found) == 1 else None
    if owner.kind is Kind.WRAPPER:
        return name in MODULE_ATTRIBUTES or (None if wrappers.has_attribute(machine, owner, name) else False)
    if isinstance(owner.cls, Class):
        if find(machine, owner.cls, name) is not None:
            return True
        return (name in MODULE_ATTRIBUTES and name != "module") if owner.kind is Kind.MODULE else None
    return False if owner.kind is Kind.MODULE and name == "module" else None


def _getattr(machine: Machine, arguments: Arguments, node: cst.Call) -> Value:
    owner, name, default = arguments.get(0) or NONE, arguments.get(1), arguments.get(2)
    if not isinstance(name, Const) or not isinstance(name.value, str):
        written = node.args[1].value if len(node.args) > 1 else None
        return _one_of_many(machine, owner, name, written) if name is not None else machine.fresh()
    label = name.value

    def get(option: Value) -> Value:
        if default is not None and _has_attribute(machine, option, label) is not True:
            if _has_attribute(machine, option, label) is False:
                return default
            if isinstance(option, (Object, Symbol)):
                return machine.part(option.id, ("getattr", label, default), label)
            return machine.fresh(label)
        written = cst.Attribute(value=node.args[0].value, attr=cst.Name(label)) if label.isidentifier() else None
        return attributes.read(machine, option, label, written) if written is not None else machine.fresh()

    return machine.lift(get, owner)


def _one_of_many(machine: Machine, owner: Value, name: Value, written: cst.CSTNode | None) -> Value:
    """``getattr(models, args.arch)``"""
    return machine.lift(lambda option, label: _one_of(machine, option, label, written), owner, name)


def _one_of(machine: Machine, owner: Value, name: Value, written: cst.CSTNode | None) -> Value:
    if isinstance(owner, (Imported, External)):
        return attributes.chosen(machine, owner, name, written)
    by_user = isinstance(name, Symbol) and is_option(name)
    if by_user and isinstance(owner, Object) and owner.kind is Kind.INSTANCE and isinstance(owner.cls, Class):
        return _chosen_method(machine, owner, owner.cls, name)
    return machine.fresh()


def _chosen_method(machine: Machine, owner: Object, cls: Class, name: Value) -> Value:
    """``getattr(trainer, args.mode)``: one of the methods that are meant for others."""
    names = dict.fromkeys(method.name for method in methods(machine, cls) if method.name[0] != "_")
    chosen: list[tuple[Condition, Value]] = []
    for label in names if len(names) <= MAX_CALLABLES else ():
        method = find(machine, cls, label)
        question = imports.is_key(machine, name, label)
        question.say(by_name=True)
        if isinstance(method, Function) and not method.decorators:
            chosen.append((answered(question, True), Bound(owner, label, method)))
    return machine.either(chosen) if chosen else machine.fresh()


def _globals(machine: Machine, arguments: Arguments, node: cst.Call) -> Value:
    return imports.running_module(machine)


def _setattr(machine: Machine, arguments: Arguments, node: cst.Call) -> Value:
    return set_attribute(machine, arguments, [argument.value for argument in node.args], node)


def set_attribute(machine: Machine, arguments: Arguments, written: Many[cst.BaseExpression], node: cst.Call) -> Value:
    """``setattr(net, name, value)``, or ``net.__setattr__(name, value)``; ``written`` are the three expressions."""
    owner, name, value = arguments.get(0), arguments.get(1), arguments.get(2)
    if owner is not None and value is not None and isinstance(name, Const) and isinstance(name.value, str):
        attributes.write(machine, owner, name.value, value, node, f"{machine.text(written[0])}.{name.value}")
    elif owner is not None:
        named = written[1] if len(written) > 1 else node
        others = options.excluded(machine, name)
        if value is not None:
            machine.signals.program.value_kept(machine, value)
        for _, option in alternatives(machine.restrict(owner)):
            wrapper_attributes.any_may_be_written(machine, option)
        machine.lift(lambda option: settings.assign_some(machine, option, named, value or NONE, node, others), owner)
    return NONE


def _super(machine: Machine, arguments: Arguments, node: cst.Call) -> Value:
    frame = next((frame for frame in reversed(machine.frames) if frame.receiver is not None), None)
    if frame is None or frame.function is None or frame.function.owner is None or frame.receiver is None:
        return machine.fresh("super()")
    return Super(frame.receiver, frame.function.owner)


def _number(name: str) -> Callable[[Machine, Arguments, cst.Call], Value]:
    def convert(machine: Machine, arguments: Arguments, node: cst.Call) -> Value:
        def one(value: Value) -> Value:
            _read_on_host(machine, value, node.args[0].value, node)
            if isinstance(value, Tensor) and name in ("float", "int", "bool"):
                source = node.args[0].value
                replica_losses.used_as_number(machine, value, name, f"{name}({machine.text(source)})", source, node)
            if isinstance(value, Symbol):
                return replace(value, type=name)
            if isinstance(value, Const):
                return folding.converted(name, value.value) or machine.fresh(f"{name}()", name)
            if isinstance(value, (AtLeast, Device)):
                return replace(value, built=False) if isinstance(value, Device) else value
            return machine.fresh(f"{name}()", name, depends(machine, value))

        given = arguments.get(0)
        return machine.lift(one, given) if given is not None else machine.fresh()

    return convert


def _length(machine: Machine, arguments: Arguments, node: cst.Call) -> Value:
    """The length of each alternative: the length of a list may depend on the machine."""
    given = arguments.get(0) or NONE
    machine.lift(lambda option: _asked_for_length(machine, option, node), given)
    lengths = [(guard, length(machine, option, node)) for guard, option in alternatives(machine.restrict(given))]
    known = [(guard, size) for guard, size in lengths if size is not None]
    if len(known) == len(lengths):
        return machine.either(known)
    return machine.fresh(node, SIZE, depends(machine, *arguments.values()))


def _asked_for_length(machine: Machine, value: Value, node: cst.Call) -> Value:
    if isinstance(value, Object):
        argument = _written(node, 0)
        wrappers.lacks_operation(machine, value, "__len__", argument, argument)
    return value


def _written(node: cst.Call, place: int) -> cst.CSTNode:
    """The expression of an argument; the call if it is not written there, as with ``zip(*lists)``."""
    given = node.args[place : place + 1]
    return given[0].value if given and not given[0].star else node


def _range(machine: Machine, arguments: Arguments, node: cst.Call) -> Value:
    """A range that depends on the machine becomes a list, so that its alternatives have an identity."""
    if any(isinstance(bound, Choice) for bound in arguments.positional):
        return machine.lift(lambda *bounds: machine.new_list(_numbers(machine, bounds), node), *arguments.positional)
    return _numbers(machine, arguments.positional)


def _numbers(machine: Machine, bounds: tuple[Value, ...]) -> Sequence:
    """The items of ``range(3)``; for ``range(torch.cuda.device_count())``, the items that certainly exist."""
    known = [bound.value for bound in bounds if isinstance(bound, Const)]
    numbers = folding.numbers(known) if len(known) == len(bounds) else None
    if numbers is not None:
        return Sequence(tuple(numbers))
    if len(bounds) == 1 and isinstance(bounds[0], AtLeast):
        return Sequence(tuple(Const(number) for number in range(bounds[0].bound)), exact=False)
    return Sequence((machine.fresh("i", "int"),), exact=False)


def _enumerate(machine: Machine, arguments: Arguments, node: cst.Call) -> Value:
    iterable = arguments.get(0) or NONE
    known = iteration.each(machine, iterable)
    if known is not None:
        return Sequence(tuple(Sequence((Const(place), item)) for place, item in enumerate(known)), exact=True)
    item = iteration.element(machine, iterable, _written(node, 0))
    pair = Sequence((machine.fresh("i", "int"), item))
    return Sequence((pair,), exact=False)


def _zip(machine: Machine, arguments: Arguments, node: cst.Call) -> Value:
    columns = [iteration.each(machine, value) for value in arguments.positional]
    if columns and all(column is not None for column in columns):
        rows = zip(*(column or () for column in columns), strict=False)
        return Sequence(tuple(Sequence(tuple(extent.reached(machine, item) for item in row)) for row in rows))
    row = tuple(
        iteration.element(machine, value, _written(node, place)) for place, value in enumerate(arguments.positional)
    )
    return Sequence((Sequence(row),), exact=False)


def _next(machine: Machine, arguments: Arguments, node: cst.Call) -> Value:
    given = arguments.get(0) or NONE
    return iteration.element(machine, given, node, single=True)


def _same(machine: Machine, arguments: Arguments, node: cst.Call) -> Value:
    return arguments.get(0) or machine.fresh()


def _listed(machine: Machine, arguments: Arguments, node: cst.Call) -> Value:
    given = arguments.get(0)
    if given is None:
        return machine.new_list(Sequence(()), node)

    def make(value: Value) -> Value:
        if isinstance(value, Parameters):
            return machine.new_list(Sequence((value.listed(),), exact=False), node)
        items = iteration.items_of(machine, value)
        if items is None:
            items = Sequence((iteration.element(machine, value, _written(node, 0)),), exact=False)
        return machine.new_list(items, node)

    return machine.lift(make, given)


def _tuple(machine: Machine, arguments: Arguments, node: cst.Call) -> Value:
    items = content(machine, arguments.get(0) or Sequence(()))
    return items if items is not None else machine.fresh()


def _dict(machine: Machine, arguments: Arguments, node: cst.Call) -> Value:
    base = arguments.get(0)
    start = entries(machine, base) if base is not None else Mapping(())
    return machine.new_dict(start.with_items(arguments.keywords.items()), node)


def ordered_dict(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``collections.OrderedDict([("conv", conv), ("norm", norm)])``"""
    for value in arguments.positional:
        gradients.consume(machine, value, node)
    made = machine.new_object(Kind.DICT, External(name), node)
    machine.write(made.id, MAPPING, entries(machine, _dict(machine, arguments, node)))
    return made


def _filter(machine: Machine, arguments: Arguments, node: cst.Call) -> Value:
    given = arguments.get(1) or NONE
    function = arguments.get(0)
    trainable = isinstance(function, Function) and reads_attribute(function.node, "requires_grad")
    return replace(given, node=node, trainable=trainable) if isinstance(given, Parameters) else machine.fresh()


def _map(machine: Machine, arguments: Arguments, node: cst.Call) -> Value:
    function, iterable = arguments.get(0) or NONE, arguments.get(1) or NONE
    known = iteration.each(machine, iterable) or (iteration.element(machine, iterable, node),)
    return Sequence(tuple(calls.call(machine, function, Arguments((item,)), node) for item in known), exact=False)


def _sum(machine: Machine, arguments: Arguments, node: cst.Call) -> Value:
    """``sum(losses)``: a tensor like the first item, if that is one."""
    items = content(machine, arguments.get(0) or NONE)
    if items is None or not items.items:
        return machine.fresh(node)
    return machine.lift(
        lambda first: replace(first, uid=0) if isinstance(first, Tensor) else machine.fresh(node), items.items[0]
    )


def _read_on_host(machine: Machine, value: Value, source: cst.BaseExpression, node: cst.Call) -> None:
    for _, option in alternatives(value):
        if isinstance(option, Tensor):
            async_copy.read(machine, option, source, node)
            async_copy.fetched(machine, option)


def _print(machine: Machine, arguments: Arguments, node: cst.Call) -> Value:
    for written, value in zip(node.args, arguments.positional, strict=False):
        _read_on_host(machine, value, written.value, node)
    return NONE


def _open(machine: Machine, arguments: Arguments, node: cst.Call) -> Value:
    """A file, which has the letters of its name."""
    path = arguments.get(0, "file")
    file = replace(machine.fresh(node), letters=partial_text.letters(path))
    checkpoints.opened(machine, file, path)
    return file


def _vars(machine: Machine, arguments: Arguments, node: cst.Call) -> Value:
    """``vars(args)`` is ``args.__dict__``."""
    namespace = arguments.get(0)
    if isinstance(namespace, Symbol) and namespace.type == NAMESPACE:
        return machine.part(namespace.id, "__dict__", node, namespace)
    if namespace is not None:
        wrapper_attributes.any_may_be_written(machine, namespace)
    return machine.fresh("vars()")


_BUILTINS: dict[str, Callable[[Machine, Arguments, cst.Call], Value]] = {
    "isinstance": _isinstance,
    "issubclass": _issubclass,
    "hasattr": _hasattr,
    "callable": _callable,
    "type": _type,
    "getattr": _getattr,
    "setattr": _setattr,
    "super": _super,
    "float": _number("float"),
    "int": _number("int"),
    "bool": _number("bool"),
    "str": _number("str"),
    "globals": _globals,
    "len": _length,
    "range": _range,
    "enumerate": _enumerate,
    "zip": _zip,
    "next": _next,
    "iter": _same,
    "sorted": _listed,
    "reversed": _same,
    "list": _listed,
    "set": _listed,
    "tuple": _tuple,
    "dict": _dict,
    "filter": _filter,
    "map": _map,
    "sum": _sum,
    "print": _print,
    "open": _open,
    "vars": _vars,
}
