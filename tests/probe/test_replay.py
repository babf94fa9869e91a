"""A replay depends on the user's program: the fault occurs in it, but not in its repaired version."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import libcst as cst
import pytest
from replaying import FIXTURES, accused, case_of

from placement_lint.checking.checker import Checker
from placement_lint.config.settings import Settings
from placement_lint.finding import Level, Outcome
from placement_lint.probe.cases import cases
from placement_lint.probe.prober import Prober
from placement_lint.probe.replay import Case, Entry, Piece, Replayer
from placement_lint.probe.units import Program
from placement_lint.registry import find_rule
from placement_lint.report.results import Job
from placement_lint.rule import Replay
from placement_lint.source.wording import source_text

# Rules whose faults raise, and rules whose faults are silent.
RULES = [
    "DPL101", "DPL104", "DPL122", "DPL301", "DPL302", "DPL303", "DPL401", "DPL501", "DPL503", "DPL504", "DPL507",
    "DPL116", "DPL117", "DPL206", "DPL207", "DPL402", "DPL404", "DPL405", "DPL406", "DPL502", "DPL505", "DPL601",
    "DPL602", "DPL603", "DPL604", "DPL509",
]  # fmt: skip


class Repaired(Case):
    """The same case in a program that is right."""

    def wholes(self) -> Iterator[Piece]:
        return map(self._repaired, super().wholes())

    def parts(self) -> Iterator[Piece]:
        return map(self._repaired, super().parts())

    def _repaired(self, piece: Piece) -> Piece:
        repair = self.repairs()[0]
        return replace(piece, supply={**piece.supply, **repair.edits}, lines=(*piece.lines, *repair.lines))


@pytest.fixture
def replayer(prober: Prober) -> Replayer:
    return Replayer(prober)


@pytest.mark.parametrize("code", RULES)
def test_the_example_is_confirmed_and_its_repair_refuted(code: str, replayer: Replayer) -> None:
    case = case_of(find_rule(code).page.example, code)
    verdict, script = replayer.replayed(case)
    assert verdict.outcome is Outcome.CONFIRMED, verdict.observed
    assert script is not None
    right = Repaired(case.path, case.program, case.rule, case.problem)
    verdict, script = replayer.replayed(right)
    # What goes through may still be a race.
    assert verdict.outcome is (Outcome.REFUTED if case.replay.right else Outcome.INCONCLUSIVE), verdict.observed
    assert script is None


MOVED = """
import torch
from torch import nn

model = nn.Linear(4, 2).cuda()
x = torch.randn(8, 4)
print(model(x))
"""


def test_a_verdict_says_what_ran_where_and_what_was_seen(replayer: Replayer) -> None:
    verdict, _ = replayer.replayed(case_of(MOVED, "DPL503"))
    assert (verdict.level, verdict.outcome) == (Level.REPLAY, Outcome.CONFIRMED)
    assert verdict.device.startswith("2 simulated GPUs, torch ")
    assert verdict.observed.startswith(
        "program of 6 lines: RuntimeError: Expected all tensors to be on the same device"
    )
    assert verdict.observed.endswith("; repaired: no error")
    assert "same device" in verdict.expected


@pytest.mark.parametrize(
    ("name", "device"),
    [("numpy_of_scores", "1 simulated MPS device"), ("back_to_the_host", "1 simulated XPU device")],
)
def test_a_finding_on_another_accelerator_is_replayed_there(name: str, device: str, replayer: Replayer) -> None:
    path = FIXTURES / "cuda-only-guard" / f"{name}.py"
    verdict, _ = replayer.replayed(case_of(path.read_text(encoding="utf-8"), "DPL509"))
    assert verdict.outcome is Outcome.CONFIRMED, verdict.observed
    assert verdict.device.startswith(device)


@pytest.mark.parametrize("name", ["cuda_of_cpu", "number_of_cpu"])
def test_the_cpu_is_refused_where_only_a_gpu_is_accepted(name: str, replayer: Replayer) -> None:
    path = FIXTURES / "device-choice-ignored" / f"{name}.py"
    verdict, _ = replayer.replayed(case_of(path.read_text(encoding="utf-8"), "DPL506"))
    assert verdict.outcome is Outcome.CONFIRMED, verdict.observed
    assert verdict.device.startswith("a simulated machine without a GPU")


def test_other_problems_of_the_program_are_out_of_the_way(replayer: Replayer) -> None:
    text = MOVED.replace("print(model(x))", "out = model(x)\nloss = nn.functional.mse_loss(out, torch.ones(8, 2))")
    case = case_of(text, "DPL503")
    later = case_of(text.replace("out = model(x)", "out = model(x.cuda())"), "DPL503")
    for one in (case, later):
        assert replayer.replayed(one)[0].outcome is Outcome.CONFIRMED


def test_what_stands_in_the_way_is_said(replayer: Replayer) -> None:
    text = MOVED.replace("model = nn.Linear(4, 2).cuda()", "model = nn.Linear({}['lost'], 2).cuda()")
    reason = "it fails with another error at `model = nn.Linear({}['lost'], 2).cuda()`: KeyError: 'lost'"
    verdict, script = replayer.replayed(case_of(text, "DPL503"))
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert verdict.observed.endswith(reason), verdict.observed
    assert script is None


def test_a_line_that_is_not_reached_is_no_refutation(replayer: Replayer) -> None:
    text = MOVED.replace("print(model(x))", "for _ in range(0):\n    print(model(x))")
    verdict, _ = replayer.replayed(case_of(text, "DPL503"))
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "`print(model(x))` is not reached" in verdict.observed


TRAINED = """
import torch
from torch import nn

