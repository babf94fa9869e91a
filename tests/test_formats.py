"""The formats for services and editors: their content, and their use by other programs."""

from __future__ import annotations

import io
import json
import os
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import shares

from placement_lint import __version__
from placement_lint.checking.checker import Job
from placement_lint.config.settings import Settings
from placement_lint.finding import (
    Anchor,
    Applicability,
    Edit,
    Finding,
    Fix,
    Level,
    Outcome,
    Range,
    Severity,
    Step,
    Verdict,
)
from placement_lint.project.files import Selection
from placement_lint.report.fingerprints import fingerprints
from placement_lint.report.formats import FORMATS, render
from placement_lint.report.results import Crash, Run, Summary
from placement_lint.run.engine import check_files

HERE = Path(__file__).parent
SNAPSHOTS = HERE / "snapshots"
FIXTURES = [file for file in sorted((HERE.parent / "fixtures").rglob("*.py")) if shares.runs(file.name, 4)]
Write = Callable[..., Path]

SOURCE = "import torch\n\n\ndef fit(net):\n    '𝄞'; net.to('cuda'); bad(net)\n"
PLAIN = Finding(
    code="DPL301",
    name="bad-call",
    severity=Severity.ERROR,
    message="`bad()` is called: 100% wrong,\nand on two lines <&>",
    path="src/train it, 1:2.py",
    range=Range(5, 26, 5, 34),
    trace=(Step("src/train it, 1:2.py", Range(5, 10, 5, 24), "moved here"),),
    fix=Fix(Applicability.SAFE, "call `good` instead", (Edit(Range(5, 26, 5, 29), "good"),)),
    anchor=Anchor("fit", "'𝄞'; net.to('cuda'); bad(net)"),
)
LONG = Finding(
    code="DPL302",
    name="worse-call",
    severity=Severity.WARNING,
    message="`worse()` is called",
    path="src/train it, 1:2.py",
    range=Range(1, 1, 4, 5),
    verdict=Verdict(Level.PATTERN, Outcome.REPRODUCED, "2 simulated GPUs", "an error; repaired: no error", "an error"),
    anchor=Anchor("", "import torch"),
)
IN_CELL = Finding(
    code="DPL501",
    name="advice-call",
    severity=Severity.INFO,
    message="`advice()` is called",
    path="work.ipynb",
    range=Range(2, 1, 2, 9),
    trace=(Step("work.ipynb", Range(1, 1, 1, 7), "imported here", cell=1),),
    verdict=Verdict(Level.REPLAY, Outcome.CONFIRMED, "2 simulated GPUs", "slice of 2 lines: an error", "an error"),
    cell=3,
    anchor=Anchor("", "advice()"),
)
NOTEBOOK = {
    "cells": [
        {"cell_type": "code", "source": ["import torch"]},
        {"cell_type": "markdown", "source": "text"},
        {"cell_type": "code", "source": "x = 1\nadvice()"},
    ]
}
RUN = Run(
    findings=(PLAIN, LONG, replace(LONG, range=Range(7, 1, 7, 2)), IN_CELL),
    crashes=(Crash("odd.py", "DPL302 (worse-call)", "KeyError: '\x1b'", "there.py:1"),),
    summary=Summary(files=4, skipped=1, seconds=0.5),
    paths=("clean.py", "odd.py", "src/train it, 1:2.py", "work.ipynb"),
    known=(replace(PLAIN, range=Range(9, 1, 9, 2)),),
)


@pytest.fixture
def sources(write: Write) -> None:
    write(PLAIN.path, SOURCE)
    write(IN_CELL.path, json.dumps(NOTEBOOK))


def rendered(form: str, run: Run = RUN) -> str:
    stream = io.StringIO()
    render(form, run, stream)
    return stream.getvalue()


@pytest.mark.usefixtures("fake_rules", "sources")
@pytest.mark.parametrize("form", FORMATS)
def test_snapshots(form: str, project: Path) -> None:
    """Run with UPDATE_SNAPSHOTS=1 after an intended change."""
    text = rendered(form).replace(project.as_uri(), "file:///project").replace(f'"{__version__}"', '"VERSION"')
    snapshot = SNAPSHOTS / f"{form}.txt"
    if os.environ.get("UPDATE_SNAPSHOTS"):
        snapshot.write_text(text, encoding="utf-8")
    assert text == snapshot.read_text(encoding="utf-8")


@pytest.mark.parametrize("form", FORMATS)
def test_without_findings(form: str) -> None:
    text = rendered(form, Run((), (), Summary(0, 0, 0.0)))
    assert bool(text) == (form not in {"github", "lsp"})


@pytest.fixture(scope="module")
def schema() -> Any:
    jsonschema = pytest.importorskip("jsonschema")
    text = (HERE / "schemas" / "sarif-2.1.0.json").read_text(encoding="utf-8")
    return jsonschema.Draft4Validator(json.loads(text))


@pytest.fixture(scope="module")
def run_of_fixtures() -> Run:
    return check_files(Selection(files=FIXTURES), Job(Settings(select=("ALL",))), jobs=1)


@pytest.fixture(scope="module")
def of_fixtures(run_of_fixtures: Run) -> str:
    return rendered("sarif", run_of_fixtures)


