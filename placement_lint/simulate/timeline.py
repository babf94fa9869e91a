"""A record of every tensor: on which device, from which step to which, and under which name.

A step is one operation that makes, moves or refuses a tensor. Simulated GPUs have no clock of their own,
so steps are the time axis.
"""

from __future__ import annotations

import collections
import itertools
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from .journal import UNSEEN, Journal, Line, Origin, describe, raised_at, user_frame
from .names import named_in, named_in_frames
from .page import Span, lanes, rows
from .placement import ANYWHERE, Tensor, device_of, label_of, storage_of

if TYPE_CHECKING:
    from types import TracebackType

    from .machine import Device

# How many tensors, and how many moves, are kept from the start of a run, and as many from its end.
KEPT = 1000

Item = TypeVar("Item")


@dataclass(eq=False)
class Bar:
    """A tensor's memory on one device; ``end`` is the last step of its life, None if it outlives the run."""

    device: str
    start: int
    origin: Origin
    made_by: str
    what: str
    name: str | None = None
    inherited: bool = False
    end: int | None = None
    unnamed_source: Bar | None = None

    @property
    def label(self) -> str:
        return self.name or self.made_by

    def take(self, name: str) -> None:
        """Name this bar, and what it was copied from if that had no name of its own.

        In a module's ``__init__`` names are still without the path to the module, which they get afterwards.
        """
        if self.name is None or self.inherited or name.endswith(f".{self.name}"):
            self.name, self.inherited = name, False
            if self.unnamed_source is not None:
                self.unnamed_source.take(name)


@dataclass(frozen=True)
class Move:
    """A transfer from one bar to another."""

    step: int
    source: Bar
    target: Bar
    line: Line | None


@dataclass(frozen=True)
class Failure:
    """The exception that ended the program; operands are (name in the operator, bar), if devices were mixed."""

    step: int
    kind: str
    message: str
    line: Line | None
    operands: list[tuple[str, Bar]]


class Ends(Generic[Item]):
    """The first items that were added and the last ones."""

    def __init__(self, kept: int) -> None:
        self._kept = kept
        self._first: list[Item] = []
        self._last: collections.deque[Item] = collections.deque(maxlen=kept)
        self.total = 0

    def add(self, item: Item) -> None:
        self.total += 1
        if len(self._first) < self._kept:
            self._first.append(item)
        else:
            self._last.append(item)

    def __iter__(self) -> Iterator[Item]:
        return itertools.chain(self._first, self._last)


class _Life:
    """An attribute of a storage, which dies with it."""

    def __init__(self, bar: Bar, timeline: Timeline) -> None:
        self.bar = bar
        self._timeline = timeline

    def __del__(self) -> None:
        self.bar.end = self._timeline.step


