"""How often each rule was found."""

from __future__ import annotations

from collections import Counter
from typing import TextIO

from placement_lint.report.summary import summary_line
from placement_lint.results import Run


def render(run: Run, stream: TextIO) -> None:
    counts = Counter((finding.code, finding.name) for finding in run.findings)
    for (code, name), number in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        print(f"{number:5}  {code}  {name}", file=stream)
    print(summary_line(run), file=stream)
