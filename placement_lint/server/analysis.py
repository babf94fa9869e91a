"""Requests and answers of the worker about one text: plain data, sent between the processes."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

from placement_lint import registry
from placement_lint.finding import Finding, Range
from placement_lint.finding import Step as TraceStep
from placement_lint.project.saved_states import SavedState
from placement_lint.report.results import Checked, Job, Provisional


@dataclass(frozen=True)
class Step:
    """A step in the history of a value, and its position."""

    range: Range
    message: str


@dataclass(frozen=True)
class Placed:
    """One assignment: positions are those of the program, in a notebook too.

    ``where`` is the place in readable form (``cuda:0 → DataParallel[0,1]``), empty if it is unknown. ``arrived`` if
    this statement itself moved the value there. ``scope`` is the function of the name, the class for ``self.name``,
    None for the whole module.
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
    """Request the placements in an open text: None if a text with another ``digest`` was analysed since."""

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
    """Draw the timeline of the tensors of a text; UsageError if that is not possible."""

    path: str
    data: bytes
    job: Job


@dataclass(frozen=True)
class Close:
    """A file is no longer open: the file on disk counts again."""

    path: str


Request = Analyse | Locate | Mend | Draw | Close


def absolute(checked: Checked) -> Checked:
    """The same result with all paths absolute, resolved from the working directory."""
    return replace(
        checked,
        path=os.path.abspath(checked.path),
        findings=tuple(map(_absolute, checked.findings)),
        provisional=tuple(map(_absolute_proviso, checked.provisional)),
        needed=tuple((os.path.abspath(path), place) for path, place in checked.needed),
        tended=tuple(map(_absolute_name, checked.tended)),
        uses=tuple((_absolute_name(function), calls) for function, calls in checked.uses),
        saved=tuple(map(_absolute_saved, checked.saved)),
        harmless=tuple((os.path.abspath(path), place) for path, place in checked.harmless),
    )


def _absolute(finding: Finding) -> Finding:
    return replace(finding, path=os.path.abspath(finding.path), trace=tuple(map(_absolute_step, finding.trace)))


def _absolute_saved(saved: SavedState) -> SavedState:
    steps = tuple(map(_absolute_step, saved.steps))
    return replace(saved, program=os.path.abspath(saved.program), steps=steps)


def _absolute_step(step: TraceStep) -> TraceStep:
    return replace(step, path=os.path.abspath(step.path))


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
