"""Accelerate and the Trainer of Hugging Face, which place modules and batches themselves.

Accelerate's `prepare` moves modules and the state of optimizers, wraps modules where there are several processes, and
has loaders move their batches. The Trainer moves its model and the inputs (`Trainer._prepare_inputs`).
"""

from __future__ import annotations

import libcst as cst

from placement_lint.flow.api.torch_names import DEVICE_OF_MODULE, MODEL_TRAINERS
from placement_lint.flow.domain.arguments import Arguments
from placement_lint.flow.domain.path_condition import MANY_GPUS, NEVER, NO_GPU, ONE_GPU, answered, machines
from placement_lint.flow.domain.record import replace
from placement_lint.flow.domain.values import (
    CPU,
    NONE,
    TRUE,
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
    is_compiled,
)
from placement_lint.flow.models import backward, ddp, gradients, loaders, modules, ranks, wrappers
from placement_lint.flow.models.device_choice import DeviceChoices
from placement_lint.flow.models.handlers import Handlers
from placement_lint.flow.models.ranks import Ranks
from placement_lint.flow.state.classes import has_base
from placement_lint.flow.state.devices import make_current
from placement_lint.flow.state.heap import Slot
from placement_lint.flow.state.machine import Machine
from placement_lint.flow.state.moment import Calls
from placement_lint.flow.state.records import Chosen
from placement_lint.rule import Note

_WRAPS = Slot("wraps")
_PLACES = Slot("places")
_LOCAL_PROCESS = Slot("local process")


# Its device is that of the first part which is on a GPU.
_PIPELINE = "diffusers.DiffusionPipeline"


def knows_its_device(module: Object) -> bool:
    """Whether ``module.device`` is where the module is."""
    if isinstance(module.cls, External):
        return module.cls.name.startswith(("transformers.", "diffusers.")) and module.cls.name != _PIPELINE
    return has_base(module.cls, DEVICE_OF_MODULE)


# --- Accelerate ----------------------------------------------------------------------------------------------

ACCELERATOR = External("accelerate.Accelerator")

_DEEPSPEED = ("deepspeed", "accelerate.utils.DummyOptim", "accelerate.utils.DummyScheduler")
_HANDED_BACK = {"gather", "gather_for_metrics", "reduce", "pad_across_processes"}
_PREPARING = {"prepare_model", "prepare_data_loader", "prepare_optimizer"}
_CLIPPING = {"clip_grad_norm_", "clip_grad_value_"}
METHODS = _HANDED_BACK | _PREPARING | _CLIPPING | {"prepare", "backward", "unwrap_model"}


def chosen_device(machine: Machine) -> Value:
    """A GPU of the process where there is one, else the CPU."""
    return machine.either(((machines(ONE_GPU | MANY_GPUS), _own_gpu(machine)), (machines(NO_GPU), CPU)))


def _own_gpu(machine: Machine) -> Device:
    return Device("cuda", machine.part(machine.module_frame, _LOCAL_PROCESS, "local_process_index"))


