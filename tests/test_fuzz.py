"""The fuzzer's oracles hold for the programs that once showed a fault, and for a few hundred random ones."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from fuzz.minimise import minimised
from fuzz.mutation import Mutator
from fuzz.oracles import Examiner
from fuzz.programs import Program, kept, program
from fuzz.trees import tree_of

ROOT = Path(__file__).parents[1]
SEED = 37
PROGRAMS = 60


@pytest.mark.parametrize("path", kept(), ids=lambda path: path.name.partition(".")[0])
def test_a_program_that_showed_a_fault(path: Path, project: Path) -> None:
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines(keepends=True)
    examiner = Examiner(project)
    for before in ("import torch\n", "".join(lines[: len(lines) // 2])):
        assert list(examiner.failures(Program(text, before), Random(0))) == []


@pytest.mark.slow
def test_random_programs() -> None:
    command = [sys.executable, "-m", "tests.fuzz", "--seed", str(SEED), "--programs", str(PROGRAMS)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{PROGRAMS} programs of seed {SEED}" in done.stdout


def test_a_program_is_made_again_from_its_number() -> None:
    assert [program(1, number) for number in range(20)] == [program(1, number) for number in range(20)]
    assert len({program(1, number).text for number in range(20)}) == 20


def test_most_programs_are_python() -> None:
    parsed = [tree_of(program(1, number).text) is not None for number in range(100)]
    assert 70 <= sum(parsed) < 100


def test_a_change_changes_something() -> None:
    text = "import torch\n\nx = torch.zeros(3).cuda()\nif x:\n    print(x)\n"
    mutator = Mutator(Random(0), lambda: text)
    assert len({mutator.mutated(text) for _ in range(50)}) > 25


def test_a_failing_program_is_made_small() -> None:
    text = "import torch\n\ndef f(x):\n    if x:\n        y = bad(x, 1 + 2)\n    return y\n\nclass A:\n    a = 1\n"
    assert minimised(text, lambda text: "bad(" in text and tree_of(text) is not None, 30.0) == "bad()"


def test_each_oracle_can_fail(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each oracle fails for one program if a patch breaks the analysis in the corresponding way."""
    text = "import torch\n\nx = torch.zeros(3)\nx.cuda()\n"
    examiner = Examiner(project)
    assert list(examiner.failures(Program(text), Random(0))) == []

    def oracles() -> set[str]:
        return {failure.oracle for failure in examiner.failures(Program(text), Random(0))}

    with monkeypatch.context() as patch:
        patch.setattr("placement_lint.checking.listen.analyse", _raising)
        assert oracles() == {"crash"}
    with monkeypatch.context() as patch:
        patch.setattr("fuzz.oracles.SECONDS", 0.0)
        assert oracles() == {"time"}
    with monkeypatch.context() as patch:
        patch.setattr("fuzz.oracles.MEGABYTES", -1)
        assert oracles() == {"memory"}
    with monkeypatch.context() as patch:
        patch.setattr("placement_lint.checking.checker.read", _other_program)
        assert oracles() >= {"libcst", "server"}


def _raising(*_: object) -> None:
    raise KeyError("lost")


def _other_program(text: str, sparing: bool = False) -> object:
    from placement_lint.source.parsing import parse

    return parse(text.replace(".cuda()", ".cpu()"))
