"""Calls of functions and classes of the program, of modules, and of library names."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import libcst as cst

from placement_lint.flow.api.torch_names import (
    CONTAINERS,
    METHODS_OF_TENSORS,
    PROXY_TESTS,
    STEPS_OF_WRAPPERS,
    TENSOR_ATTRIBUTES,
    WAITING_METHODS,
)
from placement_lint.flow.domain.arguments import Arguments
from placement_lint.flow.domain.path_condition import ALWAYS, NEVER, Condition
from placement_lint.flow.domain.record import replace
from placement_lint.flow.domain.values import (
    FALSE,
    NAMESPACE,
    NONE,
    TRUE,
    Bound,
    Choice,
    Class,
    Const,
    External,
    Fact,
    Function,
    Kind,
    Mapping,
    Object,
    Parameters,
    Partial,
    Placed,
    Role,
    Sequence,
    StateDict,
    Super,
    Symbol,
    Tensor,
    Value,
    alternatives,
    is_compiled,
)
from placement_lint.flow.interpreter import (
    attributes,
    builtins,
    children_dict,
    cuda_guards,
    expressions,
    forward,
    inline_policy,
    late_instances,
    library,
    members,
    memo,
    methods,
    module_methods,
    settings,
    statements,
)
from placement_lint.flow.models import (
    async_copy,
    attribute_dicts,
    averaged,
    checkpoints,
    device_choice,
    hooks,
    loaders,
    module_hooks,
    modules,
    non_movable,
    optimizers,
    ranks,
    registries,
    schedulers,
    state_dicts,
    tensor_hooks,
    tensors,
    torchvision,
    wrapper_attributes,
    wrappers,
)
from placement_lint.flow.models.autocast import Autocast
from placement_lint.flow.models.gradients import NoGrad
from placement_lint.flow.state import extent, imports, options
from placement_lint.flow.state.classes import find, foreign_bases, has_unknown_base, module_base, wrapper_base
from placement_lint.flow.state.heap import ITEMS, MAPPING, Cell, Slot
from placement_lint.flow.state.machine import MAX_CALL_DEPTH, Frame, Machine
from placement_lint.flow.state.module_notes import ModuleNotes
from placement_lint.flow.state.moment import Around, Calls
from placement_lint.flow.state.notes import Notes, Use, noted
from placement_lint.flow.state.program import Program
from placement_lint.source.querying import dotted, last_name, words_in
from placement_lint.source.walking import children


@dataclass
class Signatures(Notes):
    """Facts about the parameters of functions."""

    # for each positional parameter, whether it may be a tensor
    takes_tensors: dict[cst.CSTNode, list[bool]] = noted(dict, Use.DERIVED)


def call(machine: Machine, callee: Value, arguments: Arguments, node: cst.Call) -> Value:
    """``callee(*arguments)``"""
    if not isinstance(callee, Choice):
        return _call(machine, callee, arguments, node)
    device_choice.type_called(machine, callee, node)
    chosen: dict[cst.CSTNode | None, Condition] = {}
    for guard, option in callee.alternatives:
        if (code := _code(machine, option)) is not None:
            chosen[code] = chosen.get(code, NEVER) | guard

    def one(option: Value) -> Value:
        code = _code(machine, option)
        with machine.reaching(chosen.get(code, ALWAYS)):
            return _call(machine, option, arguments, node)

    return machine.lift(one, callee)


def _code(machine: Machine, callee: Value) -> cst.CSTNode | None:
    """The function of the program that a call runs first."""
    if isinstance(callee, Class):
        return _code(machine, find(machine, callee, "__init__") or NONE)
    function = callee.function if isinstance(callee, Bound) else callee
    return function.node if isinstance(function, Function) else None


def _call(machine: Machine, callee: Value, arguments: Arguments, node: cst.Call) -> Value:
    if isinstance(callee, Function):
        return call_function(machine, callee, arguments, node)
    if isinstance(callee, Bound):
        if callee.function is None and not isinstance(callee.receiver, StateDict):
            checkpoints.given(machine, callee.name, arguments)
        return _call_bound(machine, callee, arguments, node)
    if isinstance(callee, Partial):
        merged = {**dict(callee.keywords), **arguments.keywords}
        return call(
            machine,
            callee.function,
            replace(arguments, positional=(*callee.positional, *arguments.positional), keywords=merged),
            node,
        )
    named = callee.name.rpartition(".")[2] if isinstance(callee, External) else last_name(node.func)
    checkpoints.given(machine, named, arguments)
    if isinstance(callee, Class):
        return instantiate(machine, callee, arguments, node)
    if isinstance(callee, External):
        result = library.call(machine, callee.name, arguments, node)
        return cuda_guards.left_on_host(result, callee.guard) if callee.guard is not None else result
    if isinstance(callee, Object):
        return call_object(machine, callee, arguments, node)
    if isinstance(callee, Symbol):
        return _call_unknown(machine, callee, arguments, node)
    if isinstance(callee, Tensor) and callee.role is Role.BATCH:
        return callee
    return machine.fresh()


# --- functions ---------------------------------------------------------------------------------------------


def call_function(
    machine: Machine,
    function: Function,
    arguments: Arguments,
    node: cst.CSTNode,
    receiver: Value | None = None,
) -> Value:
    """Interpret a function of the program with these arguments, unless the inlining policy or the budget forbids it."""
    if receiver is not None:
        arguments = arguments.with_receiver(receiver)
    elif function.owner is not None and "staticmethod" not in function.decorators:
        receiver = next((first for first in arguments.positional[:1] if isinstance(first, Object)), None)
    machine.notes[Program].called.add(function.node)
    if machine.names_one_of_many and _lacks_arguments(function, arguments):
        machine.dead = True
        return machine.fresh()
    if machine.now[Calls].running.count(function.node) > 1:
        return machine.fresh(f"{function.name}()")
    if _has_no_place_for(function, arguments) or _lacks_arguments(function, arguments):
        machine.dead = machine.dead or _misses_signature(function, arguments, node)
        # The call raises, or it actually calls an override that accepts these arguments.
        return foreign(machine, arguments, node)
    result = attempt(machine, function, arguments, node, receiver)
    if result is not None:
        return result
    for value in options.overridden(machine, function, arguments):
        settings.forget(machine, value)
    wrapper_attributes.may_be_written(machine, function, arguments)
    return foreign(machine, arguments, node, moves=_may_move(machine, function, arguments))


def attempt(
    machine: Machine, function: Function, arguments: Arguments, node: cst.CSTNode, receiver: Value | None
) -> Value | None:
    """The same with the receiver among the arguments; None if the inlining policy or the budget forbids it."""
    if not reaches(machine, function, arguments):
        return None
    return interpret(machine, function, arguments, node, receiver)


def interpret(
    machine: Machine, function: Function, arguments: Arguments, node: cst.CSTNode, receiver: Value | None
) -> Value:
    """The same, whatever the policy and the budget say."""
    machine.notes[Program].called.add(function.node)
    frame = Frame(machine.new_frame(function.frame), function, receiver, len(machine.now[Around].guards))
    gradless = any(name.endswith(("no_grad", "inference_mode")) for name in function.decorators)
    with _running(machine, frame, function, node, gradless):
        _bind_parameters(machine, function.node.params, arguments)
        machine.signals.program.function_entered(machine, function)
        if machine.log is not None and machine.at_home:
            machine.log.entered(machine, function.node.params, function.node)
        result = memo.unless_idle(machine, function, arguments, partial(_outcome, machine, function, node))
    machine.leave(frame.id)
    return result


def _may_move(machine: Machine, function: Function, arguments: Arguments) -> bool:
    """Whether a function that is not analysed may move its arguments, or pass them to one that does."""
    hands_on = any(isinstance(value, (Function, Partial, Bound)) for value in arguments.values())
    return hands_on or imports.may_move(machine, function)


def _lacks_arguments(function: Function, arguments: Arguments) -> bool:
    """Whether a call raises TypeError because a parameter without a default gets no argument."""
    if arguments.spread or function.decorators:
        return False
    rest = function.parameters[len(arguments.positional) :]
    return any(one.default is None and one.name.value not in arguments.keywords for one in rest)


def _misses_signature(function: Function, arguments: Arguments, node: cst.CSTNode) -> bool:
    """Whether a call raises TypeError that names the function, or the class whose ``__init__`` it is."""
    called = last_name(node.func) if isinstance(node, cst.Call) else ""
    owner = function.owner
    meant = called == function.name if owner is None else function.name == "__init__" and called == owner.name
    return meant and (_has_no_place_for(function, arguments) or _lacks_arguments(function, arguments))


def _has_no_place_for(function: Function, arguments: Arguments) -> bool:
    """Whether a call passes more positional arguments than a function accepts."""
    params = function.node.params
    takes_more = isinstance(params.star_arg, cst.Param) or function.decorators or arguments.spread
    return not takes_more and len(arguments.positional) > len(function.parameters)


def _outcome(machine: Machine, function: Function, node: cst.CSTNode) -> Value:
    """The result of the running function: a list for a generator, the yielded value for a context manager."""
    if isinstance(function.node, cst.Lambda):
        return expressions.evaluate(machine, function.node.body)
    body = function.node.body
    result = machine.scope("function", lambda: statements.execute_body(machine, body))
    yielded = machine.read(machine.frame.id, expressions.YIELDS)
    if yielded is None:
        return result
    # Whoever gets an item is on a path that yields one.
    yielded = machine.restrict(yielded)
    if any(name.endswith("contextmanager") for name in function.decorators):
        # The statements after the yield have run already, so the place of a module inside the block is unknown.
        options = [option for _, option in alternatives(yielded)]
        return machine.fresh(node) if any(modules.is_module(machine, option) for option in options) else yielded
    return machine.new_list(Sequence((yielded,), exact=False), node)


def reaches(machine: Machine, function: Function, arguments: Arguments) -> bool:
    """Whether a function is analysed: it is relevant, calls are not nested too deep, and the budget allows it."""
    if inline_policy.is_plain(machine, function, arguments):
        return False
    within = len(machine.frames) <= MAX_CALL_DEPTH and machine.affords(function)
    if not within:
        machine.notes[Program].overlooks = True
        if not machine.now[Calls].standalone and function.node not in machine.budget.entered:
            machine.notes[Program].skips_code = True
    return within


@contextmanager
def _running(machine: Machine, frame: Frame, function: Function, node: cst.CSTNode, gradless: bool) -> Iterator[None]:
    casting = machine.now[Autocast]
    running = machine.now[Calls]
    machine.frames.append(frame)
    tested = machine.tested
    running.running.append(function.node)
    running.nodes.append(node)
    running.entered.append(machine.reach)
    if not running.standalone:
        machine.notes[Program].called_on.add((function.node.params, machine.reach))
    foreign = machine.root(frame.id) != machine.module_frame
    running.foreign += foreign
    machine.now[NoGrad].count += gradless
    # The effect of a decorator around a function is unknown.
    outside, casting.value = (
        casting.value,
        NONE if function.decorators else casting.value,
    )
    try:
        yield
    finally:
        casting.value = outside
        running.entered.pop()
        machine.now[NoGrad].count -= gradless
        running.foreign -= foreign
        running.nodes.pop()
        running.running.pop()
        if frame.returns_early:
            machine.tested = tested
        machine.frames.pop()


def _bind_parameters(machine: Machine, parameters: cst.Parameters, arguments: Arguments) -> None:
    frame = machine.frame.id
    keywords = dict(arguments.keywords)
    positional = list(arguments.positional)
    for parameter in (*parameters.posonly_params, *parameters.params):
        name = parameter.name.value
        if positional:
            value: Value | None = positional.pop(0)
        else:
            value = keywords.pop(name, None)
        machine.write(frame, name, value if value is not None else _default(machine, parameter, arguments))
    if isinstance(parameters.star_arg, cst.Param):
        rest = Sequence(tuple([extent.reached(machine, value) for value in positional]), exact=not arguments.spread)
        machine.write(frame, parameters.star_arg.name.value, rest)
    for parameter in parameters.kwonly_params:
        value = keywords.pop(parameter.name.value, None)
        filled = value if value is not None else _default(machine, parameter, arguments)
        machine.write(frame, parameter.name.value, filled)
    if parameters.star_kwarg is not None:
        others = machine.fresh() if arguments.spread else None
        made = machine.new_dict(Mapping(tuple(keywords.items()), others), parameters.star_kwarg)
        machine.write(frame, parameters.star_kwarg.name.value, made)


def _default(machine: Machine, parameter: cst.Param, arguments: Arguments) -> Value:
    """A parameter that got no argument: its default, unless unknown arguments may have filled it."""
    name = parameter.name.value
    if parameter.default is None or arguments.spread:
        return machine.fresh(name, NAMESPACE if _gives_settings(machine.frame.function) else "")
    node = parameter.default
    if machine.frame.function is None:
        return expressions.evaluate(machine, node)
    cell = _default_cell(machine.frame.function, name)
    return machine.read(*cell, unset=lambda: expressions.evaluate(machine, node))


def compute_defaults(machine: Machine, function: Function) -> None:
    """Run the calls in the default values of a function, which Python does once, where it is defined."""
    parameters = function.node.params
    for parameter in (*function.parameters, *parameters.kwonly_params):
        if isinstance(parameter.default, cst.Call):
            value = expressions.evaluate(machine, parameter.default)
            machine.write(*_default_cell(function, parameter.name.value), value)


def _default_cell(function: Function, parameter: str) -> Cell:
    owner = function.owner.id if function.owner is not None else function.frame
    return owner, _DEFAULT.of(f"{function.name}.{parameter}")


# Of a parameter: the default value that its function's definition computed.
_DEFAULT = Slot("default")


def _gives_settings(function: Function | None) -> bool:
    """Whether a decorator calls a function with the settings of a file and of the command line."""
    return function is not None and any(name.endswith("hydra.main") for name in function.decorators)


def takes_tensors(machine: Machine, function: Function) -> list[bool]:
    """For each positional parameter, whether it may be a tensor.

    It is not one if it has another annotation, or if the body reads an attribute that no tensor has: ``graph.edges``.
    """
    known = machine.notes[Signatures].takes_tensors.get(function.node)
    if known is None:
        others = _other_things(function)
        known = machine.notes[Signatures].takes_tensors[function.node] = [
            parameter.name.value not in others
            if parameter.annotation is None
            else any("Tensor" in word for word in words_in(parameter.annotation.annotation))
            for parameter in function.parameters
        ]
    return known


def _other_things(function: Function) -> Collection[str]:
    """The variables with attributes that no tensor has; empty if all parameters are annotated."""
    if all(parameter.annotation is not None or parameter.name.value == "self" for parameter in function.parameters):
        return ()
    return {name for name, attribute in _attributes_read(function.node) if attribute not in TENSOR_ATTRIBUTES}


def _attributes_read(function: cst.CSTNode) -> Iterator[tuple[str, str]]:
    """Variables with the attributes read from them: ``graph.edge_index``, but neither ``graph.normalize()`` nor
    ``self.graph.edge_index``."""
    waiting = [function]
    while waiting:
        node = waiting.pop()
        if isinstance(node, cst.Call):
            waiting.extend(node.args)
            node = node.func
        elif isinstance(node, cst.Attribute) and isinstance(node.value, cst.Name) and node.attr.value[0] != "_":
            yield node.value.value, node.attr.value
        waiting.extend(children(node))


def unknown_arguments(machine: Machine, function: Function, skip_first: bool) -> Arguments:
    """One symbol for each parameter, for a function that is analysed as an entry point."""
    return Arguments(
        tuple(_unknown_argument(machine, parameter) for parameter in function.parameters[skip_first:]),
        {one.name.value: _unknown_argument(machine, one) for one in function.node.params.kwonly_params},
        spread=True,
    )


def _unknown_argument(machine: Machine, parameter: cst.Param) -> Symbol:
    argument = machine.fresh(parameter.name.value)
    if parameter.annotation is not None and dotted(parameter.annotation.annotation) in _MODULE_ANNOTATIONS:
        machine.notes[ModuleNotes].modules_by_name.add(argument.id)
    return argument


_MODULE_ANNOTATIONS = ("nn.Module", "torch.nn.Module")


# --- classes and instances -----------------------------------------------------------------------------------


def instantiate(machine: Machine, cls: Class, arguments: Arguments, node: cst.CSTNode) -> Value:
    """``Net(...)``: the object, after its ``__init__``."""
    instance = construct(machine, cls, arguments, node)
    if instance.kind is Kind.WRAPPER and machine.read(instance.id, modules.INNER) is None:
        return machine.fresh(node)
    if instance.kind is Kind.INSTANCE and machine.read(instance.id, modules.OUTLINE) is not None:
        # Its methods depend on its contents, which are unknown.
        unknown = machine.fresh(node)
        initialiser = find(machine, cls, "__init__")
        if isinstance(initialiser, Function) and inline_policy.is_plain(machine, initialiser, arguments):
            machine.write(unknown.id, late_instances.BUILT, Fact(f"built {id(node)}", (cls, arguments, node)))
        return unknown
    return instance


def construct(machine: Machine, cls: Class, arguments: Arguments, node: cst.CSTNode) -> Object:
    """The instance after ``__init__``; an outline if its ``__init__`` is not analysed."""
    # An instance that stands for any is no wrapper: what it holds is unknown.
    kind = Kind.WRAPPER if wrapper_base(cls) and isinstance(node, cst.Call) else kind_of(cls)
    kind = Kind.DICT if attribute_dicts.is_made_by(machine, cls, arguments) else kind
    instance = modules.new_module(machine, cls, node) if cls.module else machine.new_object(kind, cls, node)
    initialiser = find(machine, cls, "__init__")
    if _is_detail(machine) or (isinstance(initialiser, Function) and not reaches(machine, initialiser, arguments)):
        machine.write(instance.id, modules.OUTLINE, Const(True))
        if not _is_detail(machine) and isinstance(initialiser, Function) and imports.may_move(machine, initialiser):
            machine.write(instance.id, modules.PLACE, Placed(machine.fresh()))
        machine.signals.program.values_given_away(machine, arguments.values(), node)
    elif isinstance(initialiser, Function):
        call_function(machine, initialiser, arguments, node, instance)
        # An __init__ that raises on every path is an abstract base: the instance is unknown.
        machine.dead = _misses_signature(initialiser, arguments.with_receiver(instance), node)
    elif cls.fields:
        for position, name in enumerate(cls.fields):
            value = arguments.get(position, name) or find(machine, cls, name)
            machine.write(instance.id, name, value or machine.part(instance.id, name, name))
    else:
        library_constructor(machine, instance, cls, arguments, node)
    return instance


def library_constructor(
    machine: Machine, instance: Object, cls: Class, arguments: Arguments, node: cst.CSTNode
) -> None:
    """The ``__init__`` of a library class: those of torch and of the standard library do not move their arguments."""
    if instance.kind is Kind.WRAPPER and isinstance(node, cst.Call):
        wrappers.construct(machine, instance, arguments, node)
        return
    if instance.kind is Kind.DICT:
        attribute_dicts.fill(machine, instance, arguments)
    if has_unknown_base(cls):
        foreign(machine, arguments, node)
    else:
        machine.signals.program.values_given_away(machine, arguments.values(), node)


# In a class that is an entry point, the parts of parts are outlines: each class is analysed separately.
_DETAIL_DEPTH = 2


def _is_detail(machine: Machine) -> bool:
    if not machine.now[Calls].standalone:
        return False
    constructing = [
        frame for frame in machine.frames if frame.function is not None and frame.function.name == "__init__"
    ]
    return len(constructing) >= _DETAIL_DEPTH


def kind_of(cls: Class) -> Kind:
    names = {base.name for base in foreign_bases(cls) if isinstance(base, External)}
    return Kind.DATASET if any(name.endswith("Dataset") for name in names) else Kind.INSTANCE


SETS_ATTRIBUTE = "__setattr__"


def _call_bound(machine: Machine, bound: Bound, arguments: Arguments, node: cst.Call) -> Value:
    receiver, name = bound.receiver, bound.name
    if bound.function is None and name == SETS_ATTRIBUTE and isinstance(node.func, cst.Attribute):
        written = [node.func.value, *(argument.value for argument in node.args)]
        return builtins.set_attribute(machine, arguments.with_receiver(receiver), written, node)
    if bound.function is not None and isinstance(receiver, Object) and registries.is_asked(machine, receiver, name):
        return _ask_registry(machine, receiver, bound.function, arguments, node)
    if bound.function is not None:
        if isinstance(receiver, Object) and forward.enters(machine, receiver):
            arguments = forward.entering(machine, arguments, node)
            run = partial(call_function, machine, bound.function, arguments, node, receiver)
            return memo.once(machine, receiver, bound.function, arguments, node, run)
        return call_function(machine, bound.function, arguments, node, receiver)
    if non_movable.refuses(machine, receiver, name, node):
        return machine.fresh(node)
    if isinstance(receiver, Tensor):
        if receiver.role is Role.BATCH and name == "update" and isinstance(node.func, cst.Attribute):
            # The update may replace any of its fields.
            expressions.assign(machine, node.func.value, machine.fresh(node), node)
            return NONE
        return tensors.call_method(machine, receiver, name, arguments, node)
    if isinstance(receiver, Parameters):
        return receiver
    if isinstance(receiver, Bound):
        schedulers.groups_changed(machine, receiver, arguments.values())
    if isinstance(receiver, Super):
        return _call_super(machine, receiver, name, arguments, node)
    if (module := children_dict.owner_of(machine, receiver)) is not None:
        listed = children_dict.call_method(machine, module, name, arguments, node)
        if listed is not None:
            return listed
    if isinstance(receiver, (Object, Symbol)) and modules.is_module(machine, receiver):
        return module_methods.call(machine, receiver, name, arguments, node)
    if isinstance(receiver, Object) and receiver.kind is Kind.OPTIMIZER:
        return optimizers.call_method(machine, receiver, name, arguments, node)
    return methods.call_method(machine, receiver, name, arguments, node)


def _ask_registry(
    machine: Machine, registry: Object, function: Function, arguments: Arguments, node: cst.Call
) -> Value:
    """``MODELS.build(cfg)``: unknown if several ways lead through the method, as all later code would have them."""
    path, reach, tested = machine.path, machine.reach, machine.tested
    machine.store.begin()
    result = call_function(machine, function, arguments, node, registry)
    if len(machine.path.given(path).cubes) <= 1:
        machine.store.commit()
        return result
    machine.store.roll_back()
    machine.path, machine.reach, machine.tested, machine.dead = path, reach, tested, False
    return foreign(machine, arguments, node)


def _call_super(machine: Machine, target: Super, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``super().name(...)``: the next definition in this program; a library's is assumed to have no effect."""
    receiver = target.receiver
    cls = receiver.cls if isinstance(receiver, Object) else receiver
    if isinstance(cls, Class):
        method = find(machine, cls, name, beyond=target.owner)
        if isinstance(method, Function):
            decorators = {"staticmethod": None, "classmethod": cls}
            first = next((decorators[each] for each in method.decorators if each in decorators), receiver)
            return call_function(machine, method, arguments, node, first)
    if isinstance(receiver, Object) and isinstance(cls, Class):
        if name == "__init__":
            library_constructor(machine, receiver, cls, arguments, node)
            machine.write(receiver.id, modules.INITIALISED, TRUE)
            if averaged.is_averaged(receiver):
                averaged.fill(machine, receiver, arguments, node)
            if any(module_base(base) in CONTAINERS for base in foreign_bases(cls)):
                machine.write(receiver.id, ITEMS, methods.items_of_container(machine, arguments))
            return NONE
        if modules.is_module(machine, receiver):
            if name == "forward":
                return forward.of_library(machine, receiver, arguments, node)
            if name == "__call__":
                return forward.call(machine, receiver, arguments, node)
            return module_methods.call(machine, receiver, name, arguments, node)
    return machine.fresh(f"super().{name}()")


