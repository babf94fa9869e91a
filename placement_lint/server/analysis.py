"""What the worker says of one text: plain data, as it goes from one process to the other."""

from __future__ import annotations

from dataclasses import dataclass

from placement_lint import registry
from placement_lint.checker import Checked, Job
from placement_lint.finding import Range


@dataclass(frozen=True)
class Step:
    """Something that happened to a value, and where."""

    range: Range
    message: str


@dataclass(frozen=True)
class Placed:
    """One assignment: places are those of the program, in a notebook too.

    ``where`` is for a reader (``cuda:0 → DataParallel[0,1]``), empty where it is not known. ``arrived`` is whether
    this very statement brought the value there. ``scope`` is the function in which the name lives, the class for
    ``self.name``, None for the whole module.
    """

    name: str
    target: Range
    scope: Range | None
    where: str
    arrived: bool
    history: tuple[Step, ...] = ()


@dataclass(frozen=True)
class Analysis:
    checked: Checked
    placed: tuple[Placed, ...] = ()

    @property
    def readable(self) -> bool:
        """Whether the text could be parsed, so that what it says of placements is all there is."""
        return all(finding.code != registry.UNREADABLE for finding in self.checked.findings)


@dataclass(frozen=True)
class Analyse:
    """Check a text; None stands for what is on the disk. ``placements`` are wanted of what is open."""

    path: str
    data: bytes | None
    job: Job
    placements: bool = True


@dataclass(frozen=True)
class Mend:
    """Apply the safe fixes, of all rules or of one."""

    path: str
    data: bytes
    job: Job
    code: str | None = None


@dataclass(frozen=True)
class Close:
    """Nothing will be asked of this file's present text again soon."""

    path: str


Request = Analyse | Mend | Close
