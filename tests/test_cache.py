"""Results of earlier runs are reused as long as nothing that they depend on has changed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from placement_lint.checking.checker import Checker
from placement_lint.cli import main
from placement_lint.run import cache

Write = Callable[..., Path]
LONG_AGO = 1_000_000_000
BAD = "import torch\nx = torch.zeros(3)\nx.to('cuda')\nprint(x)\n"
GOOD = BAD.replace("x.to", "x = x.to")


pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.fixture
def old(write: Write) -> Write:
    """Write a file with an old modification time."""

    def write_old(name: str, content: str) -> Path:
        path = write(name, content)
        os.utime(path, (LONG_AGO, LONG_AGO))
        return path

    return write_old


@pytest.fixture
def check(capsys: pytest.CaptureFixture[str]) -> Callable[..., dict[str, Any]]:
    def run(*arguments: str) -> dict[str, Any]:
        capsys.readouterr()
        main(["check", "--format", "json", "--jobs", "1", *arguments])
        found: dict[str, Any] = json.loads(capsys.readouterr().out)
        del found["summary"]["seconds"]
        return found

    return run


Check = Callable[..., dict[str, Any]]


def codes(found: dict[str, Any]) -> list[str]:
    return [finding["code"] for finding in found["findings"]]


def test_a_second_run_finds_the_same_without_looking(old: Write, check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    old("a.py", BAD), old("b.py", "import torch\n")
    first = check()
    assert (codes(first), first["summary"]["cached"]) == (["DPL501"], 0)
    monkeypatch.setattr(Checker, "check_file", lambda self, path: pytest.fail(f"{path} was checked again"))
    second = check()
    assert second["summary"].pop("cached") == 2
    assert first["summary"].pop("cached") == 0
    assert first == second


def test_only_what_changed_is_looked_at(old: Write, check: Check) -> None:
    old("a.py", BAD), old("b.py", BAD)
    check()
    old("a.py", GOOD)
    again = check()
    assert [finding["path"] for finding in again["findings"]] == ["b.py"]
    assert again["summary"]["cached"] == 1


def test_a_change_that_size_and_time_do_not_show_yet(write: Write, check: Check) -> None:
    file = write("a.py", BAD)
    check()
    status = file.stat()
    write("a.py", BAD.replace("x.to", "y=x#"))
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert file.stat().st_size == status.st_size
    assert not check()["findings"]


def test_a_file_that_was_touched_is_the_same_if_its_content_is(old: Write, check: Check) -> None:
    file = old("a.py", BAD)
    check()
    os.utime(file)
    assert check()["summary"]["cached"] == 1


class TestFilesThatHangOnOthers:
    MODEL = "import torch\nfrom torch import nn\n\n\ndef place(x):\n    return x\n"
    MOVING = MODEL.replace("return x", "return x.to('cuda:0')")
    TRAIN = """\
import torch
from helpers import place

