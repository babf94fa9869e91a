"""Functions of libraries that call a module with given inputs: to trace, to export, to profile or to summarise it.

Read in torch 2.13: `jit/_trace.py` (`trace`), `onnx/__init__.py` (`export`), `export/__init__.py` (`export`),
`utils/tensorboard/_pytorch_graph.py` (`graph` traces it). By their documentation: tensorboardX (`add_graph` does
the same), thop (``model(*inputs)``), fvcore (it traces the module) and torchsummary, which makes an input on the GPU
where there is one, unless ``device="cpu"``. None of them moves anything.
"""

from __future__ import annotations

from typing import NamedTuple

import libcst as cst

from placement_lint.flow.domain.arguments import Arguments
from placement_lint.flow.domain.path_condition import MANY_GPUS, NO_GPU, ONE_GPU, machines
from placement_lint.flow.domain.values import (
    CPU,
    NONE,
    Const,
    Device,
    External,
    Kind,
    Mapping,
    Object,
    Placed,
    Symbol,
    Tensor,
    Value,
)
from placement_lint.flow.events.schema import Operand
from placement_lint.flow.models import modules, operations
from placement_lint.flow.models.device_choice import argument
from placement_lint.flow.models.handlers import Handlers
from placement_lint.flow.state.containers import content
from placement_lint.flow.state.machine import Machine


class Takes(NamedTuple):
    """The names of the module, the first argument, and of its inputs, the second; whether the result is the module."""

    module: str
    inputs: str
    returns_module: bool = False


WRITER = External("torch.utils.tensorboard.SummaryWriter")
METHODS = {"add_graph"}
_WRITERS = ("torch.utils.tensorboard", "torch.utils.tensorboard.writer", "tensorboardX", "tensorboardX.writer")
_SUMMARIES = ("torchsummary.summary", "torchsummary.torchsummary.summary")

_TRACERS = {
    "torch.jit.trace": Takes("func", "example_inputs", returns_module=True),
    "torch.onnx.export": Takes("model", "args"),
    "torch.export.export": Takes("mod", "args"),
    "thop.profile": Takes("model", "inputs"),
    "thop.profile.profile": Takes("model", "inputs"),
    "fvcore.nn.FlopCountAnalysis": Takes("model", "inputs"),
    "fvcore.nn.flop_count": Takes("model", "inputs"),
    "add_graph": Takes("model", "input_to_model"),
}


def trace(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``torch.jit.trace(model, x)``, ``torch.onnx.export(model, (x, y), file)``"""
    takes = _TRACERS[name]
    module, given = arguments.get(0, takes.module) or machine.fresh(node), arguments.get(1, takes.inputs)
    if given is not None and not arguments.spread:
        written = argument(node, 1, takes.inputs) or node
        machine.lift(lambda one, inputs: _call(machine, one, inputs, written, node), module, given)
    return module if takes.returns_module else machine.fresh(node)


def call_writer(machine: Machine, writer: Object, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``writer.add_graph(model, x)``"""
    return trace(machine, name, arguments, node)


def _writer(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    return machine.new_object(Kind.OTHER, WRITER, node)


def _summarise(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``summary(model, (3, 32, 32))``"""
    module, device = arguments.get(0, "model") or NONE, arguments.get(3, "device") or Const("cuda")
    gpu = machine.either(((machines(ONE_GPU | MANY_GPUS), Device("cuda")), (machines(NO_GPU), CPU)))

    def one(option: Value, chosen: Value, there: Value) -> Value:
        place = {Const("cuda"): there, Const("cpu"): CPU}.get(chosen) if isinstance(chosen, Const) else None
        if isinstance(place, Device):
            _call(machine, option, Tensor(place, False, created=node), "the input of `summary`", node)
        return NONE

    if not arguments.spread:
        machine.lift(one, module, device, gpu)
    return machine.fresh(node)


def _call(machine: Machine, module: Value, inputs: Value, written: str | cst.CSTNode, node: cst.Call) -> Value:
    """Call one module with its inputs, which the program has ``written`` so."""
    items = content(machine, inputs)
    given = items.items if items is not None else (inputs,)
    exact = items is None or items.exact
    if not isinstance(module, Object) or module.kind is not Kind.MODULE or not exact or any(map(_has_names, given)):
        return NONE
    parts = modules.reachable(machine, module).values()
    if all(isinstance(part, Object) and isinstance(part.cls, External) for part in parts):
        _meet(machine, module, given, written, node)
    else:
        machine.evaluator.call(machine, module, Arguments(given), node)
    return NONE


def _has_names(value: Value) -> bool:
    """Whether a value may be a dict of keyword arguments."""
    return isinstance(value, Mapping) or (isinstance(value, Object) and value.kind is Kind.DICT)


def _meet(
    machine: Machine, module: Object, given: tuple[Value, ...], written: str | cst.CSTNode, node: cst.Call
) -> None:
    """A module of layers of libraries gets its first input: nothing moves it."""
    called = node.args[0].value if node.args else node.func
    spelt_out = isinstance(written, (cst.Tuple, cst.List)) and len(written.elements) == len(given)
    source = written.elements[0].value if isinstance(written, (cst.Tuple, cst.List)) and spelt_out else written

    def meet(placed: Value, first: Value) -> Value:
        place = placed.place if isinstance(placed, Placed) else None
        if isinstance(place, (Device, Symbol)) and isinstance(first, Tensor):
            weights = modules.weights(machine, module, place, called)
            operations.operate(machine, node.func, [weights, Operand(source, first)], node)
        return NONE

    places = dict.fromkeys(placed for _, placed in modules.placements(machine, module))
    if len(places) == 1 and given:
        machine.lift(meet, next(iter(places)), given[0])


CALLS: Handlers = {
    **{name: trace for name in _TRACERS if "." in name},
    **dict.fromkeys(_SUMMARIES, _summarise),
    **{f"{module}.SummaryWriter": _writer for module in _WRITERS},
}
