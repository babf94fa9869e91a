"""Findings get their verdicts: each is probed with its own facts, or by the part of the program that it is about."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from placement_lint.finding import Finding, Verdict
from placement_lint.probe.cases import cases
from placement_lint.probe.memory import Memory
from placement_lint.probe.prober import Prober
from placement_lint.probe.replay import Case, Replayer, Scripted
from placement_lint.probe.sandbox import Sandbox
from placement_lint.probe.saved import save
from placement_lint.registry import find_rule
from placement_lint.results import Job, Run

MOST_IMPORTERS = 3  # of a file that are tried


@dataclass(frozen=True)
class Wanted:
    """What is to be done with findings. ``mode`` is what to run on, None for nothing at all.

    Only with ``trust`` is any of the program executed, ``confining`` it by the operating system. ``folder`` is where
    slices are saved, if they are.
    """

    mode: str | None = None
    trust: bool = False
    confining: bool = True
    folder: str | None = None


def probed(run: Run, wanted: Wanted, job_of: Callable[[str], Job], advance: Callable[[], None] = lambda: None) -> Run:
    """The run with a verdict on each finding whose rule has an experiment; ``advance`` is called after each."""
    memory = Memory.of_user()
    known = dict(_cases(run, job_of)) if wanted.trust or wanted.folder else {}
    slices: dict[Finding, Scripted] = {}
    findings = run.findings
    try:
        with ExitStack() as stack:
            if wanted.mode is not None:
                prober = Prober(wanted.mode, stack.enter_context(Sandbox(confining=wanted.confining)), memory)
                probing = _Probing(prober, known if wanted.trust else {}, slices)
                findings = tuple(probing.probed(finding, advance) for finding in findings)
    finally:
        memory.save()
    if wanted.folder is not None:
        smallest = ((finding, case, slices.get(finding) or case.smallest) for finding, case in known.items())
        save(wanted.folder, smallest)
    return replace(run, findings=findings)


@dataclass
class _Probing:
    prober: Prober
    cases: dict[Finding, Case]
    slices: dict[Finding, Scripted]
    replayers: dict[str, Replayer] = field(default_factory=dict)  # by path: what is the same for a file is played once

    def probed(self, finding: Finding, advance: Callable[[], None]) -> Finding:
        verdict = self._replayed(finding, self.cases[finding]) if finding in self.cases else self._pattern(finding)
        advance()
        return replace(finding, verdict=verdict)

    def _pattern(self, finding: Finding) -> Verdict | None:
        experiment = find_rule(finding.code).experiment
        return self.prober.verdict(experiment, dict(finding.facts)) if experiment is not None else None

    def _replayed(self, finding: Finding, case: Case) -> Verdict:
        if finding.path not in self.replayers:
            roots = (str(Path(finding.path).absolute().parent), os.getcwd())
            self.replayers[finding.path] = Replayer(self.prober, roots)
        verdict, script = self.replayers[finding.path].replayed(case)
        if script is not None and not script.verbatim:  # of a whole program the smallest slice is saved
            self.slices[finding] = script
        return verdict


def _cases(run: Run, job_of: Callable[[str], Job]) -> Iterator[tuple[Finding, Case]]:
    """File by file, what the findings came from."""
    importers = _importers(run)
    for path in dict.fromkeys(finding.path for finding in run.findings):
        findings = [finding for finding in run.findings if finding.path == path]
        data = run.texts[path] if path in run.texts else Path(path).read_bytes()
        importing = [(other, Path(other).read_bytes()) for other in importers[os.path.realpath(path)][:MOST_IMPORTERS]]
        yield from cases(path, data, job_of(path), findings, importing).items()


def _importers(run: Run) -> dict[str, list[str]]:
    """By file, those of the run that import it."""
    importers: dict[str, list[str]] = defaultdict(list)
    for checked in (one for results in run.results.values() for one in results):
        for read in checked.reads[1:]:
            importers[os.path.realpath(read.path)].append(checked.path)
    return importers
