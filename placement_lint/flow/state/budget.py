"""The budget of the analysis: the remaining steps, and those spent."""

from __future__ import annotations

from collections import Counter
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


@dataclass
class Budget:
    fuel: int = FUEL
    # the remaining amount for code of other files, and the amount spent in the program's own
    abroad: int = ABROAD
    spent: int = 0
    # the amount spent in each function
    by_function: Counter[cst.CSTNode] = field(default_factory=Counter)
    # the number of calls of functions of other files
    ventures: int = 0
    # the number of calls refused for lack of budget, and of those among them whose function was not analysed before
    refused: int = 0
    skipped: int = 0

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
        venture = self.left_abroad > 0 and self.by_function[function] < MOST_BY_FUNCTION
        affords = self.fuel > 0 and (venture or not abroad)
        self.refused += not affords
        self.skipped += not affords and function not in self.by_function
        return affords
