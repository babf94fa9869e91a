"""Calls of library names: the transfer functions of torch's functions and nn.Module's methods."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from functools import cache

import libcst as cst

from placement_lint.flow.api.torch_names import (
    ARRAY_MAKERS,
    ARRAYS_OF_DATA,
    COMPILATION_TESTS,
    CONTAINERS,
    CUDA_CONSTRUCTORS,
    ELEMENTWISE,
    FACTORIES,
    FUNCTION_TYPES,
    FUNCTIONAL_LOSSES,
    FUNCTIONAL_SAME_DEVICE,
    HUBS,
    JOINS,
    LIBRARY_CRITERIA,
    LIBRARY_LAYERS,
    LIKE_FACTORIES,
    LOSS_MODULES,
    NOT_ON_HOST,
    PARAMETER_CONTAINERS,
    PLACING_FRAMEWORKS,
    PROCESS_STARTERS,
    REDUCTIONS,
    REDUCTIONS_OVER_RANKS,
    SAME_DEVICE,
    SAME_SHAPE,
    SEQUENCE_LAYERS,
    SHAPES_AS_TENSORS,
    SIZES_OF_ARRAYS,
    STACKS,
    WEIGHTED_LOSSES,
    Shape,
    builds_module,
    reads_items_alone,
    reads_on_host,
)
from placement_lint.flow.domain.arguments import Arguments
from placement_lint.flow.domain.path_condition import ALWAYS
from placement_lint.flow.domain.record import replace
from placement_lint.flow.domain.values import (
    ARRAY,
    CPU,
    FALSE,
    NONE,
    OPEN_ARRAY,
    TRUE,
    Const,
    External,
    Kind,
    Lost,
    Object,
    Role,
    Sequence,
    Source,
    Symbol,
    Tensor,
    Value,
    alternatives,
)
from placement_lint.flow.interpreter import builtins, forward, methods, standard_library
from placement_lint.flow.interpreter import calls as calling
from placement_lint.flow.models import (
    async_copy,
    attribute_dicts,
    autocast,
    averaged,
    backward,
    checkpoints,
    commands,
    cuda,
    ddp,
    device_choice,
    diffusers,
    environment,
    factories,
    file_names,
    frameworks,
    gradients,
    graphs,
    hydra,
    ignite,
    lightning,
    loaders,
    module_hooks,
    modules,
    non_movable,
    operations,
    optimizers,
    packing,
    parameter_replacement,
    processes,
    ranks,
    registries,
    replica_losses,
    scatter,
    schedulers,
    shapes,
    state_dicts,
    tensors,
    torchvision,
    tracers,
    trainable,
    transformers,
    visible_devices,
    wrappers,
)
from placement_lint.flow.models.handlers import Handler
from placement_lint.flow.models.modules import REDUCTION
from placement_lint.flow.models.operands import Positioned, with_operands
from placement_lint.flow.models.ranks import Ranks
from placement_lint.flow.state.containers import content, depends
from placement_lint.flow.state.heap import ITEMS
from placement_lint.flow.state.machine import Machine
from placement_lint.source.wording import on_one_line

# The libraries' files with tables of the calls that they model.
_MODELS = (
    attribute_dicts,
    autocast,
    commands,
    cuda,
    ddp,
    environment,
    file_names,
    frameworks,
    gradients,
    lightning,
    loaders,
    module_hooks,
    optimizers,
    packing,
    parameter_replacement,
    processes,
    ranks,
    schedulers,
    torchvision,
    tracers,
    wrappers,
)


def call(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """A call of the library name ``name``."""
    handler = _handler(name)
    if handler is not None:
        return handler(machine, name, arguments, node)
    if name.startswith(ARRAY.name):
        non_movable.refuses(machine, ARRAY, name.rpartition(".")[2], node)
        return _method_of_array(machine, External(name.rpartition(".")[0]), name.rpartition(".")[2])
    if not arguments.values() and name.rpartition(".")[2].startswith("is_"):
        # A query of the environment returns the same value each time.
        return machine.part(machine.module_frame, ("call", name), node)
    if name.startswith("builtins."):
        return builtins.call_builtin(machine, name.partition(".")[2], arguments, node)
    if name.startswith("torch.nn.functional."):
        return _on_operands(machine, _functional, name, arguments, node)
    if name.startswith("torch.nn.") and name.rpartition(".")[2][:1].isupper():
        return _layer(machine, name, arguments, node)
    if name in LIBRARY_LAYERS or name in LIBRARY_CRITERIA or builds_module(name):
        return _foreign_model(machine, name, arguments, node)
    if reads_on_host(name) or name in ARRAY_MAKERS:
        return _on_operands(machine, _host_reader, name, arguments, node)
    if name.startswith("torch.nn.modules.utils."):
        return calling.foreign(machine, arguments, node)
    if name.startswith("torch."):
        return _on_operands(machine, _torch_function, name, arguments, node)
    if PLACING_FRAMEWORKS.fullmatch(name):
        machine.notes[Ranks].pinned = True
    if (module := name.partition(".")[0]) in _HARMLESS:
        kind = torchvision.TYPES.get(name) or FUNCTION_TYPES.get(name) or FUNCTION_TYPES.get(module, "")
        return machine.fresh(f"{name}()", kind)
    return calling.foreign(machine, arguments, node)


def _on_operands(
    machine: Machine,
    function: Callable[[Machine, str, Arguments, Positioned, cst.Call], Value],
    name: str,
    arguments: Arguments,
    node: cst.Call,
) -> Value:
    def apply(operands: Positioned) -> Value:
        return function(machine, name, arguments, operands, node)

    return with_operands(machine, arguments, node, apply)


# Methods of an array that return an array like it, and those whose result has dimensions.
_LIKE_ITS_ARRAY = {"astype", "copy", "reshape", "transpose"}
_WITH_DIMENSIONS = {"ravel", "flatten"}


def _method_of_array(machine: Machine, array: Value, name: str) -> Value:
    if name == "squeeze":
        return OPEN_ARRAY
    return ARRAY if name in _WITH_DIMENSIONS else array if name in _LIKE_ITS_ARRAY else machine.fresh()


# Libraries that do not affect placement: they do not move their arguments.
_HARMLESS = {
    "os", "sys", "time", "logging", "json", "math", "random", "numpy", "tqdm", "argparse", "copy", "pathlib", "re",
    "torchvision", "torchsummary", "torchinfo", "wandb", "tensorboardX", "matplotlib", "sklearn", "pandas", "scipy",
    "warnings", "datetime", "collections", "itertools", "functools", "typing", "shutil", "glob", "pickle", "yaml",
}  # fmt: skip


def _handler(name: str) -> Handler | None:
    if diffusers.makes_pipeline(name):
        return diffusers.pipeline
    if diffusers.makes_scheduler(name):
        return diffusers.scheduler
    return transformers.preprocessor if transformers.makes_preprocessor(name) else _handlers().get(name)


MethodHandler = Callable[[Machine, Object, str, Arguments, cst.Call], Value]

# The modelled methods of library classes, with the function that models their calls.
_METHODS: dict[External, tuple[AbstractSet[str], MethodHandler]] = {
    diffusers.SCHEDULER: (diffusers.METHODS, diffusers.call_scheduler),
    registries.REGISTRY: (registries.METHODS, registries.call_method),
    ignite.ENGINE: (ignite.METHODS, ignite.call_engine),
    frameworks.ACCELERATOR: (frameworks.METHODS, frameworks.call_accelerator),
    transformers.PREPROCESSOR: (transformers.METHODS, transformers.preprocess),
    transformers.ENCODING: (non_movable.MOVES, transformers.move),
    graphs.BATCH: (graphs.METHODS, graphs.move),
    torchvision.TRANSFORM: (torchvision.METHODS, torchvision.apply),
    tracers.WRITER: (tracers.METHODS, tracers.call_writer),
}


def methods_of(cls: External) -> AbstractSet[str]:
    """The methods of a library class that have a model."""
    return _METHODS[cls][0] if cls in _METHODS else frozenset()


def call_method(machine: Machine, receiver: Object, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """A call of one of those methods."""
    assert isinstance(receiver.cls, External)
    return _METHODS[receiver.cls][1](machine, receiver, name, arguments, node)


def _factory(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    return factories.build(machine, name, FACTORIES[name], arguments, node)


def _like_factory(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    return factories.build_like(machine, arguments, node, same_shape=True)


def _cuda_constructor(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    device_choice.request_type(machine, name, node)
    return factories.build_on_cuda(machine, name, node)


def _start_process(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    visible_devices.hand_down(machine)
    return calling.foreign(machine, arguments, node)


# --- modules -----------------------------------------------------------------------------------------------


def _layer(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """A module of torch.nn."""
    module = modules.new_module(machine, External(name), node, arguments.keyword("device"))
    if name in CONTAINERS or name in PARAMETER_CONTAINERS:
        items = methods.items_of_container(machine, arguments)
        machine.write(module.id, ITEMS, modules.as_content(machine, module, items))
        return module
    if name in LOSS_MODULES:
        _criterion(machine, module, name, arguments)
    if FALSE in (arguments.keyword("affine"), arguments.keyword("elementwise_affine")):
        machine.write(module.id, modules.PLAIN, TRUE)
    if name in SEQUENCE_LAYERS:
        scatter.built(machine, module, name, arguments)
    if name in STACKS:
        _stack(machine, module, arguments.get(0, STACKS[name]), arguments)
    return module


def _stack(machine: Machine, module: Object, layer: Value | None, arguments: Arguments) -> None:
    """``nn.TransformerEncoder(layer, 6)``: torch/nn/modules/transformer.py, ``_get_clones`` copies the layer."""
    if isinstance(layer, (Object, Symbol)) and modules.is_module(machine, layer):
        machine.write(module.id, modules.PLACE, modules.placed(machine, layer))
    if not arguments.spread:
        machine.write(module.id, "norm", arguments.get(2, "norm") or NONE)


def _criterion(machine: Machine, module: Object, name: str, arguments: Arguments) -> None:
    reduction = arguments.keyword("reduction")
    if reduction is not None:
        machine.write(module.id, REDUCTION, reduction)
    elif arguments.keyword("size_average") == Const(False):
        machine.write(module.id, REDUCTION, Const("sum"))
    elif arguments.keyword("reduce") == Const(False):
        machine.write(module.id, REDUCTION, Const("none"))
    for position, weight in enumerate(WEIGHTED_LOSSES.get(name, ())):
        given = arguments.keyword(weight) or (arguments.get(0) if position == 0 and weight == "weight" else None)
        if given is not None and given != NONE:
            machine.write(module.id, "weight", machine.lift(modules.as_buffer, given))


def one_of(name: str) -> Value | None:
    """``getattr(torchvision.models, arch)``: the name that represents any attribute of a library module, if any."""
    return External(HUBS[name]) if name in HUBS else None


def _foreign_model(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    module = modules.new_opaque_module(machine, name, node)
    if name in LIBRARY_CRITERIA and arguments.keyword("reducer") is not None:
        machine.write(module.id, modules.REDUCTION, machine.fresh())
    if name in LIBRARY_CRITERIA or arguments.keyword("device_map") is not None or arguments.spread:
        machine.write(module.id, modules.PLACE, machine.fresh())
    return module


def _parameter(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    data = arguments.get(0, "data") or NONE
    parameter = machine.lift(lambda tensor: modules.parameter(tensor, machine, node), data)
    if isinstance(parameter, Tensor) and arguments.get(1, "requires_grad") not in (None, TRUE):
        machine.signals.modules.weights_handled(machine, parameter.uid)
        machine.signals.modules.child_registered(machine, parameter)
        if arguments.get(1, "requires_grad") == FALSE:
            trainable.flagged(machine, frozenset({parameter.uid}), FALSE, node)
    return parameter


def _buffer(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    return machine.lift(modules.as_buffer, arguments.get(0, "data") or machine.fresh())


# --- functions of torch ---------------------------------------------------------------------------------------


def _functional(machine: Machine, name: str, arguments: Arguments, operands: Positioned, node: cst.Call) -> Value:
    """``F.cross_entropy(logits, target)``"""
    short = name.rpartition(".")[2]
    if not operands:
        return machine.fresh(node)
    if short in FUNCTIONAL_LOSSES:
        taken = [operand for position, operand in operands if position in FUNCTIONAL_LOSSES[short]]
        result = operations.operate(machine, f"`{short}`", taken, node)
        reduction = arguments.keyword("reduction")
        if arguments.keyword("size_average") == Const(False):
            reduction = Const("sum")
        return forward.reduced_loss(result, reduction) if result else machine.fresh()
    if short in FUNCTIONAL_SAME_DEVICE:
        taken = operations.with_dimensions(short, [operand for _, operand in operands])
        result = operations.operate(machine, f"`{short}`", taken, node, scalar=False)
        return shapes.combined(short, result, _tensors(operands), arguments) if result else machine.fresh()
    first = operands[0][1].tensor
    if _comes_after_unknown(operands[0][0], arguments):
        return machine.fresh(node)
    derived = operations.derive(first, short, node, first.scalar)
    derived = replace(derived, scattered=any(operand.tensor.scattered for _, operand in operands))
    result = shapes.after(first, derived, short, replace(arguments, positional=arguments.positional[1:]))
    # all of these keep the batch in the first dimension
    return shapes.split_along(result, 0) if first.replica.split == 0 else result


def _torch_function(machine: Machine, name: str, arguments: Arguments, operands: Positioned, node: cst.Call) -> Value:
    """``torch.cat([a, b])``, ``torch.sum(t)``"""
    short = name.rpartition(".")[2]
    if name.startswith("torch.autograd."):
        machine.signals.training.backward(machine, NONE, node)
    if not operands or short.startswith(("is_", "get_", "set_", "save", "load", "numel", "manual_seed")):
        return machine.fresh(node)
    if short.endswith("_"):
        # In place, like all of torch.nn.init: the result is the tensor itself, which stays a Parameter if it was one.
        first = operands[0][1].tensor
        others = replace(arguments, positional=arguments.positional[1:])
        machine.signals.tensors.changed_by_function(machine, first, name, others, node)
        return first
    filled = arguments.keyword("out")
    written = filled if isinstance(filled, Tensor) else None
    if written is not None:
        out = len(arguments.positional) + list(arguments.keywords).index("out")
        operands = [(at, replace(operand, output=at == out)) for at, operand in operands]
    if short in REDUCTIONS and len(operands) == 1 and not arguments.has(1, "dim"):
        return tensors.reduce(machine, operands[0][1].tensor, short, operands[0][1].source, node)
    if short in SAME_DEVICE:
        taken = operations.with_dimensions(short, [operand for _, operand in operands])
        result = operations.operate(machine, f"`{name}`", taken, node)
        if result is None:
            return machine.fresh()
        result = shapes.combined(short, result, _tensors(operands), arguments)
        if written is None and all(_may_follow(operand.tensor) for operand in taken) and _has_unknown(arguments):
            result = replace(result, place=machine.fresh())
        split = result.replica.split if short in ELEMENTWISE or short in ("cat", "concat") else None
        if short == "stack":
            split = shapes.stacked(result.replica.split, arguments.get(1, "dim"))
            result = replace(result, rows=_rows_of_stack(machine, arguments))
        result = replace(shapes.split_along(result, split), lost=_lost_by_joining(name, operands, node))
        return written if written is not None else result
    first = operands[0][1].tensor
    if _comes_after_unknown(operands[0][0], arguments):
        return written or machine.fresh(node)
    keeps = (len(arguments.positional) == 1 and short not in shapes.REMOVES_DIMENSIONS) or short in SAME_SHAPE
    derived = operations.derive(first, short, node, first.scalar if keeps else None)
    derived = replace(derived, scattered=depends(machine, *arguments.values()))
    if written is not None:
        return written
    return shapes.after(first, derived, short, replace(arguments, positional=arguments.positional[1:]))


def _tensors(operands: Positioned) -> list[tuple[int, Tensor]]:
    return [(position, operand.tensor) for position, operand in operands]


def _comes_after_unknown(position: int, arguments: Arguments) -> bool:
    """Whether an earlier argument than the first known tensor may be a tensor, where the result is then."""
    return any(_may_be_tensor(value) for value in arguments.values()[:position])


def _has_unknown(arguments: Arguments) -> bool:
    return any(_may_be_tensor(value) for value in arguments.values())


def _may_be_tensor(value: Value) -> bool:
    return isinstance(value, Symbol) and value.type in ("", "torch.Tensor")


def _may_follow(tensor: Tensor) -> bool:
    """Whether the result of a tensor and an unknown one may be where the other is: a 0-dim CPU tensor meets any."""
    return tensor.place == CPU and tensor.scalar is not False


def _reveal(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    value = arguments.get(0, "value") or NONE
    machine.signals.program.placement_revealed(machine, value, node)
    return value


def _reduce_over_ranks(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    machine.signals.training.reduced_over_ranks(machine, arguments, node)
    return _on_operands(machine, _torch_function, name, arguments, node)


def _rows_of_stack(machine: Machine, arguments: Arguments) -> frozenset[int]:
    """The number of rows of a stack along the first dimension, if the list of tensors is known."""
    listed = content(machine, arguments.get(0, "tensors") or NONE)
    first = arguments.get(1, "dim") in (None, Const(0))
    return frozenset({len(listed.items)}) if first and listed is not None and listed.exact else frozenset()


def _lost_by_joining(name: str, operands: Positioned, node: cst.Call) -> Lost | None:
    """``torch.stack([Parameter(a), Parameter(b)])`` is computed from Parameters and is not a Parameter."""
    joined = [operand.tensor for _, operand in operands] if name.rpartition(".")[2] in JOINS else []
    return next((lost for tensor in joined if (lost := operations.derive(tensor, f"`{name}`", node).lost)), None)


def _host_reader(machine: Machine, name: str, arguments: Arguments, operands: Positioned, node: cst.Call) -> Value:
    given = arguments.values()
    for position, operand in operands:
        if name in NOT_ON_HOST or _may_be_no_tensor(operand.tensor):
            continue
        items = content(machine, given[position])
        if not reads_items_alone(name) or items is not None:
            several = items is not None and len(items.items) > 1
            tensors.read_on_host(machine, replace(operand, inside=operand.inside or several), node)
    return _array(machine, name, arguments, node) if name in ARRAY_MAKERS else machine.fresh(node)


def _array(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``np.array(data)`` is as deep as the data; ``np.random.rand()`` is a number."""
    if name in ARRAYS_OF_DATA:
        return machine.lift(_array_of, arguments.get(0, "object") or arguments.keyword("a") or machine.fresh())
    size = SIZES_OF_ARRAYS.get(name)
    if size is None or arguments.has(size, "size"):
        return ARRAY
    return machine.fresh(node, "number" if all(isinstance(value, Const) for value in arguments.values()) else "")


