"""Results of uncalled definitions are kept between two texts, and equal those of a new analysis."""

from __future__ import annotations

import ast
import random
import re
from dataclasses import replace
from pathlib import Path

import pytest
from training_file import training_file

from placement_lint.checking.checker import Job
from placement_lint.config.settings import Settings
from placement_lint.flow.domain import path_condition
from placement_lint.flow.domain.values import Class, Function
from placement_lint.flow.driver import analyse, entry_points
from placement_lint.flow.incremental import effect_memo
from placement_lint.flow.incremental.definition_memo import Outcomes
from placement_lint.flow.state.machine import Machine
from placement_lint.flow.triage import entry_filter
from placement_lint.project.unit import digest
from placement_lint.server.analysis import Analyse, Analysis, Locate
from placement_lint.server.worker import Worker

FIXTURES = Path(__file__).parents[2] / "fixtures"
SOME = [path for path in sorted(FIXTURES.rglob("*.py")) if path.stat().st_size > 200][7::29]
# In the project, a module gets a different id if a statement before its import changes.
SAMPLE = [*dict.fromkeys((*SOME, FIXTURES / "projects/try_import/main.py"))]
WORD = re.compile(r"\b[a-z_]\w*\b")


def edited(text: str, rng: random.Random) -> str:
    """The text with one line removed, doubled, copied elsewhere or with a changed word; still valid Python."""
    while True:
        lines = text.splitlines(keepends=True)
        place = rng.randrange(len(lines))
        words = WORD.findall(lines[place])
        match rng.randrange(4):
            case 0:
                del lines[place]
            case 1:
                lines.insert(place, lines[place])
            case 2:
                lines.insert(place, rng.choice(lines))
            case 3 if words:
                word = rng.choice(words)
                lines[place] = re.sub(rf"\b{word}\b", f"{word}_", lines[place])
        try:
            ast.parse("".join(lines))
        except SyntaxError:
            continue
        return "".join(lines)


def analysed(worker: Worker, path: Path, text: str) -> tuple[Analysis, object]:
    """The result of the analysis, and the placements."""
    answer = worker.answer(Analyse(str(path), text.encode(), Job(Settings(root=path.parent))))
    assert isinstance(answer, Analysis)
    return answer, worker.answer(Locate(str(path), digest(text.encode())))


def from_scratch(path: Path, text: str) -> tuple[Analysis, object]:
    """The result without reuse, as on the command line."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(analyse, "look_at_the_uncalled", lambda machine, *_: entry_points.look_at_the_uncalled(machine))
        return analysed(Worker(), path, text)


def without_reads(analysed: tuple[Analysis, object]) -> tuple[Analysis, object]:
    analysis, placed = analysed
    return replace(analysis, checked=replace(analysis.checked, reads=(), absent=())), placed


@pytest.mark.parametrize("worth", [effect_memo._WORTH, 0])
@pytest.mark.parametrize("path", SAMPLE, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_what_is_kept_says_the_same(path: Path, worth: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the recorded reads may differ: those of a previous text may be included."""
    monkeypatch.setattr(effect_memo, "_WORTH", worth)
    rng = random.Random(path.name)
    first = text = path.read_text(encoding="utf-8")
    worker = Worker()
    for number in range(6):
        text = first if number < 2 else edited(text if number % 2 else first, rng)
        kept, fresh = analysed(worker, path, text), from_scratch(path, text)
        assert kept[0].checked.contents.items() >= fresh[0].checked.contents.items()
        assert without_reads(kept) == without_reads(fresh)


class Looks:
    """Records the analysed definitions."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.names: set[str] = set()
        look_at_class, look_at_function = entry_points._look_at_class, entry_points._look_at_function

        def at_class(machine: Machine, cls: Class, *methods: Function) -> None:
            self.names.add(cls.name)
            look_at_class(machine, cls, *methods)

        def at_function(machine: Machine, function: Function) -> None:
            self.names.add(function.name)
            look_at_function(machine, function)

        patch.setattr(entry_points, "_look_at_class", at_class)
        patch.setattr(entry_points, "_look_at_function", at_function)


def looked_at(text: str, changed: str, tmp_path: Path, patch: pytest.MonkeyPatch) -> set[str]:
    """The definitions that are analysed after a change of a text that was analysed twice."""
    patch.setattr(entry_filter.Prospects, "promising", lambda *_: True)
    worker = Worker()
    for _ in range(2):
        analysed(worker, tmp_path / "train.py", text)
    looks = Looks(patch)
    assert analysed(worker, tmp_path / "train.py", changed)[0].checked.crashes == ()
    return looks.names


MODEL = """\
import torch
from torch import nn

WIDTH = 8
model = nn.Linear(2, 2)


def scaled(x):
    return x * 2


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(WIDTH, 8)

    def forward(self, x):
        return self.layer(x)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = Block()

    def forward(self, x):
        return scaled(self.block(x))


class Derived(Block):
    def loss(self, x):
        return self(x).sum()


def alone(x):
    return x + torch.zeros(3)


def uses_model(x):
    return model(x)


if __name__ == "__main__":
    print(torch.ones(2))
"""


@pytest.mark.parametrize(
    ("before", "after", "looked"),
    [
        ("torch.ones(2)", "torch.ones(3)", {"uses_model"}),
        ("return x * 2", "return x * 3", {"Net", "uses_model"}),
        ("x + torch.zeros(3)", "x - torch.zeros(3)", {"alone", "uses_model"}),
        ("return self.layer(x)", "return self.layer(x) + 1", {"Block", "Net", "Derived", "uses_model"}),
        ("WIDTH = 8", "WIDTH = 9", {"Block", "Net", "Derived", "uses_model"}),
        ("import torch\n", "import torch as t\n", {"alone", "uses_model"}),
    ],
)
def test_only_what_a_change_concerns_is_looked_at(
    before: str, after: str, looked: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert looked_at(MODEL, MODEL.replace(before, after), tmp_path, monkeypatch) == looked


def test_a_keystroke_in_main_looks_at_no_definition_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = training_file(300)
    assert looked_at(text, text.replace("sample", "sampled"), tmp_path, monkeypatch) == set()


def test_only_definitions_of_the_last_text_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entry_filter.Prospects, "promising", lambda *_: True)
    worker = Worker()
    path = tmp_path / "train.py"
    for text in (MODEL, MODEL, "import torch\n", MODEL.partition("class Net")[0]):
        analysed(worker, path, text)
    outcomes = worker._drafts[str(path)].outcomes
    assert isinstance(outcomes, Outcomes)
    assert {definition.name.value for definition in outcomes._known} == {"Block", "scaled"}


def test_questions_that_no_text_asks_any_more_are_let_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(path_condition, "_FEW", 32)
    worker, path = Worker(), tmp_path / "train.py"
    for number in range(100):
        text = f"import sys\n\nimport torch\n\nx = torch.zeros(3)\nif sys.argv[{number}]:\n    x.cuda()\n"
        assert without_reads(analysed(worker, path, text)) == without_reads(from_scratch(path, text))
        assert len(worker._drafts[str(path)].outcomes.conditions.answers) <= 40
