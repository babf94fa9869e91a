"""A baseline lists old findings, and only new ones are reported."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from placement_lint.cli import main

Write = Callable[..., Path]
Capture = pytest.CaptureFixture[str]

OLD = "import torch\n\ndef fit(x):\n    bad(x)\n    bad(x)\n\nclass A:\n    def fit(self):\n        bad(self)\n"


@pytest.fixture(autouse=True)
def baseline(fake_rules: object, write: Write, project: Path, capsys: Capture) -> Path:
    write("pkg/a.py", OLD)
    assert main(["check", "--write-baseline", "known.json"]) == 0
    assert "no findings, 3 suppressed by the baseline" in capsys.readouterr().out
    return project / "known.json"


def test_it_names_what_does_not_move(baseline: Path) -> None:
    assert json.loads(baseline.read_text()) == {
        "version": 1,
        "findings": [
            {"path": "pkg/a.py", "rule": "DPL301", "function": "A.fit", "line": "bad(self)", "count": 1},
            {"path": "pkg/a.py", "rule": "DPL301", "function": "fit", "line": "bad(x)", "count": 2},
        ],
    }


def test_known_findings_do_not_fail(capsys: Capture) -> None:
    assert main(["check", "--baseline", "known.json"]) == 0
    assert "1 file checked, no findings, 3 suppressed by the baseline" in capsys.readouterr().out


def test_they_are_known_after_lines_have_moved(write: Write, capsys: Capture) -> None:
    write("pkg/a.py", "# new\n" * 20 + OLD.replace("    bad(x)\n", "\n\n    bad(x)  \n", 1))
    assert main(["check", "--baseline", "known.json"]) == 0


def test_new_ones_fail(write: Write, capsys: Capture) -> None:
    write("pkg/a.py", OLD + "\ndef other(x):\n    bad(x)\n")
    assert main(["check", "--baseline", "known.json", "--format", "concise"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("pkg/a.py:12:5")
    assert "1 finding (1 error), 3 suppressed" in lines[-1]


def test_one_more_of_the_same_fails(write: Write) -> None:
    write("pkg/a.py", OLD.replace("    bad(x)\n", "    bad(x)\n    bad(x)\n", 1))
    assert main(["check", "--baseline", "known.json"]) == 1


def test_writing_again_changes_nothing(baseline: Path) -> None:
    before = baseline.read_bytes()
    assert main(["check", "--write-baseline", "known.json", "--baseline", "known.json"]) == 0
    assert baseline.read_bytes() == before


def test_entries_that_no_longer_occur(write: Write, capsys: Capture) -> None:
    write("pkg/a.py", OLD.replace("bad(self)", "good(self)"))
    assert main(["check", "--baseline", "known.json"]) == 0
    said = capsys.readouterr().err
    assert "known.json: 1 entry no longer occurs; update it with --write-baseline" in said
    assert "DPL301 in pkg/a.py: bad(self)" in said


def test_entries_of_a_file_that_is_gone(write: Write, project: Path, capsys: Capture) -> None:
    write("b.py")
    (project / "pkg/a.py").unlink()
    assert main(["check", "b.py", "--baseline", "known.json"]) == 0
    assert "2 entries no longer occur" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["b.py"], ["--select", "moves"], ["--ignore", "bad-call"]])
def test_what_was_not_looked_for_is_not_called_gone(write: Write, capsys: Capture, arguments: list[str]) -> None:
    write("b.py")
    assert main(["check", "--baseline", "known.json", *arguments]) == 0
    assert capsys.readouterr().err == ""


def test_from_another_folder(project: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project / "pkg")
    assert main(["check", "a.py", "--baseline", "../known.json"]) == 0


def test_configured(write: Write, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write("placement-lint.toml", "baseline = 'known.json'\n")
    monkeypatch.chdir(project / "pkg")
    assert main(["check"]) == 0
    assert main(["check", "--isolated"]) == 1


def test_it_shows_in_the_formats(capsys: Capture) -> None:
    main(["check", "--baseline", "known.json", "--format", "json"])
    report = json.loads(capsys.readouterr().out)
    assert (report["findings"], report["summary"]["known"]) == ([], 3)
    main(["check", "--baseline", "known.json", "--format", "sarif"])
    results = json.loads(capsys.readouterr().out)["runs"][0]["results"]
    assert [bool(result["suppressions"]) for result in results] == [True] * 3


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "cannot read the baseline"),
        ("", "is no baseline"),
        ("[]", "is no baseline of version 1"),
        ('{"version": 2}', "is no baseline of version 1"),
        ('{"version": 1}', "its entries are not as"),
        ('{"version": 1, "findings": [{"path": "a"}]}', "its entries are not as"),
    ],
)
def test_what_is_no_baseline(write: Write, capsys: Capture, text: str | None, words: str) -> None:
    if text is not None:
        write("bad.json", text)
    assert main(["check", "--baseline", "bad.json"]) == 2
    assert words in capsys.readouterr().err


def test_a_place_that_cannot_be_written(capsys: Capture) -> None:
    assert main(["check", "--write-baseline", "no/such/folder.json"]) == 2
    assert "cannot write no/such/folder.json" in capsys.readouterr().err
