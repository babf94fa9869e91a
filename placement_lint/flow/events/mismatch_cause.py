"""Why the operands of an operation are on different devices: each cause has a rule of its own."""

from __future__ import annotations

from enum import Enum, auto

import libcst as cst

from placement_lint.flow.api.torch_names import NUMBER_TYPES
from placement_lint.flow.domain.values import ACCELERATORS, Const, Device, Source, Symbol, Tensor
from placement_lint.flow.events.schema import DevicesMixed


class Cause(Enum):
    """In order of precedence: the first cause that holds is reported."""

    LEFT = auto()  # an earlier call of forward left it on the module
    UNREGISTERED = auto()  # the module is in a plain list
    CUDA_ONLY_GUARD = auto()  # a test for CUDA decides about a move, and the accelerator is another one
    PLAIN_ATTRIBUTE = auto()
    FIXED_IN_REPLICA = auto()
    MADE_IN_FORWARD = auto()
    NOT_MOVED = auto()
    ASSUMED = auto()  # one of the places is only assumed


def cause_of(event: DevicesMixed) -> Cause:
    """The cause that the stray operand is out of place."""
    stray = event.stray.tensor
    if event.in_forward and stray.left:
        return Cause.LEFT if _asks_for_sizes(event) else Cause.ASSUMED
    if _on_some_paths_only(event):
        return Cause.ASSUMED
    if event.stray.unregistered:
        return Cause.UNREGISTERED
    if event.guarded is not None:
        return Cause.CUDA_ONLY_GUARD
    if event.in_forward and stray.holder is not None:
        return Cause.PLAIN_ATTRIBUTE
    if event.scene.replica and _names_a_card(stray) and stray.history:
        return Cause.FIXED_IN_REPLICA
    if stray.source is Source.FACTORY_IN_FORWARD and stray.created is not None:
        return Cause.MADE_IN_FORWARD
    if event.home.tensor.assumed or (_wherever(event) and event.moved is None):
        return Cause.ASSUMED
    return Cause.NOT_MOVED


def _on_some_paths_only(event: DevicesMixed) -> bool:
    """Whether a flag may decide if a module analysed by itself is on a GPU; a mode does not decide that."""
    if not _wherever(event) or event.else_registered or event.scene.reach.implies(event.scene.when):
        return False
    asked = _asked_about(event)
    return not asked or not all(map(_is_mode, asked))


def _asks_for_sizes(event: DevicesMixed) -> bool:
    """Whether the tests that lead here are about numbers, flags or existence, which no move changes."""
    return all(_is_size_or_flag(subject) for subject in _asked_about(event))


def _asked_about(event: DevicesMixed) -> list[object]:
    """The subjects of the tests that lead to the mismatch, without those that lead to the line in any case."""
    known = {answer for cube in event.scene.reach.cubes for answer in cube.answers}
    asked = {answer for cube in event.scene.when.cubes for answer in cube.answers} - known
    return [answer.question.subject for answer in asked]


def _is_mode(subject: object) -> bool:
    """Whether a question compares something with a string that names no device."""
    operator, *operands = subject if isinstance(subject, tuple) else ("",)
    texts = [one.value for one in operands if isinstance(one, Const) and isinstance(one.value, str)]
    return operator == "Equal" and bool(texts) and not any(word in text.lower() for text in texts for word in _PLACES)


# Prefixes or parts of the strings with which programs name devices.
_PLACES = (*ACCELERATORS, "cpu", "gpu", "device", "host")


def _is_size_or_flag(subject: object) -> bool:
    """Whether a question is about numbers or flags; an unknown key, or a call's result, may depend on a device."""
    if isinstance(subject, Symbol):
        return subject.type in NUMBER_TYPES or not isinstance(subject.source, cst.Call)
    operator, *operands = subject if isinstance(subject, tuple) else ("",)
    if operator in ("Equal", "Is"):
        return any(_is_size(operand) for operand in operands)
    return operator in ("GreaterThan", "GreaterThanEqual", "left out", "hasattr")


def _is_size(value: object) -> bool:
    number = isinstance(value, Const) and isinstance(value.value, (int, float))
    return number or (isinstance(value, Symbol) and value.type in _SIZES)


_SIZES = {*NUMBER_TYPES, "torch.Size"}


def _names_a_card(tensor: Tensor) -> bool:
    return isinstance(tensor.place, Device) and tensor.place.kind == "cuda"


def _wherever(event: DevicesMixed) -> bool:
    """Whether the class is analysed by itself: its module may be on the CPU, like the stray operand."""
    place = event.home.tensor.place
    return not event.by_option if isinstance(place, Symbol) else place.kind == "own"
