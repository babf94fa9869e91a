"""The methods of nn.Module."""

from __future__ import annotations

from collections.abc import Callable

import libcst as cst

from placement_lint.flow.api.bounds import LONGEST
from placement_lint.flow.api.torch_names import MODULE_CONVERSIONS, MODULE_MOVES, MODULE_SELF_METHODS, PARAMETER_READS
from placement_lint.flow.domain.arguments import Arguments
from placement_lint.flow.domain.values import (
    CPU,
    NONE,
    TRUE,
    Class,
    Const,
    Device,
    External,
    Function,
    Kind,
    Object,
    Parameters,
    Sequence,
    StateDict,
    Symbol,
    Tensor,
    Value,
    alternatives,
)
from placement_lint.flow.events.schema import ParametersRead
from placement_lint.flow.interpreter import calls, forward, methods
from placement_lint.flow.models import (
    averaged,
    ddp,
    device_choice,
    hooks,
    module_hooks,
    modules,
    optimizers,
    parameter_replacement,
    state_dicts,
    state_keys,
    trainable,
    transformers,
    unregistered,
)
from placement_lint.flow.state.machine import Machine
from placement_lint.flow.state.moment import Replica

Method = Callable[[Machine, Object | Symbol, str, Arguments, cst.Call], "Value | None"]


