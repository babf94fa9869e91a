"""SARIF 2.1.0, for code scanning services: the rules with their pages, the findings with their traces."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TextIO
from urllib.parse import quote

from placement_lint import __version__, registry
from placement_lint.cli.pages import as_markdown, first_sentence, url
from placement_lint.finding import Edit, Finding, Fix, Range, Severity, Step
from placement_lint.report.fingerprints import fingerprints
from placement_lint.report.json import verdict_as_object
from placement_lint.report.places import message_in_file
from placement_lint.report.results import Crash, Run
from placement_lint.rule import Rule

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
WORKING_DIRECTORY = "%SRCROOT%"
LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
# The terms of GitHub's code scanning for a rule: the severity of a result, and its precision.
GRAVITIES = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "recommendation"}
PRECISIONS = {Severity.ERROR: "very-high", Severity.WARNING: "high", Severity.INFO: "medium"}
IN_BASELINE = [{"kind": "external", "justification": "The baseline lists it."}]


def render(run: Run, stream: TextIO) -> None:
    json.dump(as_log(run), stream, indent=2, ensure_ascii=False)
    stream.write("\n")


def as_log(run: Run) -> dict[str, Any]:
    known = run.known or ()
    codes = {finding.code for finding in (*run.findings, *known)}
    rules = [rule for rule in registry.all_rules() if rule.code in codes]
    index = {rule.code: number for number, rule in enumerate(rules)}
    results = [
        _result(finding, f"{mark}:{number}", index) for finding, mark, number in fingerprints((*run.findings, *known))
    ]
    for result in results[len(run.findings) :]:
        result["suppressions"] = IN_BASELINE
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": _driver(rules)},
                "invocations": [_invocation(run.crashes)],
                "originalUriBaseIds": {
                    WORKING_DIRECTORY: {"description": {"text": "The working directory of the run."}}
                },
                "columnKind": "unicodeCodePoints",
                "results": results,
            }
        ],
    }


def _driver(rules: Iterable[Rule]) -> dict[str, Any]:
    return {
        "name": "placement-lint",
        "version": __version__,
        "semanticVersion": __version__,
        "rules": [_rule(rule) for rule in rules],
    }


def _rule(rule: Rule) -> dict[str, Any]:
    page, address = rule.page, url(rule.code, rule.name)
    return {
        "id": rule.code,
        "name": rule.name,
        "shortDescription": {"text": first_sentence(page.what)},
        "fullDescription": {"text": page.what.strip()},
        **({"helpUri": address} if address else {}),
        "help": {"text": "\n\n".join(_plain(rule)), "markdown": as_markdown(rule)},
        "defaultConfiguration": {"level": LEVELS[rule.severity]},
        "properties": {
            "tags": ["pytorch", registry.family_name(rule)],
            "problem.severity": GRAVITIES[rule.severity],
            "precision": PRECISIONS[rule.severity],
        },
    }


def _plain(rule: Rule) -> Iterable[str]:
    """The page as plain text, for viewers that do not render Markdown."""
    return (text.strip() for text in (rule.page.what, rule.page.why, rule.page.fix) if text.strip())


def _invocation(crashes: Iterable[Crash]) -> dict[str, Any]:
    notifications = [{"level": "error", "message": {"text": str(crash)}} for crash in crashes]
    return {"executionSuccessful": not notifications, "toolExecutionNotifications": notifications}


def _result(finding: Finding, fingerprint: str, index: Mapping[str, int]) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": index[finding.code],
        "level": LEVELS[finding.severity],
        "message": {"text": message_in_file(finding)},
        "locations": [_location(finding)],
        "partialFingerprints": {"primaryLocationLineHash": fingerprint},
    }
    if finding.trace:
        way: tuple[Finding | Step, ...] = (*finding.trace, finding)
        stops = [{"location": _location(stop)} for stop in way]
        result["codeFlows"] = [{"threadFlows": [{"locations": stops}]}]
    if finding.fix and finding.fix.edits and not finding.cell:
        result["fixes"] = [_fix(finding.path, finding.fix)]
    if finding.verdict:
        result["properties"] = {"verdict": verdict_as_object(finding.verdict)}
    return result


def _location(thing: Finding | Step) -> dict[str, Any]:
    """The location; without a region in a notebook, as the lines of a cell are not lines of the file."""
    physical: dict[str, Any] = {"artifactLocation": _artifact(thing.path)}
    if not thing.cell:
        physical["region"] = _region(thing.range)
    location: dict[str, Any] = {"physicalLocation": physical, "message": {"text": message_in_file(thing)}}
    if isinstance(thing, Finding) and thing.anchor.function:
        location["logicalLocations"] = [{"fullyQualifiedName": thing.anchor.function}]
    return location


def _artifact(path: str) -> dict[str, str]:
    """The path, relative if the working directory contains the file, as services require."""
    if path.startswith("..") or os.path.isabs(path):
        return {"uri": Path(os.path.abspath(path)).as_uri()}
    return {"uri": quote(os.fsencode(path)), "uriBaseId": WORKING_DIRECTORY}


def _region(place: Range) -> dict[str, int]:
    return {
        "startLine": place.line,
        "startColumn": place.column,
        "endLine": place.end_line,
        "endColumn": place.end_column,
    }


def _fix(path: str, fix: Fix) -> dict[str, Any]:
    replacements = [_replacement(edit) for edit in fix.edits]
    return {
        "description": {"text": fix.message},
        "artifactChanges": [{"artifactLocation": _artifact(path), "replacements": replacements}],
    }


def _replacement(edit: Edit) -> dict[str, Any]:
    return {"deletedRegion": _region(edit.range), "insertedContent": {"text": edit.text}}
