"""Why the operands of an operation are on different devices: each cause has a rule of its own."""

from __future__ import annotations

from enum import Enum, auto

from placement_lint.flow.events import DevicesMixed
from placement_lint.flow.values import Device, Source, Symbol, Tensor


class Cause(Enum):
    """In the order of precedence: the first that holds is the one to report."""

    UNREGISTERED = auto()  # the module sits in a plain list
    PLAIN_ATTRIBUTE = auto()
    FIXED_IN_REPLICA = auto()
    MADE_IN_FORWARD = auto()
    NOT_MOVED = auto()
    ASSUMED = auto()  # one of the places was only taken for granted


def cause_of(event: DevicesMixed) -> Cause:
    """What is to blame for the stray operand."""
    stray = event.stray.tensor
    if _on_some_paths_only(event):
        return Cause.ASSUMED
    if event.stray.unregistered:
        return Cause.UNREGISTERED
    if event.in_forward and stray.holder is not None:
        return Cause.PLAIN_ATTRIBUTE
    if event.scene.replica and _names_a_card(stray) and stray.history:
        return Cause.FIXED_IN_REPLICA
    if stray.source is Source.FACTORY_IN_FORWARD and stray.created is not None:
        return Cause.MADE_IN_FORWARD
    if event.home.tensor.assumed or _wherever(event):
        return Cause.ASSUMED
    return Cause.NOT_MOVED


def _on_some_paths_only(event: DevicesMixed) -> bool:
    """A flag of a module that is looked at by itself may well say whether it is on a GPU."""
    return _wherever(event) and not event.scene.reach.implies(event.scene.when)


def _names_a_card(tensor: Tensor) -> bool:
    return isinstance(tensor.place, Device) and tensor.place.kind == "cuda"


def _wherever(event: DevicesMixed) -> bool:
    """A class looked at by itself: its module may well be on the CPU, like the stray."""
    place = event.home.tensor.place
    return not event.by_option if isinstance(place, Symbol) else place.kind == "own"
