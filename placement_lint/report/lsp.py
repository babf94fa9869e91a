"""The parameters of ``textDocument/publishDiagnostics``, one JSON object per line and file."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TextIO

from placement_lint.finding import Finding, Range, Severity, Step
from placement_lint.report.json import fix_as_object, verdict_as_object
from placement_lint.report.lines import Lines
from placement_lint.report.places import with_verdict
from placement_lint.report.results import Run

SEVERITIES = {Severity.ERROR: 1, Severity.WARNING: 2, Severity.INFO: 3}
# Code, or a comment, that has no effect is shown faded.
UNNECESSARY = 1
TAGS = {"DPL002": [UNNECESSARY], "DPL309": [UNNECESSARY], "DPL501": [UNNECESSARY]}

Locate = Callable[["Finding | Step"], dict[str, Any]]
"""The ``Location`` of a finding or step: its URI, and its range in the units of the protocol."""


def render(run: Run, stream: TextIO) -> None:
    """Files without findings are included as well, so that an editor clears earlier diagnostics."""
    lines = Lines(run.texts)

    def locate(thing: Finding | Step) -> dict[str, Any]:
        return {"uri": uri_of(thing.path), "range": as_range(lines.of(thing.path, thing.cell), thing.range)}

    found: defaultdict[str, list[Finding]] = defaultdict(list)
    for finding in run.findings:
        found[finding.path].append(finding)
    for path in sorted({*run.paths, *found}):
        diagnostics = [diagnostic(finding, locate) for finding in found[path]]
        json.dump({"uri": uri_of(path), "diagnostics": diagnostics}, stream, ensure_ascii=False)
        stream.write("\n")


def diagnostic(finding: Finding, locate: Locate) -> dict[str, Any]:
    """The ``Diagnostic`` of a finding; ``data`` has the fields that the protocol lacks."""
    return {
        "range": locate(finding)["range"],
        "severity": SEVERITIES[finding.severity],
        "code": finding.code,
        "source": "placement-lint",
        "message": with_verdict(finding),
        "relatedInformation": [{"location": locate(step), "message": step.message} for step in finding.trace],
        "data": {
            "name": finding.name,
            "cell": finding.cell,
            "fix": fix_as_object(finding.fix) if finding.fix else None,
            "verdict": verdict_as_object(finding.verdict) if finding.verdict else None,
        },
        **({"tags": TAGS[finding.code]} if finding.code in TAGS else {}),
    }


def utf16_width(text: str) -> int:
    """The width in UTF-16 units, the protocol's default."""
    return len(text) + sum(ord(character) > 0xFFFF for character in text)


def as_range(lines: Sequence[str], place: Range, width: Callable[[str], int] = utf16_width) -> dict[str, Any]:
    return {
        "start": _position(lines, place.line, place.column, width),
        "end": _position(lines, place.end_line, place.end_column, width),
    }


def _position(lines: Sequence[str], line: int, column: int, width: Callable[[str], int]) -> dict[str, int]:
    before = lines[line - 1][: column - 1] if line <= len(lines) else ""
    return {"line": line - 1, "character": width(before) if line <= len(lines) else column - 1}


def uri_of(path: str) -> str:
    return Path(os.path.abspath(path)).as_uri()
