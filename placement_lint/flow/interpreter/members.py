"""The modules of known classes that an unknown one may be, where they are too many to be told apart."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import libcst as cst

from placement_lint.flow.domain.arguments import Arguments
from placement_lint.flow.domain.values import NONE, Object, Symbol, Value
from placement_lint.flow.interpreter import attributes, calls
from placement_lint.flow.models import modules
from placement_lint.flow.state.machine import Machine
from placement_lint.flow.state.module_notes import ModuleNotes


def call_method(machine: Machine, common: Symbol, method: cst.Attribute, arguments: Arguments, node: cst.Call) -> None:
    """``model.method(…)`` of a module that is one of many."""

    def called(member: Object) -> Value:
        return calls.call(machine, attributes.read(machine, member, method.attr.value, method), arguments, node)

    look(machine, common, node, called)


def look(machine: Machine, common: Symbol, node: cst.Call, at: Callable[[Object], Value]) -> None:
    """Look at each of the modules that this one stands for, for the findings alone: the effects are dropped."""

    def looked(member: Object) -> Value:
        machine.store.begin()
        try:
            modules.follow(machine, member, common)
            at(member)
        finally:
            machine.store.roll_back()
        return NONE

    noted = machine.notes[ModuleNotes]
    members = noted.members.get(common.id, ())
    circumstances = (node, common.id, machine.read(common.id, modules.PLACE), machine.circumstances())
    if not members or circumstances in noted.looked_into:
        return
    noted.looked_into.add(circumstances)
    for guard, member in members:
        machine.fork(((guard, partial(looked, member)), (guard.negation, lambda: NONE)), decides=True)
