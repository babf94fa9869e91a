"""From findings back to the problems of a parsed program that they came from, which a replay needs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import libcst as cst

from placement_lint.checking.checker import Checker, Reading
from placement_lint.finding import Finding, Range
from placement_lint.flow.events.schema import Scene
from placement_lint.probe.replay import Case, Entry, mended
from placement_lint.probe.units import Program
from placement_lint.report.results import Job
from placement_lint.rule import Line, Note, Problem, Replay, Rewrite, Rule
from placement_lint.source.notebook import NOTEBOOK, read_notebook
from placement_lint.source.parsing import parse
from placement_lint.source.positions import positions
from placement_lint.source.text import decode

if TYPE_CHECKING:
    from placement_lint.checking.listen import Hearing
    from placement_lint.project.finder import Surroundings


Spot = tuple[str, Range]
"""Where a node stands: in which file, by its absolute path, and where in it."""


class _Recording(Reading):
    """Keeps the tree that was listened to, what was heard, and where its nodes are; of problems also elsewhere."""

    def __init__(self) -> None:
        self.program: cst.Module | None = None
        self.problems: list[tuple[Rule, Problem]] = []
        self.places: dict[cst.CSTNode, Range] = {}
        self.elsewhere: dict[cst.CSTNode, Spot] = {}

    def read(self, text: str) -> cst.Module:
        """With all its layout: replayed slices are cut out of it."""
        return self.parse(text)

    def hear(self, program: cst.Module, rules: Sequence[Rule], surroundings: Surroundings) -> Hearing:
        hearing = super().hear(program, rules, surroundings)
        self.program, self.problems = program, hearing.problems
        nodes = {node for _, problem in hearing.problems for node in nodes_of(problem)}
        for statement in surroundings.statements:
            inside = [node for node in nodes if node in statement.owners]
            above = surroundings.first_line(statement) - 1 if inside else 0
            for node, place in positions(statement.tree, inside, roughly=True).items():
                lines = replace(place, line=place.line + above, end_line=place.end_line + above)
                self.elsewhere[node] = (statement.unit.path, lines)
        return hearing

    def place(self, module: cst.Module, nodes: Sequence[cst.CSTNode]) -> dict[cst.CSTNode, Range]:
        places = super().place(module, nodes)
        self.places |= places
        return places


def cases(
    path: str,
    data: bytes,
    job: Job,
    findings: Iterable[Finding],
    importers: Sequence[tuple[str, bytes]] = (),
) -> dict[Finding, Case]:
    """The case of each finding of a file that the same job finds in it again; ``importers`` are files that import it.

    A finding that exists only because another file imports this one has no case: see ``led_cases``.
    """
    recording = _recorded(path, data, job)
    if recording.program is None:
        return {}
    program = Program(recording.program)
    waiting: dict[tuple[str, str], list[Case]] = defaultdict(list)
    problems = sorted(recording.problems, key=lambda pair: recording.places.get(pair[1].node, NOWHERE))
    entries = tuple(
        Entry(job.absolute(importer), job.absolute(path), Program(parse(_text(importer, content))))
        for importer, content in importers
    )
    lent = _mended_files(recording, {})
    for rule, problem in problems:
        here = _in(program, problem)
        if rule.experiment is not None and here is not None:
            # Of two repairs that exclude each other, that of the same fault elsewhere comes first.
            known = sorted(problems, key=lambda pair: pair[0] is not rule)
            others = tuple(other for _, other in known if other is not problem)
            case = Case(job.absolute(path), program, rule, here, others, entries, lent=lent)
            waiting[rule.code, problem.message].append(case)
    found = {}
    # In a notebook lines are counted by cell; the order is that of the text all the same.
    for finding in sorted(findings, key=lambda finding: (finding.cell or 0, finding.range)):
        if alike := waiting[finding.code, finding.message.partition(LED)[0]]:
            found[finding] = alike.pop(0)
    return found


def led_cases(importer: str, data: bytes, job: Job, findings: Iterable[Finding]) -> dict[Finding, Case]:
    """Cases of findings whose problems stand in files that a program imports, ``importer``, and that it leads to.

    Each is one of the file in which it stands, and is shown by running the importer.
    """
    recording = _recorded(importer, data, job)
    if recording.program is None or importer.endswith(NOTEBOOK):
        return {}
    program = Program(recording.program)
    twins: dict[str, _Twin] = {}
    found = {}
    for finding in findings:
        message = finding.message.partition(LED)[0]
        for rule, problem in recording.problems:
            if (rule.code, problem.message) != (finding.code, message) or rule.experiment is None:
                continue
            if problem.node not in recording.elsewhere or not _is_at(finding, problem, recording, importer, job):
                continue
            path, _ = recording.elsewhere[problem.node]
            if path not in twins:
                twins[path] = _Twin(path, recording)
            own = [other for _, other in recording.problems if other.node in program.unit_of]
            entry = Entry(job.absolute(importer), path, program, tuple(own))
            others = [other for _, other in recording.problems if other is not problem and other not in own]
            twin = twins[path]
            lent = tuple((other, text) for other, text in _mended_files(recording, twins) if other != path)
            found[finding] = Case(
                path, twin.program, rule, twin.of(problem), tuple(map(twin.of, others)), (entry,), True, lent
            )
            break
    return found


def _mended_files(recording: _Recording, twins: dict[str, _Twin]) -> tuple[tuple[str, str], ...]:
    """The other files in which a program has problems, without these as far as that is possible, by their paths."""
    problems: dict[str, list[Problem]] = defaultdict(list)
    for _, problem in recording.problems:
        if problem.node in recording.elsewhere:
            problems[recording.elsewhere[problem.node][0]].append(problem)
    found = []
    for path, some in problems.items():
        if path not in twins:
            twins[path] = _Twin(path, recording)
        found.append((path, mended(twins[path].program, map(twins[path].of, some))))
    return tuple(found)


def _recorded(path: str, data: bytes, job: Job) -> _Recording:
    recording = _Recording()
    # The program's other problems interfere with this one even if their rules are not selected.
    everything = replace(job, select=(), ignore=(), extend_select=(*job.extend_select, *job.select))
    Checker(everything, recording).check_bytes(data, path)
    return recording


def _is_at(finding: Finding, problem: Problem, recording: _Recording, importer: str, job: Job) -> bool:
    """Whether a finding is reported at the node of a problem, or at a call that leads there."""
    path = job.absolute(finding.path)
    if path == job.absolute(importer):
        return any(recording.places.get(site) == finding.range for site in problem.sites)
    return any(recording.elsewhere.get(node) == (path, finding.range) for node in (problem.node, *problem.sites))


class _Twin:
    """A file that another one imports, parsed as a whole, with the nodes that stand where the analysis had others."""

    def __init__(self, path: str, recording: _Recording) -> None:
        self.program = Program(parse(_text(path, Path(path).read_bytes())))
        self._spots = {node: place for node, (file, place) in recording.elsewhere.items() if file == path}
        nodes = list(self.program.unit_of)
        self._nodes = {
            (type(node).__name__, place): node for node, place in positions(self.program.module, nodes).items()
        }

    def of(self, value: Any) -> Any:
        """The same with nodes of this file; nodes of other files stay."""
        if isinstance(value, cst.CSTNode):
            place = self._spots.get(value)
            return value if place is None else self._nodes.get((type(value).__name__, place), value)
        if isinstance(value, tuple):
            return tuple(map(self.of, value))
        if isinstance(value, PARTS):
            return replace(value, **{part.name: self.of(getattr(value, part.name)) for part in fields(value)})
        return value


PLACED = (cst.BaseExpression, cst.BaseSmallStatement, cst.BaseCompoundStatement, cst.SimpleStatementLine, cst.Arg)
PARTS = (Problem, Note, Line, Replay, Rewrite, Scene)


def nodes_of(value: object) -> Iterator[cst.CSTNode]:
    """The expressions and statements of a problem."""
    if isinstance(value, PLACED):
        yield value
    elif isinstance(value, tuple):
        yield from (node for one in value for node in nodes_of(one))
    elif isinstance(value, PARTS):
        yield from (node for part in fields(value) for node in nodes_of(getattr(value, part.name)))


def _text(path: str, content: bytes) -> str:
    return read_notebook(content).program if path.endswith(NOTEBOOK) else decode(content)


def _in(program: Program, problem: Problem) -> Problem | None:
    """The problem as one of this file: at the call that leads to it, where it is in another."""
    if problem.node in program.unit_of:
        return problem
    site = next((node for node in problem.sites if node in program.unit_of), None)
    return replace(problem, node=site, rewrite=None) if site is not None else None


LED = " (at "  # in the message of a finding that is reported at a call: see placing.py
NOWHERE = Range(0, 0, 0, 0)