def _array_of(data: Value) -> Value:
    """The array of a number, or of something unknown, may have no dimensions."""
    known = data == ARRAY or (isinstance(data, Tensor) and data.scalar is False)
    listed = isinstance(data, (Sequence, Object)) and not (isinstance(data, Object) and data.kind is not Kind.LIST)
    return ARRAY if known or listed else OPEN_ARRAY


def _may_be_no_tensor(tensor: Tensor) -> bool:
    """Whether a value may be a number: an opaque module returned it, and no move shows that it is a tensor."""
    return tensor.role is Role.BATCH and tensor.source is not Source.MOVE


def _shape_as_tensor(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """The sizes of a tensor on any device, as a CPU tensor."""
    return Tensor(CPU, False)


def _is_compiling(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``torch.jit.is_tracing()`` and its like."""
    return FALSE


def _normal(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``torch.normal(0, 1, (2, 3))`` builds a tensor; without a size, the result is on the device of its arguments."""
    if arguments.get(2, "size") is not None:
        return factories.build(machine, name, Shape.LAST_SIZE, arguments, node)
    return _on_operands(machine, _torch_function, name, arguments, node)


# --- loaders and files -----------------------------------------------------------------------------------------


def _save(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    value = arguments.get(0, "obj")
    for _, option in alternatives(value or NONE):
        items = content(machine, option)
        for written in items.items if items is not None else (option,):
            if isinstance(written, Tensor):
                async_copy.read(machine, written, node.args[0].value, node)
    if value is not None and len(node.args) > 1:
        file = arguments.get(1, "f")
        state_dicts.save(machine, value, _file(file, node.args[1].value), file or NONE, node)
        checkpoints.saved(machine, value, arguments, node)
    return NONE


def _load(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    if not node.args:
        return machine.fresh()
    return checkpoints.load(machine, arguments, _file(arguments.get(0, "f"), node.args[0].value), node)


def _file(value: Value | None, node: cst.BaseExpression) -> str:
    """The key for a file: its constant name, or else the source text of the expression, on one line."""
    return repr(value.value) if isinstance(value, Const) else on_one_line(node)


def _autograd(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``torch.autograd.backward(loss)`` and ``grad(loss, inputs)`` require a 0-dim loss, or gradients for others."""
    fills = name.endswith("backward")
    given = arguments.get(0, "tensors" if fills else "outputs") or NONE
    losses = content(machine, given)
    if not fills:
        machine.signals.training.backward(machine, NONE, node)
    seeded = arguments.has(1 if fills else 2, "grad_tensors") or arguments.has(9, "grad_outputs")

    def use(loss: Value) -> Value:
        if isinstance(loss, Tensor) and not seeded:
            source = node.args[0].value
            replica_losses.used_as_number(machine, loss, "backward", f"`{name}({machine.text(source)})`", source, node)
        if fills:
            backward.ran(machine, loss, node)
        return machine.fresh(node)

    for loss in losses.items if losses is not None else (given,):
        machine.lift(use, loss)
    return machine.fresh(node)


def _instantiate(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``hydra.utils.instantiate(cfg.model)``"""
    if hydra.is_optimizer(arguments, node):
        return hydra.optimizer(machine, arguments, node)
    calling.foreign(machine, arguments, node)
    return hydra.instantiate(machine, node)


def _is_tensor(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    tensor_class = External("torch.Tensor")
    return machine.lift(
        lambda option: builtins.is_instance_of(machine, option, tensor_class, node), arguments.get(0) or NONE
    )


def _scaler(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    return machine.new_object(Kind.OTHER, External(name), node)


def _compile(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``torch.compile(model)`` returns a module around the model, with its attributes, but other names in its state."""
    disabled = arguments.keyword("disable") not in (None, FALSE)

    def one(option: Value) -> Value:
        compiles = isinstance(option, Object) and modules.is_module(machine, option) and not disabled
        return replace(option, compiled=ALWAYS) if compiles else option

    return machine.lift(one, standard_library.identity(machine, name, arguments, node))


def _parallel_call(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``torch.nn.parallel.data_parallel(module, x, ids)`` wraps and calls in one step, and moves nothing."""
    module, ids = arguments.get(0, "module") or NONE, arguments.get(2, "device_ids") or NONE
    output, dim = arguments.get(3, "output_device") or NONE, arguments.get(4, "dim")

    def call_parallel(inner: Value, chosen: Value) -> Value:
        if not isinstance(inner, (Object, Symbol)):
            return machine.fresh()
        wrapper = wrappers.around(machine, inner, chosen, output, node, dim=dim)
        return calling.call_object(machine, wrapper, Arguments((arguments.get(1, "inputs") or NONE,)), node)

    return machine.lift(call_parallel, module, ids)


# Functions that return their first argument, changed in place or wrapped without effect on placement.
_SAME = (
    "torch.autograd.Variable",
    "torch.jit.script",
    "torch.nn.SyncBatchNorm.convert_sync_batchnorm",
    "torch.nn.utils.spectral_norm",
    "tqdm.tqdm",
    "tqdm.auto.tqdm",
)


@cache
def _handlers() -> dict[str, Handler]:
    """The handlers by name, created on first use because the modules import each other."""
    return {
        **{name: handler for model in _MODELS for name, handler in model.CALLS.items()},
        **standard_library.CALLS,
        "torch.normal": _normal,
        "torch.nn.Parameter": _parameter,
        "torch.nn.Buffer": _buffer,
        "torch.save": _save,
        "torch.load": _load,
        "torch.nn.Module.__call__": forward.base_call,
        "torch.autograd.backward": _autograd,
        "torch.autograd.grad": _autograd,
        "placement_lint.reveal_placement": _reveal,
        "torch.is_tensor": _is_tensor,
        **dict.fromkeys(COMPILATION_TESTS, _is_compiling),
        **dict.fromkeys(SHAPES_AS_TENSORS, _shape_as_tensor),
        **dict.fromkeys(REDUCTIONS_OVER_RANKS, _reduce_over_ranks),
        **dict.fromkeys(PROCESS_STARTERS, _start_process),
        "torch.cuda.amp.GradScaler": _scaler,
        "torch.amp.GradScaler": _scaler,
        "torch.compile": _compile,
        averaged.NAME: averaged.build,
        "torch.nn.parallel.data_parallel": _parallel_call,
        **dict.fromkeys(FACTORIES, _factory),
        **dict.fromkeys(LIKE_FACTORIES, _like_factory),
        **dict.fromkeys(CUDA_CONSTRUCTORS, _cuda_constructor),
        **dict.fromkeys(hydra.INSTANTIATORS, _instantiate),
        **dict.fromkeys(registries.REGISTRIES, registries.build),
        **dict.fromkeys(registries.BUILDERS, registries.build_from_cfg),
        registries.ADD.name: registries.add,
        **dict.fromkeys((*ignite.TRAINERS, *ignite.EVALUATORS), ignite.supervised),
        ignite.ENGINE.name: ignite.engine,
        **dict.fromkeys(ignite.DEVICES, ignite.device),
        **dict.fromkeys(ignite.AUTO_MODEL, ignite.auto_model),
        **dict.fromkeys((*_SAME, *ignite.AUTO_OPTIM), standard_library.identity),
    }
