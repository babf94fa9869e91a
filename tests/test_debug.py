"""`debug FILE:LINE` and `check --why-not RULE FILE:LINE`: facts at a line, and reasons for missing findings."""

from __future__ import annotations

from pathlib import Path

import pytest

from placement_lint import reveal_placement
from placement_lint.cli import main

PROGRAM = """\
import argparse
import torch
import torch.nn.functional as F
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 2)
        self.scale = torch.ones(2)

    def forward(self, x):
        return self.fc(x) * self.scale


def train(model, device, args):
    x, y = torch.randn(8, 4), torch.zeros(8, dtype=torch.long)
    if args.one:
        if args.other:
            F.cross_entropy(model(x.to(device)), y)
    out = model(x.to(device))
    print(F.cross_entropy(out, y))  # placement-lint: ignore[operand-not-moved]


def unused(a):
    return a + 1


def moved(a):
    return a.numel()

parser = argparse.ArgumentParser()
parser.add_argument("--one", action="store_true")
parser.add_argument("--other", action="store_true")
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
net = nn.DataParallel(Net(), device_ids=[0, 1]).to(device)
train(net, device, parser.parse_args())
if False:
    net(torch.ones(2, 4))
"""
LOADS_A_STATE = """\
import argparse
import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--file", default="last.pth")
args = parser.parse_args()
net = nn.Linear(4, 2)
net.load_state_dict(torch.load(args.file))
"""
SAVES_IT = """\
torch.save(nn.DataParallel(net).state_dict(), "last.pth")
"""
TWO_DECISIONS = """\
import torch
from settings import one, two, three

x = torch.ones(2)
if one():
    x = x.cuda()
y = torch.ones(2)
if two():
    y = y.cuda()
if three():
    y = y.cpu()
print(x)
print(x + y)
"""
MANY_CALLS = "import torch\n\n\ndef show(x):\n    print(x)\n\n\n" + "".join(
    f"show(torch.ones({n}))\n" for n in range(14)
)
NO_TENSORS = "def add(a, b):\n    return a + b\n"


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(PROGRAM, encoding="utf-8")
    Path("plain.py").write_text(NO_TENSORS, encoding="utf-8")
    return tmp_path


def line(code: str) -> int:
    return next(number for number, text in enumerate(PROGRAM.splitlines(), 1) if code in text)


def said(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> str:
    assert main(arguments) == status
    captured = capsys.readouterr()
    return captured.err if status else captured.out


@pytest.mark.usefixtures("program")
@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (
            "out = model",
            "model   DataParallel[0, 1] around module Net, its parameters on cuda:0 (when two or more",
        ),
        ("out = model", "x       tensor on the CPU\n"),
        ("out = model", f"called at line {line('train(net')}; unless there is exactly one GPU\n"),
        ("F.cross_entropy(model", "when `args.one` is true and `args.other` is true"),
        ("return self.fc", "in a replica of DataParallel"),
        ("return self.fc", "self.scale  tensor on "),
        ("device = torch", "on every path"),
        ("return a + 1", "the definition around the line is not analysed"),
        ("net(torch.ones", "no path of the analysis leads here"),
        ("def train", "on every path"),
        ("def forward", "this line begins a definition"),
    ],
)
def test_what_is_known_at_a_line(code: str, expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert expected in said(capsys, "debug", f"train.py:{line(code)}")


@pytest.mark.usefixtures("program")
@pytest.mark.parametrize(
    ("rule", "code", "expected"),
    [
        ("DPL302", "self.scale = torch", "it is reported: `self.scale` is a plain tensor"),
        ("DPL302", "return self.fc", f"it is reported at line {line('self.scale = torch')}"),
        ("DPL503", "return self.fc", f"DPL302 at line {line('self.scale = torch')} is about this line"),
        ("DPL503", "return self.fc", "by its facts the rule reports nothing"),
        ("DPL503", "F.cross_entropy(out", "a comment on the line suppresses the rule"),
        ("DPL507", "out = model", "sees nothing that the rule is about (no event of: HostRead)"),
        ("DPL503", "return a + 1", "the definition around the line is not analysed"),
        ("DPL503", "net(torch.ones", "no path of the analysis leads here"),
        ("DPL902", "net = nn.Data", "the rule is not selected"),
        ("DPL002", "net = nn.Data", "this rule is about files and comments"),
    ],
)
def test_why_a_rule_reports_nothing(rule: str, code: str, expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert expected in said(capsys, "check", "--why-not", rule, f"train.py:{line(code)}")


@pytest.mark.usefixtures("program")
def test_a_rule_that_does_not_exist(capsys: pytest.CaptureFixture[str]) -> None:
    assert "no-such-rule" in said(capsys, "check", "--why-not", "no-such-rule", "train.py:1", status=2)


def test_a_condition_of_several_decisions_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("two.py").write_text(TWO_DECISIONS, encoding="utf-8")
    text = said(capsys, "check", "--why-not", "DPL503", "two.py:13")
    assert "the condition takes too many decisions of the program to state: `y` is on the CPU" in text
    assert "`one()` is true" in text


def test_a_state_that_another_program_saves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("test.py").write_text(LOADS_A_STATE, encoding="utf-8")
    Path("both.py").write_text(LOADS_A_STATE + SAVES_IT, encoding="utf-8")
    alone = said(capsys, "check", "--why-not", "DPL103", "test.py:9")
    assert "it is reported if another program of the run saves such a file: the state dict was saved with" in alone
    assert "it is reported: the state dict was saved with" in said(capsys, "check", "--why-not", "DPL103", "both.py:9")


@pytest.mark.usefixtures("program")
@pytest.mark.parametrize(
    ("place", "error"),
    [
        ("train.py", "'train.py' is not of the form FILE:LINE"),
        ("train.py:0", "is not of the form FILE:LINE"),
        ("train.py:999", "no line 999"),
        ("nothing.py:1", "nothing.py: there is no such file"),
        ("a.ipynb:1", "a notebook's lines cannot be named"),
        ("broken.py:1", "broken.py:1:"),
    ],
)
def test_a_wrong_place_is_named(place: str, error: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("broken.py").write_text("x = (\n", encoding="utf-8")
    assert error in said(capsys, "debug", place, status=2)
    assert error in said(capsys, "check", "--why-not", "DPL503", place, status=2)


@pytest.mark.usefixtures("program")
def test_a_file_without_tensors_is_not_analysed(capsys: pytest.CaptureFixture[str]) -> None:
    assert "the file is not analysed" in said(capsys, "debug", "plain.py:2")
    assert "the file is not analysed" in said(capsys, "check", "--why-not", "DPL503", "plain.py:2")


def test_why_not_takes_one_place(capsys: pytest.CaptureFixture[str]) -> None:
    assert "takes one place" in said(capsys, "check", "--why-not", "DPL503", status=2)


def test_revealing_does_nothing_at_run_time() -> None:
    value = object()
    assert reveal_placement(value) is value


@pytest.mark.usefixtures("program")
def test_a_line_that_is_reached_in_many_ways(capsys: pytest.CaptureFixture[str]) -> None:
    Path("many.py").write_text(MANY_CALLS, encoding="utf-8")
    lines = said(capsys, "debug", "many.py:5").splitlines()
    assert len([line for line in lines if "called at line" in line]) == 10
    assert lines[-1] == "  and 4 other ways to this line, with other values or conditions"
