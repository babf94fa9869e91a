"""Ignite: engines that call a function or train and evaluate a model, and what it does for several processes.

Read in pytorch-ignite 0.5.5: `engine/__init__.py` (`create_supervised_trainer` moves each batch to `device`, and does
not move the model), `distributed/auto.py` (`auto_model` moves the model and wraps it
where there are several processes) and `distributed/comp_models/base.py` (`device`).
https://github.com/pytorch/ignite/blob/v0.5.2/ignite/engine/__init__.py
"""

from __future__ import annotations

import libcst as cst

from placement_lint.flow.domain.arguments import Arguments
from placement_lint.flow.domain.values import (
    NONE,
    TRUE,
    Class,
    Device,
    External,
    Function,
    Kind,
    Object,
    Placed,
    Role,
    Symbol,
    Tensor,
    Value,
    alternatives,
    describe,
)
from placement_lint.flow.events.schema import Operand
from placement_lint.flow.models import backward, frameworks, modules, operations, optimizers
from placement_lint.flow.models.arrivals import arrive
from placement_lint.flow.models.ranks import Ranks
from placement_lint.flow.state.containers import content
from placement_lint.flow.state.devices import target_place
from placement_lint.flow.state.heap import Slot
from placement_lint.flow.state.machine import Machine
from placement_lint.rule import Note

ENGINE = External("ignite.engine.Engine")
METHODS = {"run"}
# The positions of the device of those that make an engine for a model, by whether it trains.
TRAINERS = {"ignite.engine.create_supervised_trainer": 3}
EVALUATORS = {"ignite.engine.create_supervised_evaluator": 2}
# Arguments with which these do something else than to call the model with the first of two items.
_OTHERWISE = ("prepare_batch", "model_fn", "model_transform")

# The function of an engine that the program gives, and what the supervised ones need.
_STEP = Slot("step")
_MODEL = Slot("model")
_OPTIMIZER = Slot("optimizer")
_LOSS = Slot("loss")
_DEVICE = Slot("device")