class Timeline(Journal):
    """A journal that also records each tensor's life."""

    def __init__(self, gpus: int, kept: int = KEPT, kind: str = "cuda") -> None:
        super().__init__()
        self.gpus = gpus
        self.kind = kind
        self.step = 0
        self.failure: Failure | None = None
        self._all_bars: Ends[Bar] = Ends(kept)
        self._all_moves: Ends[Move] = Ends(kept)
        self._operands: dict[int, tuple[int, list[tuple[str, Bar]]]] = {}
        self._newest: Bar | None = None
        self._line: Line | None = None

    # --- what the machine reports -----------------------------------------------------------------

    def created(self, tensor: Tensor, how: str) -> None:
        super().created(tensor, how)
        bar = self._show(tensor, how)
        if bar is not None and bar is self._newest:
            self._settle(bar, tensor, how)

    def computed(self, tensor: Tensor, how: str) -> None:
        super().computed(tensor, how)
        # "aten.relu.default"
        self._show(tensor, how.split(".")[1])

    def moved(self, before: Tensor, after: Tensor, source: Device, target: Device) -> None:
        if source == target:
            return
        left, before_it = self._show(before), self.step
        super().moved(before, after, source, target)
        arrived = self._show(after, "copy")
        if left is None or arrived is None:
            return
        if arrived.device != str(target):
            self._settle(arrived, after, "copy")
        elif arrived.start <= before_it:
            # The target has its memory already (`copy_`).
            self.step += 1
        if arrived.name is None:
            arrived.name, arrived.inherited = left.name, left.name is not None
            arrived.unnamed_source = left if left.name is None else None
        line = storage_of(after)._origin.line  # type: ignore[attr-defined]
        self._all_moves.add(Move(self.step, left, arrived, line))

    def refused(self, message: str, operands: list[tuple[str, Tensor]]) -> None:
        super().refused(message, operands)
        self._find_names()
        bars = [(name, bar) for name, tensor in operands if (bar := self._show(tensor)) is not None]
        self.step += 1
        self._operands[id(self.refusals[-1])] = (self.step, bars)

    # --- how the program ended --------------------------------------------------------------------

    def finished(self, variables: dict[str, Any]) -> None:
        """Take names from the module's variables: no later operation sees those of the last line."""
        self._name(named_in(variables.items()))

    def failed(self, error: BaseException, begin: TracebackType | None) -> None:
        refusal = self.refusal_behind(error)
        kind = type(error).__name__
        if refusal is None:
            self.failure = Failure(self.step + 1, kind, str(error), raised_at(begin), [])
        else:
            step, bars = self._operands[id(refusal)]
            self.failure = Failure(step, kind, refusal.message, refusal.line, bars)

    # --- what is shown of it ----------------------------------------------------------------------

    @property
    def bars(self) -> list[Bar]:
        """The bars that are kept, in the order of their first steps."""
        operands = [bar for _, bar in self.failure.operands] if self.failure else []
        return sorted(dict.fromkeys([*self._all_bars, *operands]), key=lambda bar: bar.start)

    @property
    def moves_between_bars(self) -> list[Move]:
        """The moves that are kept, and whose bars are."""
        shown = set(self.bars)
        return [move for move in self._all_moves if move.source in shown and move.target in shown]

    def devices(self) -> list[str]:
        """The devices that have a lane."""
        return lanes(self.gpus, {bar.device for bar in self.bars}, self.kind)

    @property
    def totals(self) -> tuple[int, int]:
        """How many tensors and moves there were."""
        return self._all_bars.total, self._all_moves.total

    @property
    def last_step(self) -> int:
        return max(self.step, self.failure.step if self.failure else 0)

    def last_of(self, bar: Bar) -> int:
        return self.last_step if bar.end is None else bar.end

    def rows(self) -> dict[Bar, int]:
        """A row for each bar in its device's lane."""
        spans = [Span(bar.device, bar.start, self.last_of(bar), bar.name is not None) for bar in self.bars]
        return dict(zip(self.bars, rows(spans), strict=True))

    # --- recording --------------------------------------------------------------------------------

    def _show(self, tensor: Tensor, made_by: str = "copy") -> Bar | None:
        """The tensor's bar; none while the tensor waits for its place."""
        storage: Any = storage_of(tensor)
        if label_of(tensor) is ANYWHERE:
            return None
        life: _Life | None = getattr(storage, "_life", None)
        if life is not None:
            return life.bar
        self._find_names_on_a_new_line()
        origin: Origin | None = getattr(storage, "_origin", None)
        if origin is None:
            origin, made_by = Origin(None, UNSEEN, 0, tensor.dim() == 0), "unseen"
        else:
            self.step += 1
        bar = self._newest = Bar(str(device_of(tensor)), max(1, self.step), origin, made_by, describe(tensor))
        storage._life = _Life(bar, self)
        self._all_bars.add(bar)
        return bar

    def _settle(self, bar: Bar, tensor: Tensor, made_by: str) -> None:
        """A factory or a move puts a tensor in its place that an operator made a moment before."""
        bar.device, bar.made_by = str(device_of(tensor)), made_by
        bar.origin = storage_of(tensor)._origin  # type: ignore[attr-defined]
        self._newest = None

    def _find_names_on_a_new_line(self) -> None:
        """A tensor has its name when the statement that made it has ended."""
        frame = user_frame(sys._getframe(1))
        line = Line(frame.f_code.co_filename, frame.f_lineno) if frame else None
        if line != self._line:
            self._line = line
            self._find_names()

    def _find_names(self) -> None:
        self._name(named_in_frames(sys._getframe(1)))

    def _name(self, tensors: Iterable[tuple[str, Tensor]]) -> None:
        for name, tensor in list(tensors):
            life = getattr(storage_of(tensor), "_life", None)
            if life is not None:
                life.bar.take(name)
