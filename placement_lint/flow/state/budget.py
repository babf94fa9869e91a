"""The budget of the analysis: the remaining steps, and those spent."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import libcst as cst

# Statements that the analysis of one file may execute before it enters no more functions. Of 2,026 files of public
# repositories, no file with a finding needs more than 22,200.
FUEL = 40_000
# Analysing other files may cost a fraction of the program's own file, plus this amount: less for entry points.
SHARE_ABROAD = 3
ABROAD = 20_000
ABROAD_FOR_UNCALLED = 200
# A function that has used more is not entered again: a program may run the layers of similar models a hundred times
# before it reaches code that was not analysed yet. What a function uses on behalf of other files counts several times.
MOST_BY_FUNCTION = 2_100
_TIMES_ABROAD = 7
# What running loops may use before one iteration stands for the remaining ones of loops over numbers and the like.
MOST_IN_LOOPS = 2_000


@dataclass
class Budget:
    fuel: int = FUEL
    # the remaining amount for code of other files, and the amount spent in the program's own
    abroad: int = ABROAD
    spent: int = 0
    # the amount spent anywhere, with what each step costs
    effort: int = 0
    # the amount spent in each function, and the amount that it had spent when it was last entered
    by_function: Counter[cst.CSTNode] = field(default_factory=Counter)
    entered: dict[cst.CSTNode, int] = field(default_factory=dict)
    # the amount that it had spent when a replica of DataParallel first came to it
    in_replicas: dict[cst.CSTNode, int] = field(default_factory=dict)
    # the number of calls of functions of other files
    ventures: int = 0
    # the number of calls refused for lack of budget, and of those among them whose function was not analysed before
    refused: int = 0
    skipped: int = 0

    @property
    def left_abroad(self) -> int:
        """The remaining amount for code of other files."""
        return self.abroad + self.spent // SHARE_ABROAD

    def spend(self, function: cst.CSTNode | None, effort: int, abroad: bool) -> None:
        """Count a step of the program's own code, or of other files if ``abroad``."""
        self.fuel -= 1
        self.effort += effort
        if abroad:
            self.abroad -= effort
        else:
            self.spent += 1
        if function is not None:
            self.by_function[function] += effort * _TIMES_ABROAD if abroad else effort

    def begin(self, fuel: int) -> None:
        """Start an analysis that has its own amount, and in which no function has spent anything."""
        self.fuel = fuel
        self.by_function.clear()
        self.entered.clear()
        self.in_replicas.clear()

    def affords(self, function: cst.CSTNode, abroad: bool, in_replica: bool) -> bool:
        """Whether the budget allows analysing a function, of another file if ``abroad``.

        Whatever it has used before, a replica of DataParallel runs it once: nothing else tells what goes wrong there.
        """
        self.ventures += abroad
        left = self.fuel > 0 and (self.left_abroad > 0 or not abroad)
        used = self.by_function[function]
        is_new = in_replica and left and self.in_replicas.setdefault(function, used) == used
        affords = left and (is_new or used < MOST_BY_FUNCTION)
        if affords:
            self.entered[function] = used
        self.refused += not affords
        self.skipped += function not in self.entered
        return affords
