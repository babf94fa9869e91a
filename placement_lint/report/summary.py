"""The last line of a report for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from placement_lint.finding import Finding, Severity
from placement_lint.report.places import place
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


def saved_lines(run: Run) -> Iterator[str]:
    """What `--save-probe` wrote, and for which findings it wrote nothing."""
    files = [(finding.saved.file, finding.saved.shown) for finding in run.findings if finding.saved]
    written = [shown for file, shown in files if file]
    if written:
        tested = "run with PyTorch alone, each shows its symptom" if all(written) else "not run: that takes --trust"
        yield f"{_count(len(written), 'slice')} saved ({tested})"
    for finding in run.findings:
        if finding.saved and not finding.saved.file:
            reason = " ".join(finding.saved.reason.split())
            yield f"no slice for {place(finding)} {finding.code}: {reason}"


def _findings(findings: Sequence[Finding]) -> str:
    if not findings:
        return "no findings"
    counts = Counter(finding.severity for finding in findings)
    worst_first = sorted(Severity, reverse=True)
    detail = ", ".join(_count(counts[severity], severity.value) for severity in worst_first if counts[severity])
    return f"{_count(len(findings), 'finding')} ({detail})"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
