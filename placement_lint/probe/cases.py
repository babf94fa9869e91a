"""From findings back to the problems of a parsed program that they came from, which a replay needs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import libcst as cst

from placement_lint.checker import Checker, Reading
from placement_lint.finding import Finding, Range
from placement_lint.probe.replay import Case, Entry
from placement_lint.probe.units import Program
from placement_lint.results import Job
from placement_lint.rule import Problem, Rule
from placement_lint.source.notebook import NOTEBOOK, read_notebook
from placement_lint.source.parsing import parse
from placement_lint.source.text import decode

if TYPE_CHECKING:
    from placement_lint.listen import Hearing
    from placement_lint.project.finder import Surroundings


class _Recording(Reading):
    """Keeps the tree that was listened to, what was heard, and where its nodes are."""

    def __init__(self) -> None:
        self.program: cst.Module | None = None
        self.problems: list[tuple[Rule, Problem]] = []
        self.places: dict[cst.CSTNode, Range] = {}

    def read(self, text: str) -> cst.Module:
        """With all its layout: what is replayed is cut out of it."""
        return self.parse(text)

    def hear(self, program: cst.Module, rules: Sequence[Rule], surroundings: Surroundings) -> Hearing:
        hearing = super().hear(program, rules, surroundings)
        self.program, self.problems = program, hearing.problems
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
    elsewhere: bool = False,
) -> dict[Finding, Case]:
    """The case of each finding of a file that the same job finds in it again; ``importers`` are files that import it.

    What is found in a file only because of another one that imports it has none, unless that one is given and the
    findings are said to be ``elsewhere``: then the case is about the call that leads there.
    """
    recording = _Recording()
    # The program's other problems stand in the way of this one even if nobody asked for them.
    everything = replace(job, select=(), ignore=(), extend_select=(*job.extend_select, *job.select))
    Checker(everything, recording).check_bytes(data, path)
    if recording.program is None:
        return {}
    program = Program(recording.program)
    waiting: dict[tuple[str, str], list[Case]] = defaultdict(list)
    problems = sorted(recording.problems, key=lambda pair: recording.places.get(pair[1].node, NOWHERE))
    entries = tuple(
        Entry(job.absolute(importer), job.absolute(path), Program(parse(_text(importer, content))))
        for importer, content in importers
    )
    for rule, problem in problems:
        here = _led_to(program, problem) if elsewhere else _in(program, problem)
        if rule.experiment is not None and here is not None:
            others = tuple(other for _, other in problems if other is not problem)
            waiting[rule.code, problem.message].append(Case(job.absolute(path), program, rule, here, others, entries))
    found = {}
    # In a notebook lines are counted by cell; the order is that of the text all the same.
    for finding in sorted(findings, key=lambda finding: (finding.cell or 0, finding.range)):
        if alike := waiting[finding.code, finding.message.partition(LED)[0]]:
            found[finding] = alike.pop(0)
    return found


def _text(path: str, content: bytes) -> str:
    return read_notebook(content).program if path.endswith(NOTEBOOK) else decode(content)


def _in(program: Program, problem: Problem) -> Problem | None:
    """The problem as one of this file: at the call that leads to it, where it is in another."""
    if problem.node in program.unit_of:
        return problem
    site = next((node for node in problem.sites if node in program.unit_of), None)
    return replace(problem, node=site, rewrite=None) if site is not None else None


def _led_to(program: Program, problem: Problem) -> Problem | None:
    """A problem of another file as one of this file, at the call through which this one comes there."""
    if problem.node in program.unit_of:
        return None
    calls = (*problem.sites, *(problem.scene.calls if problem.scene is not None else ()))
    site = next((node for node in calls if node in program.unit_of), None)
    return replace(problem, node=site, rewrite=None) if site is not None else None


LED = " (at "  # in the message of a finding that is reported at a call: see placing.py
NOWHERE = Range(0, 0, 0, 0)
