"""The analysis of a program: first the module's top-level statements, then each uncalled definition by itself."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from collections.abc import Sequence as Many
from contextlib import contextmanager
from dataclasses import dataclass, field

import libcst as cst

from placement_lint.flow.domain.path_condition import Answer, Condition
from placement_lint.flow.domain.record import replace
from placement_lint.flow.domain.values import Const, Symbol
from placement_lint.flow.driver.entry_points import look_at_the_uncalled
from placement_lint.flow.events.mismatch_cause import Cause, cause_of
from placement_lint.flow.events.schema import (
    CudaInWorker,
    CudaRequested,
    DeviceNeverEqual,
    DevicesMixed,
    Event,
    FirstDeviceMissed,
    HostRead,
    LoadedWhereSaved,
    SavedThere,
    SharedTensorChanged,
    WrapperAttributeRead,
)
from placement_lint.flow.incremental.definition_memo import Outcomes
from placement_lint.flow.interpreter import statements
from placement_lint.flow.interpreter.evaluator import Interpreter
from placement_lint.flow.models import (
    checkpoints,
    ddp,
    device_choice,
    lengths,
    loaders,
    optimizers,
    parameter_replacement,
    processes,
    ranks,
    replica_losses,
    schedulers,
    state_dicts,
    summaries,
    tensor_hooks,
    visible_devices,
    wrapper_attributes,
)
from placement_lint.flow.models.checkpoints import Checkpoints
from placement_lint.flow.models.device_choice import DeviceChoices
from placement_lint.flow.models.loaders import Loaders
from placement_lint.flow.models.visible_devices import VisibleDevices
from placement_lint.flow.observers import (
    alloc_in_forward,
    detached_parameters,
    folklore,
    gradient_flow,
    model_copies,
    repeated_reference,
    replica_escape,
    replicas,
    revealing,
    shared_storage,
    stale_forward_state,
    tied_weights,
    uncovered_parameters,
    undivided_data,
    unsynced_parameters,
)
from placement_lint.flow.observers.placements import PlacementLog
from placement_lint.flow.state import imports
from placement_lint.flow.state.accesses import Accesses
from placement_lint.flow.state.classes import class_id
from placement_lint.flow.state.machine import Machine
from placement_lint.flow.state.module_notes import ModuleNotes
from placement_lint.flow.state.names import Names, bind
from placement_lint.flow.state.program import Program
from placement_lint.project.finder import Surroundings
from placement_lint.source.left_unset import left_unset

# Each nested expression or call of the program takes several nested calls here.
_RECURSION_LIMIT = 12_000


# The subscribers to signals, in this order, and the modules that report after the whole program.
LISTENING = (
    optimizers,
    parameter_replacement,
    ddp,
    schedulers,
    tensor_hooks,
    processes,
    alloc_in_forward,
    replica_escape,
    replicas,
    shared_storage,
    folklore,
    model_copies,
    uncovered_parameters,
    gradient_flow,
    tied_weights,
    unsynced_parameters,
    undivided_data,
    repeated_reference,
    stale_forward_state,
    detached_parameters,
    revealing,
)
FINISHING = (
    wrapper_attributes,
    schedulers,
    shared_storage,
    repeated_reference,
    replicas,
    revealing,
    uncovered_parameters,
    gradient_flow,
    unsynced_parameters,
    model_copies,
    replica_losses,
    optimizers,
    visible_devices,
    ranks,
    state_dicts,
    checkpoints,
    loaders,
)


@dataclass(frozen=True)
class Account:
    """The result of the analysis of a program.

    ``sites`` maps calls in plain functions of other files to the call sites that lead there; ``uses`` does the same for
    those functions, by file, class and name; ``module_classes`` are the definitions of module classes in any file;
    ``called_on`` the parameters of the called functions, with how the program reaches the calls; ``tended`` the
    attributes of module classes that code outside the class moves or registers; ``subsumed`` the events that only
    follow from others; ``refused`` the number of calls of functions that lack of budget left unanalysed; ``saved`` the
    state dicts that it saves in files; ``harmless`` the loads of what it saves without a tensor on a GPU.
    """

    events: Many[Event] = ()
    sites: Mapping[cst.CSTNode, Collection[cst.CSTNode]] = field(default_factory=dict)
    uses: Mapping[tuple[str, str, str], Collection[cst.CSTNode]] = field(default_factory=dict)
    module_classes: Collection[cst.CSTNode] = ()
    called_on: Collection[tuple[cst.CSTNode, Condition]] = ()
    tended: Collection[tuple[str, str, str]] = ()
    subsumed: Many[Event] = ()
    refused: int = 0
    saved: Many[SavedThere] = ()
    harmless: Collection[cst.CSTNode] = ()


def analyse(
    module: cst.Module,
    log: PlacementLog | None = None,
    surroundings: Surroundings | None = None,
    outcomes: Outcomes | None = None,
    thorough: bool = False,
) -> Account:
    """Analyse a program; ``log`` records every assignment, ``outcomes`` are the results for the document's last text.

    A ``thorough`` analysis skips no definition, even if triage expects no finding.

    ``surroundings`` resolves the program's imports of other files; without it, they are unknown.
    Raises RecursionError if expressions are nested too deeply.
    """
    machine = Machine(Interpreter(), log)
    for observer in LISTENING:
        observer.listen(machine.signals)
    machine.summarise = summaries.summary
    if surroundings is not None:
        imports.begin(machine, surroundings, statements.execute_all)
    if outcomes is not None:
        outcomes.forwards.begin(module)
        machine.recollection = outcomes.forwards
    machine.notes[Program].module = module
    with _deep_recursion():
        bind(machine, "__name__", Const("__main__"))
        machine.notes[Program].left_unset = left_unset(module.body)
        machine.scope("module", lambda: statements.execute_all(machine, module.body))
        look_at_the_uncalled(machine, outcomes, thorough)
    visible_devices.look_at_imports(machine, module)
    for each in FINISHING:
        each.finish(machine)
    program = machine.notes[Program]
    ignoring = device_choice.resolve(machine)
    on_cpu = lengths.resolve(machine)
    elsewhere = processes.resolve(machine)
    elsewhere.update(
        event.node for event in program.events if isinstance(event, SharedTensorChanged) and not event.buffer
    )
    in_the_program = {(type(event), event.node) for event in program.events if not event.scene.standalone}
    subsumed = [
        event
        for event in program.events
        # an event of the program itself has more context than the same event of an entry point
        if (event.scene.standalone and (type(event), event.node) in in_the_program)
        or _follows_from(machine, event, ignoring, elsewhere)
        or _takes_a_turned_flag(machine, event)
        or (isinstance(event, DevicesMixed) and event.home.tensor.granted in on_cpu)
        or (isinstance(event, CudaInWorker) and not machine.notes[Loaders].forks)
    ]
    left_out = set(map(id, subsumed))
    events = [event for event in program.events if id(event) not in left_out]
    unguarded = _unguarded(events)
    events = [_settled(machine, event, unguarded) for event in events]
    if log is not None:
        log.ended(machine, events)
    return Account(
        events,
        program.sites,
        program.uses,
        program.module_classes,
        program.called_on,
        machine.notes[ModuleNotes].tended,
        subsumed,
        machine.budget.skipped,
        [*state_dicts.saved_states(machine)],
        machine.notes[Checkpoints].harmless,
    )


def _unguarded(events: Iterable[Event]) -> set[tuple[type[Event], cst.CSTNode]]:
    """The operations that raise also where no test for CUDA has left a tensor."""
    plain = (
        one
        for one in events
        if (isinstance(one, HostRead) and one.guard is None)
        or (isinstance(one, DevicesMixed) and cause_of(one) not in (Cause.CUDA_ONLY_GUARD, Cause.ASSUMED))
    )
    return {(type(one), one.node) for one in plain}


def _settled(machine: Machine, event: Event, unguarded: set[tuple[type[Event], cst.CSTNode]]) -> Event:
    if isinstance(event, CudaInWorker):
        return replace(event, initialised=machine.notes[VisibleDevices].uses_cuda)
    if isinstance(event, WrapperAttributeRead):
        return replace(event, always=event.node not in machine.notes[Accesses].read_of_others)
    if isinstance(event, (DevicesMixed, HostRead)) and (type(event), event.node) in unguarded:
        event = replace(event, anyway=True)
    if isinstance(event, DevicesMixed) and replicas.accumulates(machine, event.stray.tensor.holder):
        return replace(event, stray=event.stray.not_registrable)
    return event


def _follows_from(machine: Machine, event: Event, ignoring: set[cst.CSTNode], elsewhere: set[cst.CSTNode]) -> bool:
    """Whether an event only follows from a fault that is reported separately.

    Tensors mix devices because one of them ignored the choice of device, or is shared by replicas; a rank's module is
    not on the first GPU. A condition may also contradict the program's choice of the CPU.
    """
    if isinstance(event, (FirstDeviceMissed, DevicesMixed)) and device_choice.contradicts(machine, event.scene.when):
        return True
    if isinstance(event, FirstDeviceMissed):
        return event.node in elsewhere
    if isinstance(event, DeviceNeverEqual):
        return event.node in machine.notes[DeviceChoices].moving_tests
    if not isinstance(event, DevicesMixed):
        return False
    if event.node in elsewhere or _may_be_replaced(machine, event):
        return True
    histories = (event.stray.tensor.history, event.home.tensor.history)
    return any(note.node in ignoring for history in histories for note in history)


def _takes_a_turned_flag(machine: Machine, event: Event) -> bool:
    """Whether an event requires that a flag of another file differs from its initial value, which nothing changes.

    Events about a choice of device are excluded: the flag may select another device elsewhere.
    """
    if not machine.notes[Names].flags or isinstance(event, (CudaRequested, LoadedWhereSaved)):
        return False
    return all(any(_is_turned(machine, answer) for answer in cube.answers) for cube in event.scene.when.cubes)


def _is_turned(machine: Machine, answer: Answer) -> bool:
    flag = answer.question.subject
    return isinstance(flag, Symbol) and machine.notes[Names].flags.get(flag.id, answer.given) is not answer.given


def _may_be_replaced(machine: Machine, event: DevicesMixed) -> bool:
    """Whether a forward reassigns the attribute, and uses the value from ``__init__`` only under a condition."""
    holder = event.stray.tensor.holder
    if holder is None or event.stray.tensor.left or not all(cube.answers for cube in event.scene.when.cubes):
        return False
    return (class_id(holder.owner), holder.name) in machine.notes[Accesses].changed


@contextmanager
def _deep_recursion() -> Iterator[None]:
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, _RECURSION_LIMIT))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)
