"""Calls of modules: their hooks, and what their forward computes."""

from __future__ import annotations

from functools import partial

import libcst as cst

from placement_lint.flow.api.torch_names import (
    CONTAINERS,
    DIMENSIONS_OF_OUTPUTS,
    ELEMENTWISE_LAYERS,
    IGNORE_CAUSAL_MASKS,
    LAST_DIMENSION_LAYERS,
    LIBRARY_CRITERIA,
    LOSS_MODULES,
    LOWERED_LAYERS,
    PARAMETRIC_LAYERS,
    RECURRENT_LAYERS,
    SEQUENCE_LAYERS,
)
from placement_lint.flow.domain.arguments import Arguments
from placement_lint.flow.domain.record import replace
from placement_lint.flow.domain.values import (
    CPU,
    NONE,
    OWN,
    Class,
    Comparison,
    Const,
    Device,
    External,
    Function,
    Kind,
    Object,
    Role,
    Sequence,
    Symbol,
    Tensor,
    Value,
    alternatives,
    compare,
)
from placement_lint.flow.events.schema import Operand
from placement_lint.flow.interpreter import attributes, calls, members, memo
from placement_lint.flow.models import (
    autocast,
    averaged,
    ddp,
    diffusers,
    hooks,
    lengths,
    lightning,
    module_hooks,
    modules,
    operations,
    scatter,
    shapes,
    unregistered,
    wrappers,
)
from placement_lint.flow.models.hooks import Hooks
from placement_lint.flow.models.modules import REDUCTION
from placement_lint.flow.models.operands import Positioned, with_operands
from placement_lint.flow.observers import alloc_in_forward, stale_forward_state, uncovered_parameters
from placement_lint.flow.state.accesses import Accesses
from placement_lint.flow.state.classes import find, foreign_bases
from placement_lint.flow.state.machine import Machine
from placement_lint.flow.state.module_notes import ModuleNotes
from placement_lint.flow.state.moment import Calls, Replica


def call(machine: Machine, module: Object | Symbol, arguments: Arguments, node: cst.Call) -> Value:
    """Call a module as ``nn.Module.__call__`` does: run the hooks and its forward."""
    return module_hooks.around(
        machine, module, arguments, node, lambda given: _unhooked_forward(machine, module, given, node)
    )


def _unhooked_forward(machine: Machine, module: Object | Symbol, arguments: Arguments, node: cst.Call) -> Value:
    """The call without hooks; a call of the bare module may bypass a wrapper around it."""
    if isinstance(module, Object) and module.kind is Kind.WRAPPER:
        return wrappers.call(machine, module, arguments, node, partial(_call_inner, machine, node))
    machine.signals.modules.called(machine, module, node)
    if machine.notes[Hooks].hooked and not machine.now[Calls].in_forward and not machine.now[Replica].notes:
        hooks.called_bare(machine, module)
    result = _forward(machine, module, arguments, node)
    if isinstance(module, Object):
        result = uncovered_parameters.called(machine, module, arguments.values(), result)
    return ddp.came_round(machine, module, arguments, result, node)


def _call_inner(machine: Machine, node: cst.Call, inner: Object | Symbol, arguments: Arguments) -> Value:
    """A wrapper calls its inner module."""
    if isinstance(inner, Object):
        return calls.call_object(machine, inner, arguments, node)
    return call(machine, inner, arguments, node)


def _forward(machine: Machine, module: Object | Symbol, arguments: Arguments, node: cst.Call) -> Value:
    if not isinstance(module, Object):
        members.look(machine, module, node, lambda member: call(machine, member, arguments, node))
        return of_library(machine, module, arguments, node)
    own = machine.read(module.id, "forward")
    if own is not None:
        # The program has assigned another forward to this instance.
        return calls.call(machine, own, arguments, node)
    return of_class(machine, module, arguments, node)


def of_class(machine: Machine, module: Object, arguments: Arguments, node: cst.Call) -> Value:
    """The forward that a module's class defines or inherits."""
    method = find(machine, module.cls, "forward") if isinstance(module.cls, Class) else None
    if isinstance(method, Function):
        return _user_forward(machine, module, method, arguments, node)
    if method is not None:
        return calls.call(machine, attributes.bound(machine, module, method, node), arguments, node)
    return of_library(machine, module, arguments, node)


