"""Places: the devices that the values in a program name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from placement_lint.flow.domain.path_condition import ALWAYS, MANY_GPUS, ONE_GPU, Condition, machines
from placement_lint.flow.domain.record import replace
from placement_lint.flow.domain.values import (
    ABSENT,
    CPU,
    REPLICA,
    TRUE,
    Const,
    Device,
    External,
    Place,
    Symbol,
    Tensor,
    Value,
    alternatives,
)
from placement_lint.flow.state.heap import Slot
from placement_lint.flow.state.machine import Machine
from placement_lint.flow.state.moment import Calls, Replica
from placement_lint.flow.state.notes import Moment, Notes, Use, noted
from placement_lint.rule import Note

T = TypeVar("T")


@dataclass
class Context(Moment):
    """The device facts that hold at this point."""

    # something was found to be on a GPU; the number of running branches whose test found that
    saw_gpu: bool = noted(bool, Use.PASSING)
    sure_of_gpu: int = noted(int)
    # the number of running branches that are taken where a tensor is on a GPU, as far as is known
    beside_gpu: int = noted(int)
    in_default_context: int = noted(int)
    # the DataLoader whose worker process is running
    worker: Note | None = noted(lambda: None)


@dataclass
class Devices(Notes):
    """The program's settings of devices as a whole."""

    default_was_set: bool = noted(bool, Use.LASTING)


_DEVICE_TEXT = re.compile(r"(cpu|cuda|meta|mps|xpu|hpu|xla|npu)(?::(\d+))?")

# Cells of the module frame: settings that torch keeps per process (or thread).
_CURRENT = Slot("current device")
_DEFAULT = Slot("default device")
_DEFAULT_TYPE = Slot("place of the default tensor type")
# The type of an unknown device.
DEVICE = "torch.device"
# A cell of an unknown value.
_USED_AS_DEVICE = Slot("used as device")


def device_from_text(text: str) -> Device | None:
    match = _DEVICE_TEXT.fullmatch(text)
    if match is None:
        return None
    kind, index = match.groups()
    # There is one CPU: torch.device("cpu:0") names the same memory.
    return Device(kind, int(index) if index and kind != "cpu" else None)


def as_place(value: Value) -> Place | None:
    """The place that a ``device`` argument names; None if it names none (``None``, a dtype)."""
    if isinstance(value, (Device, Symbol)):
        return None if isinstance(value, Symbol) and value.type == "torch.dtype" else value
    if isinstance(value, Tensor):
        return value.place
    if isinstance(value, Const):
        if isinstance(value.value, str):
            named = device_from_text(value.value)
            known = named is not None and (value.written is not None or value.guard is not None)
            return replace(named, written=value.written, guard=value.guard) if named is not None and known else named
        if type(value.value) is int:
            return Device("cuda", value.value)
    return None


def is_built(value: Value) -> bool:
    """Whether a value is a ``torch.device``, known or not, and no text or number that names one."""
    return value.built if isinstance(value, Device) else isinstance(value, Symbol) and value.type == DEVICE


def target_place(machine: Machine, value: Value) -> Place | None:
    """The place that something is moved to; unknown if the analysis lost track of the value that names it."""
    place = as_place(value)
    return place if place is not None or isinstance(value, (Const, External, Symbol)) else machine.fresh()


def used_as_device(machine: Machine, value: Symbol) -> None:
    """The program reads its ``device.type``, which strings and numbers that name a device do not have."""
    machine.write(value.id, _USED_AS_DEVICE, TRUE)


def is_device(machine: Machine, value: Value) -> bool:
    """Whether a value is surely a ``torch.device``, not a value that names one."""
    known = isinstance(value, Symbol) and machine.read(value.id, _USED_AS_DEVICE) == TRUE
    return known or isinstance(value, Device) or is_built(value)


def resolve(machine: Machine, place: Place) -> Place:
    """The place of a device without index at this moment: the current device."""
    if isinstance(place, Symbol) or place.kind != "cuda" or place.index is not None:
        return place
    if machine.now[Replica].notes:
        return REPLICA
    current = machine.read(machine.module_frame, _CURRENT)
    if current is None:
        return place if machine.now[Calls].standalone else Device("cuda", 0)
    return current if isinstance(current, Device) else place


