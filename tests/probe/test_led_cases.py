"""A finding in a file that a program imports is shown by running the program."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import libcst as cst
import pytest

from placement_lint.checking.checker import Checker
from placement_lint.config.settings import Settings
from placement_lint.finding import Finding, Outcome
from placement_lint.probe.cases import cases, led_cases
from placement_lint.probe.prober import Prober
from placement_lint.probe.replay import Case, Replayer
from placement_lint.probe.units import Program
from placement_lint.report.results import Job

HELPERS = """
import torch


def noisy(x):
    noise = torch.randn(8, 4)
    return x + noise
"""
MAIN = """
import torch
from helpers import noisy

x = torch.ones(8, 4).cuda()
print(noisy(x))
out = torch.nn.Linear(4, 2).cuda()(torch.ones(8, 4))
"""


def job_in(folder: Path, **files: str) -> Job:
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    return Job(Settings(root=folder), folder=str(folder))


def findings_of(folder: Path, job: Job) -> list[Finding]:
    main = folder / "main.py"
    return list(Checker(job).check_bytes(main.read_bytes(), str(main)).findings)


@pytest.fixture
def led(tmp_path: Path) -> Case:
    """The case of what happens in the other file."""
    job = job_in(tmp_path, helpers=HELPERS, main=MAIN)
    found = led_cases(str(tmp_path / "main.py"), MAIN.encode(), job, findings_of(tmp_path, job))
    ((finding, case),) = found.items()
    assert (finding.code, finding.range.line, Path(case.path).name) == ("DPL503", 7, "helpers.py")
    return case


def test_a_program_shows_what_happens_in_another_file(led: Case, prober: Prober, tmp_path: Path) -> None:
    verdict, script = Replayer(prober, (str(tmp_path),)).replayed(led)
    assert verdict.outcome is Outcome.CONFIRMED, verdict.observed
    assert verdict.observed.startswith("program, imported by main.py, of ")
    assert script is not None
    assert script.quoted(script.line) == "return x + noise"


@pytest.mark.parametrize("right", ["x = torch.ones(8, 4)", "torch.set_default_device('cuda')\nx = torch.ones(8, 4)"])
def test_no_right_program_shows_it(right: str, led: Case, prober: Prober, tmp_path: Path) -> None:
    (entry,) = led.entries
    program = Program(cst.parse_module(MAIN.partition("out = ")[0].replace("x = torch.ones(8, 4).cuda()", right)))
    case = replace(led, entries=(replace(entry, program=program, problems=()),))
    verdict, script = Replayer(prober, (str(tmp_path),)).replayed(case)
    assert verdict.outcome is not Outcome.CONFIRMED, verdict.observed
    assert script is None


def test_torchscript_finds_the_source_of_the_program(prober: Prober, tmp_path: Path) -> None:
    half = "\n\n@torch.jit.script\ndef half(x):\n    return x / 2\n\n\nx = "
    main = MAIN.replace("\nx = ", half).replace("noisy(x)", "noisy(half(x))")
    job = job_in(tmp_path, helpers=HELPERS, main=main)
    found = led_cases(str(tmp_path / "main.py"), main.encode(), job, findings_of(tmp_path, job))
    (case,) = found.values()
    verdict, _ = Replayer(prober, (str(tmp_path),)).replayed(case)
    assert verdict.outcome is Outcome.CONFIRMED, verdict.observed


def test_a_fault_in_another_file_is_out_of_the_way(prober: Prober, tmp_path: Path) -> None:
    job = job_in(tmp_path, helpers=HELPERS, main=MAIN)
    found = cases(str(tmp_path / "main.py"), MAIN.encode(), job, findings_of(tmp_path, job))
    (case,) = (case for finding, case in found.items() if finding.path.endswith("main.py"))
    ((path, text),) = case.lent
    assert Path(path).name == "helpers.py"
    assert text != HELPERS
    verdict, _ = Replayer(prober, (str(tmp_path),)).replayed(case)
    assert verdict.outcome is Outcome.CONFIRMED, verdict.observed
