"""Forwards are kept between two texts of a document: they run again where, and only where, an edit concerns them.

That what is found is the same, test_outcomes.py shows.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from training_file import training_file

from placement_lint.checker import Job
from placement_lint.config import Settings
from placement_lint.flow import recollection
from placement_lint.flow.machine import Machine
from placement_lint.flow.recollection import Run
from placement_lint.flow.told import Teller
from placement_lint.server.analysis import Analyse, Analysis
from placement_lint.server.worker import Worker

TEXT = """\
import sys

import torch
from helpers import scaled
from torch import nn

WIDTH = 8


class Net(nn.Module):
    def __init__(self, width, act):
        super().__init__()
        self.layer = nn.Linear(width, width)
        self.act = act

    def forward(self, x):
        return self.act(self.layer(x))


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    power = 2
    model = Net(WIDTH, lambda x: x).to(device)
    for step in range(10):
        x = torch.randn(4, WIDTH)
        y = model(x.to(device))
        print(step, y.shape)
    plain = Net(WIDTH, nn.ReLU())
    out = plain(torch.randn(2, WIDTH))
    print(out)


main()
"""


class Forwards:
    """Counts those that run."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.ran = 0
        first = recollection._first

        def counting(machine: Machine, teller: Teller, run: Run) -> object:
            self.ran += 1
            return first(machine, teller, run)

        patch.setattr(recollection, "_first", counting)


def forwards_run(text: str, changed: str, tmp_path: Path, patch: pytest.MonkeyPatch) -> int:
    """How many run when a text that was seen before has changed."""
    (tmp_path / "helpers.py").write_text("def scaled(x):\n    return x * 2\n", encoding="utf-8")
    worker = Worker()
    counted = Forwards(patch)
    job = Job(Settings(root=tmp_path))
    for each in (text, text, changed):
        counted.ran = 0
        answer = worker.answer(Analyse(str(tmp_path / "train.py"), each.encode(), job))
        assert isinstance(answer, Analysis)
        assert answer.checked.crashes == ()
    return counted.ran


@pytest.mark.parametrize(
    ("before", "after", "ran"),
    [
        ("print(out)", "print(out, step)", 0),
        ("print(step, y.shape)", "print(y.shape)", 0),
        ("power = 2", "power = 3", 0),
        # no forward asks for it: it went into the layers
        ("WIDTH = 8", "WIDTH = 9", 0),
        ("torch.randn(2, WIDTH)", "torch.randn(3, WIDTH)", 1),
        ("plain = Net(WIDTH, nn.ReLU())", "plain = Net(WIDTH, nn.GELU())", 1),
        # something more comes up before the second model, so that it is another
        ("print(step, y.shape)", "print(step, y.shape, [step])", 1),
        ("x.to(device)", "x", 2),
        ("lambda x: x)", "lambda x: x + 1)", 2),
        ("self.act(self.layer(x))", "self.layer(self.act(x))", 2),
    ],
)
def test_only_what_an_edit_concerns_runs_again(
    before: str, after: str, ran: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert forwards_run(TEXT, TEXT.replace(before, after), tmp_path, monkeypatch) == ran


@pytest.mark.parametrize(
    ("part", "instead"),
    [
        pytest.param("lambda x: x)", "lambda x: x * power)", id="asks for a variable of the function that made it"),
        pytest.param("lambda x: x)", "scaled)", id="is of another file"),
        pytest.param(
            "        return self.act", "        self.last = x\n        return self.act", id="leaves something"
        ),
        pytest.param("self.act(", "torch.zeros(3) + self.act(", id="does wrong"),
    ],
)
def test_a_forward_is_not_kept_that(part: str, instead: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = TEXT.replace(part, instead)
    assert forwards_run(text, text, tmp_path, monkeypatch) > 0


def test_a_keystroke_in_main_runs_only_what_it_concerns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = training_file(300)
    assert forwards_run(text, text.replace('"out"', '"outs"'), tmp_path, monkeypatch) == 0
