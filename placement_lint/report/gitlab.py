"""A code quality report for merge requests on GitLab."""

from __future__ import annotations

import json
from typing import Any, TextIO

from placement_lint.finding import Finding, Severity
from placement_lint.report.fingerprints import fingerprints
from placement_lint.report.places import message_in_file, range_in_file
from placement_lint.report.results import Run

SEVERITIES = {Severity.ERROR: "critical", Severity.WARNING: "major", Severity.INFO: "info"}


def render(run: Run, stream: TextIO) -> None:
    issues = [
        _issue(finding, f"{mark}-{number}" if number > 1 else mark)
        for finding, mark, number in fingerprints(run.findings)
    ]
    json.dump(issues, stream, indent=2, ensure_ascii=False)
    stream.write("\n")


def _issue(finding: Finding, fingerprint: str) -> dict[str, Any]:
    where = range_in_file(finding)
    return {
        "description": f"{finding.code} {finding.name}: {message_in_file(finding)}",
        "check_name": finding.name,
        "fingerprint": fingerprint,
        "severity": SEVERITIES[finding.severity],
        "location": {"path": finding.path, "lines": {"begin": where.line, "end": where.end_line}},
    }
