"""What the worker says of one text: plain data, as it goes from one process to the other."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

from placement_lint import registry
from placement_lint.finding import Finding, Range
from placement_lint.report.results import Checked, Job, Provisional


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

    @property
    def readable(self) -> bool:
        """Whether the text could be parsed, so that placements are known."""
        return all(finding.code != registry.UNREADABLE for finding in self.checked.findings)


@dataclass(frozen=True)
class Analyse:
    """Check the text of an open document, or the file on disk if ``data`` is None."""

    path: str
    data: bytes | None
    job: Job
    is_notebook: bool = False


@dataclass(frozen=True)
class Locate:
    """Say where things are in a text that is open: None where another one with the ``digest`` was analysed since."""

    path: str
    digest: str


@dataclass(frozen=True)
class Mend:
    """Apply the safe fixes, of all rules or of one."""

    path: str
    data: bytes
    job: Job
    is_notebook: bool
    code: str | None = None


@dataclass(frozen=True)
class Draw:
    """Draw where the tensors of a text are; UsageError if that is not possible."""

    path: str
    data: bytes
    job: Job


@dataclass(frozen=True)
class Close:
    """A file is open no more: what is on the disk counts again."""

    path: str


Request = Analyse | Locate | Mend | Draw | Close


def absolute(checked: Checked) -> Checked:
    """The same with all paths absolute, as they are from the present working directory."""
    return replace(
        checked,
        path=os.path.abspath(checked.path),
        findings=tuple(map(_absolute, checked.findings)),
        provisional=tuple(map(_absolute_proviso, checked.provisional)),
        needed=tuple((os.path.abspath(path), place) for path, place in checked.needed),
        tended=tuple(map(_absolute_name, checked.tended)),
        uses=tuple((_absolute_name(function), calls) for function, calls in checked.uses),
    )


def _absolute(finding: Finding) -> Finding:
    trace = tuple(replace(step, path=os.path.abspath(step.path)) for step in finding.trace)
    return replace(finding, path=os.path.abspath(finding.path), trace=trace)


def _absolute_proviso(one: Provisional) -> Provisional:
    return replace(
        one,
        finding=_absolute(one.finding),
        unless_tended=_absolute_name(one.unless_tended) if one.unless_tended else None,
        at_call=_absolute(one.at_call) if one.at_call else None,
        function=_absolute_name(one.function) if one.function else None,
    )


def _absolute_name(named: tuple[str, str, str]) -> tuple[str, str, str]:
    path, cls, name = named
    return (os.path.abspath(path), cls, name)
