"""What has no ``to``: containers, optimizers, loaders and other things that no call moves to a device."""

from __future__ import annotations

import libcst as cst

from placement_lint.flow.domain.values import (
    ARRAYS,
    Const,
    Device,
    External,
    Kind,
    Mapping,
    Object,
    Parameters,
    Sequence,
    StateDict,
    Value,
)
from placement_lint.flow.events.schema import MoveOnNonMovable
from placement_lint.flow.models import device_choice, optimizers
from placement_lint.flow.state.machine import Machine
from placement_lint.flow.state.moment import Around
from placement_lint.flow.state.names import is_bound_here, spelled
from placement_lint.source.abstraction import by_kind
from placement_lint.source.wording import source_text

MOVES = {"to", "cuda", "cpu"}

# Things of torch that are on no device, or stay where they were made.
_OTHERS = {
    "torch.Generator": "Generator",
    "torch.cuda.amp.GradScaler": "GradScaler",
    "torch.amp.GradScaler": "GradScaler",
    "torch.utils.data.TensorDataset": "TensorDataset",
}


def kind(value: Value) -> str | None:
    """The class of a value that surely has none of these methods."""
    if isinstance(value, Object):
        if value.kind is Kind.OPTIMIZER and isinstance(value.cls, External):
            return optimizers.short(value)
        if value.kind is Kind.LIST:
            return _LISTS.get(type(value.node), "list")
        if value.kind is Kind.LOADER:
            return "DataLoader"
        if value.kind is Kind.DICT:
            return "dict" if value.cls == External("builtins.dict") else None
        return _OTHERS.get(value.cls.name) if isinstance(value.cls, External) else None
    if isinstance(value, Const):
        return "str" if isinstance(value.value, str) else None
    if value in ARRAYS:
        return "ndarray"
    return _VALUES.get(type(value))


_LISTS = by_kind({cst.Set: "set", cst.SetComp: "set", cst.GeneratorExp: "generator"})
_VALUES: dict[type, str] = {
    Sequence: "tuple",
    Mapping: "dict",
    Device: "device",
    StateDict: "OrderedDict",
    Parameters: "generator",
}


def refuses(machine: Machine, receiver: Value, name: str, node: cst.Call) -> bool:
    """Whether ``receiver.name(…)`` is a move of what cannot be moved: then that is said."""
    refusing = kind(receiver) if name in MOVES else None
    if refusing is None or not isinstance(node.func, cst.Attribute):
        return False
    if not machine.now[Around].expecting_attribute_errors and not machine.names_one_of_many:
        written = node.func.value
        dropped = machine.now[Around].statement is node
        assignable = not dropped or (isinstance(written, cst.Name) and is_bound_here(machine, written.value))
        device = device_choice.argument(node, 0, "device")
        machine.emit(
            MoveOnNonMovable(
                node,
                machine.scene,
                source_text(written),
                name,
                refusing,
                source_text(device) if device is not None else "",
                spelled(machine, "torch.is_tensor") if assignable else "",
                dropped,
            )
        )
    return True
