"""An object whose constructor is not analysed is unknown, and nothing that depends on it is reported."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from placement_lint.config.settings import Settings
from placement_lint.flow.domain.arguments import Arguments
from placement_lint.flow.domain.values import Function
from placement_lint.flow.interpreter import calls
from placement_lint.flow.state.machine import Machine
from placement_lint.project.files import Selection
from placement_lint.report.results import Job
from placement_lint.run.engine import check_files

PROGRAM = """
    import torch

    class Engine:
        def __init__(self, mode="plain"):
            self.mode = mode

        def run(self, inputs):
            if self.mode == "{mode}":
                return inputs.cuda()
            return inputs["x"]

    print(Engine().run({{"x": torch.ones(3)}}))
"""


def codes(folder: Path, mode: str) -> list[str]:
    file = folder / "main.py"
    file.write_text(dedent(PROGRAM.format(mode=mode)))
    return [finding.code for finding in check_files(Selection([file]), Job(Settings(root=folder)), jobs=1).findings]


def overlooks_constructors(patch: pytest.MonkeyPatch) -> None:
    reaches = calls.reaches

    def reached(machine: Machine, function: Function, arguments: Arguments) -> bool:
        return function.name != "__init__" and reaches(machine, function, arguments)

    patch.setattr(calls, "reaches", reached)


def test_a_mode_decides(tmp_path: Path) -> None:
    assert codes(tmp_path, "plain") == ["DPL502"]
    assert codes(tmp_path, "dense") == []


def test_methods_of_an_object_whose_constructor_was_overlooked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    overlooks_constructors(monkeypatch)
    assert codes(tmp_path, "plain") == codes(tmp_path, "dense") == []
