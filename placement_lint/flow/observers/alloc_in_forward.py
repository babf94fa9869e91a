"""Modules and Parameters that a forward creates, either in each call or only in the first."""

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
    """Record a module that a forward builds, unless an ``__init__`` inside the forward builds it as a part."""
    if machine.now[Calls].in_forward and not _constructing_within(machine):
        _note(machine, module.id, module.node, module.cls.name.rpartition(".")[2])


def note_parameter(machine: Machine, parameter: Tensor, data: Value, node: cst.CSTNode) -> None:
    """Record ``nn.Parameter(torch.randn(3))`` in a forward; a Parameter made from a computed tensor only wraps it."""
    if not isinstance(data, Tensor):
        return
    fresh = data.source in (Source.FACTORY_IN_FORWARD, Source.FACTORY_ON_DEVICE) and data.uid
    if machine.now[Calls].in_forward and fresh and not _constructing_within(machine):
        _note(machine, parameter.uid, node, "Parameter")


# Decorators that run a function once and cache its result.
_RUN_ONCE = re.compile(r"(?:.*\.)?(?:\w*cached?(?:_\w+)?|memoi[sz]ed?|singleton|\w*once)", re.IGNORECASE)


def _note(machine: Machine, identity: int, node: cst.CSTNode, cls: str) -> None:
    running = [frame.function for frame in machine.frames if frame.function is not None]
    if any(_RUN_ONCE.fullmatch(name) for function in running for name in function.decorators):
        return
    machine.now[InForward].made[identity] = Made(node, machine.scene, cls)
    machine.notes[Allocations].ids.add(identity)


def _constructing_within(machine: Machine) -> bool:
    """Whether the innermost forward is currently running an ``__init__``."""
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


# --- uses of the created objects ---------------------------------------------------------------------------------


def note_use(machine: Machine, tensor: Tensor, node: cst.CSTNode) -> None:
    _use(machine, tensor.uid)


def _use(machine: Machine, identity: int) -> None:
    if identity in machine.now[InForward].made:
        machine.now[InForward].made[identity].used = True


def note_module_use(machine: Machine, module: Object | Symbol, node: cst.Call) -> None:
    """Mark a module created here as used when it is called; its parts count as part of it."""
    if isinstance(module, Object) and module.id in machine.now[InForward].made and _learns_of_its_own(machine, module):
        _use(machine, module.id)
        for part in modules.reachable(machine, module):
            if part != module.id:
                machine.now[InForward].made.pop(part, None)


def _learns_of_its_own(machine: Machine, module: Object) -> bool:
    """Whether a module has new parameters: a new module around existing layers of the model has none."""
    given = (part for part in modules.reachable(machine, module).values() if isinstance(part, Object))
    own = (part for part in given if part.id in machine.now[InForward].made or part.id > module.id)
    return any(modules.learns_itself(machine, part) for part in own)


def note_keeping(machine: Machine, value: Value) -> None:
    """Mark the created objects in a value that is stored where it may outlive the forward."""
    forward = machine.now[InForward]
    if forward.made:
        for _, option in alternatives(value):
            for identity in modules.made_of(machine, option):
                if identity in forward.made:
                    forward.made[identity].kept = True


def forget(machine: Machine, identity: int) -> None:
    """Forget an object whose weights the program sets, loads or freezes itself."""
    machine.now[InForward].made.pop(identity, None)
    machine.notes[Allocations].ids.discard(identity)


# --- creation in each call, or only once --------------------------------------------------------------------------


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
    """The objects that a second call creates in the state after the first one; its other effects are discarded."""
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


# --- signals ----------------------------------------------------------------------------------------------------------


def listen(signals: Signals) -> None:
    signals.modules.built.connect(note_module)
    signals.tensors.parameter_made.connect(note_parameter)
    signals.tensors.used.connect(note_use)
    signals.modules.called.connect(note_module_use)
    signals.modules.weights_handled.connect(forget)
    signals.program.value_kept.connect(note_keeping)