class TestSarif:
    @pytest.mark.usefixtures("fake_rules")
    def test_the_schema_accepts_it(self, schema: Any) -> None:
        assert [error.message for error in schema.iter_errors(json.loads(rendered("sarif")))] == []

    def test_the_schema_accepts_fixtures(self, schema: Any, of_fixtures: str) -> None:
        assert [error.message for error in schema.iter_errors(json.loads(of_fixtures))] == []

    def test_another_program_reads_it(self, of_fixtures: str, tmp_path: Path) -> None:
        loader = pytest.importorskip("sarif.loader")
        file = tmp_path / "report.sarif"
        file.write_text(of_fixtures, encoding="utf-8")
        (run,) = loader.load_sarif_file(str(file)).runs
        assert run.get_tool_name() == "placement-lint"
        first = run.get_records()[0]
        results = run.get_results()
        assert len(results) > 100
        assert (first["Severity"], first["Code"].split()[0]) == (results[0]["level"], results[0]["ruleId"])
        assert first["Location"].endswith(".py")
        assert first["Line"] == results[0]["locations"][0]["physicalLocation"]["region"]["startLine"]

    def test_what_code_scanning_insists_on(self, of_fixtures: str) -> None:
        (run,) = json.loads(of_fixtures)["runs"]
        rules = run["tool"]["driver"]["rules"]
        assert all(rule["help"]["markdown"].startswith(f"# {rule['name']}") for rule in rules)
        marks = set()
        for result in run["results"]:
            assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
            (location,) = result["locations"]
            uri = location["physicalLocation"]["artifactLocation"]["uri"]
            assert not uri.startswith(("/", "."))
            marks.add((uri, result["partialFingerprints"]["primaryLocationLineHash"]))
        assert len(marks) == len(run["results"])

    def test_a_file_elsewhere_has_an_absolute_address(self) -> None:
        run = replace(RUN, findings=(replace(PLAIN, path="../elsewhere.py"),))
        result = json.loads(rendered("sarif", run))["runs"][0]["results"][0]
        artifact = result["locations"][0]["physicalLocation"]["artifactLocation"]
        assert artifact["uri"].startswith("file:///")
        assert "uriBaseId" not in artifact


def test_fingerprints_are_unique_and_outlive_moved_lines() -> None:
    twice = [PLAIN, replace(PLAIN, range=Range(8, 1, 8, 2)), LONG]
    moved = [replace(finding, range=Range(90, 1, 90, 2), message="another line 90") for finding in twice]
    marks = [(mark, number) for _, mark, number in fingerprints(twice)]
    assert len(set(marks)) == 3
    assert marks == [(mark, number) for _, mark, number in fingerprints(moved)]


def test_github_reads_back_what_was_meant() -> None:
    """The output follows the grammar of GitHub's runner: a command, its properties and its message, with escapes."""
    line = rendered("github", RUN).splitlines()[0]
    command = re.fullmatch(r"::(?P<name>[^ :]+) (?P<properties>[^:]*)::(?P<message>.*)", line)
    assert command
    assert command["name"] == "error"
    properties = dict(part.split("=", 1) for part in command["properties"].split(","))
    assert unescaped(properties["file"]) == PLAIN.path
    assert (properties["line"], properties["col"], properties["endColumn"]) == ("5", "26", "34")
    assert PLAIN.message in unescaped(command["message"])
    assert "1. src/train it, 1:2.py:5  moved here" in unescaped(command["message"])


def unescaped(text: str) -> str:
    for escape, character in (("%0D", "\r"), ("%0A", "\n"), ("%3A", ":"), ("%2C", ","), ("%25", "%")):
        text = text.replace(escape, character)
    return text


def test_gitlab_has_what_a_code_quality_report_needs() -> None:
    issues = json.loads(rendered("gitlab"))
    assert len({issue["fingerprint"] for issue in issues}) == len(issues) == 4
    for issue in issues:
        assert issue["severity"] in {"info", "minor", "major", "critical", "blocker"}
        assert issue["location"]["lines"]["begin"] >= 1
        assert issue.keys() >= {"description", "check_name"}


def test_gitlab_says_what_another_program_makes_of_the_sarif(
    run_of_fixtures: Run, of_fixtures: str, tmp_path: Path
) -> None:
    converter = pytest.importorskip("sarif.operations.codeclimate_op")
    loader = pytest.importorskip("sarif.loader")
    (tmp_path / "report.sarif").write_text(of_fixtures, encoding="utf-8")
    converter.generate(loader.load_sarif_files(str(tmp_path / "report.sarif")), str(tmp_path / "report.json"), False)
    theirs = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    ours = json.loads(rendered("gitlab", run_of_fixtures))
    assert places_of(ours) == places_of(theirs)


def places_of(issues: list[dict[str, Any]]) -> Counter[tuple[str, int]]:
    places = [issue["location"] for issue in issues]
    return Counter((os.path.relpath(place["path"]), place["lines"]["begin"]) for place in places)


def test_junit_is_read_by_another_program() -> None:
    junitparser = pytest.importorskip("junitparser")
    suites = junitparser.JUnitXml.fromstring(rendered("junit").partition("?>")[2])
    assert (suites.tests, suites.failures, suites.errors) == (6, 4, 1)
    by_name = {suite.name: list(suite) for suite in suites}
    (clean,) = by_name["clean.py"]
    assert clean.is_passed
    failed = by_name[PLAIN.path][0]
    assert failed.result[0].message == PLAIN.message
    assert "moved here" in failed.result[0].text


@pytest.mark.usefixtures("sources")
def test_lsp_counts_as_the_protocol_does(project: Path) -> None:
    files = [json.loads(line) for line in rendered("lsp").splitlines()]
    assert [Path(file["uri"]).name for file in files] == [
        "clean.py",
        "odd.py",
        "train%20it%2C%201%3A2.py",
        "work.ipynb",
    ]
    diagnostic = files[2]["diagnostics"][0]
    assert diagnostic["range"] == {"start": {"line": 4, "character": 26}, "end": {"line": 4, "character": 34}}
    assert (diagnostic["severity"], diagnostic["code"]) == (1, "DPL301")
    assert diagnostic["relatedInformation"][0]["message"] == "moved here"
    assert diagnostic["data"]["fix"]["edits"][0]["text"] == "good"
