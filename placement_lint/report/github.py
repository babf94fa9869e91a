"""Workflow commands: annotations of a pull request on GitHub."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TextIO

from placement_lint.finding import Finding, Severity
from placement_lint.report.places import line_place, place, range_in_file, with_verdict
from placement_lint.report.results import Run

COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}
IN_MESSAGES = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
IN_PROPERTIES = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A", ":": "%3A", ",": "%2C"})


def render(run: Run, stream: TextIO) -> None:
    for finding in run.findings:
        properties = ",".join(
            f"{key}={str(value).translate(IN_PROPERTIES)}" for key, value in _properties(finding).items()
        )
        message = "\n".join(_lines(finding)).translate(IN_MESSAGES)
        print(f"::{COMMANDS[finding.severity]} {properties}::{message}", file=stream)


def _properties(finding: Finding) -> Mapping[str, object]:
    where = range_in_file(finding)
    # GitHub rejects columns for a range of several lines.
    columns = {"col": where.column, "endColumn": where.end_column} if where.line == where.end_line else {}
    return {
        "title": f"{finding.code} {finding.name}",
        "file": finding.path,
        "line": where.line,
        "endLine": where.end_line,
        **columns,
    }


def _lines(finding: Finding) -> Iterator[str]:
    """The lines of the message; the log shows only the message of a command, so it includes the position."""
    yield f"{place(finding)}: {finding.code} {with_verdict(finding)}"
    for number, step in enumerate(finding.trace, start=1):
        yield f"{number}. {line_place(step)}  {step.message}"
