"""The parameters of ``textDocument/publishDiagnostics``, one JSON object a line and file."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from pathlib import Path
from typing import Any, TextIO

from placement_lint.finding import Finding, Severity, Step
from placement_lint.report.json import fix_as_object
from placement_lint.report.lines import Lines
from placement_lint.report.places import with_verdict
from placement_lint.results import Run

SEVERITIES = {Severity.ERROR: 1, Severity.WARNING: 2, Severity.INFO: 3}


def render(run: Run, stream: TextIO) -> None:
    """Files without findings are listed as well: an editor takes that to clear what it showed."""
    lines = Lines(run.texts)
    found: defaultdict[str, list[Finding]] = defaultdict(list)
    for finding in run.findings:
        found[finding.path].append(finding)
    for path in sorted({*run.paths, *found}):
        diagnostics = [_diagnostic(finding, lines) for finding in found[path]]
        json.dump({"uri": _uri(path), "diagnostics": diagnostics}, stream, ensure_ascii=False)
        stream.write("\n")


def _diagnostic(finding: Finding, lines: Lines) -> dict[str, Any]:
    return {
        "range": _range(finding, lines),
        "severity": SEVERITIES[finding.severity],
        "code": finding.code,
        "source": "placement-lint",
        "message": with_verdict(finding),
        "relatedInformation": [
            {"location": {"uri": _uri(step.path), "range": _range(step, lines)}, "message": step.message}
            for step in finding.trace
        ],
        "data": {
            "name": finding.name,
            "cell": finding.cell,
            "fix": fix_as_object(finding.fix) if finding.fix else None,
        },
    }


def _range(thing: Finding | Step, lines: Lines) -> dict[str, Any]:
    text, where = lines.of(thing.path, thing.cell), thing.range
    return {
        "start": _position(text, where.line, where.column),
        "end": _position(text, where.end_line, where.end_column),
    }


def _position(lines: list[str], line: int, column: int) -> dict[str, int]:
    """Counted from 0, the character in UTF-16 units, as the protocol does unless agreed otherwise."""
    before = lines[line - 1][: column - 1] if line <= len(lines) else ""
    wide = sum(ord(character) > 0xFFFF for character in before)
    return {"line": line - 1, "character": column - 1 + wide}


def _uri(path: str) -> str:
    return Path(os.path.abspath(path)).as_uri()
