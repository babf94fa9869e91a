"""Programs with more questions than the analysis distinguishes: they cost no more, and have no false findings."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent
from types import ModuleType

import pytest
import shares

from placement_lint.config.settings import Settings
from placement_lint.flow.domain import path_condition
from placement_lint.flow.interpreter import statements
from placement_lint.flow.state import machine
from placement_lint.project.files import Selection
from placement_lint.report.results import Job
from placement_lint.run.engine import check_files

FIXTURES = Path(__file__).parent.parent.parent / "fixtures"

Place = tuple[str, int, str]


def found(*folders: Path) -> set[Place]:
    files = sorted(file for folder in folders for file in folder.rglob("*.py"))
    result = check_files(Selection(files), Job(Settings(root=folders[0])), jobs=1)
    return {(finding.path, finding.range.line, finding.code) for finding in result.findings}


@pytest.mark.parametrize(("module", "limit"), [(path_condition, "MOST_ASKED"), (statements, "MOST_IN_LOOPS")])
def test_nothing_is_found_only_because_of_a_limit(
    module: ModuleType, limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = [folder for folder in sorted(FIXTURES.iterdir()) if shares.runs(folder.name, shares.PARTS)]
    exact = found(*folders)
    monkeypatch.setattr(module, limit, 3)
    blurred = found(*folders)
    assert blurred <= exact
    assert len(blurred) > 0.9 * len(exact)


NESTED = """
    import torch
    from torch import nn

    model = nn.Linear(2, 2)
    if first():
        if second():
            pass
        else:
            model.cuda()
    else:
        if second():
            model.cuda()
    model(torch.randn(1, 2))
"""


def test_a_branch_inside_another_is_not_taken_to_be_impossible(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(path_condition, "MOST_ASKED", 0)
    (tmp_path / "train.py").write_text(dedent(NESTED))
    assert found(tmp_path) == set()


def test_what_is_certain_is_found_after_too_many_questions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(path_condition, "MOST_ASKED", 2)
    asked = "".join(f"if question{n}():\n    print({n})\n" for n in range(9))
    (tmp_path / "train.py").write_text(f"import torch\n{asked}x = torch.zeros(2).cuda()\nprint(x.numpy())\n")
    assert {code for _, _, code in found(tmp_path)} == {"DPL507"}


def test_questions_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten helpers that ask three questions and are called 120 times each would create 3,600 questions."""
    asked: list[object] = []
    ask = machine.asked
    monkeypatch.setattr(machine, "asked", lambda *of, **known: asked.append(of) or ask(*of, **known))
    body = "(x):\n    if x.a:\n        return 'a'\n    if x.b:\n        return 'b'\n    return x.c or 'c'\n"
    helpers = "".join(f"def pick{n}{body}" for n in range(10))
    calls = "".join(f"n{n} = pick{n % 10}(get())\n" for n in range(1_200))
    (tmp_path / "train.py").write_text(f"import torch\n{helpers}{calls}torch.zeros(2).cuda().numpy()\n")
    assert {code for _, _, code in found(tmp_path)} == {"DPL507"}
    assert len(asked) == path_condition.MOST_ASKED
