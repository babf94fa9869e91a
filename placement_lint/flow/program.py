"""A whole program: the module's own statements first, then whatever nobody called, by itself."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Mapping
from collections.abc import Sequence as Many
from contextlib import contextmanager
from dataclasses import dataclass, field

import libcst as cst

from placement_lint.flow import (
    attributes,
    calls,
    checkpoints,
    choices,
    coverage,
    creation,
    frameworks,
    imports,
    lengths,
    lightning,
    loaders,
    modules,
    numbering,
    processes,
    ranks,
    replicas,
    statements,
    wrappers,
)
from placement_lint.flow.arguments import Arguments
from placement_lint.flow.classes import find
from placement_lint.flow.condition import ALWAYS
from placement_lint.flow.copying import replace
from placement_lint.flow.events import (
    CudaInWorker,
    DeviceNeverEqual,
    DevicesMixed,
    Event,
    FirstDeviceMissed,
    SharedTensorChanged,
    WrapperAttributeRead,
)
from placement_lint.flow.machine import ABROAD_FOR_UNCALLED, Machine
from placement_lint.flow.names import bind
from placement_lint.flow.placements import PlacementLog
from placement_lint.flow.values import OWN, Class, Const, Function, Object, Placed, Role, Tensor, Value, alternatives
from placement_lint.project.finder import Surroundings
from placement_lint.rule import Note

# Nested expressions and calls of the program nest calls here, several to one.
_RECURSION_LIMIT = 12_000
# Calls that one function or class looked at by itself may cost.
_FUEL_EACH = 2_000


@dataclass(frozen=True)
class Account:
    """All that happens in a program, as far as it can be known.

    ``sites`` are, for calls in plain functions of other files, the calls that led there; ``uses`` the same for those
    functions, by file, class and name; ``module_classes`` the definitions of classes that are modules, of whichever
    file; ``tended`` the attributes of such classes that code outside the class looks after.
    """

    events: Many[Event] = ()
    sites: Mapping[cst.CSTNode, Collection[cst.CSTNode]] = field(default_factory=dict)
    uses: Mapping[tuple[str, str, str], Collection[cst.CSTNode]] = field(default_factory=dict)
    module_classes: Collection[cst.CSTNode] = ()
    tended: Collection[tuple[str, str, str]] = ()


def analyse(module: cst.Module, log: PlacementLog | None = None, surroundings: Surroundings | None = None) -> Account:
    """Look at a program; ``log`` is told of every assignment.

    Of other files it knows what the program imports from its ``surroundings``, if it has any.
    Raises RecursionError where expressions nest too deep.
    """
    machine = Machine(log)
    if surroundings is not None:
        imports.begin(machine, surroundings, statements.execute_all)
    with _deep_recursion():
        bind(machine, "__name__", Const("__main__"))
        machine.scope("module", lambda: statements.execute_all(machine, module.body))
        _look_at_the_uncalled(machine)
    _resolve_rebinds(machine)
    replicas.resolve(machine)
    coverage.resolve(machine)
    machine.events.extend(event for event in machine.reduced if event.node not in machine.divided)
    machine.events.extend(event for _, event in machine.pending)
    machine.events.extend(machine.late_restrictions)
    ranks.resolve(machine)
    wrappers.resolve_loads(machine)
    checkpoints.resolve(machine)
    loaders.report_epochs(machine)
    ignoring = choices.resolve(machine)
    on_cpu = lengths.resolve(machine)
    elsewhere = processes.resolve(machine)
    elsewhere.update(
        event.node for event in machine.events if isinstance(event, SharedTensorChanged) and not event.buffer
    )
    events = [
        _settled(machine, event)
        for event in machine.events
        if not _follows_from(machine, event, ignoring, elsewhere)
        and not (isinstance(event, DevicesMixed) and event.home.tensor.granted in on_cpu)
        and (machine.forks or not isinstance(event, CudaInWorker))
    ]
    if log is not None:
        log.ended(machine, events)
    return Account(events, machine.sites, machine.uses, machine.module_classes, machine.tended)


def _settled(machine: Machine, event: Event) -> Event:
    if isinstance(event, CudaInWorker):
        return replace(event, initialised=machine.uses_cuda)
    if isinstance(event, WrapperAttributeRead):
        return replace(event, always=event.node not in machine.read_of_others)
    if isinstance(event, DevicesMixed) and replicas.accumulates(machine, event.stray.tensor.holder):
        return replace(event, stray=event.stray.not_registrable)
    return event


def _follows_from(machine: Machine, event: Event, ignoring: set[cst.CSTNode], elsewhere: set[cst.CSTNode]) -> bool:
    """Whether what happens only follows from something that is reported by itself.

    Tensors meet because one of them ignored the choice of device, or is shared by replicas; a rank's module is not on
    the first of all GPUs.
    """
    if isinstance(event, FirstDeviceMissed):
        return event.node in elsewhere
    if isinstance(event, DeviceNeverEqual):
        return event.node in machine.moving_tests
    if not isinstance(event, DevicesMixed):
        return False
    if event.node in elsewhere or _may_be_replaced(machine, event):
        return True
    histories = (event.stray.tensor.history, event.home.tensor.history)
    return any(note.node in ignoring for history in histories for note in history)


def _may_be_replaced(machine: Machine, event: DevicesMixed) -> bool:
    """Whether a forward assigns the attribute anew, and uses what ``__init__`` left there under a condition only."""
    holder = event.stray.tensor.holder
    if holder is None or not all(cube.answers for cube in event.scene.when.cubes):
        return False
    return (attributes.identity(holder.owner), holder.name) in machine.changed


@contextmanager
def _deep_recursion() -> Iterator[None]:
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, _RECURSION_LIMIT))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


# --- what nobody calls -----------------------------------------------------------------------------------------


def _look_at_the_uncalled(machine: Machine) -> None:
    machine.standalone = True
    machine.abroad, machine.spent = ABROAD_FOR_UNCALLED, 0
    numbering.forget_script(machine)
    for cls in list(machine.classes):
        _look_at_class(machine, cls)
    for node, function in list(machine.functions.items()):
        if node not in machine.called:
            with _by_itself(machine):
                arguments = calls.unknown_arguments(machine, function, skip_first=False)
                calls.call_function(machine, function, arguments, node)


@contextmanager
def _by_itself(machine: Machine) -> Iterator[None]:
    """From the state that the module's own statements left; what happens here does not last."""
    machine.dead, machine.path, machine.reach = False, ALWAYS, ALWAYS
    machine.fuel = _FUEL_EACH
    machine.store.begin()
    try:
        yield
    finally:
        machine.store.roll_back()
        machine.dead, machine.path, machine.reach = False, ALWAYS, ALWAYS


