"""A record of what was made where, what moved, and what was refused: the runner's account of a program."""

from __future__ import annotations

import collections
import linecache
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from .placement import Tensor, device_of, storage_of

if TYPE_CHECKING:
    from types import FrameType, TracebackType

    from .machine import Device

# Frames in here are not the user's: PyTorch, this package, the standard library.
_FOREIGN = (
    str(Path(torch.__file__).parent),
    str(Path(__file__).parent),
    sysconfig.get_path("stdlib"),
    "<",
)
UNSEEN = "made where the simulation did not see it"


@dataclass(frozen=True)
class Line:
    """A line of the user's program."""

    path: str
    number: int

    def __str__(self) -> str:
        path = Path(self.path)
        shown = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
        return f"{shown}:{self.number}"

    @property
    def text(self) -> str:
        return linecache.getline(self.path, self.number).strip()


@dataclass
class Origin:
    """How a tensor's memory came to be where it is."""

    line: Line | None
    how: str
    bytes: int
    scalar: bool
    moved_on: bool = False

    def __str__(self) -> str:
        return f"{self.how} at {self.line}" if self.line else self.how


@dataclass(frozen=True)
class Route:
    """A move as it shows in a table: same line, same ends, same kind of tensor."""

    line: Line | None
    source: str
    target: str
    what: str


@dataclass
class Refusal:
    """A mixture of devices that PyTorch does not take, and where its operands came from."""

    message: str
    line: Line | None
    operands: list[tuple[str, str, str, str]]


class Journal:
    """Listens to a simulated machine (`machine.Observer`)."""

    def __init__(self) -> None:
        self.moves: collections.Counter[Route] = collections.Counter()
        self.transfers: collections.Counter[tuple[str, str]] = collections.Counter()
        self.bytes: collections.Counter[tuple[str, str]] = collections.Counter()
        self.made: collections.Counter[str] = collections.Counter()
        self.on_cpu: list[Origin] = []
        self.refusals: list[Refusal] = []

    def created(self, tensor: Tensor, how: str) -> None:
        origin = self._note(tensor, f"made by {how}")
        device = device_of(tensor)
        self.made[str(device)] += 1
        if device.type == "cpu" and not origin.scalar:
            self.on_cpu.append(origin)

    def computed(self, tensor: Tensor, how: str) -> None:
        if _origin_of(tensor) is None:
            self._note(tensor, f"computed by {how}")

    def moved(self, before: Tensor, after: Tensor, source: Device, target: Device) -> None:
        if source == target:
            return
        ends = (str(source), str(target))
        left = _origin_of(before)
        if left is not None:
            left.moved_on = True
        origin = self._note(after, f"moved from {source} to {target}")
        self.moves[Route(origin.line, *ends, describe(after))] += 1
        self.transfers[ends] += 1
        self.bytes[ends] += origin.bytes

    def refused(self, message: str, operands: list[tuple[str, Tensor]]) -> None:
        accounts = [
            (name, describe(tensor), str(device_of(tensor)), str(_origin_of(tensor) or UNSEEN))
            for name, tensor in operands
        ]
        self.refusals.append(Refusal(message, user_line(sys._getframe(1)), accounts))

    def finished(self, variables: dict[str, Any]) -> None:
        """The program ended without an exception and left these variables."""

    def failed(self, error: BaseException, begin: TracebackType | None) -> None:
        """The program ended with an exception."""

    def refusal_behind(self, error: BaseException) -> Refusal | None:
        """The refusal behind `error`: DataParallel raises a replica's error again, with the original text in it."""
        text = str(error)
        return next((refusal for refusal in reversed(self.refusals) if refusal.message in text), None)

    def _note(self, tensor: Tensor, how: str) -> Origin:
        origin = Origin(user_line(sys._getframe(2)), how, _bytes(tensor), tensor.dim() == 0)
        storage_of(tensor)._origin = origin  # type: ignore[attr-defined]
        return origin


def _origin_of(tensor: Tensor) -> Origin | None:
    origin: Origin | None = getattr(storage_of(tensor), "_origin", None)
    return origin


def describe(tensor: Tensor) -> str:
    """``[4, 3] float32``"""
    return f"{list(tensor.shape)} {str(tensor.dtype).removeprefix('torch.')}"


def is_user_code(path: str) -> bool:
    return not path.startswith(_FOREIGN) or ("site-packages" in path and not path.startswith(_FOREIGN[:2]))


def user_frame(frame: FrameType | None) -> FrameType | None:
    """The innermost frame on the stack that is the user's."""
    while frame is not None and not is_user_code(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def user_line(frame: FrameType | None) -> Line | None:
    """The innermost line on the stack that is the user's."""
    found = user_frame(frame)
    return Line(found.f_code.co_filename, found.f_lineno) if found else None


def raised_at(trace: TracebackType | None) -> Line | None:
    """The innermost line of a traceback that is the user's."""
    line = None
    while trace is not None:
        if is_user_code(trace.tb_frame.f_code.co_filename):
            line = Line(trace.tb_frame.f_code.co_filename, trace.tb_lineno)
        trace = trace.tb_next
    return line


def _bytes(tensor: Tensor) -> int:
    """What its elements take; of a sparse tensor, those that it holds."""
    elements = tensor._nnz() if "sparse" in str(tensor.layout) else tensor.numel()
    return elements * tensor.element_size()
