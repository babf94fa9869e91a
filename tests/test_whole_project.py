"""Runs over a part of a project: the influence of the other files, and ``--whole-project``."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from placement_lint.cli import main

Write = Callable[..., Path]
Capture = pytest.CaptureFixture[str]

NET = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 2)

    def forward(self, x):
        return self.fc(x) + torch.ones(2, device="cuda:0"){comment}
"""
IGNORED = NET.format(comment="  # placement-lint: ignore[DPL118]")
MAIN = """\
from torch import nn
from net import Net
from helper import scale

model = nn.DataParallel(Net().cuda(), [0, 1])
for batch in batches:
    scale(model(batch))
"""
HELPER = "def scale(x):\n    return x * 2{comment}\n"


def found(capsys: Capture, *arguments: str) -> list[str]:
    main(["check", "--format", "json", *arguments])
    findings = json.loads(capsys.readouterr().out)["findings"]
    return [f"{finding['path']}:{finding['line']} {finding['code']}" for finding in findings]


class TestUnusedSuppressions:
    def test_none_that_a_file_outside_the_run_needs(self, write: Write, capsys: Capture) -> None:
        write("net.py", IGNORED)
        write("main.py", MAIN)
        write("helper.py", HELPER.format(comment=""))
        assert found(capsys, "net.py") == []
        assert found(capsys) == []

    def test_one_that_no_file_needs_once_all_are_checked(self, write: Write, capsys: Capture) -> None:
        write("net.py", NET.format(comment=""))
        write("main.py", MAIN)
        write("helper.py", HELPER.format(comment="  # placement-lint: ignore[DPL118]"))
        assert found(capsys, "helper.py") == []
        assert found(capsys, "helper.py", "main.py") == ["helper.py:2 DPL002", "net.py:11 DPL118"]

    @pytest.mark.parametrize(
        ("others", "said"),
        [
            ({}, True),
            ({"other.py": "import torch\n"}, True),
            ({"other.py": "# import helper\nhelp = 'import helper'\n"}, True),
            ({"other.py": "import helpers\n", "helpers.py": ""}, True),
            ({"third_party/other.py": "import helper\n", "placement-lint.toml": "exclude = ['third_party']"}, True),
            ({"other.py": "import helper\n"}, False),
            ({"other.py": "def f():\n    from helper import scale\n"}, False),
            ({"other.py": "import between\n", "between.py": "from helper import *\n"}, False),
            ({"tools/other.py": "import helper\n"}, False),
        ],
    )
    def test_any_file_that_imports_it_may_need_it(
        self, write: Write, capsys: Capture, others: dict[str, str], said: bool
    ) -> None:
        write("helper.py", HELPER.format(comment="  # placement-lint: ignore"))
        for name, text in others.items():
            write(name, text)
        assert found(capsys, "helper.py") == (["helper.py:2 DPL002"] if said else [])

    def test_a_notebook_may_need_it(self, write: Write, capsys: Capture) -> None:
        write("helper.py", HELPER.format(comment="  # placement-lint: ignore"))
        cell = {"cell_type": "code", "source": "%matplotlib inline\nimport helper"}
        write("work.ipynb", json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
        assert found(capsys, "helper.py") == []
        assert found(capsys) == ["helper.py:2 DPL002"]

    def test_other_reports_on_comments_need_no_other_file(self, write: Write, capsys: Capture) -> None:
        write("helper.py", HELPER.format(comment="  # placement-lint: ignore[DPL999]"))
        write("other.py", "import helper\nx = 1  # placement-lint: skip-file\n")
        assert found(capsys, "helper.py") == ["helper.py:2 DPL003"]
        assert found(capsys, "other.py") == ["other.py:2 DPL002"]

    def test_shards_together_are_the_whole_project(self, write: Write, capsys: Capture) -> None:
        write("helper.py", HELPER.format(comment="  # placement-lint: ignore"))
        write("other.py", "import helper\n")
        for number in "123":
            main(["check", "--shard", f"{number}/3", "--format", f"part:{number}.part"])
        capsys.readouterr()
        main(["merge", "--format", "concise", "1.part", "2.part", "3.part"])
        assert "helper.py:2:19: DPL002" in capsys.readouterr().out


class TestWholeProject:
    @pytest.fixture
    def files(self, write: Write) -> None:
        write("net.py", NET.format(comment=""))
        write("main.py", MAIN)
        write("helper.py", HELPER.format(comment=""))
        write("other.py", "import torch\n\nx = torch.ones(2)\nx.cuda()\nprint(x)\n")

    @pytest.mark.usefixtures("files")
    def test_other_files_count_and_are_not_reported(self, write: Write, capsys: Capture) -> None:
        assert found(capsys, "net.py") == []
        assert found(capsys, "net.py", "--whole-project") == ["net.py:11 DPL118"]
        assert found(capsys, "main.py", "--whole-project") == []
        write("helper.py", HELPER.format(comment="  # placement-lint: ignore"))
        assert found(capsys, "helper.py", "--whole-project") == ["helper.py:2 DPL002"]

    @pytest.mark.usefixtures("files")
    def test_the_whole_project_is_that_of_the_configuration(
        self, write: Write, project: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write("placement-lint.toml", "")
        monkeypatch.chdir(write("empty/notes.txt").parent)
        assert found(capsys, "../net.py", "--whole-project") == ["../net.py:11 DPL118"]

    @pytest.mark.usefixtures("files")
    def test_only_its_own_files_are_fixed(self, project: Path, capsys: Capture) -> None:
        before = (project / "other.py").read_text()
        main(["check", "--whole-project", "--fix", "--unsafe-fixes", "main.py", "net.py"])
        assert (project / "other.py").read_text() == before
        main(["check", "--whole-project", "--fix", "other.py"])
        assert (project / "other.py").read_text() == before.replace("x.cuda()", "x = x.cuda()")

    @pytest.mark.usefixtures("files")
    def test_a_baseline_says_nothing_of_other_files(self, capsys: Capture) -> None:
        main(["check", "--write-baseline", "known.json", "."])
        capsys.readouterr()
        assert main(["check", "--whole-project", "--baseline", "known.json", "net.py"]) == 0
        assert "no longer" not in capsys.readouterr().err

    @pytest.mark.usefixtures("files")
    def test_excluded_files_are_not_reported(self, write: Write, capsys: Capture) -> None:
        write("placement-lint.toml", "exclude = ['net.py']")
        assert found(capsys, "--whole-project", "--force-exclude", "net.py") == []

    @pytest.mark.usefixtures("files")
    def test_changed_lines_alone(self, write: Write, capsys: Capture) -> None:
        identity = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
        for command in (["init"], ["add", "--all"], [*identity, "commit", "--message", "old"]):
            subprocess.run(["git", *command], check=True, capture_output=True)
        write("net.py", "# A comment.\n" + NET.format(comment="  # on every replica"))
        assert found(capsys, "--diff-base", "HEAD") == []
        assert found(capsys, "--diff-base", "HEAD", "--whole-project") == ["net.py:12 DPL118"]

    @pytest.mark.usefixtures("files")
    def test_show_files_lists_all_that_are_checked(self, project: Path, capsys: Capture) -> None:
        main(["check", "--whole-project", "--show-files", "net.py"])
        names = [Path(line).name for line in capsys.readouterr().out.splitlines()]
        assert names == ["helper.py", "main.py", "net.py", "other.py"]

    @pytest.mark.parametrize("options", [["-"], ["--shard", "1/2"]])
    def test_what_it_cannot_be_combined_with(self, project: Path, capsys: Capture, options: list[str]) -> None:
        assert main(["check", "--whole-project", *options]) == 2
        assert "--whole-project" in capsys.readouterr().err


SAVES = """\
import argparse
import torch
from net import Net
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--parallel", action="store_true")
args = parser.parse_args()
model = Net()
if args.parallel:
    model = nn.DataParallel(model)
torch.save(model.state_dict(), "net.pth")
"""
LOADS = """\
import torch
from net import Net

Net().load_state_dict(torch.load("net.pth", map_location="cpu"))
"""


def test_a_finding_names_the_option_of_the_program_that_saves(write: Write, capsys: Capture) -> None:
    write("net.py", NET.format(comment=""))
    write("train.py", SAVES)
    write("show.py", LOADS)
    main(["check", "--format", "json", "."])
    messages = [one["message"] for one in json.loads(capsys.readouterr().out)["findings"] if one["code"] == "DPL103"]
    assert [message.rpartition("; ")[2] for message in messages] == [
        "`train.py` saves it so when `args.parallel` is true"
    ]


TESTS = """\
import argparse
import torch
from net import Net

parser = argparse.ArgumentParser()
parser.add_argument("--weights", default="{default}")
args = parser.parse_args()
Net().load_state_dict(torch.load(args.weights, map_location="cpu"))
{more}
"""


SAVES_BARE = SAVES + "torch.save(getattr(model, 'module', model).state_dict(), 'bare.pth')\n"
SAVES_ITSELF = "torch.save(torch.nn.DataParallel(Net()).state_dict(), 'last.pth')"


@pytest.mark.parametrize(
    ("train", "default", "more", "said"),
    [
        (SAVES, "released.pth", "", "that is so if it loads a file that `train.py` saves when `args.parallel` is true"),
        (SAVES, "net.pth", "", "`train.py` saves it so when `args.parallel` is true"),
        (SAVES_BARE, "bare.pth", "", None),
        (SAVES_BARE, "released.pth", "", None),
        # a program loads another file than it saves itself
        ("", "released.pth", SAVES_ITSELF, None),
    ],
)
def test_the_user_may_name_another_file_than_by_default(
    write: Write, capsys: Capture, train: str, default: str, more: str, said: str | None
) -> None:
    write("net.py", NET.format(comment=""))
    write("train.py", train)
    write("test.py", TESTS.format(default=default, more=more))
    main(["check", "--format", "json", "."])
    messages = [one["message"] for one in json.loads(capsys.readouterr().out)["findings"] if one["code"] == "DPL103"]
    assert [message.rpartition("; ")[2] for message in messages] == ([said] if said is not None else [])


def test_parts_of_a_run_may_be_in_other_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    for number in (1, 2):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "net.py").write_text(NET.format(comment=""))
        (folder / "train.py").write_text(SAVES)
        # it is in the other part than `train.py`
        (folder / "load.py").write_text(LOADS.replace('"net.pth"', "input()"))
        monkeypatch.chdir(folder)
        main(["check", "--shard", f"{number}/2", "--format", f"part:{tmp_path / str(number)}.part", "."])
    capsys.readouterr()
    main(["merge", *(str(tmp_path / f"{number}.part") for number in (1, 2)), "--format", "json"])
    findings = json.loads(capsys.readouterr().out)["findings"]
    assert "DPL103" in [finding["code"] for finding in findings]
