"""Modules and Parameters that a forward makes: whether each call does so again, or only the first."""

from __future__ import annotations

import re
from collections.abc import Callable

import libcst as cst

from placement_lint.flow.domain.values import Object, Source, Symbol, Tensor, Value, alternatives
from placement_lint.flow.events.schema import MadeInForward
from placement_lint.flow.models import modules
from placement_lint.flow.state.allocations import Allocations, InForward, Made
from placement_lint.flow.state.machine import Machine
from placement_lint.flow.state.moment import Calls
from placement_lint.flow.state.program import Program
from placement_lint.flow.state.signals import Signals


def note_module(machine: Machine, module: Object) -> None:
    """A module has been built; one that another module's ``__init__`` builds belongs to that."""
    if machine.now[Calls].in_forward and not _constructing_within(machine):
        _note(machine, module.id, module.node, module.cls.name.rpartition(".")[2])


def note_parameter(machine: Machine, parameter: Tensor, data: Value, node: cst.CSTNode) -> None:
    """``nn.Parameter(torch.randn(3))``; one of a tensor that was computed is that tensor's way into something else."""
    if not isinstance(data, Tensor):
        return
    fresh = data.source in (Source.FACTORY_IN_FORWARD, Source.FACTORY_ON_DEVICE) and data.uid
    if machine.now[Calls].in_forward and fresh and not _constructing_within(machine):
        _note(machine, parameter.uid, node, "Parameter")


# Decorators that run a function once and keep what it returned.
_RUN_ONCE = re.compile(r"(?:.*\.)?(?:\w*cached?(?:_\w+)?|memoi[sz]ed?|singleton|\w*once)", re.IGNORECASE)


def _note(machine: Machine, identity: int, node: cst.CSTNode, cls: str) -> None:
    running = [frame.function for frame in machine.frames if frame.function is not None]
    if any(_RUN_ONCE.fullmatch(name) for function in running for name in function.decorators):
        return
    machine.now[InForward].made[identity] = Made(node, machine.scene, cls)
    machine.notes[Allocations].ids.add(identity)


def _constructing_within(machine: Machine) -> bool:
    """Whether an ``__init__`` is running that the innermost forward called."""
    for frame in reversed(machine.frames):
        if frame.function is not None and frame.function.name == "__init__":
            return True
        if (
            frame.receiver == machine.now[Calls].in_forward[-1]
            and frame.function is not None
            and frame.function.name == "forward"
        ):
            return False
    return False


# --- what becomes of it ------------------------------------------------------------------------------------------


def note_use(machine: Machine, tensor: Tensor, node: cst.CSTNode) -> None:
    _use(machine, tensor.uid)


def _use(machine: Machine, identity: int) -> None:
    if identity in machine.now[InForward].made:
        machine.now[InForward].made[identity].used = True


def note_module_use(machine: Machine, module: Object | Symbol, node: cst.Call) -> None:
    """A module made here is called; its contents are used as parts of it."""
    if isinstance(module, Object) and module.id in machine.now[InForward].made and _learns_of_its_own(machine, module):
        _use(machine, module.id)
        for part in modules.reachable(machine, module):
            if part != module.id:
                machine.now[InForward].made.pop(part, None)


def _learns_of_its_own(machine: Machine, module: Object) -> bool:
    """Whether it has more to learn than the layers that it was given: one around a layer of the model has not."""
    given = (part for part in modules.reachable(machine, module).values() if isinstance(part, Object))
    own = (part for part in given if part.id in machine.now[InForward].made or part.id > module.id)
    return any(modules.learns_itself(machine, part) for part in own)


def note_keeping(machine: Machine, value: Value) -> None:
    """A value is stored in something that may outlive the forward."""
    forward = machine.now[InForward]
    if forward.made:
        for _, option in alternatives(value):
            for identity in modules.made_of(machine, option):
                if identity in forward.made:
                    forward.made[identity].kept = True


def forget(machine: Machine, identity: int) -> None:
    """The program handles the weights itself: it sets, loads or freezes them."""
    machine.now[InForward].made.pop(identity, None)
    machine.notes[Allocations].ids.discard(identity)


# --- once, or each time -------------------------------------------------------------------------------------------


def run_forward(machine: Machine, run: Callable[[], Value]) -> Value:
    """Run an outermost forward and report the modules and Parameters that each call of it creates."""
    forward = machine.now[InForward]
    before, forward.made = forward.made, {}
    result = run()
    made = [record for record in forward.made.values() if record.used]
    again = _rehearse(machine, run) if any(record.kept for record in made) else {}
    for record in made:
        if not record.kept or (record.node in again and record.scene.reach.implies(again[record.node].scene.reach)):
            machine.emit(MadeInForward(record.node, record.scene, record.cls, record.kept))
    forward.made = before
    return result


def _rehearse(machine: Machine, run: Callable[[], Value]) -> dict[cst.CSTNode, Made]:
    """What a second call makes, from the state that the first one left; nothing else of it counts."""
    program = machine.notes[Program]
    forward = machine.now[InForward]
    if forward.rehearsing or machine.dead:
        return {}
    events, program.events = program.events, []
    forward.rehearsing, forward.made = True, {}
    machine.store.begin()
    run()
    machine.store.roll_back()
    machine.dead = False
    forward.rehearsing, program.events = False, events
    return {record.node: record for record in forward.made.values()}


# --- what it hears ---------------------------------------------------------------------------------------------------


def listen(signals: Signals) -> None:
    signals.modules.built.connect(note_module)
    signals.tensors.parameter_made.connect(note_parameter)
    signals.tensors.used.connect(note_use)
    signals.modules.called.connect(note_module_use)
    signals.modules.weights_handled.connect(forget)
    signals.program.value_kept.connect(note_keeping)
