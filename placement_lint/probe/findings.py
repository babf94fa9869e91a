"""Findings get their verdicts: each is probed with its own facts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from placement_lint.finding import Finding
from placement_lint.probe.memory import Memory
from placement_lint.probe.prober import Prober
from placement_lint.probe.sandbox import Sandbox
from placement_lint.registry import find_rule
from placement_lint.results import Run


def probed(run: Run, mode: str, advance: Callable[[], None] = lambda: None) -> Run:
    """The run with a verdict on each finding whose rule has an experiment; ``advance`` is called after each."""
    memory = Memory.of_user()
    try:
        with Sandbox() as sandbox:
            prober = Prober(mode, sandbox, memory)
            return replace(run, findings=tuple(_probed(finding, prober, advance) for finding in run.findings))
    finally:
        memory.save()


def _probed(finding: Finding, prober: Prober, advance: Callable[[], None]) -> Finding:
    experiment = find_rule(finding.code).experiment
    if experiment is not None:
        finding = replace(finding, verdict=prober.verdict(experiment, dict(finding.facts)))
    advance()
    return finding