def accelerator(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``Accelerator()``"""
    machine.notes[Ranks].pinned = True
    result = machine.new_object(Kind.OTHER, ACCELERATOR, node)
    _tell_of_processes(machine, result)
    if arguments.keyword("cpu") == TRUE:
        machine.write(result.id, "device", CPU)
        return result
    machine.write(result.id, "device", chosen_device(machine))
    make_current(machine, _own_gpu(machine))
    if arguments.keyword("device_placement") is None and not machine.now[Calls].standalone:
        note = Note(node, "Accelerate chooses the device here")
        machine.notes[DeviceChoices].chosen.append(
            Chosen(machines(NO_GPU), machines(NO_GPU), note, "accelerator.device")
        )
        machine.write(result.id, _PLACES, TRUE)
        if not arguments.spread and not any(name.endswith("_plugin") for name in arguments.keywords):
            # DeepSpeed and FSDP wrap in another way.
            machine.write(result.id, _WRAPS, TRUE)
            machine.write(result.id, "distributed_type", _distributed_type(machine))
    return result


def _tell_of_processes(machine: Machine, target: Object) -> None:
    ranks.started_outside(machine)
    machine.write(target.id, "num_processes", ranks.world_size(machine))
    machine.write(target.id, "use_distributed", machine.ask(ranks.several_run(machine)))
    machine.write(target.id, "state", target)


def _distributed_type(machine: Machine) -> Value:
    several = answered(ranks.several_run(machine), True)
    return machine.either(
        (
            (several.negation, Const("NO")),
            (several & machines(NO_GPU), Const("MULTI_CPU")),
            (several & machines(ONE_GPU | MANY_GPUS), Const("MULTI_GPU")),
        )
    )


def call_accelerator(machine: Machine, target: Object, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``accelerator.prepare(model, optimizer, loader)`` and its kind."""

    def prepare(one: Value) -> Value:
        return _prepared(machine, target, one, node)

    first = arguments.get(0)
    if name == "prepare":
        prepared = tuple(
            machine.lift(lambda one: _prepared(machine, target, one, node), v) for v in arguments.positional
        )
        return prepared[0] if len(prepared) == 1 else Sequence(prepared, not arguments.spread)
    if name in _PREPARING and first is not None:
        return machine.lift(prepare, first)
    if name == "backward" and first is not None:
        machine.lift(lambda loss: _went_backward(machine, loss, node), first)
    if name in _CLIPPING:
        return gradients.clip(machine, name, arguments, node)
    if name == "unwrap_model" and first is not None:
        return machine.lift(lambda one: _unwrapped(machine, one), first)
    if name in _HANDED_BACK and first is not None:
        return first
    return machine.fresh(node)


def _went_backward(machine: Machine, loss: Value, node: cst.Call) -> Value:
    backward.ran(machine, loss, node)
    return NONE


def _prepared(machine: Machine, target: Object, value: Value, node: cst.Call) -> Value:
    """What ``prepare`` makes of one of its arguments: a module is wrapped where there are several processes."""
    device = machine.read(target.id, "device") or machine.fresh()
    if machine.read(target.id, _PLACES) is None:
        device = machine.fresh()
    if isinstance(value, (Object, Symbol)) and modules.is_module(machine, value):
        modules.settle(machine, value, device, node)
        return distributed(machine, value, node) if _wraps(machine, target, value) else value
    if isinstance(value, Object) and value.kind is Kind.LOADER:
        return loaders.moving(machine, value, device, node)
    return value if isinstance(value, Object) else machine.fresh(node)


def _wraps(machine: Machine, target: Object, module: Object | Symbol) -> bool:
    """Whether ``prepare`` wraps a module: not what is wrapped already, nor what has nothing to train."""
    if machine.read(target.id, _WRAPS) is None or not isinstance(module, Object) or module.kind is not Kind.MODULE:
        return False
    if _is_for_deepspeed(machine):
        return False
    return modules.has_parameters(machine, module) is True and not gradients.is_frozen(machine, module.id)


def _is_for_deepspeed(machine: Machine) -> bool:
    """Whether the file names DeepSpeed: with its plugin, a file of settings decides, and its engine passes names on."""
    here = machine.root(machine.frame.id)
    values = [machine.read(here, name) for name in machine.store.names(here)]
    return any(isinstance(value, External) and value.name.startswith(_DEEPSPEED) for value in values)


def distributed(machine: Machine, module: Object | Symbol, node: cst.Call) -> Value:
    """A module that a framework wraps in DistributedDataParallel where there are several processes."""

    def wrap() -> Value:
        wrapper = wrappers.around(
            machine, module, NONE, NONE, node, External("torch.nn.parallel.DistributedDataParallel")
        )
        ddp.wrapped(machine, wrapper, module, Arguments())
        return wrapper

    several = answered(ranks.several_run(machine), True)
    return machine.fork(((several, wrap), (several.negation, lambda: module)), asks=True)


def _unwrapped(machine: Machine, value: Value) -> Value:
    wraps = isinstance(value, Object) and value.kind is Kind.WRAPPER
    inner = machine.read(value.id, modules.INNER) if wraps and isinstance(value, Object) else None
    inner = inner if inner is not None else value
    # By version and arguments, it may take off what torch.compile put around the model.
    return replace(inner, compiled=NEVER) if is_compiled(inner) and isinstance(inner, Object) else inner


# --- the Trainer of Hugging Face -------------------------------------------------------------------------------

_ON_INPUTS = {"compute_loss", "training_step", "prediction_step"}


def trains_model(instance: Object, method: Function) -> bool:
    """Whether the Trainer calls a method with its model and inputs."""
    return method.name in _ON_INPUTS and has_base(instance.cls, MODEL_TRAINERS)


def trainer_arguments(machine: Machine, given: Arguments, node: cst.CSTNode) -> Arguments:
    """The Trainer's model and inputs, both moved already."""
    device = chosen_device(machine)
    model = modules.new_opaque_module(machine, "transformers.PreTrainedModel", node)
    machine.call_it(model.id, "model")
    modules.settle(machine, model, device, node)

    def batch(place: Value) -> Value:
        assert isinstance(place, Device)
        return Tensor(place, None, Role.BATCH, history=(Note(node, "the Trainer moves the inputs"),))

    return replace(given, positional=(model, machine.lift(batch, device), *given.positional[2:]))


def on_meta(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``with init_empty_weights():`` builds on the meta device."""
    return Device("meta")


CALLS: Handlers = {
    "accelerate.Accelerator": accelerator,
    "accelerate.accelerator.Accelerator": accelerator,
    "accelerate.init_empty_weights": on_meta,
    "accelerate.big_modeling.init_empty_weights": on_meta,
}
