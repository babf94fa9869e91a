"""The whole program runs unchanged before any part of it, and its result is decisive."""

from __future__ import annotations

from dataclasses import replace
from textwrap import dedent

import pytest
from replaying import accused, case_of, cases_in

from placement_lint.finding import Outcome
from placement_lint.probe import replay
from placement_lint.probe.prober import Prober
from placement_lint.probe.rendering import MARK
from placement_lint.probe.replay import Replayer
from placement_lint.probe.sandbox import Sandbox, Script
from placement_lint.rule import TWO_NODES

HEAD = "import random\nimport torch\nfrom torch import nn\nfrom torch.nn import functional as F\n"
HEAD += 'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")\n'


def program(text: str) -> str:
    return HEAD + dedent(text)


def test_a_fault_of_a_later_round_is_confirmed(prober: Prober) -> None:
    text = """
    net = nn.Linear(8, 2).to(device)
    for i, (x, y) in enumerate([(torch.randn(4, 8), torch.zeros(4).long())] * 6):
        x = x.to(device)
        if i < 5:
            y = y.to(device)
        F.cross_entropy(net(x), y).backward()
    """
    verdict, _ = Replayer(prober).replayed(accused(program(text), "F.cross_entropy(net(x), y)", "net(x).sum()"))
    assert verdict.outcome is Outcome.CONFIRMED, verdict.observed
    assert verdict.observed.startswith("program of ")


def test_a_branch_that_is_not_taken_refutes_nothing(prober: Prober) -> None:
    text = """
    net = nn.Linear(8, 2).to(device)
    for x in torch.randn(4, 8, 8):
        noise = torch.randn(8) if random.random() < 0 else torch.zeros(8, device=device)
        net(x.to(device) + noise)
    """
    verdict, _ = Replayer(prober).replayed(case_of(program(text), "DPL503"))
    assert verdict.outcome is Outcome.INCONCLUSIVE, verdict.observed


def test_what_leads_to_a_finding_has_to_be_evaluated(prober: Prober) -> None:
    text = """
    net = nn.Linear(8, 2).to(device)
    x = torch.randn(4, 8) if random.random() < LIMIT else torch.zeros(4, 8, device=device)
    net(x.cuda())
    """
    for limit, outcome in (("0", Outcome.INCONCLUSIVE), ("1", Outcome.REFUTED)):
        case = accused(program(text).replace("LIMIT", limit), "net(x.cuda())", "net(x)", led=["torch.randn(4, 8)"])
        verdict, _ = Replayer(prober).replayed(case)
        assert verdict.outcome is outcome, verdict.observed


@pytest.mark.parametrize(
    "last", ["if epoch > 0: print(out.detach().numpy())", "print(epoch); print(out.detach().numpy())"]
)
def test_a_statement_that_shares_its_line_has_a_place_of_its_own(last: str, prober: Prober) -> None:
    text = program("net = nn.Linear(8, 2).to('cuda')\nfor epoch in range(3):\n    out = net(torch.ones(4, 8).cuda())\n")
    case = case_of(f"{text}    {last}\n", "DPL507")
    assert case.smallest.quoted(case.smallest.line) == "print(out.detach().numpy())"
    verdict, _ = Replayer(prober).replayed(case)
    assert verdict.outcome is Outcome.CONFIRMED, verdict.observed


def test_an_error_of_a_condition_on_the_same_line_is_another(prober: Prober) -> None:
    text = program(
        "net = nn.Linear(8, 2).to('cuda')\nout = net(torch.ones(4, 8).cuda())\nif [][0]: out.detach().numpy()\n"
    )
    verdict, _ = Replayer(prober).replayed(accused(text, "out.detach().numpy()", "out", rule="DPL507"))
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "IndexError" in verdict.observed


def test_a_program_that_catches_the_error_is_not_refuted(prober: Prober) -> None:
    text = """
    net = nn.Linear(8, 2).to(device)
    x = torch.randn(4, 8)
    try:
        net(x)
    except RuntimeError as error:
        print("failed", error)
    """
    verdict, _ = Replayer(prober).replayed(accused(program(text), "net(x)", "net(x.to(device))"))
    assert verdict.outcome is not Outcome.REFUTED