x = place(torch.zeros(3, device="cuda:1"))
print(x + torch.zeros(3, device="cuda:1"))
"""

    def test_an_import_that_changes(self, old: Write, check: Check) -> None:
        old("helpers.py", self.MODEL), old("train.py", self.TRAIN)
        assert codes(check()) == []
        assert check()["summary"]["cached"] == 2
        old("helpers.py", self.MOVING)
        changed = check()
        assert changed["summary"]["cached"] == 0
        assert codes(changed) == ["DPL503"]

    @pytest.mark.parametrize(
        "edit",
        [
            "# A comment moves all lines.\n{}",
            "{}\n\ndef place_all(xs):\n    return [place(x) for x in xs]\n",
            "import os\n{}",
            "{}\ncount = 3\n",
        ],
    )
    def test_a_change_that_says_nothing_to_who_imports_it(self, old: Write, check: Check, edit: str) -> None:
        old("helpers.py", self.MODEL), old("train.py", self.TRAIN)
        assert codes(check()) == []
        old("helpers.py", edit.format(self.MODEL))
        for cached in (1, 2):
            again = check()
            assert (codes(again), again["summary"]["cached"]) == ([], cached)
        old("helpers.py", edit.format(self.MOVING))
        assert codes(check()) == ["DPL503"]

    def test_a_body_that_still_does_nothing_to_tensors(self, old: Write, check: Check) -> None:
        body = "def clean(x):\n    return {}\n"
        old("helpers.py", body.format("x.strip()"))
        old("names.py", "import torch\nfrom helpers import clean\n\ndef named(x):\n    return clean(x)\n")
        check()
        for text, cached in (("x.strip().lower()", 1), ("x.cuda()", 0)):
            old("helpers.py", body.format(text))
            assert check()["summary"]["cached"] == cached

    def test_a_comment_that_moves_what_is_told_of(self, old: Write, check: Check) -> None:
        old("helpers.py", self.MOVING), old("train.py", self.TRAIN)
        (before,) = check()["findings"]
        old("helpers.py", f"# A comment moves all lines.\n{self.MOVING}")
        (after,) = check()["findings"]
        assert before != after
        assert [after] == check("--no-cache")["findings"]

    def test_an_import_that_comes_and_goes(self, old: Write, check: Check) -> None:
        old("train.py", self.TRAIN)
        assert codes(check()) == []
        helper = old("helpers.py", self.MOVING)
        assert codes(check()) == ["DPL503"]
        helper.unlink()
        assert codes(check()) == []


def test_other_rules_and_other_settings_are_other_runs(old: Write, check: Check, write: Write) -> None:
    old("a.py", BAD)
    assert codes(check()) == ["DPL501"]
    assert codes(check("--select", "DPL3")) == []
    write("placement-lint.toml", "ignore = ['DPL501']\n")
    assert codes(check()) == []
    write("placement-lint.toml", "")
    assert codes(check()) == ["DPL501"]


def test_no_cache_neither_reads_nor_writes(old: Write, check: Check) -> None:
    old("a.py", BAD)
    check("--no-cache")
    assert not cache.folder().exists()
    check()
    assert check("--no-cache")["summary"]["cached"] == 0


def test_another_version_of_a_rule_is_another_run(
    old: Write, check: Check, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    rules = tmp_path_factory.mktemp("rules")
    (rules / "third_party.py").write_text("RULES = ()\n")
    sources = cache._installation()[1]
    monkeypatch.setattr("placement_lint.registry.rule_sources", lambda: (*sources, str(rules)))
    old("a.py", BAD)
    check()
    assert check()["summary"]["cached"] == 1
    (rules / "third_party.py").write_text("RULES = (1,)\n")
    assert check()["summary"]["cached"] == 0


@pytest.mark.parametrize("damage", [lambda data: b"", lambda data: data[:-7], lambda data: b"x" + data[1:]])
def test_a_damaged_file_is_passed_over_and_replaced(old: Write, check: Check, damage: Callable[[bytes], bytes]) -> None:
    old("a.py", BAD)
    check()
    (file,) = cache.folder().iterdir()
    file.write_bytes(damage(file.read_bytes()))
    again = check()
    assert (codes(again), again["summary"]["cached"]) == (["DPL501"], 0)
    assert check()["summary"]["cached"] == 1


def test_a_folder_that_cannot_be_written_is_said_once(
    old: Write, check: Check, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], project: Path
) -> None:
    old("a.py", BAD), old("deep/a.py", BAD), old("deep/placement-lint.toml", "")
    (project / "file").write_text("")
    monkeypatch.setattr(cache, "folder", lambda: project / "file" / "cache")
    assert main(["check", "--format", "concise"]) == 1
    said = capsys.readouterr()
    assert said.out.count("DPL501") == 2
    assert said.err.count("nothing can be kept in") == 1


def test_a_crash_is_not_kept(old: Write, check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    old("a.py", BAD)
    with monkeypatch.context() as broken:
        broken.setattr("placement_lint.flow.driver.analyse.statements.execute_all", lambda *_: 1 / 0)
        assert main(["check", "--jobs", "1"]) == 2
    assert codes(check()) == ["DPL501"]


def test_what_was_not_used_the_longest_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "MOST_BYTES", 250)
    cache.folder().mkdir(parents=True)
    for age in range(4):
        file = cache.folder() / f"{age}{cache.SUFFIX}"
        file.write_bytes(b"x" * 100)
        os.utime(file, (time.time() - age, time.time() - age))
    cache._prune(cache.folder())
    assert sorted(file.name for file in cache.folder().iterdir()) == [f"0{cache.SUFFIX}", f"1{cache.SUFFIX}"]


def test_the_commands(old: Write, check: Check, capsys: pytest.CaptureFixture[str]) -> None:
    old("a.py", BAD)
    check()
    assert main(["cache", "dir"]) == 0
    assert capsys.readouterr().out.strip() == str(cache.folder())
    assert main(["cache", "clear"]) == 0
    assert capsys.readouterr().out == f"removed 1 file from {cache.folder()}\n"
    assert check()["summary"]["cached"] == 0


def test_runs_at_the_same_time_leave_a_whole_file(old: Write, project: Path) -> None:
    for number in range(4):
        old(f"{number}.py", BAD)
    command = [sys.executable, "-m", "placement_lint", "check", "--format", "json"]
    runs = [subprocess.Popen(command, stdout=subprocess.PIPE, cwd=project) for _ in range(3)]
    found = [json.loads(run.communicate()[0])["findings"] for run in runs]
    assert all(one == found[0] and len(one) == 4 for one in found)
    last = json.loads(subprocess.run(command, stdout=subprocess.PIPE, cwd=project).stdout)
    assert last["summary"]["cached"] == 4


def test_a_run_that_finds_nothing_changed_loads_no_parser(old: Write, project: Path) -> None:
    old("a.py", BAD), old("placement-lint.toml", "ignore = ['numpy-on-cuda']\n")
    script = (
        "import sys\nfrom placement_lint.cli import main\n"
        "status = main(['check', '--format', 'concise'])\n"
        "print(status, 'libcst' in sys.modules, 'placement_lint.registry' in sys.modules)"
    )
    said = [
        subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=project) for _ in range(2)
    ]
    assert said[0].stdout.splitlines()[-1] == "1 True True"
    assert said[1].stdout.splitlines()[-1] == "1 False False"
    assert said[0].stdout.splitlines()[:-2] == said[1].stdout.splitlines()[:-2]
