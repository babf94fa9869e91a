"""One line a finding, for terminals, editors and grep."""

from __future__ import annotations

from typing import TextIO

from placement_lint.report.places import place
from placement_lint.report.summary import summary_line
from placement_lint.results import Run


def render(run: Run, stream: TextIO) -> None:
    for finding in run.findings:
        verdict = f" [{finding.verdict.outcome.value}]" if finding.verdict else ""
        print(f"{place(finding)}: {finding.code} {' '.join(finding.message.split())}{verdict}", file=stream)
    print(summary_line(run), file=stream)
