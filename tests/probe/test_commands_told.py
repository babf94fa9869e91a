"""A program is replayed as its project says that it is called."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from textwrap import dedent

import pytest
from replaying import accused, cases_in

from placement_lint.finding import Outcome, Verdict
from placement_lint.probe.commands import Command, commands_for, demands, told_in
from placement_lint.probe.prober import Prober
from placement_lint.probe.replay import Case, Piece, Replayer

CROPPED = """
import argparse
import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--width", type=int, required=True)
parser.add_argument("--mode", default="plain")
args = parser.parse_args()
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
assert args.width == 24 and args.mode == "deep", args
net = nn.Linear(args.width, 2).to(device)
x = torch.randn(4, args.width)
net(x)
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(CROPPED)
    return tmp_path


def verdict_in(project: Path, prober: Prober, name: str = "train.py") -> Verdict:
    """That of the first finding in a file."""
    path = project / name
    _, case = cases_in(path.read_text(), str(path))[0]
    return Replayer(prober, [str(project)]).replayed(case)[0]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("README.md", "To train:\n\n```\npython train.py --width 24 --mode=deep\n```\n"),
        (
            "run.sh",
            "WIDTH=24\nCUDA_VISIBLE_DEVICES=0 python3 -u train.py \\\n  --width $WIDTH \\\n  --mode deep > log &\n",
        ),
        ("scripts/run.sh", "python ../train.py --width 24 --mode deep  # the paper's\n"),
        ("Makefile", "train:\n\tpython ./train.py --width 24 --mode deep && echo done\n"),
    ],
)
def test_the_command_of_a_text_is_used(name: str, text: str, project: Path, prober: Prober) -> None:
    (project / name).parent.mkdir(exist_ok=True)
    (project / name).write_text(text)
    verdict = verdict_in(project, prober)
    assert verdict.outcome is Outcome.CONFIRMED, verdict.observed
    assert "called with `--width 24 --mode" in verdict.observed
    assert "stand-ins" not in verdict.observed


def test_the_verdict_names_what_no_command_gives(project: Path, prober: Prober) -> None:
    (project / "README.md").write_text("python train.py --mode deep")
    verdict = verdict_in(project, prober)
    assert "the option --width" in verdict.observed
    assert verdict.outcome is not Outcome.REFUTED


@pytest.mark.parametrize("demand", [", required=True", ""])
def test_a_configuration_file_of_the_project_is_used(demand: str, project: Path, prober: Prober) -> None:
    program = CROPPED.replace('"--width", type=int, required=True', f'"--config", help="a JSON file"{demand}').replace(
        "args = parser.parse_args()",
        "args = parser.parse_args()\nimport json\nargs.width = json.load(open(args.config))['width']",
    )
    (project / "train.py").write_text(program.replace('default="plain"', 'default="deep"'))
    (project / "configs").mkdir()
    (project / "configs" / "train_small.json").write_text('{"width": 24}')
    (project / "configs" / "evaluate.json").write_text('{"width": 7}')
    verdict = verdict_in(project, prober)
    assert verdict.outcome is Outcome.CONFIRMED, verdict.observed
    assert "train_small.json" in verdict.observed


def test_a_program_that_goes_through_as_it_is_called_is_refuted(project: Path, prober: Prober) -> None:
    text = CROPPED.replace("net(x)\n", "net(x.cuda())\n")
    (project / "train.py").write_text(text)
    (project / "README.md").write_text("python train.py --width 24 --mode deep")
    case = replace(accused(text, "net(x.cuda())", "net(x)"), path=str(project / "train.py"))
    verdict, _ = Replayer(prober, [str(project)]).replayed(case)
    assert verdict.outcome is Outcome.REFUTED, verdict.observed


def test_which_commands_are_meant(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    for folder in ("a", "b"):
        (tmp_path / folder / "train.py").write_text("print()")
    (tmp_path / "a" / "README.md").write_text("python train.py --lr 1")
    (tmp_path / "README.md").write_text("python b/train.py --lr <rate>\npython b/train.py --lr 2 --loss ce\n")
    (tmp_path / "run.sh").write_text("python b/train.py --lr 2 --loss nce\n")
    top = str(tmp_path)
    assert commands_for(f"{top}/a/train.py", top) == [Command(("--lr", "1"), f"{top}/a")]
    told = commands_for(f"{top}/b/train.py", top, words={"nce"})
    assert [str(one) for one in told] == ["--lr 2 --loss nce", "--lr 2 --loss ce"]
    assert {one.folder for one in told} == {top}


@pytest.mark.parametrize(
    ("words", "given"),
    [
        ("--net (deep or flat) --rows 4", "--rows 4"),
        ("data --rows 4 --name NAME --data=<folder>", "data --rows 4"),
        ("--rows $ROWS", None),
    ],
)
def test_what_the_reader_has_to_fill_in_is_left_out(words: str, given: str | None, project: Path) -> None:
    (project / "README.md").write_text(f"python train.py {words}")
    assert [str(one) for one in commands_for(str(project / "train.py"))] == ([given] if given else [])


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("python -m torch.distributed.launch --nproc_per_node=2 train.py --lr 1", ("--lr", "1")),
        ("python -m tools.train --lr 1 | tee log", ("--lr", "1")),
        ("torchrun --nproc_per_node 2 train.py data --lr '1 2'; ls", ("data", "--lr", "1 2")),
        ("python train.py --lr 1 --data <folder> >>train.log", ("--lr", "1", "--data", "<folder>")),
        ("We call train.py once a day", None),
        ("python train.py", None),
        ("# python train.py --lr 1", ("--lr", "1")),
        ("python train.py --name 'unclosed", None),
    ],
)
def test_the_arguments_of_a_line(text: str, arguments: tuple[str, ...] | None) -> None:
    assert [one.arguments for one in told_in(text)] == ([] if arguments is None else [arguments])


def test_what_a_program_demands(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    for text, expected in (("required=True", True), ("required=False", False), ("default=1", False)):
        path.write_text(dedent(f"parser.add_argument('--lr', {text})"))
        assert demands(str(path)) is expected


class OnlyWholes(Case):
    """A case of whose program no slice is played."""

    def parts(self) -> Iterator[Piece]:
        return iter(())


TWICE = """
import argparse
import torch

parser = argparse.ArgumentParser()
parser.add_argument("--mode", default="plain")
args = parser.parse_args()
print({"deep": 4}[args.mode])
first, second = torch.nn.Linear(4, 2).cuda(), torch.nn.Linear(4, 2).cuda()
print(first(torch.ones(8, 4)))
print(second(torch.ones(8, 4)))
"""


def test_a_fault_behind_another_is_shown_by_the_command_as_well(project: Path, prober: Prober) -> None:
    (project / "train.py").write_text(TWICE)
    (project / "README.md").write_text("python train.py --mode deep")
    path = str(project / "train.py")
    _, (_, case) = cases_in(TWICE, path)
    case = OnlyWholes(**{part.name: getattr(case, part.name) for part in fields(case)})
    verdict, _ = Replayer(prober, [str(project)]).replayed(case)
    assert verdict.outcome is Outcome.CONFIRMED, verdict.observed
    assert "called with `--mode deep`" in verdict.observed
