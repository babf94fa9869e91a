"""What DataParallel and DistributedDataParallel accept as ``device_ids`` and ``output_device``.

The checks are those of the two constructors (torch/nn/parallel/data_parallel.py, distributed.py) and of
``torch._utils._get_device_index``. Without a GPU DataParallel looks at neither.
"""

from __future__ import annotations

import libcst as cst

from placement_lint.flow.domain.path_condition import MANY_GPUS, ONE_GPU, machines
from placement_lint.flow.domain.record import replace
from placement_lint.flow.domain.values import (
    CPU,
    NONE,
    AtLeast,
    Comparison,
    Const,
    Device,
    Object,
    Place,
    Placed,
    Symbol,
    Value,
    alternatives,
    compare,
)
from placement_lint.flow.events.schema import DeviceIdsInvalid, DistributedArgumentsInvalid, InvisibleDevice
from placement_lint.flow.models import modules, ranks, visible_devices
from placement_lint.flow.state.containers import content
from placement_lint.flow.state.devices import as_place, current
from placement_lint.flow.state.machine import Machine
from placement_lint.flow.state.moment import Calls

_ON_GPU = machines(ONE_GPU | MANY_GPUS)


def plain(machine: Machine, value: Value) -> object:
    """Literal ids as plain data; a device by its name, anything unknown as ``…``."""
    items = content(machine, value)
    if items is not None:
        listed = [plain(machine, item) for item in items.items]
        return listed if items.exact else [*listed, "…"]
    if isinstance(value, Const):
        return value.value
    return str(value) if isinstance(value, Device) else "…"


# --- DataParallel ------------------------------------------------------------------------------------------


def check_data_parallel(machine: Machine, ids: Value, output: Value, node: cst.Call) -> None:
    """``DataParallel(module, ids, output)``"""
    if machine.path.excludes(_ON_GPU):
        return
    visible_devices.name_listed(machine, ids, node)
    fault = _fault_of_ids(machine, ids) or _fault_of_output(machine, ids, output)
    scene = machine.scene
    scene = replace(scene, when=scene.when & _ON_GPU)
    known = visible_devices.visible(machine)
    indices = _indices(machine, ids)
    if fault is not None:
        machine.emit(DeviceIdsInvalid(node, scene, fault, plain(machine, ids), plain(machine, output)))
    elif known is not None and max(indices, default=0) >= len(known[0]):
        entries, note, guard = known
        scene = replace(scene, when=scene.when & guard)
        if all(str(index) in entries for index in indices):
            machine.emit(InvisibleDevice(node, scene, f"device_ids={list(indices)}", indices, entries, note))
        else:
            written = plain(machine, ids), plain(machine, output)
            machine.emit(DeviceIdsInvalid(node, scene, "invisible", *written, entries, (note,)))


def _fault_of_ids(machine: Machine, ids: Value) -> str | None:
    items = content(machine, ids)
    if items is None:
        return _not_a_list(ids)
    if not items.items:
        return "empty" if items.exact else None
    places = [as_place(item) for item in items.items]
    if CPU in places:
        return "cpu"
    if any(as_place(item) is None and _is_text(item) for item in items.items):
        return "no device"
    named = [place for place in places if isinstance(place, Device) and place.index is not None]
    return "repeated" if len(set(named)) < len(named) else None


def _is_text(value: Value) -> bool:
    return isinstance(value, Const) and isinstance(value.value, str)


def _not_a_list(ids: Value) -> str | None:
    """What has to be a list and is not; None is all the devices."""
    if isinstance(ids, AtLeast) or (isinstance(ids, Const) and type(ids.value) is int):
        return "number"
    if _is_text(ids):
        return "text"
    return "device" if isinstance(ids, Device) else None


def _fault_of_output(machine: Machine, ids: Value, output: Value) -> str | None:
    place = as_place(output)
    if place == CPU:
        return "cpu output"
    if not isinstance(place, Device) or not isinstance(place.index, int) or place.index < 0:
        return None
    indices = _indices(machine, ids)
    return "output elsewhere" if indices and place.index not in indices else None


