"""JUnit XML: a suite per file, a failed case per finding, a passed one for a clean file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby
from typing import TextIO
from xml.etree import ElementTree as ET

from placement_lint.finding import Finding
from placement_lint.report.places import line_place, place, with_verdict
from placement_lint.report.results import Crash, Run

NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render(run: Run, stream: TextIO) -> None:
    found = {path: list(group) for path, group in groupby(run.findings, lambda finding: finding.path)}
    crashed = {crash.path: crash for crash in run.crashes}
    root = ET.Element("testsuites", name="placement-lint")
    for path in dict.fromkeys((*run.paths, *found)):
        root.append(_suite(path, found.get(path, []), crashed.get(path)))
    for count in ("tests", "failures", "errors"):
        root.set(count, str(sum(int(suite.get(count, 0)) for suite in root)))
    root.set("time", f"{run.summary.seconds:.3f}")
    ET.indent(root)
    print('<?xml version="1.0" encoding="utf-8"?>', file=stream)
    print(ET.tostring(root, encoding="unicode"), file=stream)


def _suite(path: str, findings: Sequence[Finding], crash: Crash | None) -> ET.Element:
    cases = [_failure(finding) for finding in findings]
    if crash:
        cases.append(_error(crash))
    suite = ET.Element(
        "testsuite",
        name=_sayable(path),
        tests=str(len(cases) or 1),
        failures=str(len(findings)),
        errors=str(int(crash is not None)),
        skipped="0",
    )
    suite.extend(cases or [_case(path, "no findings")])
    return suite


def _case(path: str, name: str) -> ET.Element:
    return ET.Element("testcase", classname=_sayable(path), name=_sayable(name), time="0")


def _failure(finding: Finding) -> ET.Element:
    case = _case(finding.path, f"{finding.code} {finding.name} ({place(finding)})")
    case.set("file", _sayable(finding.path))
    case.set("line", str(finding.range.line))
    failure = ET.SubElement(case, "failure", type=finding.severity.value, message=_sayable(with_verdict(finding)))
    steps = (f"{line_place(step)}  {step.message}" for step in finding.trace)
    failure.text = _sayable("\n".join([f"{place(finding)}: {with_verdict(finding)}", *steps]))
    return case


def _error(crash: Crash) -> ET.Element:
    case = _case(crash.path, "internal error")
    ET.SubElement(case, "error", type="crash", message=_sayable(crash.error)).text = _sayable(str(crash))
    return case


def _sayable(text: str) -> str:
    """The text without the characters that XML cannot represent."""
    return NOT_IN_XML.sub("\ufffd", text)