def call_object(machine: Machine, target: Object, arguments: Arguments, node: cst.Call) -> Value:
    """``net(x)``, or an instance with ``__call__``; recursive calls are analysed twice."""
    running = machine.now[Calls]
    target = replace(target, compiled=NEVER) if is_compiled(target) else target
    if running.objects.count(target) > 1:
        return machine.fresh(node)
    running.objects.append(target)
    try:
        return _call_object(machine, target, arguments, node)
    finally:
        running.objects.pop()


def _call_object(machine: Machine, target: Object, arguments: Arguments, node: cst.Call) -> Value:
    if isinstance(target.cls, Class):
        own = {step for step in STEPS_OF_WRAPPERS if target.kind is Kind.WRAPPER and find(machine, target.cls, step)}
        if own:
            if own.isdisjoint(("__call__", "forward")):
                wrappers.check_placement(machine, target, node)
            return foreign(machine, arguments, node)
        method = find(machine, target.cls, "__call__")
        if method is not None:
            return call(machine, attributes.bound(machine, target, method, node), arguments, node)
    if modules.is_module(machine, target):
        return forward.call(machine, target, arguments, node)
    if isinstance(target.cls, External) and "__call__" in library.methods_of(target.cls):
        return library.call_method(machine, target, "__call__", arguments, node)
    return machine.fresh()


