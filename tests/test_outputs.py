"""Several reports of one run, and their destinations."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from placement_lint.cli import main

Write = Callable[..., Path]
Capture = pytest.CaptureFixture[str]

pytestmark = pytest.mark.usefixtures("fake_rules")


@pytest.fixture(autouse=True)
def source(write: Write) -> None:
    write("a.py", "import torch\nbad()\n")


def test_several_at_once(project: Path, capsys: Capture) -> None:
    formats = ["--format", "concise", "--format", "json:a b.json", "--output-format", "github:out.txt"]
    assert main(["check", *formats]) == 1
    assert capsys.readouterr().out.startswith("a.py:2:1: DPL301")
    assert len(json.loads((project / "a b.json").read_text())["findings"]) == 1
    assert (project / "out.txt").read_text().startswith("::error")


def test_a_file_alone_leaves_standard_output_empty(project: Path, capsys: Capture) -> None:
    assert main(["check", "--format", "sarif:report.sarif"]) == 1
    assert capsys.readouterr().out == ""
    assert json.loads((project / "report.sarif").read_text())["version"] == "2.1.0"


def test_output_is_the_file_of_those_without_one(project: Path) -> None:
    assert main(["check", "--format", "json:a.json", "--format", "concise", "--output-file", "b.txt"]) == 1
    assert (project / "b.txt").read_text().startswith("a.py:2:1")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--format", "json", "--format", "full"], "2 formats would be written to standard output"),
        (["--format", "json:x", "--format", "full:x"], "2 formats would be written to x"),
        (["--format", "jsn:x"], "'jsn' is not one of full, concise"),
    ],
)
def test_one_place_for_each(capsys: Capture, arguments: list[str], words: str) -> None:
    assert main(["check", *arguments]) == 2
    assert words in capsys.readouterr().err
