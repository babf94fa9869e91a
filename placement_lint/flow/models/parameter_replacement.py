"""What puts new Parameters into a module that there is: sharding, weight norm, adapters, and gaining a device."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from placement_lint.flow.api.torch_names import SHARDING, SURGERY, Surgery
from placement_lint.flow.domain.arguments import Arguments
from placement_lint.flow.domain.values import (
    FALSE,
    NONE,
    TRUE,
    Const,
    Device,
    External,
    Object,
    Place,
    Placed,
    Role,
    Symbol,
    Tensor,
    Value,
    alternatives,
)
from placement_lint.flow.models import modules, optimizers
from placement_lint.flow.models.handlers import Handlers
from placement_lint.flow.state.heap import Slot
from placement_lint.flow.state.machine import Machine
from placement_lint.flow.state.notes import Notes, noted
from placement_lint.flow.state.records import Tie
from placement_lint.flow.state.signals import Signals
from placement_lint.rule import Note


@dataclass
class Ties(Notes):
    """Ties of weights."""

    # by the id of a module, a name there and the id of the Parameter; the ids of those whose ties were broken
    made: dict[tuple[int, str, int], Tie] = noted(dict)
    parted: set[int] = noted(set)


# Cells of the module frame: what torch.__future__ was told about conversions.
_OVERWRITING = Slot("overwrite parameters")
_SWAPPING = Slot("swap parameters")
# Of a module whose weight was split in several Parameters.
_SPLIT = Slot("split")


# --- sharding ------------------------------------------------------------------------------------------------


def shard(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``FSDP(module)``, ``fully_shard(module)``: the parameters become sharded ones, wherever they were."""

    def one(module: Value) -> Value:
        modules.treat_as_module(machine, module)
        if not isinstance(module, (Object, Symbol)):
            return machine.fresh()
        if not _keeps_parameters(arguments):
            optimizers.renewed(machine, module, SHARDING[name], node)
        _lose_place(machine, module)
        return _around(machine, module, name, node) if SHARDING[name][0].isupper() else module

    return machine.lift(one, arguments.get(0, "module") or machine.fresh())


def _keeps_parameters(arguments: Arguments) -> bool:
    """Whether FSDP may have been asked for ``use_orig_params``."""
    return arguments.spread or arguments.keyword("use_orig_params") not in (None, FALSE)


def _lose_place(machine: Machine, module: Object | Symbol) -> None:
    for part in modules.reachable(machine, module).values():
        machine.write(part.id, modules.PLACE, machine.fresh())


def _around(machine: Machine, module: Object | Symbol, cls: str, node: cst.CSTNode) -> Object:
    """A module of a library's class around one of the program's, to whose attributes it leads."""
    outer = modules.new_module(machine, External(cls), node)
    machine.write(outer.id, modules.PLACE, machine.fresh())
    machine.write(outer.id, "module", module)
    return outer


# --- surgery ---------------------------------------------------------------------------------------------------