def _call_unknown(machine: Machine, callee: Symbol, arguments: Arguments, node: cst.Call) -> Value:
    method = node.func.attr.value if isinstance(node.func, cst.Attribute) else ""
    if method and callee.parent is not None:
        result = late_instances.call_method(machine, callee.parent, method, arguments, node)
        if result is not None:
            return result
    if method in WAITING_METHODS:
        async_copy.waited(machine)
    if method == "remove":
        hooks.removed(machine)
        tensor_hooks.removed(machine)
        module_hooks.removed(machine, callee.parent)
    if method == "register_hook" and isinstance(callee.parent, Symbol):
        tensor_hooks.register(machine, callee.parent, arguments, node)
    if method == "add_argument":
        ranks.notice_option(machine, arguments)
        device_choice.notice_option(machine, arguments, node)
    if callee.parent is not None and method in options.OVERRIDING:
        settings.update(machine, callee.parent, method, arguments, node)
    if callee.parent is not None and (parsed := options.call(machine, callee.parent, method, arguments, node)):
        device_choice.parsed(machine, parsed)
        return parsed
    if isinstance(callee.parent, Symbol) and isinstance(node.func, cst.Attribute):
        members.call_method(machine, callee.parent, node.func, arguments, node)
    if modules.is_module(machine, callee):
        return forward.call(machine, callee, arguments, node)
    if torchvision.is_keeper(callee) and len(arguments.positional) == 1:
        return torchvision.kept(machine, arguments.positional[0], node)
    result = foreign(machine, arguments, node)
    gives_tensor = method in METHODS_OF_TENSORS and isinstance(result, Symbol)
    return machine.fresh(node, "torch.Tensor") if gives_tensor else result


