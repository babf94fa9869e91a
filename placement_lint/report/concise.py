"""One line a finding, for terminals, editors and grep."""

from __future__ import annotations

from typing import TextIO

from placement_lint.report.places import place, with_verdict
from placement_lint.report.summary import saved_lines, summary_line
from placement_lint.results import Run


def render(run: Run, stream: TextIO) -> None:
    for finding in run.findings:
        print(f"{place(finding)}: {finding.code} {' '.join(with_verdict(finding).split())}", file=stream)
    print(summary_line(run), *saved_lines(run), sep="\n", file=stream)
