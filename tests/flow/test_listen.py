"""Dispatch to rules: problems are weighed, crashes are confined, and rules do not see the syntax tree."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import libcst as cst
import placement_lint.rules
import pytest

from placement_lint.checking.listen import problems_in
from placement_lint.finding import Severity, When
from placement_lint.flow.domain.path_condition import MANY_GPUS, ONE_GPU
from placement_lint.flow.events.schema import DevicesMixed
from placement_lint.registry import find_rule
from placement_lint.rule import Page, Problem, Rule

PROGRAM = cst.parse_module("import torch\nx = torch.ones(3) + torch.ones(3).cuda()\n")
PAGE = Page("what", "why", "", "", "silent")


def _raises(event: DevicesMixed) -> Iterator[Problem]:
    raise LookupError("a rule with a bug")
    yield


def _reports(event: DevicesMixed) -> Iterator[Problem]:
    yield Problem(event.node, "devices are mixed", advice="do not")


BROKEN = Rule("DPL998", "broken", Severity.ERROR, PAGE, {DevicesMixed: _raises})
SOUND = Rule("DPL999", "sound", Severity.ERROR, PAGE, {DevicesMixed: _reports})


def test_a_crash_is_confined_to_its_rule() -> None:
    hearing = problems_in(PROGRAM, (BROKEN, SOUND))
    assert [(rule, type(error)) for rule, error in hearing.crashes] == [(BROKEN, LookupError)]
    assert [(rule, problem.message) for rule, problem in hearing.problems] == [(SOUND, "devices are mixed; do not")]


def test_rules_read_events_and_walk_no_tree() -> None:
    folder = Path(next(iter(placement_lint.rules.__path__)))
    for source in folder.rglob("*.py"):
        assert "libcst" not in source.read_text(encoding="utf-8"), f"{source} handles syntax"


MODEL = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 2)
        self.mean = torch.zeros(4)

    def forward(self, x):
        return self.fc(x - self.mean)

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
"""
PARALLEL = "model = nn.DataParallel(Net()).to(device)\nmodel(torch.randn(8, 4))\n"
IN_BRANCHES = """
x = torch.randn(8, 4)
if torch.cuda.device_count() > 1:
    nn.DataParallel(Net().cuda())(x.cuda())
else:
    Net()(x)
"""
ASKED = "if torch.cuda.is_available():\n    Net().cuda()(torch.randn(8, 4).cuda())\n"


@pytest.mark.parametrize(
    ("program", "machines", "words"),
    [
        pytest.param(PARALLEL, ONE_GPU | MANY_GPUS, "on a machine with a GPU", id="by itself and in replicas"),
        pytest.param(IN_BRANCHES, MANY_GPUS, "when two or more GPUs are visible", id="called elsewhere without"),
        pytest.param(ASKED, ONE_GPU | MANY_GPUS, "", id="never called without"),
    ],
)
def test_the_machines_of_all_visits_count(program: str, machines: int, words: str) -> None:
    hearing = problems_in(cst.parse_module(MODEL + program), (SOUND,))
    assert [problem.when for _, problem in hearing.problems] == [When(machines, words)]


EITHER_LEFT_BEHIND = """
import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--many", action="store_true")
parser.add_argument("--slow", action="store_true")
args = parser.parse_args()

net, x = nn.Linear(4, 2), torch.randn(3, 4)
if args.many:
    net = net.cuda()
if not args.slow:
    x = x.cuda()
net(x)
"""


def test_what_is_said_is_what_occurs_under_the_condition() -> None:
    rule = find_rule("DPL503")
    ((_, problem),) = problems_in(cst.parse_module(EITHER_LEFT_BEHIND), (rule,)).problems
    assert problem.message.startswith("`x` is on the CPU but the parameters of `net` are on cuda:0: `net` raises")
    assert "when `args.many` is true and `args.slow` is true" in problem.message


CHOOSING = """
import argparse
import torch
from torch import nn

parser = argparse.ArgumentParser()
for name in ("cuda", "multi_gpu", "restart", "fp16"):
    parser.add_argument("--" + name, action="store_true")
args = parser.parse_args()
if args.fp16:
    if not args.cuda:
        args.fp16 = False
device = torch.device("cuda" if args.cuda else "cpu")
if args.restart:
    with open("model.pt", "rb") as file:
        model = torch.load(file)
else:
    model = nn.Linear(4, 2)
if args.fp16:
    model = model.half()
if args.multi_gpu:
    model = MOVED
else:
    model = MOVED
print(model)
"""


def test_the_tests_around_a_use_of_the_chosen_device_choose_nothing() -> None:
    hearing = problems_in(cst.parse_module(CHOOSING.replace("MOVED", "model.to(device)")), (find_rule("DPL603"),))
    ((_, problem),) = hearing.problems
    assert "chooses its device (device)" in problem.message


def test_a_test_around_cuda_itself_chooses() -> None:
    program = CHOOSING.replace("MOVED", "model.cuda()", 1).replace("MOVED", "model")
    ((_, problem),) = problems_in(cst.parse_module(program), (find_rule("DPL603"),)).problems
    assert "chooses its device (under `args.multi_gpu`)" in problem.message
