"""Findings and their parts, which all other modules share.

Nothing here imports libcst, torch or a terminal library, so that reports, the language server and a cache can read
findings without importing the analysis.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Severity(Enum):
    """How certain the harm is; ordered, so that ``Severity.ERROR > Severity.INFO``."""

    INFO = "info"  # advice
    WARNING = "warning"  # harm that depends on data or hardware
    ERROR = "error"  # raises or trains incorrectly whenever the condition holds

    @property
    def rank(self) -> int:
        return list(Severity).index(self)

    def __lt__(self, other: Severity) -> bool:
        return self.rank < other.rank

    def __le__(self, other: Severity) -> bool:
        return self.rank <= other.rank

    def __gt__(self, other: Severity) -> bool:
        return self.rank > other.rank

    def __ge__(self, other: Severity) -> bool:
        return self.rank >= other.rank


class Applicability(Enum):
    """Whether a fix may be applied without being read first."""

    SAFE = "safe"
    UNSAFE = "unsafe"


class Level(Enum):
    """The kind of run by which a probe judges a finding."""

    PATTERN = "pattern"  # the rule's experiment, built from the finding's facts
    REPLAY = "replay"  # the user's program, or a slice of it


class Outcome(Enum):
    """The result of a probe. A pattern is reproduced; only the user's program confirms a finding."""

    REPRODUCED = "reproduced"
    CONFIRMED = "confirmed"
    REFUTED = "refuted"
    INCONCLUSIVE = "inconclusive"


SHOWN_AT = {Outcome.REPRODUCED: Level.PATTERN, Outcome.CONFIRMED: Level.REPLAY}
"""The level at which each positive outcome is used."""


@dataclass(frozen=True, order=True)
class Range:
    """A range of source text: 1-based lines, 1-based columns counted in characters, end exclusive."""

    line: int
    column: int
    end_line: int
    end_column: int


@dataclass(frozen=True)
class Anchor:
    """The properties of a position that survive edits above it: its function and the text of its line."""

    function: str = ""
    text: str = ""


@dataclass(frozen=True)
class Step:
    """One step of the trace of a finding: "built here", "moved here", "called here"."""

    path: str
    range: Range
    message: str
    cell: int | None = None


@dataclass(frozen=True)
class Edit:
    """Replace the text in ``range`` of the finding's own file by ``text``."""

    range: Range
    text: str
    cell: int | None = None


@dataclass(frozen=True)
class Fix:
    applicability: Applicability
    message: str
    edits: tuple[Edit, ...] = ()


@dataclass(frozen=True)
class Verdict:
    """The result of a probe, and the device that it ran on. Raises ValueError for the outcome of the other level."""

    level: Level
    outcome: Outcome
    device: str
    observed: str
    expected: str

    def __post_init__(self) -> None:
        if SHOWN_AT.get(self.outcome, self.level) is not self.level:
            raise ValueError(f"a {self.level.value} is never {self.outcome.value}")

    @property
    def words(self) -> str:
        """The outcome in reports: ``pattern reproduced``, or ``confirmed`` by a replay."""
        return f"pattern {self.outcome.value}" if self.level is Level.PATTERN else self.outcome.value


@dataclass(frozen=True)
class When:
    """The condition of a finding: the kinds of machine, as bits of a path condition, and the words in its message.

    ``where`` are the words for the machines, empty if the statement runs on no others; ``decision`` those for the
    answer that the program must give, empty if none is needed.
    """

    machines: int
    where: str = ""
    decision: str = ""

    @property
    def words(self) -> str:
        """The condition in the message: empty if the finding holds whenever its statement runs."""
        return " and ".join(part for part in (self.where, self.decision) if part)


@dataclass(frozen=True)
class Saved:
    """The file to which the part of a program that shows a finding was saved, or the reason why there is none.

    ``shown`` names the devices on which the file was run and showed its symptom; empty if it was not run.
    """

    file: str | None = None
    shown: str = ""
    reason: str = ""


@dataclass(frozen=True)
class Finding:
    """One report about one place. ``path`` is relative to the working directory, with POSIX separators.

    In a notebook ``cell`` is the number of the cell, from 1, and lines are counted within the cell. ``facts`` are the
    parameters of a probe's experiment: names with numbers, strings, booleans, None or tuples of these. ``when`` is
    None if no condition was determined.
    """

    code: str
    name: str
    severity: Severity
    message: str
    path: str
    range: Range
    trace: tuple[Step, ...] = ()
    fix: Fix | None = None
    verdict: Verdict | None = None
    cell: int | None = None
    anchor: Anchor = Anchor()
    facts: tuple[tuple[str, object], ...] = ()
    when: When | None = None
    saved: Saved | None = None

    @property
    def identity(self) -> tuple[str, str, str, str]:
        """The same for this finding before and after an edit elsewhere in its file."""
        return (self.path, self.code, self.anchor.function, self.anchor.text)

    @property
    def sort_key(self) -> tuple[str, int, Range, str, str]:
        return (self.path, self.cell or 0, self.range, self.code, self.message)
