"""What a run hands to a report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from placement_lint.finding import Finding


@dataclass(frozen=True)
class Crash:
    """An exception inside the tool itself, confined to one file and, where ``rule`` is known, one rule."""

    path: str
    rule: str | None
    error: str
    where: str

    def __str__(self) -> str:
        culprit = f"rule {self.rule}" if self.rule else "the analysis"
        return (
            f"internal error: {culprit} failed on {self.path}: {self.error} (at {self.where}).\n"
            "This is a bug in the tool, and findings may be missing for this file. "
            "Please report it with these lines and, if you can share it, the file."
        )


@dataclass(frozen=True)
class Summary:
    """``files`` were checked; ``skipped`` ones were not, because they are unreadable or ask to be skipped."""

    files: int
    skipped: int
    seconds: float
    cached: int = 0


@dataclass(frozen=True)
class Run:
    """``paths`` are all that was looked at, clean files included.

    ``known`` are findings that a baseline lists, ``fixed`` those that fixes have removed; None without either.
    ``texts`` are the sources that did not come from a file.
    """

    findings: tuple[Finding, ...]
    crashes: tuple[Crash, ...]
    summary: Summary
    paths: tuple[str, ...] = ()
    known: tuple[Finding, ...] | None = None
    fixed: tuple[Finding, ...] | None = None
    texts: Mapping[str, bytes] = field(default_factory=dict)


def merged(runs: Iterable[Run]) -> Run:
    """One run of several over different files."""
    parts = tuple(runs)
    findings = (finding for run in parts for finding in run.findings)
    return Run(
        findings=tuple(sorted(findings, key=lambda finding: finding.sort_key)),
        crashes=tuple(crash for run in parts for crash in run.crashes),
        summary=Summary(
            files=sum(run.summary.files for run in parts),
            skipped=sum(run.summary.skipped for run in parts),
            seconds=sum(run.summary.seconds for run in parts),
            cached=sum(run.summary.cached for run in parts),
        ),
        paths=tuple(path for run in parts for path in run.paths),
    )