def _look_at_class(machine: Machine, cls: Class) -> None:
    methods = [
        method
        for name in list(machine.store.names(cls.id))
        if isinstance(method := machine.read(cls.id, name), Function) and method.owner == cls
    ]
    if all(method.node in machine.called for method in methods):
        return
    with _by_itself(machine):
        instance = _bare_instance(machine, cls)
        for method in methods:
            if method.node not in machine.called and method.name != "__init__":
                _look_at_method(machine, instance, method)


def _bare_instance(machine: Machine, cls: Class) -> Object:
    """An instance as its ``__init__`` leaves it, given arguments of which nothing is known."""
    initialiser = find(machine, cls, "__init__")
    arguments = Arguments(spread=True)
    if isinstance(initialiser, Function):
        arguments = calls.unknown_arguments(machine, initialiser, skip_first=True)
    instance = calls.instantiate(machine, cls, arguments, cls.node)
    assert isinstance(instance, Object)
    machine.dead = False
    machine.labels[instance.id] = "self"
    lightning.takes_over(machine, cls)
    if cls.module:
        note = Note(cls.node, "wherever the module is")
        for part in modules.reachable(machine, instance).values():
            machine.write(part.id, modules.PLACE, Placed(OWN, note))
        modules.settle_tensors(machine, instance, OWN)
    else:
        _forget_unmoved(machine, instance)
    return instance


def _forget_unmoved(machine: Machine, instance: Object) -> None:
    """Between ``__init__`` and a method that nobody calls here, whatever was not placed yet may be moved."""
    for name in machine.store.names(instance.id):
        value = machine.read(instance.id, name)
        for _, held in alternatives(value) if value is not None else ():
            if isinstance(held, Object) and modules.is_module(machine, held) and held.id not in machine.moved:
                for part in modules.reachable(machine, held).values():
                    machine.write(part.id, modules.PLACE, machine.fresh())
                modules.settle_tensors(machine, held, machine.fresh())


def _look_at_method(machine: Machine, instance: Object, method: Function) -> None:
    machine.store.begin()
    bound = "staticmethod" not in method.decorators
    arguments = calls.unknown_arguments(machine, method, skip_first=bound)
    is_forward = method.name == "forward" and isinstance(instance.cls, Class) and instance.cls.module
    is_step = lightning.is_step(machine, instance, method)
    if is_step:
        arguments = lightning.step_arguments(arguments)
    elif frameworks.trains_model(instance, method):
        arguments = frameworks.trainer_arguments(machine, arguments, method.node)
    if is_forward:
        taken = calls.takes_tensors(machine, method)
        inputs = tuple(
            Tensor(OWN, None, Role.INPUT, entered=parameter, assumed=True, uid=machine.new_id()) if tensor else unknown
            for tensor, parameter, unknown in zip(
                taken[bound:], method.parameters[bound:], arguments.positional, strict=True
            )
        )
        arguments = replace(arguments, positional=inputs, spread=False)
    if is_forward or is_step:
        machine.in_forward.append(instance)
        machine.written = set()
    receiver: Value = instance.cls if "classmethod" in method.decorators else instance

    def run() -> Value:
        return calls.call_function(machine, method, arguments, method.node, receiver if bound else None)

    if is_forward or is_step:
        creation.run_forward(machine, run)
        machine.in_forward.pop()
    else:
        run()
    machine.store.roll_back()
    machine.dead, machine.path, machine.reach = False, ALWAYS, ALWAYS


# --- what only the end of the program tells ----------------------------------------------------------------------


def _resolve_rebinds(machine: Machine) -> None:
    """What replicas assigned matters where somebody reads it later."""
    for event, identity in machine.rebinds:
        readers = machine.reads.get((identity, event.name), {})
        reads = tuple(
            Note(node, "only updated here" if updating else "read here") for node, updating in readers.items()
        )
        if reads:
            machine.emit(replace(event, reads=reads))
