"""The budget of the analysis: the remaining steps, and those spent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import libcst as cst

# Statements that the analysis of one file may execute before it enters no more functions. Of 2,026 files of public
# repositories, no file with a finding needs more than 22,200.
FUEL = 40_000
# Analysing other files may cost a third of the program's own file, plus this amount: less for entry points.
ABROAD = 20_000
ABROAD_FOR_UNCALLED = 200
# A function that has used more of it is not entered again: a program may run the layers of similar models a hundred
# times before it reaches code that was not analysed yet.
MOST_BY_FUNCTION = 300
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
    # the amount spent in each function
    by_function: Counter[cst.CSTNode] = field(default_factory=Counter)
    # the remaining amount at which the running call has spent its part of it
    floor: int = 0
    # the number of calls of functions of other files, and of calls refused for lack of budget
    ventures: int = 0
    refused: int = 0

    @property
    def left_abroad(self) -> int:
        """The remaining amount for code of other files."""
        return self.abroad + self.spent // 3

    def spend(self, function: cst.CSTNode | None, effort: int) -> None:
        """Count a step of code of other files."""
        self.abroad -= effort
        if function is not None:
            self.by_function[function] += effort

    def affords(self, function: cst.CSTNode, abroad: bool) -> bool:
        """Whether the budget allows analysing a function, of another file if ``abroad``."""
        self.ventures += abroad
        venture = self.left_abroad > self.floor and self.by_function[function] < MOST_BY_FUNCTION
        affords = self.fuel > 0 and (venture or not abroad)
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