def base_call(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``nn.Module.__call__(net, x)``"""
    module, *given = arguments.positional or (machine.fresh(),)

    def one(option: Value) -> Value:
        if not isinstance(option, (Object, Symbol)) or not modules.is_module(machine, option):
            return calls.foreign(machine, arguments, node)
        return call(machine, option, replace(arguments, positional=tuple(given)), node)

    return machine.lift(one, module)


def of_library(machine: Machine, module: Object | Symbol, arguments: Arguments, node: cst.Call) -> Value:
    """The forward of a library class, or one that the module's class inherits from it."""
    _check_registered(machine, module, node)
    if diffusers.is_pipeline(module):
        return machine.fresh(node)
    if isinstance(module, Object) and averaged.is_averaged(module):
        return calls.call(machine, averaged.model_of(machine, module), arguments, node)
    library_class = _library_class(module)
    if library_class == "torch.nn.Sequential" and isinstance(module, Object):
        return _sequential_forward(machine, module, arguments, node)

    def apply(operands: Positioned) -> Value:
        inputs = [operand for _, operand in operands]
        if isinstance(module, Object) and module.cls.name in LIBRARY_CRITERIA:
            return _library_loss(machine, module, inputs, node)
        if library_class and isinstance(module, Object):
            return _layer_forward(machine, module, library_class, inputs, node)
        return _opaque_forward(machine, module, inputs, node)

    return with_operands(machine, arguments, node, apply)


def _check_registered(machine: Machine, module: Object | Symbol, node: cst.Call) -> None:
    if module.id in machine.notes[ModuleNotes].unregistered and modules.has_parameters(machine, module) is True:
        unregistered.used(machine, module.id, node, module if isinstance(module, Object) else None)


def _library_class(module: Object | Symbol) -> str:
    """The layer of torch.nn whose forward a module runs; empty if there is none."""
    if isinstance(module, Symbol):
        return ""
    if isinstance(module.cls, External):
        return module.cls.name if module.cls.name.startswith("torch.nn.") else ""
    bases = [base.name for base in foreign_bases(module.cls) if isinstance(base, External)]
    return next((name for name in bases if name in _KNOWN_FORWARDS), "")


# Layers of torch.nn whose forward a class of the program may inherit.
_KNOWN_FORWARDS = CONTAINERS | PARAMETRIC_LAYERS | LOSS_MODULES


def _user_forward(machine: Machine, module: Object, method: Function, arguments: Arguments, node: cst.Call) -> Value:
    noted = machine.notes[Accesses]
    running = machine.now[Calls]
    place = modules.place_of(machine, module)
    outermost = not running.in_forward
    lengths.enter(machine, method, arguments)
    by_itself = running.standalone and place == OWN and not outermost
    # Its class is analysed by itself too, but then nothing says that Lightning chooses its device.
    if by_itself and not _brings_along(arguments) and not lightning.in_module(machine):
        _check_registered(machine, module, node)
        return Tensor(OWN, None, Role.BATCH, assumed=True)
    taken = (*calls.takes_tensors(machine, method)[1:], *[True] * len(arguments.positional))
    parameters = (*method.parameters[1:], *[None] * len(arguments.positional))
    entering = Arguments(
        tuple(
            _given(machine, value, place if tensor else NONE, node, outermost, parameter)
            for tensor, parameter, value in zip(taken, parameters, arguments.positional, strict=False)
        ),
        {name: _given(machine, value, NONE, node, outermost) for name, value in arguments.keywords.items()},
        arguments.spread,
    )
    _check_registered(machine, module, node)
    running.in_forward.append(module)
    written, noted.written = (
        noted.written,
        noted.written if not outermost else set(),
    )
    try:

        def run() -> Value:
            if calls.reaches(machine, method, entering):
                return calls.call_function(machine, method, entering, node, module)
            calls.foreign(machine, entering, node)
            return with_operands(
                machine,
                entering,
                node,
                lambda given: _opaque_forward(machine, module, [operand for _, operand in given], node),
            )

        if outermost:
            outer = partial(alloc_in_forward.run_forward, machine, partial(stale_forward_state.keeping, machine, run))
            result = memo.once(machine, module, method, entering, node, outer)
        else:
            result = run()
    finally:
        running.in_forward.pop()
        noted.written = written
    if machine.dead:
        machine.dead = False
        return machine.fresh()
    return result


def _brings_along(arguments: Arguments) -> bool:
    """Whether an argument is a CPU tensor that the caller holds in an attribute."""
    options = (option for value in arguments.values() for _, option in alternatives(value))
    return any(isinstance(option, Tensor) and option.place == CPU and option.holder is not None for option in options)


def _given(
    machine: Machine,
    value: Value,
    place: Value,
    node: cst.Call,
    outermost: bool,
    parameter: cst.Param | None = None,
) -> Value:
    def enter(option: Value) -> Value:
        if isinstance(option, Tensor):
            return replace(option, entered=option.entered or node) if outermost else option
        if isinstance(option, Symbol) and isinstance(place, Device):
            return Tensor(place, None, Role.INPUT, entered=parameter, assumed=True)
        return option

    return machine.lift(enter, value)


def enters(machine: Machine, receiver: Object) -> bool:
    """Whether code outside of all modules calls a method of a module."""
    inside = machine.now[Calls].in_forward or modules.is_module(machine, machine.frame.receiver or NONE)
    return receiver.kind is Kind.MODULE and not inside


def entering(machine: Machine, arguments: Arguments, node: cst.Call) -> Arguments:
    return Arguments(
        tuple(_given(machine, value, NONE, node, True) for value in arguments.positional),
        {name: _given(machine, value, NONE, node, True) for name, value in arguments.keywords.items()},
        arguments.spread,
    )


def _layer_forward(machine: Machine, module: Object, name: str, inputs: list[Operand], node: cst.Call) -> Value:
    if name in LOSS_MODULES:
        return _loss_forward(machine, module, inputs, node)
    if name not in PARAMETRIC_LAYERS and inputs:
        return _without_parameters(name, inputs[0].tensor)
    if name not in PARAMETRIC_LAYERS or modules.has_parameters(machine, module) is False:
        return _opaque_forward(machine, module, inputs, node)
    if name in IGNORE_CAUSAL_MASKS:
        inputs = inputs[:1]
    place = modules.place_of(machine, module)
    # No layer accepts a 0-dim input, so an input on the wrong device always raises.
    shaped = [replace(given, tensor=replace(given.tensor, scalar=bool(given.tensor.scalar))) for given in inputs]
    result = machine.lift(lambda where: _apply_layer(machine, module, where, node.func, shaped, node), place)
    if machine.now[Replica].notes and name in LOWERED_LAYERS:
        autocast.computed(machine, node)
    if machine.now[Replica].notes and name in SEQUENCE_LAYERS:
        result = machine.lift(lambda option: scatter.after_layer(machine, module, name, inputs, option, node), result)
    if name in LAST_DIMENSION_LAYERS and inputs and inputs[0].tensor.replica.padded is not None:
        longest = inputs[0].tensor.replica.padded
        result = machine.lift(
            lambda one: replace(one, replica=replace(one.replica, padded=longest)) if isinstance(one, Tensor) else one,
            result,
        )
    if name not in RECURRENT_LAYERS:
        return result
    state = machine.lift(_state, result)
    return Sequence((result, Sequence((state, state)) if name == "torch.nn.LSTM" else state))


def _state(result: Value) -> Value:
    """``h_n`` of a recurrent layer has the batch in its second dimension, even with ``batch_first=True``."""
    known = isinstance(result, Tensor) and result.replica.split is not None
    return shapes.split_along(result, 1) if isinstance(result, Tensor) and known else result


def _without_parameters(name: str, tensor: Tensor) -> Tensor:
    """The result of an activation, dropout or pooling; only flattening may remove the batch dimension."""
    merged = name == "torch.nn.Flatten" and tensor.replica.split != 0
    resized = name not in ELEMENTWISE_LAYERS and tensor.replica.padded is not None
    tensor = replace(tensor, replica=replace(tensor.replica, padded=None)) if resized else tensor
    return shapes.split_along(tensor, None) if merged else tensor


def _apply_layer(
    machine: Machine,
    module: Object,
    place: Value,
    label: cst.BaseExpression,
    inputs: list[Operand],
    node: cst.Call,
) -> Value:
    if not isinstance(place, (Device, Symbol)):
        return machine.fresh()
    weights = modules.weights(machine, module, place, label)
    result = operations.operate(machine, label, [weights, *inputs], node, scalar=False)
    if result is not None:
        result = shapes.with_at_least(result, _dimensions_of_output(module, inputs))
    return replace(result, role=Role.PLAIN) if result is not None else machine.fresh()


def _dimensions_of_output(module: Object, inputs: list[Operand]) -> int:
    name = module.cls.name if isinstance(module.cls, External) else ""
    if name == "torch.nn.Linear":
        return shapes.least(inputs[0].tensor) if inputs else 1
    return DIMENSIONS_OF_OUTPUTS.get(name, 1)


def _sequential_forward(machine: Machine, module: Object, arguments: Arguments, node: cst.Call) -> Value:
    items = modules.items_of(machine, module)
    added = {name for name, _ in modules.children(machine, module)}
    if not isinstance(items, Sequence) or not items.items or len(added) > len(items.items):
        if modules.has_parameters(machine, module) is False:
            # ``add_module`` may have added layers, but none with which the input could be mixed.
            return arguments.get(0) or machine.fresh()
        return with_operands(
            machine,
            arguments,
            node,
            lambda given: _opaque_forward(machine, module, [operand for _, operand in given], node),
        )
    value = arguments.get(0) or machine.fresh()
    for item in items.items:
        value = calls.call(machine, item, Arguments((value,)), node)
    return value


def _loss_forward(machine: Machine, module: Object, inputs: list[Operand], node: cst.Call) -> Value:
    weight = modules.own_tensor(machine, module, "weight")
    operands = inputs[:3]
    # The arguments that a class of the program passes to its base class are not analysed.
    reduction = machine.fresh() if isinstance(module.cls, Class) else machine.read(module.id, REDUCTION)
    if isinstance(weight, Tensor):
        operands = [*operands, Operand("the criterion's weight", weight)]
    result = operations.operate(machine, node.func, operands, node)
    return reduced_loss(result, reduction) if result else machine.fresh()


def _library_loss(machine: Machine, module: Object, inputs: list[Operand], node: cst.Call) -> Value:
    """A criterion that moves its weights and targets to its first input."""
    result = operations.operate(machine, node.func, inputs[:1], node)
    if result is None:
        return machine.fresh()
    return reduced_loss(replace(result, modules=result.modules | {module.id}), machine.read(module.id, REDUCTION))


def reduced_loss(loss: Tensor, reduction: Value | None) -> Value:
    """A loss with its ``reduction`` argument applied: by default the mean over the batch."""
    names: dict[Value | None, str] = {
        None: "mean",
        Const("mean"): "mean",
        Const("batchmean"): "mean",
        Const("sum"): "sum",
    }
    how = names.get(reduction)
    result = replace(loss, loss=replace(loss.loss, reduction=how), role=Role.PLAIN)
    if how is not None:
        return replace(shapes.split_along(result, None), scalar=True)
    return replace(result, scalar=False if reduction == Const("none") else None)


def _opaque_forward(machine: Machine, module: Object | Symbol, inputs: list[Operand], node: cst.Call) -> Value:
    """A module whose forward is not analysed: its output is on the device of all its parts, with unknown structure."""
    if modules.has_parameters(machine, module) is False or modules.builds_nothing(machine, module):
        # The result is on the device of the input, which is unknown.
        return machine.fresh(node)
    place = modules.common_place(machine, module)
    label = node.func

    def output(where: Value) -> Value:
        if not isinstance(where, (Device, Symbol)):
            return machine.fresh()
        weights = modules.weights(machine, module, where, label)
        result = weights.tensor
        if inputs and modules.takes_inputs_as_they_are(module):
            met = operations.operate(machine, label, [weights, *inputs], node)
            if met is not None and compare(met.place, where) is Comparison.DIFFERENT:
                result = replace(result, place=met.place)
        return replace(result, role=Role.BATCH, scattered=any(given.tensor.scattered for given in inputs))

    return machine.lift(output, place)
