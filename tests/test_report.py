"""The report formats, on findings constructed by hand."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from rich.cells import cell_len

from placement_lint.finding import (
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
from placement_lint.report import concise, full, statistics
from placement_lint.report import json as json_report
from placement_lint.report.results import Checked, Run, Summary

Write = Callable[..., Path]
ANSI = re.compile(r"\x1b\[[0-9;]*m")

SOURCE = """\
import torch

def train(net):
\tif True:
\t\topt = torch.optim.SGD(net.parameters(), lr=0.1)
\t\tnet.fc = torch.nn.Linear(
\t\t\t2,
\t\t\t3,
\t\t)
"""
FINDING = Finding(
    code="DPL205",
    name="optimizer-stale-after-replacement",
    severity=Severity.ERROR,
    message="`opt` holds the parameters that `net.fc` had before line 6, so the new layer is never trained",
    path="train.py",
    range=Range(6, 3, 9, 4),
    trace=(Step("train.py", Range(5, 3, 5, 50), "`opt` is built here"),),
    fix=Fix(Applicability.UNSAFE, "build the optimizer after the layer", (Edit(Range(5, 3, 5, 50), ""),)),
)
ADVICE = Finding("DPL504", "factory-without-device", Severity.INFO, "two\nlines", "a.py", Range(1, 1, 1, 2))


def a_run(*findings: Finding, skipped: int = 0) -> Run:
    return Run(findings, (), Summary(files=12, skipped=skipped, seconds=0.42))


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def rendered(run: Run, stream: io.StringIO, texts: dict[str, bytes] | None = None) -> str:
    full.render(replace(run, texts=texts or {}), stream)
    return stream.getvalue()


def test_concise() -> None:
    stream = io.StringIO()
    concise.render(a_run(ADVICE, FINDING, skipped=2), stream)
    assert stream.getvalue().splitlines() == [
        "a.py:1:1: DPL504 info: two lines",
        f"train.py:6:3: DPL205 error: {FINDING.message}",
        "1 fixable with `--fix --unsafe-fixes`",
        "12 files checked, 2 skipped, 2 findings (1 error, 1 info) in 0.4 s",
    ]


@pytest.mark.parametrize(
    ("findings", "line"),
    [
        ((), "12 files checked, no findings in 0.4 s"),
        ((ADVICE,), "12 files checked, 1 finding (1 info) in 0.4 s"),
        ((ADVICE, ADVICE, FINDING), "12 files checked, 3 findings (1 error, 2 infos) in 0.4 s"),
    ],
)
def test_the_last_line(findings: tuple[Finding, ...], line: str) -> None:
    stream = io.StringIO()
    concise.render(a_run(*findings), stream)
    assert stream.getvalue().splitlines()[-1] == line


def test_statistics() -> None:
    stream = io.StringIO()
    statistics.as_text(a_run(FINDING, *[ADVICE] * 12), stream)
    assert stream.getvalue().splitlines()[:3] == [
        "12\tDPL504\t[ ] factory-without-device",
        " 1\tDPL205\t[-] optimizer-stale-after-replacement",
        "[-] some have an unsafe fix",
    ]


def test_statistics_say_what_was_not_analysed() -> None:
    results = [
        Checked(f"{name}.py", refused=refused)
        for name, refused in zip("abcdefg", (3, 0, 1, 1200, 2, 1, 1), strict=True)
    ]
    stream = io.StringIO()
    statistics.as_text(replace(a_run(), results={"": tuple(results)}), stream)
    assert stream.getvalue().splitlines()[0] == (
        "not analysed for lack of budget: 1,208 calls in d.py (1,200), a.py (3), e.py (2), c.py (1), f.py (1), "
        "and 1 other file"
    )


def test_statistics_for_programs() -> None:
    stream = io.StringIO()
    statistics.as_json(a_run(FINDING, ADVICE, ADVICE), stream)
    assert json.loads(stream.getvalue()) == [
        {"code": "DPL504", "name": "factory-without-device", "count": 2, "fixable": False},
        {"code": "DPL205", "name": "optimizer-stale-after-replacement", "count": 1, "fixable": False},
    ]


@pytest.mark.parametrize(("level", "outcome"), [(Level.PATTERN, Outcome.CONFIRMED), (Level.REPLAY, Outcome.REPRODUCED)])
def test_confirmed_is_never_said_of_a_pattern(level: Level, outcome: Outcome) -> None:
    with pytest.raises(ValueError, match=f"a {level.value} is never {outcome.value}"):
        Verdict(level, outcome, "2 simulated GPUs", "an error", "an error")


def test_json_is_exactly_the_promised_object() -> None:
    verdict = Verdict(Level.REPLAY, Outcome.CONFIRMED, "2 simulated GPUs", "no change", "a change")
    proved = Finding(**{**vars(FINDING), "verdict": verdict, "cell": 3})
    stream = io.StringIO()
    json_report.render(a_run(ADVICE, proved, skipped=1), stream)
    assert json.loads(stream.getvalue()) == {
        "version": 1,
        "findings": [
            {
                "code": "DPL504",
                "name": "factory-without-device",
                "severity": "info",
                "message": "two\nlines",
                "path": "a.py",
                "line": 1,
                "column": 1,
                "end_line": 1,
                "end_column": 2,
                "cell": None,
                "trace": [],
                "fix": None,
                "verdict": None,
            },
            {
                "code": "DPL205",
                "name": "optimizer-stale-after-replacement",
                "severity": "error",
                "message": FINDING.message,
                "path": "train.py",
                "line": 6,
                "column": 3,
                "end_line": 9,
                "end_column": 4,
                "cell": 3,
                "trace": [{"path": "train.py", "line": 5, "column": 3, "message": "`opt` is built here"}],
                "fix": {
                    "applicability": "unsafe",
                    "message": "build the optimizer after the layer",
                    "edits": [{"line": 5, "column": 3, "end_line": 5, "end_column": 50, "text": ""}],
                },
                "verdict": {
                    "level": "replay",
                    "outcome": "confirmed",
                    "device": "2 simulated GPUs",
                    "observed": "no change",
                    "expected": "a change",
                },
            },
        ],
        "summary": {"files": 12, "skipped": 1, "seconds": 0.42, "cached": 0},
    }


def test_full_piped(write: Write) -> None:
    write("train.py", SOURCE)
    assert rendered(a_run(FINDING), io.StringIO()).splitlines() == [
        "error DPL205 optimizer-stale-after-replacement  train.py:6:3",
        f"  {FINDING.message}",
        "    5 │ opt = torch.optim.SGD(net.parameters(), lr=0.1)",
        "    6 │ net.fc = torch.nn.Linear(",
        "      │ ^^^^^^^^^^^^^^^^^^^^^^^^^",
        "    7 │     2,",
        "    8 │     3,",
        "    9 │ )",
        "  1. train.py:5  `opt` is built here",
        "     opt = torch.optim.SGD(net.parameters(), lr=0.1)",
        "  fix: build the optimizer after the layer",
        "",
        "1 fixable with `--fix --unsafe-fixes`",
        "12 files checked, 1 finding (1 error) in 0.4 s",
    ]


@pytest.mark.parametrize("width", [80, 120])
def test_full_fits_a_terminal(write: Write, monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("NO_COLOR", "1")
    long = "x = '" + "a" * 200 + "' + (bad) + '" + "b" * 200 + "'\n"
    write("train.py", SOURCE)
    write("long.py", long)
    far = Finding("DPL301", "n", Severity.WARNING, "far right", "long.py", Range(1, 211, 1, 214))
    lines = ANSI.sub("", rendered(a_run(FINDING, far), Terminal())).splitlines()
    assert [line for line in lines if cell_len(line.rstrip()) > width] == []
    underlined = next(number for number, line in enumerate(lines) if "(bad)" in line)
    assert lines[underlined + 1].index("^^^") == lines[underlined].index("bad")


def test_colour_only_on_a_terminal_that_wants_it(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    write("train.py", SOURCE)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    assert "\x1b[1;31merror" in rendered(a_run(FINDING), Terminal())
    assert "\x1b" not in rendered(a_run(FINDING), io.StringIO())
    monkeypatch.setenv("NO_COLOR", "1")
    assert "31m" not in rendered(a_run(FINDING), Terminal())


def test_full_never_lets_source_text_command_the_terminal(write: Write) -> None:
    write("a.py", "x = '\x1b[31m'  # [bold]no markup[/bold] :smile:\n")
    text = rendered(a_run(ADVICE), io.StringIO())
    assert "\x1b" not in text
    assert "[bold]no markup[/bold] :smile:" in text


def test_full_counts_wide_characters_and_tabs(write: Write) -> None:
    write("a.py", "s =\t'日本'; bad()\n")
    place = Range(1, 11, 1, 16)
    lines = rendered(a_run(Finding("DPL301", "n", Severity.ERROR, "m", "a.py", place)), io.StringIO()).splitlines()
    before = lines[2][: lines[2].index("bad()")]
    assert lines[3].rstrip().endswith("^^^^^")
    assert lines[3].index("^") == cell_len(before)


def test_full_takes_given_texts_and_does_without_vanished_files(project: Path) -> None:
    given = Finding("DPL301", "n", Severity.ERROR, "m", "<stdin>", Range(1, 1, 1, 2))
    assert "1 │ abc = 1" in rendered(a_run(given), io.StringIO(), {"<stdin>": b"abc = 1\n"})
    assert rendered(a_run(FINDING), io.StringIO()).startswith("error DPL205")