def test_no_slice_shows_what_the_whole_program_does_not(prober: Prober, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "net = nn.Linear(8, 2).to(device)\nx = torch.randn(4, 8).to(device)\nnet(x)\n"
    case = accused(program(text), "net(x)", "net(x.to(device))")
    tried = []
    monkeypatch.setattr(type(case), "slices", lambda self: tried.append(self) or iter(()))
    verdict, _ = Replayer(prober).replayed(case)
    assert verdict.outcome is Outcome.REFUTED, verdict.observed
    assert not tried


def test_a_program_that_takes_too_long_is_sliced(prober: Prober, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "WHOLE_LIMIT", 3.0)
    text = """
    net = nn.Linear(8, 2).to(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(10**9):
        net(torch.randn(4, 8).to(device)).sum().backward()
        optimizer.step()
    net(torch.randn(4, 8))
    """
    case = case_of(program(text), "DPL503")
    verdict, _ = Replayer(prober).replayed(case)
    assert verdict.outcome is Outcome.CONFIRMED, verdict.observed
    assert verdict.observed.startswith("slice of ")


def test_findings_of_a_program_share_its_run(prober: Prober, monkeypatch: pytest.MonkeyPatch) -> None:
    text = """
    net = nn.Linear(8, 2).to(device)
    net(torch.randn(4, 8))
    print(net(torch.ones(4, 8)))
    """
    cases = [case for _, case in cases_in(program(text))]
    assert len(cases) == 2
    texts = []
    play = prober.sandbox.play

    def noting(script: Script, simulate: int | None, kind: str) -> object:
        texts.append(tuple(line.partition(MARK)[0].strip() for line in script.text.splitlines()))
        return play(script, simulate, kind)

    monkeypatch.setattr(prober.sandbox, "play", noting)
    replayer = Replayer(prober)
    for case in cases:
        verdict, _ = replayer.replayed(case)
        assert verdict.outcome is Outcome.CONFIRMED, verdict.observed
    assert len(texts) == 3  # as it is, without the first fault, and without both
    assert len(set(texts)) == 3


DRAWS = """
import os
import random
import uuid
import numpy
import torch

drawn = [random.random(), numpy.random.rand(), numpy.random.default_rng().random(), torch.rand(1).item()]
raise ValueError(str([*drawn, os.urandom(4), uuid.uuid4(), random.SystemRandom().random(), *{"a", "b", "c", "d"}]))
"""


def test_each_process_draws_the_same() -> None:
    answers = []
    for _ in range(2):
        with Sandbox() as sandbox:
            answers.append(sandbox.play(Script(DRAWS, ()), 1)["message"])
    assert answers[0] == answers[1]


def test_a_rank_by_option_is_given_by_a_launcher(prober: Prober) -> None:
    text = """
    import argparse
    import torch.distributed as dist

    parser = argparse.ArgumentParser()
    parser.add_argument("--rank", type=int, default=0)
    rank = parser.parse_args().rank
    dist.init_process_group("nccl", rank=rank, world_size=2)
    net = nn.Linear(8, 2).cuda(rank)
    """
    case = accused(program(text), "nn.Linear(8, 2).cuda(rank)", "nn.Linear(8, 2).cuda()", rule="DPL406")
    assert case.problem.replay is not None
    nodes = replace(case, problem=replace(case.problem, replay=replace(case.problem.replay, crew=TWO_NODES, gpus=0)))
    verdict, _ = Replayer(prober).replayed(nodes)
    assert verdict.outcome is Outcome.CONFIRMED, verdict.observed


def test_what_fails_on_the_way_is_another_fault(prober: Prober) -> None:
    """On a machine without a GPU the choice raises first, and the finding is never reached."""
    text = """
    import torch
    from torch import nn

    use_cuda = True
    net = nn.Linear(4, 2)
    if use_cuda:
        net = net.cuda()
    for row in sorted([]):
        print(net(torch.zeros(row, 4).cuda()))
    """
    verdict, _ = Replayer(prober).replayed(case_of(dedent(text), "DPL506"))
    assert verdict.outcome is Outcome.INCONCLUSIVE, verdict.observed
