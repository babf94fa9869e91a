"""Findings get their verdicts: each is probed with its own facts, or by the part of the program that it is about."""

from __future__ import annotations

import ast
import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

from placement_lint.finding import Finding, Outcome, Saved, Verdict
from placement_lint.probe.cases import LED, cases, led_cases
from placement_lint.probe.memory import Memory
from placement_lint.probe.prober import Prober
from placement_lint.probe.replay import Case, Replayer, Scripted
from placement_lint.probe.sandbox import Sandbox
from placement_lint.probe.saved import Saver
from placement_lint.project.finder import Surroundings
from placement_lint.registry import find_rule
from placement_lint.report.results import Job, Run

MOST_IMPORTERS = 3  # of a file that are tried
NO_EXPERIMENT = "its rule has no experiment"
NOT_FROM_HERE = "it follows from how other files use this one"

Importers = Mapping[str, list[str]]
"""By the real path of a file, those of the run that import it."""


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
    importers = _importers(run)
    known: dict[Finding, Case] = {}
    if wanted.trust or wanted.folder:
        known.update(_cases(run, job_of, importers))
        known.update(_led_cases(run, job_of, importers, known))
    try:
        with ExitStack() as stack:
            prober = None
            if wanted.mode is not None:
                prober = Prober(wanted.mode, stack.enter_context(Sandbox(confining=wanted.confining)), memory)
            saving = _saving(wanted, prober, job_of)
            probing = _Probing(prober, known, wanted.trust, saving)
            findings = tuple(probing.probed(finding, advance) for finding in run.findings)
    finally:
        memory.save()
    return replace(run, findings=findings)


def _saving(wanted: Wanted, prober: Prober | None, job_of: Callable[[str], Job]) -> Saver | None:
    if wanted.folder is None:
        return None

    def around(path: str) -> Surroundings:
        job = job_of(path)
        return Surroundings(job.absolute(path), tuple(dict.fromkeys((str(job.settings.root), *job.roots))))

    alone = Replayer(prober) if prober is not None and wanted.trust else None
    return Saver(Path(wanted.folder), around, alone)


@dataclass
class _Probing:
    prober: Prober | None
    cases: Mapping[Finding, Case]
    trust: bool
    saver: Saver | None
    replayers: dict[str, Replayer] = field(default_factory=dict)  # by path: what is the same for a file is played once

    def probed(self, finding: Finding, advance: Callable[[], None]) -> Finding:
        """The finding with its verdict and the file that it was saved to, as far as these are wanted."""
        verdict, script = None, None
        if self.prober is not None and self.trust and finding in self.cases:
            verdict, script = self._replayed(self.prober, finding, self.cases[finding])
        elif self.prober is not None:
            verdict = self._pattern(self.prober, finding)
        saved = self._saved(finding, verdict, script)
        advance()
        return replace(finding, verdict=verdict, saved=saved)

    def _pattern(self, prober: Prober, finding: Finding) -> Verdict | None:
        experiment = find_rule(finding.code).experiment
        return prober.verdict(experiment, dict(finding.facts)) if experiment is not None else None

    def _replayed(self, prober: Prober, finding: Finding, case: Case) -> tuple[Verdict, Scripted | None]:
        if finding.path not in self.replayers:
            beside = Path(finding.path).absolute().parent
            inside = [str(folder) for folder in beside.parents if folder.is_relative_to(os.getcwd())]
            folders = (os.getcwd(), *inside)  # some of which a program may add to those that it imports from
            # Nobody imports a module from its own folder, where its siblings may have the names of packages.
            roots = (str(beside), *folders) if _acts(finding.path) else (*folders, str(beside))
            self.replayers[finding.path] = Replayer(prober, tuple(dict.fromkeys(roots)), str(beside))
        return self.replayers[finding.path].replayed(case)

    def _saved(self, finding: Finding, verdict: Verdict | None, script: Scripted | None) -> Saved | None:
        """Nothing where nothing is to be saved."""
        if self.saver is None:
            return None
        case = self.cases.get(finding)
        if case is None:
            return Saved(reason=NO_EXPERIMENT if find_rule(finding.code).experiment is None else NOT_FROM_HERE)
        if script is None and verdict is not None and verdict.outcome is Outcome.REFUTED:
            return Saved(reason=f"refuted: {verdict.observed}")
        return self.saver.saved(finding, case, script)


def _cases(run: Run, job_of: Callable[[str], Job], importers: Importers) -> Iterator[tuple[Finding, Case]]:
    """File by file, what the findings came from."""
    for path in dict.fromkeys(finding.path for finding in run.findings):
        findings = [finding for finding in run.findings if finding.path == path]
        importing = [(other, Path(other).read_bytes()) for other in _importing(importers, path)]
        yield from cases(path, _content(run, path), job_of(path), findings, importing).items()


def _led_cases(
    run: Run, job_of: Callable[[str], Job], importers: Importers, known: Mapping[Finding, Case]
) -> Iterator[tuple[Finding, Case]]:
    """Cases of what is found only from a file that imports the one in which it happens."""
    led: dict[str, list[Finding]] = defaultdict(list)
    for finding in run.findings:
        if LED in finding.message:
            led[finding.path].append(finding)
        elif finding not in known:
            for importer in _importing(importers, finding.path):
                led[importer].append(finding)
    found: dict[Finding, Case] = {}
    for importer, findings in led.items():
        found = {**led_cases(importer, _content(run, importer), job_of(importer), findings), **found}
    yield from found.items()


def _content(run: Run, path: str) -> bytes:
    return run.texts[path] if path in run.texts else Path(path).read_bytes()


def _importing(importers: Importers, path: str) -> list[str]:
    """Files that import another, those first that do more than to define something."""
    return sorted(importers.get(os.path.realpath(path), []), key=lambda one: not _acts(one))[:MOST_IMPORTERS]


@lru_cache(maxsize=256)
def _acts(path: str) -> bool:
    """Whether a file is a program: it calls something or asks for its own name at its top level."""
    try:
        body = ast.parse(Path(path).read_bytes()).body
    except (OSError, SyntaxError, ValueError):
        return False
    named = (node.test for node in body if isinstance(node, ast.If))
    is_main = any(isinstance(part, ast.Name) and part.id == "__name__" for test in named for part in ast.walk(test))
    return is_main or any(isinstance(node, (ast.For, ast.While, ast.With)) or _calls(node) for node in body)


def _calls(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)


def _importers(run: Run) -> Importers:
    importers: dict[str, list[str]] = defaultdict(list)
    for checked in (one for results in run.results.values() for one in results):
        for read in checked.reads[1:]:
            importers[os.path.realpath(read.path)].append(checked.path)
    return importers