def machines_with(place: Place) -> Condition:
    """The machines on which something can be there."""
    if not isinstance(place, Device) or place.kind != "cuda":
        return ALWAYS
    several = isinstance(place.index, int) and place.index > 0
    return machines(MANY_GPUS if several else ONE_GPU | MANY_GPUS)


def require(machine: Machine, place: Place) -> None:
    """Something is put there: past this point the machine has that device."""
    there = machines_with(place)
    if there is not ALWAYS:
        machine.survive(there)


def current(machine: Machine) -> Value | None:
    """The current device, if the program set one."""
    return machine.read(machine.module_frame, _CURRENT)


def current_is_chosen(machine: Machine) -> bool:
    """Whether some path sets the current device to one with an index that the analysis does not know."""
    devices = alternatives(machine.read(machine.module_frame, _CURRENT, unset=ABSENT))
    return any(isinstance(device, Device) and isinstance(device.index, Symbol) for _, device in devices)


def set_current(machine: Machine, value: Value) -> None:
    """``torch.cuda.set_device(k)``: sets the meaning of ``"cuda"``."""
    place = as_place(value)
    if isinstance(place, Symbol):
        place = Device("cuda", place)
    if place is not None:
        require(machine, place)
    machine.write(machine.module_frame, _CURRENT, place if place is not None else machine.fresh())


def make_current(machine: Machine, place: Place) -> None:
    """A framework has set the current device, if there are GPUs."""
    machine.write(machine.module_frame, _CURRENT, place)


def set_default(machine: Machine, value: Value) -> None:
    """``torch.set_default_device(d)``: sets the place where factories build."""
    machine.notes[Devices].default_was_set = True
    machine.write(machine.module_frame, _DEFAULT, machine.lift(lambda option: as_place(option) or CPU, value))


def set_default_type(machine: Machine, place: Place) -> None:
    """``torch.set_default_tensor_type(t)``: sets the place where factories and ``torch.Tensor(...)`` build."""
    machine.notes[Devices].default_was_set = True
    require(machine, place)
    machine.write(machine.module_frame, _DEFAULT_TYPE, place)


def default_place(machine: Machine) -> Value:
    """The place where a factory without ``device=`` builds: a place or a choice of places."""
    # The default device is thread-local: replicas run in threads that do not have it.
    is_set = machine.now[Context].in_default_context or not (
        machine.now[Replica].notes or machine.now[Calls].standalone
    )
    of_type = place_of_default_type(machine)
    return _setting(machine, _DEFAULT, of_type) if is_set else of_type


def place_of_default_type(machine: Machine) -> Value:
    """The place of tensors of the default type, in all threads: ``torch.Tensor(...)`` ignores the default device."""
    if machine.now[Calls].standalone and machine.notes[Devices].default_was_set:
        return machine.fresh()
    return _setting(machine, _DEFAULT_TYPE, CPU)


def _setting(machine: Machine, cell: Slot, unset: Value) -> Value:
    """The place in a cell, ``unset`` if nothing has written it."""
    return machine.lift(
        lambda place: resolve(machine, place) if isinstance(place, (Device, Symbol)) else machine.fresh(),
        machine.read(machine.module_frame, cell, unset=unset),
    )


@contextmanager
def current_device(machine: Machine, value: Value) -> Iterator[None]:
    """``with torch.cuda.device(k):``"""
    before = machine.store.read(machine.module_frame, _CURRENT)
    set_current(machine, value)
    try:
        yield
    finally:
        machine.store.write(machine.module_frame, _CURRENT, before)


@contextmanager
def default_device(machine: Machine, value: Value) -> Iterator[None]:
    """``with torch.device(d):``"""
    before = machine.store.read(machine.module_frame, _DEFAULT)
    set_default(machine, value)
    machine.now[Context].in_default_context += 1
    try:
        yield
    finally:
        machine.now[Context].in_default_context -= 1
        machine.store.write(machine.module_frame, _DEFAULT, before)


def watched(machine: Machine, test: Callable[[], T]) -> tuple[T, bool]:
    """What a test evaluates to, and whether it found something on a GPU."""
    context = machine.now[Context]
    before, context.saw_gpu = context.saw_gpu, False
    result = test()
    saw, context.saw_gpu = context.saw_gpu, before
    return result, saw
