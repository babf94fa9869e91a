"""Functions of CUDA and other accelerators: which devices there are, and which one is the default."""

from __future__ import annotations

import libcst as cst

from placement_lint.flow.api.torch_names import CUDA_INITIALISERS, WAITS
from placement_lint.flow.domain.arguments import Arguments
from placement_lint.flow.domain.path_condition import MANY_GPUS, NO_GPU, ONE_GPU, machines
from placement_lint.flow.domain.record import replace
from placement_lint.flow.domain.values import CPU, NONE, AtLeast, Const, Device, External, Symbol, Value
from placement_lint.flow.models import async_copy, device_choice, ranks, visible_devices
from placement_lint.flow.models.handlers import Handlers
from placement_lint.flow.state import devices
from placement_lint.flow.state.machine import Machine


def is_available(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    visible_devices.touch(machine, node)
    guard = node if name == "torch.cuda.is_available" else None
    there, missing = Const(True, guard=guard), Const(False, guard=guard)
    with machine.as_written():
        return machine.either(((machines(ONE_GPU | MANY_GPUS), there), (machines(NO_GPU), missing)))


def device_count(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    with machine.as_written():
        return machine.either(
            (
                (machines(NO_GPU), Const(0)),
                (machines(ONE_GPU), Const(1)),
                (machines(MANY_GPUS), AtLeast(2)),
            )
        )


def device(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``torch.device("cuda", 1)``"""
    index = arguments.get(1, "index")

    def make(kind: Value) -> Value:
        place = devices.as_place(kind)
        if isinstance(kind, Symbol) and device_choice.is_number(kind.preferred):
            place = Device("cuda", kind, written=node)
        if place is None:
            return machine.fresh()
        if isinstance(place, Device) and place.kind != "cpu" and isinstance(index, (Const, Symbol)) and index != NONE:
            chosen = index.value if isinstance(index, Const) else index
            return replace(place, index=chosen if isinstance(chosen, (int, Symbol)) else None)
        return place

    def name_device(place: Value) -> Value:
        visible_devices.name_device(machine, place, node, node)
        ranks.name_gpu(machine, place.index if isinstance(place, Device) else None, node, works=False)
        if isinstance(place, Symbol):
            return replace(place, type=devices.DEVICE)
        if not isinstance(place, Device):
            return place
        return replace(place, built=True, written=node if by_number else place.written)

    by_number = bool(node.args) and isinstance(node.args[0].value, cst.Integer)
    given = arguments.get(0, "device") or arguments.keyword("type")
    with machine.as_written():
        return machine.lift(lambda kind: name_device(make(kind)), given) if given is not None else machine.fresh()


def xla_device(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    return Device("xla")


def current_accelerator(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``torch.accelerator.current_accelerator()``: None without one."""
    return machine.either(((machines(ONE_GPU | MANY_GPUS), Device("cuda")), (machines(NO_GPU), NONE)))


def current_device(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    visible_devices.touch(machine, node)
    place = devices.resolve(machine, Device("cuda"))
    return Const(place.index) if isinstance(place, Device) and isinstance(place.index, int) else place


def set_device(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    given = arguments.get(0, "device") or machine.fresh()
    device_choice.request_current(machine, given, node)
    visible_devices.touch(machine, node)
    if not isinstance(given, Const):
        ranks.pin(machine)
        number = given if isinstance(given, Device) else Device("cuda", given) if isinstance(given, Symbol) else given
        visible_devices.name_device(machine, number, node, node)
    ranks.name_gpu(machine, given.index if isinstance(given, Device) else given, node)
    devices.set_current(machine, given)
    return NONE


def device_context(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``with torch.cuda.device(1):``"""
    given = arguments.get(0, "device") or machine.fresh()
    device_choice.request_literal(machine, given, device_choice.argument(node, 0, "device"), node, node)
    if not isinstance(given, Const):
        ranks.pin(machine)
    return given


def wait(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    visible_devices.touch(machine, node)
    async_copy.waited(machine)
    return NONE


def touch(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    visible_devices.touch(machine, node)
    return machine.fresh(node)


def set_default_device(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    given = arguments.get(0, "device") or NONE
    device_choice.request_literal(machine, given, device_choice.argument(node, 0, "device"), node, node)
    device_choice.used(machine, given, node)
    devices.set_default(machine, given)
    return NONE


def set_default_tensor_type(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    given = arguments.get(0, "t")
    text = given.value if isinstance(given, Const) else given.name if isinstance(given, External) else ""
    on_cuda = isinstance(text, str) and text.startswith("torch.cuda.")
    if on_cuda:
        device_choice.request(machine, node, node)
    known = isinstance(text, str) and bool(text)
    devices.set_default_type(machine, Device("cuda") if on_cuda else CPU if known else machine.fresh())
    return NONE


CALLS: Handlers = {
    "torch.cuda.is_available": is_available,
    "torch.cuda.device_count": device_count,
    "torch.accelerator.is_available": is_available,
    "torch.accelerator.device_count": device_count,
    "torch.accelerator.current_accelerator": current_accelerator,
    "torch.device": device,
    "torch.cuda.current_device": current_device,
    "torch.cuda.set_device": set_device,
    "torch.cuda.device": device_context,
    "torch.set_default_device": set_default_device,
    "torch.set_default_tensor_type": set_default_tensor_type,
    "torch_xla.core.xla_model.xla_device": xla_device,
    "torch_xla.device": xla_device,
    **dict.fromkeys(CUDA_INITIALISERS, touch),
    **dict.fromkeys(WAITS, wait),
}
