"""A run in shards, and the merged report."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from placement_lint import __version__
from placement_lint.cli import main
from placement_lint.project.files import Selection
from placement_lint.report.results import Checked, Job
from placement_lint.run.engine import check_files
from placement_lint.run.plain import plain, typed

Write = Callable[..., Path]
BAD = "import torch\nx = torch.zeros(3)\nx.to('cuda')\nprint(x)\n"
HELPERS = "def place(x):\n    return x.to('cuda:0')  # placement-lint: ignore[operand-not-moved]\n"
TRAIN = "import torch\nfrom pkg.helpers import place\nx = torch.zeros(3, device='cuda:1')\nprint(place(x) + x)\n"


@pytest.fixture
def files(write: Write) -> list[Path]:
    write("pkg/__init__.py", ""), write("pkg/helpers.py", HELPERS)
    return [write("train.py", TRAIN), write("broken.py", "def f(:\n"), *(write(f"{n}.py", BAD) for n in range(8))]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    def command(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        status = main(list(arguments))
        out, err = capsys.readouterr()
        return status, out, err

    return command


RunCommand = Callable[..., tuple[int, str, str]]
CHECK = ("check", "--no-cache", "--jobs", "1")


def without_time(report: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(report)
    del content["summary"]["seconds"]
    return content


@pytest.mark.usefixtures("files")
def test_merged_shards_report_what_one_run_does(run: RunCommand) -> None:
    for number in (1, 2, 3):
        assert run(*CHECK, "--shard", f"{number}/3", "--format", f"part:{number}.part")[0] == 1
    status, merged, _ = run("merge", "1.part", "2.part", "3.part", "--format", "json")
    whole = run(*CHECK, "--format", "json")
    assert (status, without_time(merged)) == (whole[0], without_time(whole[1]))
    assert len(without_time(merged)["findings"]) > 8
    for form in ("sarif", "gitlab", "concise"):
        again, once = run("merge", "1.part", "2.part", "3.part", "--format", form), run(*CHECK, "--format", form)
        assert _timeless(again[1]) == _timeless(once[1])


def _timeless(report: str) -> str:
    return "\n".join(line for line in report.splitlines() if " checked, " not in line)


@pytest.mark.usefixtures("files")
def test_every_file_is_in_one_shard_and_stays_there(run: RunCommand, write: Write) -> None:
    def shards() -> Iterator[set[str]]:
        for number in (1, 2, 3):
            run(*CHECK, "--shard", f"{number}/3", "--format", "part:it.part")
            results = json.loads(Path("it.part").read_text())["results"]["."]
            yield {result["path"] for result in results}

    before = list(shards())
    assert sum(map(len, before)) == len(set().union(*before)) == 12
    write("another.py", BAD)
    assert all(old <= new for old, new in zip(before, shards(), strict=True))


@pytest.mark.usefixtures("files")
def test_a_missing_part(run: RunCommand) -> None:
    run(*CHECK, "--shard", "1/3", "--format", "part:1.part")
    status, _, said = run("merge", "1.part")
    assert (status, said) == (2, "placement-lint: error: of 3 shards these are missing: 2, 3\n")


MADE_UP = json.dumps({"part": [1, 1], "tool": __version__, "results": {".": [{"a": 1}]}})


@pytest.mark.parametrize("content", ["", "[]", "{}", MADE_UP])
def test_a_file_that_is_no_part(run: RunCommand, write: Write, content: str) -> None:
    write("odd.part", content)
    status, _, said = run("merge", "odd.part")
    assert status == 2
    assert "odd.part was not written by `check --shard … --format part`" in said


@pytest.mark.parametrize("shard", ["0/2", "3/2", "2", "a/b", "1/2/3", "-1/2"])
def test_an_impossible_shard(run: RunCommand, write: Write, shard: str) -> None:
    write("a.py", BAD)
    status, _, said = run(*CHECK, "--shard", shard)
    assert status == 2
    assert "is not one of 1/N to N/N" in said


def test_results_survive_being_written_down(files: list[Path], job: Job) -> None:
    parts = check_files(Selection(files), job, 1).results.values()
    results = [replace(checked, reads=(), absent=()) for part in parts for checked in part]
    assert any(checked.findings for checked in results)
    assert [typed(Checked, json.loads(json.dumps(plain(checked)))) for checked in results] == results