def supervised(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``create_supervised_trainer(model, optimizer, loss_fn, device=device)``"""
    made = machine.new_object(Kind.OTHER, ENGINE, node)
    machine.signals.program.values_given_away(machine, arguments.values(), node)
    for value in arguments.values():
        machine.signals.program.given_to_unknown(machine, value)
    if arguments.spread or any(arguments.keyword(one) is not None for one in _OTHERWISE):
        return made
    trains = name in TRAINERS
    position = TRAINERS[name] if trains else EVALUATORS[name]
    machine.write(made.id, _MODEL, arguments.get(0, "model") or machine.fresh())
    machine.write(made.id, _DEVICE, arguments.get(position, "device") or NONE)
    if trains:
        machine.write(made.id, _OPTIMIZER, arguments.get(1, "optimizer") or machine.fresh())
        machine.write(made.id, _LOSS, arguments.get(2, "loss_fn") or machine.fresh())
    return made


def engine(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``Engine(step)`` calls ``step(engine, batch)``."""
    made = machine.new_object(Kind.OTHER, ENGINE, node)
    step = arguments.get(0, "process_function")
    if step is not None:
        machine.write(made.id, _STEP, step)
    return made


def call_engine(machine: Machine, target: Object, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``engine.run(loader, max_epochs=3)``"""
    data = arguments.get(0, "data")
    batch = machine.evaluator.element(machine, data, node, single=True) if data is not None else machine.fresh()
    model = machine.read(target.id, _MODEL)
    if model is not None:
        _supervise(machine, target, model, batch, node)
    step = machine.read(target.id, _STEP)
    if step is not None:
        machine.evaluator.call(machine, step, Arguments((target, batch)), node)
    return machine.fresh(node)


def _is_of_program(value: Value) -> bool:
    """Whether a function or module is interpreted: of those of libraries, the place of their inputs tells all."""
    return all(
        isinstance(option, Function) or (isinstance(option, Object) and isinstance(option.cls, Class))
        for _, option in alternatives(value)
    )


def _supervise(machine: Machine, target: Object, model: Value, batch: Value, node: cst.Call) -> None:
    """One step of an engine that ``create_supervised_trainer`` or ``create_supervised_evaluator`` made."""
    device = machine.read(target.id, _DEVICE, unset=NONE)
    inputs, labels = (_moved(machine, one, device, node) for one in _pair(machine, batch))
    missed = machine.lift(lambda one, given: _meets(machine, target, one, given, node), model, inputs)
    if any(option == TRUE for _, option in alternatives(missed)):
        return
    output = (
        machine.evaluator.call(machine, model, Arguments((inputs,)), node) if _is_of_program(model) else machine.fresh()
    )
    loss_fn, optimizer = machine.read(target.id, _LOSS), machine.read(target.id, _OPTIMIZER)
    if loss_fn is None or not _is_of_program(loss_fn):
        return
    loss = machine.evaluator.call(machine, loss_fn, Arguments((output, labels)), node)
    machine.lift(lambda one: _went_backward(machine, one, node), loss)
    for _, option in alternatives(optimizer) if optimizer is not None else ():
        if isinstance(option, Object) and option.kind is Kind.OPTIMIZER:
            optimizers.step(machine, option, node)


def _pair(machine: Machine, batch: Value) -> tuple[Value, Value]:
    """``x, y = batch``"""
    items = content(machine, batch)
    if items is not None and len(items.items) == 2:
        return items.items[0], items.items[1]
    if isinstance(batch, Tensor) and batch.role is Role.BATCH:
        return batch, batch
    return machine.fresh("x"), machine.fresh("y")


def _moved(machine: Machine, value: Value, device: Value, node: cst.Call) -> Value:
    """``convert_tensor(x, device=device)``, which moves the tensors in any structure."""

    def put(option: Value, place: Value) -> Value:
        if place == NONE:
            return option
        named = target_place(machine, place)
        if named is None or not isinstance(option, (Tensor, Symbol)):
            return machine.fresh()
        place = arrive(machine, named, node)
        note = Note(node, f"the engine moves each batch to {describe(place)}")
        if isinstance(option, Tensor):
            return option.at(place, note)
        return Tensor(place, None, Role.BATCH, history=(note,))

    return machine.lift(put, value, device)


def _meets(machine: Machine, target: Object, model: Value, inputs: Value, node: cst.Call) -> Value:
    """Compare the inputs with a model that is in one place: the call of a model elsewhere raises."""
    if not isinstance(model, Object) or model.kind is not Kind.MODULE or not isinstance(inputs, Tensor):
        return NONE
    called = target.node
    if not isinstance(called, cst.Call) or not called.args:
        return NONE
    written = called.args[0].value

    def meet(placed: Value) -> Value:
        place = placed.place if isinstance(placed, Placed) else None
        if not isinstance(place, Device) or not modules.provably_off(inputs.place, place):
            return NONE
        weights = modules.weights(machine, model, place, written)
        operations.operate(machine, node.func, [weights, Operand("the batch", inputs)], node)
        return TRUE

    everywhere = dict.fromkeys(placed for _, placed in modules.placements(machine, model))
    return machine.lift(meet, next(iter(everywhere))) if len(everywhere) == 1 else NONE


def _went_backward(machine: Machine, loss: Value, node: cst.Call) -> Value:
    backward.ran(machine, loss, node)
    return NONE


# --- ignite.distributed ----------------------------------------------------------------------------------------------

_DISTRIBUTED = ("ignite.distributed", "ignite.distributed.auto", "ignite.distributed.utils")
DEVICES = {f"{module}.device" for module in _DISTRIBUTED}
AUTO_MODEL = {f"{module}.auto_model" for module in _DISTRIBUTED}
AUTO_OPTIM = {f"{module}.auto_optim" for module in _DISTRIBUTED}


def device(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``idist.device()``: the GPU of the process where there is one, else the CPU."""
    machine.notes[Ranks].pinned = True
    return frameworks.chosen_device(machine)


def auto_model(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``idist.auto_model(model)`` moves a model, and wraps it where there are several processes."""
    machine.notes[Ranks].pinned = True
    chosen = frameworks.chosen_device(machine)

    def one(model: Value) -> Value:
        modules.treat_as_module(machine, model)
        if not isinstance(model, (Object, Symbol)):
            return machine.fresh(node)
        modules.move(machine, model, chosen, node)
        wraps = isinstance(model, Object) and model.kind is Kind.MODULE and modules.has_parameters(machine, model)
        return frameworks.distributed(machine, model, node) if wraps else model

    return machine.lift(one, arguments.get(0, "model") or machine.fresh())
