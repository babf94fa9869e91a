"""Autocast around a DataParallel call: its replicas run in threads of their own.

Autocast is thread-local. The threads are told whether it is on and nothing else (torch/nn/parallel/parallel_apply.py,
``_worker``): there it casts to float16, whatever the dtype outside.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import libcst as cst

from placement_lint.flow.api.torch_names import AUTOCASTS, DTYPES
from placement_lint.flow.domain.arguments import Arguments
from placement_lint.flow.domain.values import NONE, TRUE, Casting, Const, External, Value, alternatives
from placement_lint.flow.events.schema import PrecisionLost
from placement_lint.flow.models.handlers import Handlers
from placement_lint.flow.state.machine import Machine
from placement_lint.flow.state.moment import Replica
from placement_lint.flow.state.notes import Moment, noted


@dataclass
class Autocast(Moment):
    """What autocast does here."""

    # where something around says so that no replica has entered; None of no autocast
    value: Value = noted(lambda: NONE)


_IN_REPLICAS = "float16"


def build(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``torch.autocast("cuda", dtype=torch.bfloat16)``"""
    kind, dtype, enabled = AUTOCASTS[name]
    device_type = Const(kind) if isinstance(kind, str) else arguments.get(kind, "device_type")
    given = arguments.get(dtype, "dtype")
    if device_type is None or given is None or arguments.spread:
        return machine.fresh(node)
    return Casting(device_type, given, arguments.get(enabled, "enabled") or TRUE, node)


@contextmanager
def entered(machine: Machine, context: Value) -> Iterator[None]:
    """``with context:``, where autocast or unknown code made the context."""
    casting = machine.now[Autocast]
    known = not machine.now[Replica].notes and any(isinstance(option, Casting) for _, option in alternatives(context))
    outside, casting.value = casting.value, context if known else NONE
    try:
        yield
    finally:
        casting.value = outside


def computed(machine: Machine, node: cst.Call) -> None:
    """A replica calls a layer that autocast runs in the lower precision."""
    machine.lift(lambda context: _computed(machine, context, node), machine.now[Autocast].value)


def _computed(machine: Machine, context: Value, node: cst.Call) -> Value:
    if not isinstance(context, Casting):
        return NONE

    def check(device_type: Value, dtype: Value) -> Value:
        on = machine.evaluator.truth(machine, context.enabled, context.node)
        asked = _floating(dtype)
        if device_type == Const("cuda") and asked not in ("", _IN_REPLICAS) and not machine.path.excludes(on):
            with machine.assuming(on):
                machine.emit(PrecisionLost(context.node, machine.scene, asked, node))
        return NONE

    return machine.lift(check, context.device_type, context.dtype)


def _floating(dtype: Value) -> str:
    """The type that is meant, empty where that is not known."""
    return DTYPES.get(dtype.name.removeprefix("torch."), "") if isinstance(dtype, External) else ""


CALLS: Handlers = dict.fromkeys(AUTOCASTS, build)
