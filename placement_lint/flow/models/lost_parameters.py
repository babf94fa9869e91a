"""Parameters that are lost: an ``__init__`` keeps what it computed from one, and that is no Parameter."""

from __future__ import annotations

from typing import TypeGuard

import libcst as cst

from placement_lint.flow.domain.record import replace
from placement_lint.flow.domain.values import NONE, Object, Role, Tensor, Value, alternatives
from placement_lint.flow.events.schema import ParameterLost
from placement_lint.flow.models import modules
from placement_lint.flow.state.machine import Machine
from placement_lint.flow.state.moment import Calls


def report(machine: Machine, owner: Object, name: str, before: Value | None, value: Value, node: cst.CSTNode) -> None:
    """``self.name = value`` in ``__init__``: report a value that was computed from a Parameter which nothing holds."""

    def one(option: Value) -> Value:
        if _is_lost(option) and not _registered_elsewhere(machine, owner, name, option):
            there = [] if before is None else [held for _, held in alternatives(machine.restrict(before))]
            replaces = bool(there) and all(isinstance(held, Tensor) and held.role is Role.PARAMETER for held in there)
            machine.emit(ParameterLost(node, machine.scene, f"self.{name}", name, option, replaces))
        return NONE

    if any(_is_lost(option) for _, option in alternatives(value)) and machine.constructing(owner):
        machine.lift(one, value)


def _is_lost(option: Value) -> TypeGuard[Tensor]:
    return isinstance(option, Tensor) and option.lost is not None and option.role is not Role.PARAMETER


def kept(machine: Machine, owner: Object, name: str, option: Value) -> Value:
    """A value that ``__init__`` computes from a Parameter of the module is deliberately not a Parameter itself."""
    if not _is_lost(option) or machine.now[Calls].standalone or not machine.constructing(owner):
        return option
    return replace(option, lost=None) if _registered_elsewhere(machine, owner, name, option) else option


def _registered_elsewhere(machine: Machine, owner: Object, name: str, computed: Tensor) -> bool:
    """Whether the Parameter from which a tensor was computed is registered, in any module or under another name."""
    assert computed.lost is not None
    if computed.modules:
        return True
    return any(
        isinstance(child, Tensor) and child.uid == computed.lost.uid and (part, attribute) != (owner, name)
        for part in modules.reachable(machine, owner).values()
        if isinstance(part, Object)
        for attribute, child in modules.children(machine, part)
    )