def _indices(machine: Machine, ids: Value) -> tuple[int, ...]:
    """The numbers of literal ids; none where not all of them are known."""
    items = content(machine, ids)
    places = [as_place(item) for item in items.items] if items is not None and items.exact else []
    numbers = tuple(place.index for place in places if isinstance(place, Device) and isinstance(place.index, int))
    return numbers if len(numbers) == len(places) else ()


# --- DistributedDataParallel -------------------------------------------------------------------------------


def check_distributed(machine: Machine, inner: Object | Symbol, ids: Value, output: Value, node: cst.Call) -> None:
    """``DistributedDataParallel(module, ids, output)``"""
    items = content(machine, ids)
    if items is not None and any(isinstance(item, Symbol) for item in items.items):
        ranks.pin(machine)
        ranks.name_gpu(machine, items.items[0], node)
    if _not_a_list(ids) == "number":
        _refuse(machine, "number", inner, ids, output, node)
    elif items is not None and len(items.items) > 1:
        _refuse(machine, "several", inner, ids, output, node)
    elif ids == NONE or (items is not None and items.exact and not items.items):
        if isinstance(output, (Symbol, Device)) or (isinstance(output, Const) and output.value):
            _refuse(machine, "output alone", inner, ids, output, node)
    elif items is not None and items.items:
        _check_place(machine, inner, items.items[0], ids, output, node)


def _check_place(
    machine: Machine, inner: Object | Symbol, only: Value, ids: Value, output: Value, node: cst.Call
) -> None:
    """With one id the module has to be on that GPU; the constructor itself only looks whether it is on some GPU."""

    def check(placed: Value, only: Value) -> Value:
        named = as_place(only)
        device = Device("cuda", named) if isinstance(named, Symbol) else named
        if isinstance(placed, Placed) and isinstance(device, Device):
            fault = _misplaced(machine, placed.place, device)
            if fault is not None:
                trace = (placed.note,) if placed.note is not None else ()
                event = DistributedArgumentsInvalid(
                    node, machine.scene, fault, _label(machine, inner), plain(machine, ids), plain(machine, output)
                )
                machine.emit(replace(event, place=placed.place, trace=trace))
        return NONE

    for _, placed in modules.placements(machine, inner):
        if not _chosen_apart(machine, placed):
            machine.lift(check, placed, only)


def _chosen_apart(machine: Machine, placed: Value) -> bool:
    """Whether one option puts the module on a GPU and another wraps it: who asks for the second gives the first."""
    known = alternatives(machine.restrict(placed))
    options = [(guard, option.place) for guard, option in known if isinstance(option, Placed)]
    by_option = any(cube.answers for guard, place in options if place == CPU for cube in guard.cubes)
    asked = any(cube.answers for cube in machine.reach.cubes)
    return asked and by_option and any(place != CPU for _, place in options)


def _misplaced(machine: Machine, place: Place, device: Device) -> str | None:
    if place == CPU:
        # Without a GPU this is a program for other machines, unless it joins a group that needs none.
        return None if machine.path.excludes(_ON_GPU) and not ranks.may_lack_gpus(machine) else "module on the CPU"
    if compare(place, device) is Comparison.DIFFERENT:
        return "another GPU"
    on_first = isinstance(place, Device) and place.kind == "cuda" and place.index in (0, None)
    unset = current(machine) is None and not visible_devices.restricted(machine)
    known = ranks.joined(machine) is not None or not machine.now[Calls].standalone
    return "current device" if on_first and unset and known and ranks.is_rank(device.index) else None


def _label(machine: Machine, inner: Object | Symbol) -> str:
    name = machine.label(inner)
    return f"`{name}`" if name else "the module"


def _refuse(machine: Machine, fault: str, inner: Object | Symbol, ids: Value, output: Value, node: cst.Call) -> None:
    written = plain(machine, ids), plain(machine, output)
    machine.emit(DistributedArgumentsInvalid(node, machine.scene, fault, _label(machine, inner), *written))
