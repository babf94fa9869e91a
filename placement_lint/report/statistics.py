"""The number of findings per rule, the most frequent first, and what was not analysed for lack of budget."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TextIO

from placement_lint.finding import Applicability, Finding
from placement_lint.report.results import Run
from placement_lint.report.summary import counted, summary_lines

SAFE, UNSAFE, NONE = "*", "-", " "
LEGEND = {SAFE: "[*] some have a safe fix", UNSAFE: "[-] some have an unsafe fix"}

# Files that are named as incompletely analysed.
_MOST_FILES = 5


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
    for line in (*_refused(run), *summary_lines(run)):
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


def _refused(run: Run) -> Iterator[str]:
    """The calls of functions that lack of budget left unanalysed, with the files that have the most of them."""
    files = [(one.refused, one.path) for results in run.results.values() for one in results if one.refused]
    if files:
        worst = sorted(files, key=lambda file: (-file[0], file[1]))[:_MOST_FILES]
        shown = ", ".join(f"{path} ({number:,})" for number, path in worst)
        calls = counted(sum(number for number, _ in files), "call")
        more = f", and {counted(len(files) - len(worst), 'other file')}" if len(files) > len(worst) else ""
        yield f"not analysed for lack of budget: {calls} in {shown}{more}"


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