def call(machine: Machine, module: Object | Symbol, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """A method of nn.Module."""
    if name in PARAMETER_READS and machine.now[Replica].notes and module.id in machine.now[Replica].modules:
        machine.emit(ParametersRead(node, machine.scene, machine.text(node), name))
    method = _METHODS.get(name)
    result = method(machine, module, name, arguments, node) if method is not None else None
    if result is not None:
        return result
    return module if name in MODULE_SELF_METHODS else machine.fresh(node)


def _parameters(machine: Machine, module: Object | Symbol, name: str, arguments: Arguments, node: cst.Call) -> Value:
    _hand_out(machine, module)
    return Parameters(module, node, named=name == "named_parameters", uid=machine.new_id())


def _hand_out(machine: Machine, module: Object | Symbol) -> None:
    machine.signals.modules.weights_handled(machine, module.id)
    machine.signals.modules.parameters_asked_for(machine, module)


def _require_grad(machine: Machine, module: Object | Symbol, name: str, arguments: Arguments, node: cst.Call) -> None:
    machine.signals.modules.weights_handled(machine, module.id)
    parts = frozenset(modules.reachable(machine, module))
    trainable.flagged(machine, parts, arguments.get(0, "requires_grad") or TRUE, node)


def _convert(machine: Machine, module: Object | Symbol, name: str, arguments: Arguments, node: cst.Call) -> None:
    parameter_replacement.converted(machine, module, None, node)
    ddp.converting(machine, module, name, node)


def _type(machine: Machine, module: Object | Symbol, name: str, arguments: Arguments, node: cst.Call) -> None:
    _convert(machine, module, name, arguments, node)
    dtype = arguments.get(0, "dst_type") or machine.fresh()
    modules.move(machine, module, device_choice.type_chosen(machine, dtype, node, module), node)


def _set_mode(machine: Machine, module: Object | Symbol, name: str, arguments: Arguments, node: cst.Call) -> None:
    modules.set_mode(machine, module, name == "train", arguments)


def _add_adapter(machine: Machine, module: Object | Symbol, name: str, arguments: Arguments, node: cst.Call) -> Value:
    return parameter_replacement.adapted(machine, module, node)


def _resize(machine: Machine, module: Object | Symbol, name: str, arguments: Arguments, node: cst.Call) -> Value:
    return transformers.resized(machine, module, arguments, node)


def _nothing(machine: Machine, module: Object | Symbol, name: str, arguments: Arguments, node: cst.Call) -> Value:
    return NONE


def _state_dict(machine: Machine, module: Object | Symbol, name: str, arguments: Arguments, node: cst.Call) -> Value:
    prefixes = state_keys.prefixes(machine, module)
    return machine.either([(guard, StateDict(module, prefix, node, machine.path)) for guard, prefix in prefixes])


def _load(machine: Machine, module: Object | Symbol, name: str, arguments: Arguments, node: cst.Call) -> Value:
    _hand_out(machine, module)
    if arguments.get(2, "assign") == Const(True):
        ddp.renewed(machine, module, "assigned", node)
        parameter_replacement.assigned(machine, module, arguments.get(1, "strict"), node)
        modules.take_over(machine, module, arguments.get(0, "state_dict") or NONE, node)
    state_dicts.load_state(machine, module, arguments, node, machine.text(node.func))
    machine.signals.modules.state_loaded(machine, module)
    return machine.fresh()


def _forward(machine: Machine, module: Object | Symbol, name: str, arguments: Arguments, node: cst.Call) -> Value:
    if not isinstance(module, Object):
        return forward.of_library(machine, module, arguments, node)
    wraps = module.kind is Kind.WRAPPER
    return (calls.call_object if wraps else forward.of_class)(machine, module, arguments, node)


def _extend(machine: Machine, module: Object | Symbol, name: str, arguments: Arguments, node: cst.Call) -> Value | None:
    if not isinstance(module, Object):
        return None
    methods.extend_container(machine, module, name, arguments)
    return module


def _add_hook(machine: Machine, module: Object | Symbol, name: str, arguments: Arguments, node: cst.Call) -> Value:
    if name == "register_forward_hook":
        hooks.register(machine, module, arguments, node)
    return module_hooks.register(machine, module.id, name, arguments, node)


def move(machine: Machine, module: Object | Symbol, name: str, arguments: Arguments, node: cst.Call) -> None:
    if name == "cpu":
        modules.move(machine, module, CPU, node)
        return
    for dtype in arguments.values():
        if isinstance(dtype, External):
            ddp.converting(machine, module, dtype.name.rpartition(".")[2], node)
    target = target_of(machine, module, name, arguments, node)
    if target is not None:
        modules.move(machine, module, target, node)


def target_of(
    machine: Machine, module: Object | Symbol | None, name: str, arguments: Arguments, node: cst.Call
) -> Value | None:
    """The device that ``to`` or ``cuda`` names, which may be an explicit request of CUDA."""
    given = arguments.keyword("device") or arguments.get(0)
    if name == "cuda" and (given is None or given == NONE):
        device_choice.request(machine, node, node, module)
        given = Device("cuda")
    elif given is not None:
        source = device_choice.argument(node, 0, "device")
        given = device_choice.without_cpu(machine, given, source, node)
        device_choice.request_literal(machine, given, source, node, node, module)
        if name == "cuda" and isinstance(given, Symbol):
            device_choice.request(machine, node, node, module, fixed=True, number=given)
            given = Device("cuda", given)
        device_choice.used(machine, given, node)
    return given


def _register(machine: Machine, module: Object | Symbol, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``self.register_buffer("mean", t)``, also with a computed name."""
    label, value = arguments.get(0, "name"), arguments.get(1, "tensor") or arguments.keyword("param")
    value = value or arguments.keyword("module")
    if isinstance(module, Object) and value is not None:
        part = str(label.value) if isinstance(label, Const) else f"part {machine.new_id()}"
        stored = value
        if name == "register_buffer":
            stored = machine.lift(modules.as_buffer, value)
            machine.write(module.id, modules.BUFFER.of(part), TRUE)
        if name in ("add_module", "register_module"):
            for _, option in alternatives(value):
                modules.treat_as_module(machine, option, surely=True)
        machine.signals.program.value_kept(machine, value)
        machine.signals.modules.child_registered(machine, value)
        if name != "register_buffer":
            optimizers.replaced(machine, module, part, None, value, node)
        modules.tended(machine, module, part)
        machine.write(module.id, part, stored)
        for layer in unregistered.registered_by_parts(machine, module, value) if name == "register_parameter" else ():
            machine.write(module.id, f"part {machine.new_id()}", layer)
    return NONE


def _apply(machine: Machine, module: Object | Symbol, name: str, arguments: Arguments, node: cst.Call) -> None:
    """``module.apply(f)`` calls ``f`` for each part."""
    function = arguments.get(0, "fn")
    if isinstance(function, Function):
        for part in reversed(_parts(machine, module)):
            calls.call(machine, function, Arguments((part,)), node)


def _parts(machine: Machine, module: Object | Symbol) -> list[Object | Symbol]:
    """A module and the modules registered below it, outer modules first, up to a limit."""
    return list(modules.reachable(machine, module).values())[:LONGEST]


def _listed(machine: Machine, module: Object | Symbol, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """The iterable that ``children()``, ``modules()``, ``items()`` and similar methods of a module return."""
    held = modules.children(machine, module) if isinstance(module, Object) else ()
    named = [(label, child) for label, child in held if not isinstance(child, Tensor)]
    parts = [child for _, child in named]
    if isinstance(module, Object) and name in ("modules", "named_modules"):
        parts = [*_parts(machine, module)]
    own = isinstance(module, Object) and isinstance(module.cls, Class)
    if not parts and name in ("children", "named_children") and not own:
        part = machine.part(module.id, "a child", node, module)
        modules.treat_as_module(machine, part, surely=True)
        parts = [part]
    if name in ("items", "named_children", "named_modules"):
        labels = [label for label, _ in named if label != modules.UNNAMED]
        known = name != "named_modules" and len(labels) == len(parts)
        names = [Const(label) if known else machine.fresh("name") for label in (labels if known else parts)]
        parts = [Sequence(pair) for pair in zip(names, parts, strict=True)]
    return Sequence(tuple(parts), exact=False) if parts and name != "keys" else machine.fresh()


# What methods do, and return; for None it is the module itself if that is what the method returns, else unknown.
_METHODS: dict[str, Method] = {
    **dict.fromkeys(MODULE_CONVERSIONS, _convert),
    **dict.fromkeys(MODULE_MOVES, move),
    "type": _type,
    "apply": _apply,
    "add_adapter": _add_adapter,
    **dict.fromkeys(averaged.METHODS, _nothing),
    **dict.fromkeys(transformers.MODEL_METHODS, _resize),
    **dict.fromkeys(("parameters", "named_parameters"), _parameters),
    "requires_grad_": _require_grad,
    **dict.fromkeys(("train", "eval"), _set_mode),
    "state_dict": _state_dict,
    "load_state_dict": _load,
    **dict.fromkeys(("register_buffer", "register_parameter", "add_module", "register_module"), _register),
    "forward": _forward,
    **dict.fromkeys(("append", "extend", "insert", "update"), _extend),
    **dict.fromkeys(("children", "named_children", "modules", "named_modules"), _listed),
    **dict.fromkeys(("items", "keys", "values", "get"), _listed),
    **dict.fromkeys(module_hooks.METHODS, _add_hook),
}
