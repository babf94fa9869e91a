"""Results are reused between two texts of a document: code runs again if, and only if, an edit affects it.

``test_outcomes.py`` tests that the findings are the same.
"""

from __future__ import annotations

from pathlib import Path

import libcst as cst
import pytest
from training_file import training_file

from placement_lint.checking.checker import Job
from placement_lint.config.settings import Settings
from placement_lint.flow.domain.values import Function, Value
from placement_lint.flow.incremental import effect_memo
from placement_lint.flow.interpreter import calls
from placement_lint.flow.state import budget
from placement_lint.flow.state.machine import Machine
from placement_lint.server.analysis import Analyse, Analysis
from placement_lint.server.worker import Worker

TEXT = """\
import torch
from helpers import scaled
from torch import nn

WIDTH = 8


class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layer = nn.Linear(width, width)

    def forward(self, x):
        return self.layer(x)


class Meter:
    def __init__(self):
        self.values = []

    def add(self, value):
        self.values.append(value)

    def show(self):
        print(self.values)


def train(model, meter, device):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(10):
        x = torch.randn(4, WIDTH).to(device)
        loss = model(x).sum()
        loss.backward()
        optimizer.step()
        meter.add(loss.item())
        if step > 8:
            continue
        scaled(loss)


def evaluate(model, device):
    for step in range(2):
        if step:
            return model(torch.randn(2, WIDTH).to(device))


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    power = 2
    model = Net(WIDTH).to(device)
    meter = Meter()
    train(model, meter, device)
    best = evaluate(model, device)
    meter.show()
    print(best)


main()
"""
HELPERS = """\
FACTOR = 2


def scaled(x):
    return x * FACTOR
"""


class Calls:
    """Records the names of the functions of the program that run."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.names: set[str] = set()
        outcome = calls._outcome

        def noting(machine: Machine, function: Function, node: cst.CSTNode) -> Value:
            self.names.add(function.name)
            return outcome(machine, function, node)

        patch.setattr(calls, "_outcome", noting)
        patch.setattr(effect_memo, "_WORTH", 0)


def functions_run(text: str, changed: str, tmp_path: Path, patch: pytest.MonkeyPatch, helpers: str = HELPERS) -> str:
    """The functions that run after a change of a text that was analysed before."""
    (tmp_path / "helpers.py").write_text(HELPERS, encoding="utf-8")
    worker, called = Worker(), Calls(patch)
    job = Job(Settings(root=tmp_path))
    for number, each in enumerate((text, text, changed)):
        called.names.clear()
        if number == 2:
            (tmp_path / "helpers.py").write_text(helpers, encoding="utf-8")
        answer = worker.answer(Analyse(str(tmp_path / "train.py"), each.encode(), job))
        assert isinstance(answer, Analysis)
        assert answer.checked.crashes == ()
    return " ".join(sorted(called.names))


@pytest.mark.parametrize(
    ("before", "after", "ran"),
    [
        ("print(best)", "print(best, power)", "main"),
        ("power = 2", "power = 3", "main"),
        # no code that runs reads it
        ("    power = 2\n", "    power = 2\n    other = 3\n", "main"),
        ("torch.randn(2, WIDTH)", "torch.randn(3, WIDTH)", "evaluate forward main"),
        ("loss.backward()", "loss.backward(retain_graph=True)", "main train"),
        ("print(self.values)", "print(len(self.values))", "main show"),
        ("self.values.append(value)", "self.values.append([value])", "add main train"),
        ("return self.layer(x)", "return self.layer(x) + 1", "evaluate forward main train"),
        # every use of a model reads where it was moved
        ("Net(WIDTH).to(device)", "Net(WIDTH)", "__init__ add evaluate forward main scaled show train"),
    ],
)
def test_only_what_an_edit_concerns_runs_again(
    before: str, after: str, ran: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert before in TEXT
    assert functions_run(TEXT, TEXT.replace(before, after), tmp_path, monkeypatch) == ran


def test_the_same_text_runs_nothing_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert functions_run(TEXT, TEXT, tmp_path, monkeypatch) == ""


def test_another_file_has_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = functions_run(TEXT, TEXT, tmp_path, monkeypatch, helpers=HELPERS.replace("2", "3"))
    assert "scaled" in ran


def test_a_keystroke_in_main_runs_only_what_it_concerns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = training_file(300)
    assert functions_run(text, text.replace('"out"', '"outs"'), tmp_path, monkeypatch) == "main"


SHARED = """\
import torch


def moved(x, told=False):
    if told:
        print(x)
        print(len(x))
    return x.cuda()


def main():
    a = moved(torch.ones(1))
    b = moved(torch.ones(2))
    c = moved(torch.ones(3))
    print(c.numpy())


main()
"""


@pytest.mark.parametrize(
    ("share", "before", "after", "ran"),
    [
        # main itself has used more by then, but is not entered again
        (7, "    a =", 9 * "    name = 'run'\n" + "    a =", "main"),
        # an earlier call takes longer and leaves too little for the last one
        (7, "ones(1)", "ones(1), True", "main moved"),
    ],
)
def test_functions_share_what_they_may_use_as_in_an_analysis_from_the_beginning(
    share: int, before: str, after: str, ran: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (budget, effect_memo):
        monkeypatch.setattr(module, "MOST_BY_FUNCTION", share)
    changed = SHARED.replace(before, after)
    assert functions_run(SHARED, changed, tmp_path, monkeypatch) == ran
    for texts in ((SHARED, SHARED, changed), (changed,)):
        worker, job = Worker(), Job(Settings(root=tmp_path))
        answer = [worker.answer(Analyse(str(tmp_path / "train.py"), text.encode(), job)) for text in texts][-1]
        assert isinstance(answer, Analysis)
        assert [finding.code for finding in answer.checked.findings] == (["DPL507"] if ran == "main" else [])


PACKED = """\
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.DataParallel(nn.LSTM(8, 8).to(device))
x, lengths = torch.randn(4, 6, 8), torch.tensor([6, 5, 3, 2])
packed = pack_padded_sequence(x, lengths, batch_first=True)
print(model(packed))
"""


def test_a_sequence_stays_packed_where_another_line_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(effect_memo, "_WORTH", 0)
    worker, job = Worker(), Job(Settings(root=tmp_path))
    for device in ('"cpu"', '"cpu".upper()'):
        text = PACKED.replace('"cpu"', device)
        answer = worker.answer(Analyse(str(tmp_path / "train.py"), text.encode(), job))
        assert isinstance(answer, Analysis)
        assert "DPL112" in [finding.code for finding in answer.checked.findings]