def operate(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``weight_norm(layer)`` and its kind; the value is the module that comes out."""
    module = arguments.get(0, "module") or arguments.keyword("model") or machine.fresh()
    return machine.lift(lambda option: _operate(machine, name, option, arguments, node), module)


def _operate(machine: Machine, name: str, module: Value, arguments: Arguments, node: cst.Call) -> Value:
    if not isinstance(module, (Object, Symbol)):
        return module
    modules.treat_as_module(machine, module)
    kind, short = SURGERY[name], name.rpartition(".")[2]
    if kind is Surgery.ADDS:
        optimizers.renewed(machine, module, short, node)
        _lose_place(machine, module)
        return _around(machine, module, name, node)
    if kind is Surgery.COPIES:
        copies = isinstance(module, Object) and arguments.get(2, "inplace") in (None, FALSE)
        return modules.copied(machine, module, node, short) if copies and isinstance(module, Object) else module
    if kind is Surgery.REPLACES:
        optimizers.renewed(machine, module, short, node)
    elif kind is not Surgery.JOINS_SPLIT or machine.read(module.id, _SPLIT) == TRUE:
        _remake_weight(machine, kind, module, arguments, short, node)
    return module


def _remake_weight(
    machine: Machine, kind: Surgery, module: Object | Symbol, arguments: Arguments, how: str, node: cst.Call
) -> None:
    """One Parameter of a module goes, and others come."""
    given = arguments.get(1, "name") or arguments.keyword("tensor_name")
    name = str(given.value) if isinstance(given, Const) else "weight"
    before = machine.read(module.id, name)
    gone = {option.uid for _, option in alternatives(before) if isinstance(option, Tensor)} if before else set()
    optimizers.renewed(machine, module, how, node, frozenset({module.id} | gone) - {0})
    splits = kind is Surgery.SPLITS
    machine.write(module.id, _SPLIT, Const(splits))
    if isinstance(module, Object):
        _put_parameters(machine, module, [f"{name}_g", f"{name}_v"] if splits else [name], node)


def _put_parameters(machine: Machine, module: Object, names: list[str], node: cst.CSTNode) -> None:
    place = modules.place_of(machine, module)
    for name in names:
        machine.write(module.id, name, machine.lift(lambda where: _parameter(machine, where, node), place))


def _parameter(machine: Machine, place: Value, node: cst.CSTNode) -> Value:
    where = place if isinstance(place, (Device, Symbol)) else machine.fresh()
    return Tensor(where, False, Role.PARAMETER, created=node, uid=machine.new_id())


def adapted(machine: Machine, module: Object | Symbol, node: cst.Call) -> Value:
    """``model.add_adapter(config)`` of a library's model adds Parameters and freezes the others."""
    if isinstance(module, Object) and isinstance(module.cls, External):
        optimizers.renewed(machine, module, "add_adapter", node)
    return NONE


# --- conversions -------------------------------------------------------------------------------------------------


def set_overwriting(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    machine.write(machine.module_frame, _OVERWRITING, arguments.get(0, "value") or machine.fresh())
    return NONE


def set_swapping(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    machine.write(machine.module_frame, _SWAPPING, arguments.get(0, "value") or machine.fresh())
    return NONE


def _is_off(machine: Machine, flag: Slot) -> bool:
    return machine.read(machine.module_frame, flag) in (None, FALSE)


def moving(machine: Machine, module: Object | Symbol, target: Place, note: Note) -> None:
    converted(machine, module, target, note.node)


def converted(machine: Machine, module: Object | Symbol, target: Place | None, node: cst.CSTNode) -> None:
    """``Module._apply`` makes new Parameters where the old ones cannot take the new data.

    So it is from meta and to XLA, and everywhere once ``set_overwrite_module_params_on_conversion`` says so
    (torch/nn/modules/module.py).
    """
    if not (machine.notes[optimizers.Optimizers].built or machine.notes[Ties].made) or not _is_off(machine, _SWAPPING):
        return
    if machine.read(machine.module_frame, _OVERWRITING) == TRUE:
        _renewed(machine, module, "converted", node)
        return
    leaving = frozenset(_at(machine, module, "meta"))
    if leaving and target != Device("meta"):
        _renewed(machine, module, "materialized", node, leaving)
    elif isinstance(target, Device) and target.kind == "xla" and not any(_at(machine, module, "xla")):
        _renewed(machine, module, "moved to XLA", node)


def _renewed(
    machine: Machine,
    module: Object | Symbol,
    how: str,
    node: cst.CSTNode,
    touched: frozenset[int] = frozenset(),
) -> None:
    if machine.notes[optimizers.Optimizers].built:
        optimizers.renewed(machine, module, how, node, touched)
    machine.signals.modules.parameters_replaced(machine, module, how, node)


def assigned(machine: Machine, module: Object | Symbol, strict: Value | None, node: cst.CSTNode) -> None:
    """``load_state_dict(assign=True)``: the loaded tensors become the Parameters, all of them if it is strict."""
    if not _is_off(machine, _SWAPPING):
        return
    if machine.notes[optimizers.Optimizers].built:
        empty = frozenset(_at(machine, module, "meta"))
        optimizers.renewed(machine, module, "materialized" if empty else "assigned", node)
    if strict in (None, TRUE):
        machine.signals.modules.parameters_replaced(machine, module, "assigned", node)


def _at(machine: Machine, module: Object | Symbol, kind: str) -> Iterator[int]:
    """The ids of the parts and Parameters of a module that are, on some path, on a device of this kind."""
    for part in modules.reachable(machine, module).values():
        if _is_at(machine, modules.placed(machine, part), kind):
            yield part.id
        if isinstance(part, Object):
            tensors = [child for _, child in modules.children(machine, part) if isinstance(child, Tensor)]
            yield from (tensor.uid for tensor in tensors if _is_at(machine, Placed(tensor.place), kind))


def _is_at(machine: Machine, placed: Value, kind: str) -> bool:
    places = [option.place for _, option in alternatives(machine.restrict(placed)) if isinstance(option, Placed)]
    return any(isinstance(place, Device) and place.kind == kind for place in places)


CALLS: Handlers = {
    **dict.fromkeys(SHARDING, shard),
    **dict.fromkeys(SURGERY, operate),
    "torch.__future__.set_overwrite_module_params_on_conversion": set_overwriting,
    "torch.__future__.set_swap_module_params_on_conversion": set_swapping,
}


def listen(signals: Signals) -> None:
    signals.modules.moving.connect(moving)
