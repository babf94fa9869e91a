"""Builds cases from texts and files, for the tests of replays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import libcst as cst

from placement_lint.checking.checker import Checker
from placement_lint.config.settings import Settings
from placement_lint.finding import Finding
from placement_lint.flow.domain.path_condition import ALWAYS
from placement_lint.flow.events.schema import Scene
from placement_lint.probe.cases import cases
from placement_lint.probe.replay import Case, Piece
from placement_lint.probe.units import Program
from placement_lint.registry import find_rule
from placement_lint.report.results import Job
from placement_lint.rule import Note, Problem, Replay
from placement_lint.source.wording import source_text

FIXTURES = Path(__file__).parent.parent.parent / "fixtures"
PROJECTS = FIXTURES / "projects"


def cases_in(text: str, name: str = "train.py") -> list[tuple[Finding, Case]]:
    """The findings of a text in their order, each with its case."""
    job = Job(Settings(root=FIXTURES))
    findings = [found for found in Checker(job).check_bytes(text.encode(), name).findings if found.path == name]
    importers = _importers(Path(name), job) if Path(name).is_relative_to(PROJECTS) else []
    found = cases(name, text.encode(), job, findings, importers)
    return [(finding, found[finding]) for finding in findings if finding in found]


def roots_of(path: Path) -> list[str]:
    """The folders from which a fixture imports: its own and, of a project, the outermost."""
    if not path.is_relative_to(PROJECTS):
        return [str(path.parent)]
    return [str(path.parent), str(PROJECTS / path.relative_to(PROJECTS).parts[0])]


def _importers(path: Path, job: Job) -> list[tuple[str, bytes]]:
    """The files of a project that import this one."""
    project = PROJECTS / path.relative_to(PROJECTS).parts[0]
    others = [(str(other), other.read_bytes()) for other in sorted(project.rglob("*.py")) if other != path]
    return [(other, data) for other, data in others if str(path) in Checker(job).check_bytes(data, other).contents]


def case_of(text: str, rule: str) -> Case:
    """The case of a rule's first finding in a text."""
    return next(case for finding, case in cases_in(text) if rule in (finding.code, finding.name))


def sliced(text: str, rule: str) -> str:
    """The smallest slice of a rule's first finding in a text."""
    return case_of(text, rule).smallest.text


class OnlySlices(Case):
    """A case whose program is never run as a whole."""

    def wholes(self) -> Iterator[Piece]:
        return iter(())


def accused(
    text: str,
    call: str,
    repair: str,
    *path: str,
    led: Sequence[str] = (),
    rule: str = "DPL503",
    kind: type[Case] = Case,
) -> Case:
    """A case that says, rightly or not, that a call raises unless the repair is in its place.

    ``path`` are the calls through which it is reached, ``led`` those that its trace tells of.
    """
    module = cst.parse_module(text)
    program = Program(module)

    def found(wanted: str) -> cst.CSTNode:
        return next(node for node in program.unit_of if isinstance(node, cst.Call) and source_text(node) == wanted)

    node, way = found(call), tuple(found(one) for one in path)
    scene = Scene(ALWAYS, ALWAYS, 0, calls=way)
    trace = tuple(Note(found(one), "") for one in led)
    replay = Replay(repairs=(((node, repair),),), gpus=2)
    return kind("/train.py", program, find_rule(rule), Problem(node, "", trace, replay=replay, scene=scene))
