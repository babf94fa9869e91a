"""One JSON object, a stable interface for other programs."""

from __future__ import annotations

import json
from typing import Any, TextIO

from placement_lint.finding import Edit, Finding, Fix, Range, Saved, Step, Verdict
from placement_lint.report.results import Run

VERSION = 1


def render(run: Run, stream: TextIO) -> None:
    json.dump(as_object(run), stream, indent=2, ensure_ascii=False)
    stream.write("\n")


def as_object(run: Run) -> dict[str, Any]:
    summary = run.summary
    return {
        "version": VERSION,
        "findings": [_finding(finding) for finding in run.findings],
        "summary": {
            "files": summary.files,
            "skipped": summary.skipped,
            "seconds": round(summary.seconds, 3),
            "cached": summary.cached,
            **_counts(run),
        },
    }


def _counts(run: Run) -> dict[str, int]:
    """The counts of known and fixed findings, if a baseline or fixes were requested."""
    named = {"known": run.known, "fixed": run.fixed}
    return {name: len(findings) for name, findings in named.items() if findings is not None}


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "code": finding.code,
        "name": finding.name,
        "severity": finding.severity.value,
        "message": finding.message,
        "path": finding.path,
        **_range(finding.range),
        "cell": finding.cell,
        "trace": [_step(step) for step in finding.trace],
        "fix": fix_as_object(finding.fix) if finding.fix else None,
        "verdict": verdict_as_object(finding.verdict) if finding.verdict else None,
        **({"saved": _saved(finding.saved)} if finding.saved else {}),
    }


def _saved(saved: Saved) -> dict[str, str | None]:
    return {"file": saved.file, "shown": saved.shown or None, "reason": saved.reason or None}


def _range(place: Range) -> dict[str, int]:
    return {
        "line": place.line,
        "column": place.column,
        "end_line": place.end_line,
        "end_column": place.end_column,
    }


def _step(step: Step) -> dict[str, Any]:
    return {
        "path": step.path,
        "line": step.range.line,
        "column": step.range.column,
        "message": step.message,
        **_cell(step),
    }


def _cell(thing: Step | Edit) -> dict[str, int]:
    """The cell, in notebooks only, where a line needs it."""
    return {"cell": thing.cell} if thing.cell else {}


def fix_as_object(fix: Fix) -> dict[str, Any]:
    return {
        "applicability": fix.applicability.value,
        "message": fix.message,
        "edits": [{**_range(edit.range), "text": edit.text, **_cell(edit)} for edit in fix.edits],
    }


def verdict_as_object(verdict: Verdict) -> dict[str, Any]:
    return {
        "level": verdict.level.value,
        "outcome": verdict.outcome.value,
        "device": verdict.device,
        "observed": verdict.observed,
        "expected": verdict.expected,
    }
