"""The number of findings per rule, the most frequent first."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import TextIO

from placement_lint.finding import Applicability, Finding
from placement_lint.report.results import Run
from placement_lint.report.summary import summary_lines

SAFE, UNSAFE, NONE = "*", "-", " "
LEGEND = {SAFE: "[*] some have a safe fix", UNSAFE: "[-] some have an unsafe fix"}


def as_text(run: Run, stream: TextIO) -> None:
    tallies = _tallies(run)
    width = max((len(str(len(findings))) for findings in tallies), default=0)
    for findings in tallies:
        first = findings[0]
        print(f"{len(findings):>{width}}\t{first.code}\t[{_mark(findings)}] {first.name}", file=stream)
    marks = {_mark(findings) for findings in tallies}
    for mark, meaning in LEGEND.items():
        if mark in marks:
            print(meaning, file=stream)
    for line in summary_lines(run):
        print(line, file=stream)


def as_json(run: Run, stream: TextIO) -> None:
    tallies = [
        {
            "code": findings[0].code,
            "name": findings[0].name,
            "count": len(findings),
            "fixable": _mark(findings) == SAFE,
        }
        for findings in _tallies(run)
    ]
    json.dump(tallies, stream, indent=2)
    stream.write("\n")


RENDERERS: Mapping[str, Callable[[Run, TextIO], None]] = {
    "full": as_text,
    "concise": as_text,
    "json": as_json,
}
"""The renderers for the formats in which counts make sense."""


def _tallies(run: Run) -> list[Sequence[Finding]]:
    found: defaultdict[str, list[Finding]] = defaultdict(list)
    for finding in run.findings:
        found[finding.code].append(finding)
    return sorted(found.values(), key=lambda findings: (-len(findings), findings[0].code))


def _mark(findings: Sequence[Finding]) -> str:
    fixes = {finding.fix.applicability for finding in findings if finding.fix}
    if Applicability.SAFE in fixes:
        return SAFE
    return UNSAFE if fixes else NONE