def foreign(machine: Machine, arguments: Arguments, node: cst.CSTNode, moves: bool = True) -> Value:
    """A call that cannot be analysed: if it ``moves``, its arguments may be on another device afterwards."""
    machine.signals.program.values_given_away(machine, arguments.values(), node)
    checkpoints.given_with_model(machine, arguments.values())
    for value in arguments.values():
        if isinstance(value, Const):
            continue
        state_dicts.may_change(machine, value)
        checkpoints.kept(machine, value)
        machine.signals.program.given_to_unknown(machine, value)
        if isinstance(value, Tensor):
            machine.notes[ModuleNotes].asked_for.add(value.uid)
        if isinstance(value, Object):
            loaders.given_away(machine, value)
        if moves and isinstance(value, Object) and modules.is_module(machine, value):
            modules.forget_places(machine, value)
        if moves and isinstance(value, Object) and isinstance(held := machine.read(value.id, MAPPING), Mapping):
            # entries may have been added
            machine.write(value.id, MAPPING, replace(held, rest=held.rest or machine.fresh()))
    if _asks_for_proxy(arguments, node):
        return FALSE
    if (parser := options.handed_on(machine, arguments.values(), node)) is not None:
        return parser
    answer = machine.fresh(node)
    wrappers.given_for(machine, answer, arguments.values())
    return answer


def _asks_for_proxy(arguments: Arguments, node: cst.CSTNode) -> bool:
    """Whether a call tests if a tensor is a ``torch.fx`` proxy, which has no device."""
    given = arguments.get(0)
    of_tensor = isinstance(given, (Tensor, Choice)) and all(
        isinstance(option, Tensor) for _, option in alternatives(given)
    )
    return of_tensor and isinstance(node, cst.Call) and last_name(node.func) in PROXY_TESTS
