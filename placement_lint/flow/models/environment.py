"""Environment variables: what the program reads from them, and what it writes to them for PyTorch to heed."""

from __future__ import annotations

import libcst as cst

from placement_lint.flow.domain.arguments import Arguments
from placement_lint.flow.domain.record import replace
from placement_lint.flow.domain.values import ABSENT, NONE, TRUE, Const, External, Kind, Mapping, Object, Value
from placement_lint.flow.models import ranks, visible_devices
from placement_lint.flow.models.handlers import Handlers
from placement_lint.flow.state.heap import MAPPING, Slot
from placement_lint.flow.state.machine import Machine

ENVIRON = External("os.environ")
# What the program assigned to a variable.
_ENVIRONMENT = Slot("environment")


def variable(machine: Machine, key: Value | None, node: cst.CSTNode) -> Value:
    """``os.environ["RANK"]``: an unknown value, the same at each reading."""
    if not isinstance(key, Const):
        return machine.fresh(node)
    ranks.notice_name(machine, key.value)

    def inherited() -> Value:
        if key.value == "WORLD_SIZE":
            return replace(ranks.world_size(machine, node), type="")
        return machine.part(machine.module_frame, _cell(key), node)

    return machine.read(machine.module_frame, _cell(key), unset=inherited)


def _cell(key: Const) -> Slot:
    return _ENVIRONMENT.of(str(key.value))


def read(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``os.environ.get("RANK", 0)``, ``os.getenv("RANK")``"""
    return variable(machine, arguments.get(0, "key"), node)


def write(machine: Machine, key: Value, value: Value, node: cst.CSTNode) -> None:
    """``os.environ["CUDA_VISIBLE_DEVICES"] = "1"``; to say the same again changes nothing."""
    if not isinstance(key, Const):
        return
    before = machine.read(machine.module_frame, _cell(key))
    machine.write(machine.module_frame, _cell(key), value)
    if key.value == "CUDA_VISIBLE_DEVICES" and value != before:
        visible_devices.restrict(machine, value, node)


def contains(machine: Machine, key: Const, asked: Value) -> Value:
    """``"RANK" in os.environ``: true if the program wrote it, else unknown."""
    ranks.notice_name(machine, key.value)
    written = machine.read(machine.module_frame, _cell(key), unset=ABSENT)
    return machine.lift(lambda value: asked if value is ABSENT else TRUE, written)


def put(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``os.putenv("CUDA_VISIBLE_DEVICES", "1")``"""
    key, value = arguments.get(0), arguments.get(1)
    if key is not None and value is not None:
        write(machine, key, value, node)
    return NONE


def update(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``os.environ.update({"CUDA_VISIBLE_DEVICES": "1"})``"""
    given = arguments.get(0)
    if isinstance(given, Object) and given.kind is Kind.DICT:
        given = machine.read(given.id, MAPPING)
    written = given.items if isinstance(given, Mapping) else ()
    for key, value in (*written, *arguments.keywords.items()):
        write(machine, Const(key), value, node)
    return NONE


def default(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``os.environ.setdefault("CUDA_VISIBLE_DEVICES", "0")``: only a default, so setting it late is often harmless."""
    return variable(machine, arguments.get(0), node)


CALLS: Handlers = {
    "os.environ.get": read,
    "os.getenv": read,
    "os.environ.update": update,
    "os.environ.setdefault": default,
    "os.putenv": put,
}
