"""The budget of the analysis: the remaining steps, and those spent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

# Statements that the analysis of one file may execute before it enters no more functions. Of 2,026 files of public
# repositories, no file with a finding needs more than 22,200.
FUEL = 40_000
# Analysing other files may cost a third of the program's own file, plus this amount: less for entry points.
ABROAD = 20_000
ABROAD_FOR_UNCALLED = 200
# One call from the program's own file leaves a part of the remaining amount to later calls; so does the building of a
# model, which is usually large, to its later uses.
KEPT_BY_CALL = 0.25
KEPT_BY_BUILDING = 0.5


@dataclass
class Budget:
    fuel: int = FUEL
    # the remaining amount for code of other files, and the amount spent in the program's own
    abroad: int = ABROAD
    spent: int = 0
    # the remaining amount at which the running call has spent its part of it
    floor: int = 0
    # the number of calls of functions of other files, and of calls refused for lack of budget
    ventures: int = 0
    refused: int = 0

    @property
    def left_abroad(self) -> int:
        """The remaining amount for code of other files."""
        return self.abroad + self.spent // 3

    def affords(self, abroad: bool) -> bool:
        """Whether the budget allows analysing a function, of another file if ``abroad``."""
        self.ventures += abroad
        affords = self.fuel > 0 and (not abroad or self.left_abroad > self.floor)
        self.refused += not affords
        return affords

    @contextmanager
    def leaving(self, part: float) -> Iterator[None]:
        """The code that runs here leaves a part of the budget for other files to later code."""
        floor = self.floor
        self.floor += int(max(self.left_abroad - floor, 0) * part)
        try:
            yield
        finally:
            self.floor = floor
