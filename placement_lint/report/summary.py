"""The last line of a report for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from placement_lint.finding import Applicability, Finding, Severity
from placement_lint.report.places import place
from placement_lint.report.results import Run
from placement_lint.report.style import Style


def summary_line(run: Run) -> str:
    """``12 files checked, 1 skipped, 3 findings (2 errors, 1 warning) in 0.4 s``."""
    summary = run.summary
    parts = [f"{counted(summary.files, 'file')} checked"]
    if summary.skipped:
        parts.append(f"{summary.skipped} skipped")
    parts.append(_findings(run.findings))
    if run.fixed is not None:
        parts.append(f"{len(run.fixed)} fixed")
    if run.known is not None:
        parts.append(f"{len(run.known)} suppressed by the baseline")
    return f"{', '.join(parts)} in {summary.seconds:.1f} s"


def closing_lines(run: Run) -> Iterator[str]:
    """The lines after the findings: the number of fixable ones, then the summary."""
    if not run.style.brief:
        yield from _fixable(run)
    yield from summary_lines(run)


def summary_lines(run: Run) -> Iterator[str]:
    """The summary, and the saved slices; empty in a brief report."""
    if not run.style.brief:
        yield summary_line(run)
        yield from saved_lines(run)


def is_fixable(finding: Finding, style: Style) -> bool:
    """Whether ``--fix`` would apply its fix, with ``--unsafe-fixes`` if that was given."""
    fix = finding.fix
    return fix is not None and bool(fix.edits) and (style.unsafe or fix.applicability is Applicability.SAFE)


def _fixable(run: Run) -> Iterator[str]:
    """The number of findings with fixes to apply; after ``--fix``, the remaining ones are withheld."""
    with_fix = [finding for finding in run.findings if is_fixable(finding, replace(run.style, unsafe=True))]
    fixable = sum(is_fixable(finding, run.style) for finding in with_fix)
    hidden = len(with_fix) - fixable
    if run.fixed is not None:
        fixable = 0
    option = "`--fix --unsafe-fixes`" if run.style.unsafe or not fixable else "`--fix`"
    more = f", {hidden:,} more with `--unsafe-fixes`" if hidden and fixable else ""
    if fixable or hidden:
        yield f"{'[*] ' if fixable else ''}{fixable or hidden:,} fixable with {option}{more}"


def saved_lines(run: Run) -> Iterator[str]:
    """The files that `--save-probe` wrote, and the findings without one."""
    files = [(finding.saved.file, finding.saved.shown) for finding in run.findings if finding.saved]
    written = [shown for file, shown in files if file]
    if written:
        tested = "run with PyTorch alone, each shows its symptom" if all(written) else "not run: that takes --trust"
        yield f"{counted(len(written), 'slice')} saved ({tested})"
    for finding in run.findings:
        if finding.saved and not finding.saved.file:
            reason = " ".join(finding.saved.reason.split())
            yield f"no slice for {place(finding)} {finding.code}: {reason}"


def _findings(findings: Sequence[Finding]) -> str:
    if not findings:
        return "no findings"
    counts = Counter(finding.severity for finding in findings)
    worst_first = sorted(Severity, reverse=True)
    detail = ", ".join(counted(counts[severity], severity.value) for severity in worst_first if counts[severity])
    return f"{counted(len(findings), 'finding')} ({detail})"


def counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