model = nn.Linear(4, 4)
centre = nn.Parameter(torch.zeros(4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.randn(2, 8, 4):
    (model(x) - centre).square().mean().backward()
    optimizer.step()
"""


def test_a_claim_that_is_not_made_is_no_refutation(replayer: Replayer) -> None:
    shown, _ = replayer.replayed(case_of(TRAINED, "DPL206"))
    assert shown.outcome is Outcome.CONFIRMED, shown.observed
    verdict, _ = replayer.replayed(case_of(TRAINED.replace("2, 8", "0, 8"), "DPL206"))
    assert verdict.outcome is Outcome.INCONCLUSIVE, verdict.observed
    assert "is not reached" in verdict.observed


@pytest.mark.parametrize(
    ("own", "outcome"),
    [
        ("def moved(value):\n    return value", Outcome.CONFIRMED),  # no line of this replay calls it
        ("class Net:\n    def trains(self):\n        return self", Outcome.CONFIRMED),  # that is called in another way
        ("def trains(model):\n    return model.training", Outcome.INCONCLUSIVE),
        ("from torch.nn.utils import parameters_to_vector as parameters_of", Outcome.INCONCLUSIVE),
        ("watched = 0", Outcome.INCONCLUSIVE),
    ],
)
def test_names_that_mean_something_else_in_the_program(own: str, outcome: Outcome, replayer: Replayer) -> None:
    case = case_of(f"{own}\n{TRAINED}", "DPL206")
    verdict, _ = replayer.replayed(case)
    assert verdict.outcome is outcome, verdict.observed
    assert ("would have to be the replay's" in verdict.observed) is (outcome is Outcome.INCONCLUSIVE)


def test_a_function_of_the_program_is_no_observer(replayer: Replayer) -> None:
    text = MOVED.replace("print(model(x))", "print(model(moved(x)))").replace(
        "x = torch", "def moved(value):\n    return value + 1\n\n\nx = torch"
    )
    verdict, script = replayer.replayed(case_of(text, "DPL503"))
    assert verdict.outcome is Outcome.CONFIRMED, verdict.observed
    assert script is not None
    assert script.text.count("def moved(") == 1


def test_what_a_function_changes_goes_by_the_name_it_has_there(replayer: Replayer) -> None:
    text = (FIXTURES / "optimizer-before-model-surgery" / "applied_to_all.py").read_text(encoding="utf-8")
    verdict, script = replayer.replayed(case_of(text, "DPL204"))
    assert verdict.outcome is Outcome.CONFIRMED, verdict.observed
    assert script is not None
    assert "watched.append(module)" in script.text


IMPORTED = """
import torch
from torch import nn

from . import sizes


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.ones(sizes.WIDTH)

    def forward(self, x):
        return x * self.scale
"""


def test_a_file_is_shown_by_a_program_that_imports_it(prober: Prober, tmp_path: Path) -> None:
    package = tmp_path / "nets"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "sizes.py").write_text("WIDTH = 4", encoding="utf-8")
    (package / "net.py").write_text(IMPORTED, encoding="utf-8")
    main = tmp_path / "main.py"
    call = "import torch\nfrom nets.net import Net\nprint(Net().cuda()(torch.ones(2, 4).cuda()))\n"
    main.write_text(call, encoding="utf-8")
    job = Job(Settings(root=tmp_path), folder=str(tmp_path))
    path = str(package / "net.py")
    findings = Checker(job).check_bytes(IMPORTED.encode(), path).findings
    found = cases(path, IMPORTED.encode(), job, findings, [(str(main), call.encode())])
    (case,) = (case for finding, case in found.items() if finding.code == "DPL302")
    verdict, _ = Replayer(prober, [str(tmp_path)]).replayed(case)
    assert verdict.outcome is Outcome.CONFIRMED, verdict.observed
    assert verdict.observed.startswith("program, imported by main.py, of ")
    assert verdict.observed.endswith("; repaired: no error")


def test_torchscript_finds_the_source_of_a_program(replayer: Replayer) -> None:
    script = "@torch.jit.script\ndef half(x):\n    return x / 2\n\n\nmodel = "
    text = MOVED.replace("model = ", script, 1).replace("model(x)", "model(half(x))", 1)
    verdict, _ = replayer.replayed(case_of(text, "DPL503"))
    assert verdict.outcome is Outcome.CONFIRMED, verdict.observed


SLOW = """
import torch
from torch import nn

net = nn.Sequential(*(nn.Conv2d(64, 64, 3, padding=1) for _ in range(60))).cuda()
features = net(torch.zeros(64, 64, 128, 128).cuda())
nn.Linear(128, 2).cuda()(features.cpu())
"""


def test_a_program_that_takes_too_long_goes_without_values(prober: Prober) -> None:
    verdict, _ = Replayer(prober).replayed(case_of(SLOW, "DPL503"))
    assert verdict.outcome is Outcome.CONFIRMED, verdict.observed
    assert "with stand-ins for the values of large tensors" in verdict.observed


def test_a_right_program_that_takes_too_long_is_not_confirmed(prober: Prober) -> None:
    text = SLOW.replace("features.cpu()", "features")
    accusation = accused(text, "nn.Linear(128, 2).cuda()(features)", "nn.Linear(128, 2).cuda()(features.cuda())")
    verdict, _ = Replayer(prober).replayed(accusation)
    assert verdict.outcome is Outcome.INCONCLUSIVE, verdict.observed


CHOSEN = """
import argparse
from first import First
from second_net import Second

parser = argparse.ArgumentParser()
parser.add_argument("--kind", default="first", choices=["first", "second-net"])
args = parser.parse_args()
if args.kind == "first":
    First().train()
else:
    Second().train()
"""
EITHER = """
import torch


class {name}:
    def train(self):
        net = torch.nn.Linear(4, 2).cuda()
        net(torch.ones(8, 4){moved})
"""


@pytest.mark.parametrize(("moved", "confirmed"), [("", True), (".cuda()", False)])
def test_a_program_is_told_to_use_the_file_of_the_finding(
    moved: str, confirmed: bool, prober: Prober, tmp_path: Path
) -> None:
    text = EITHER.format(name="Second", moved=moved)
    path, main = tmp_path / "second_net.py", tmp_path / "main.py"
    path.write_text(text, encoding="utf-8")
    main.write_text(CHOSEN, encoding="utf-8")
    (tmp_path / "first.py").write_text(EITHER.format(name="First", moved=".cuda()"), encoding="utf-8")
    call = f"net(torch.ones(8, 4){moved})"
    entry = Entry(str(main), str(path), Program(cst.parse_module(CHOSEN)))
    case = replace(accused(text, call, "net(torch.ones(8, 4).cuda())"), path=str(path), entries=(entry,))
    verdict, _ = Replayer(prober, [str(tmp_path)]).replayed(case)
    assert (verdict.outcome is Outcome.CONFIRMED) is confirmed, verdict.observed
    if confirmed:
        assert verdict.observed.startswith("program, imported by main.py, of ")


RESUMED = """
import argparse
import os
import torch

parser = argparse.ArgumentParser()
parser.add_argument("--resume", default="")
args = parser.parse_args()
net = torch.nn.Linear(4, 2).cuda()
if os.path.isfile(args.resume):
    print("resumed")
    net(torch.ones(8, 4){moved})
"""


@pytest.mark.parametrize(("moved", "outcome"), [("", Outcome.CONFIRMED), (".cuda()", Outcome.INCONCLUSIVE)])
def test_what_a_program_only_does_with_a_file_is_reached(moved: str, outcome: Outcome, replayer: Replayer) -> None:
    case = accused(RESUMED.format(moved=moved), f"net(torch.ones(8, 4){moved})", "net(torch.ones(8, 4).cuda())")
    verdict, _ = replayer.replayed(case)
    assert verdict.outcome is outcome, verdict.observed


def test_of_repairs_of_the_same_code_the_first_is_made() -> None:
    text = f"import torch\n\nnet = torch.nn.Linear(4, 2).cuda()\nnet({ONES})\nnet(torch.ones(9, 4))\n"
    case = accused(text, "net(torch.ones(9, 4))", "net(torch.ones(9, 4).cuda())")
    calls = {source_text(node): node for node in case.program.unit_of if isinstance(node, cst.Call)}
    inner, outer = f"{ONES}.cuda()", f"net(torch.abs({ONES}))"
    ways = [((calls[ONES], inner),), ((calls[f"net({ONES})"], outer),)]
    others = [replace(case.problem, replay=Replay(repairs=(way,))) for way in ways]
    for order, made, lost in ((others, inner, outer), (others[::-1], outer, inner)):
        written = replace(case, others=tuple(order))
        piece = next(piece for piece in written.wholes() if piece.mended)
        assert made in written.scripted(piece).text
        assert lost not in written.scripted(piece).text


ONES = "torch.ones(8, 4)"
