"""The last line of a report for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from placement_lint.finding import Finding, Severity
from placement_lint.results import Run


def summary_line(run: Run) -> str:
    """``12 files checked, 1 skipped, 3 findings (2 errors, 1 warning) in 0.4 s``."""
    summary = run.summary
    parts = [f"{_count(summary.files, 'file')} checked"]
    if summary.skipped:
        parts.append(f"{summary.skipped} skipped")
    parts.append(_findings(run.findings))
    if run.fixed is not None:
        parts.append(f"{len(run.fixed)} fixed")
    if run.known is not None:
        parts.append(f"{len(run.known)} suppressed by the baseline")
    return f"{', '.join(parts)} in {summary.seconds:.1f} s"


def _findings(findings: Sequence[Finding]) -> str:
    if not findings:
        return "no findings"
    counts = Counter(finding.severity for finding in findings)
    worst_first = sorted(Severity, reverse=True)
    detail = ", ".join(_count(counts[severity], severity.value) for severity in worst_first if counts[severity])
    return f"{_count(len(findings), 'finding')} ({detail})"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
