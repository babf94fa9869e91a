"""Inputs are moved to a GPU before DataParallel scatters them, which is correct."""

from __future__ import annotations

from collections.abc import Iterator

from placement_lint.finding import Outcome, Severity
from placement_lint.flow.events.schema import Rumoured
from placement_lint.probe.experiment import MIXED_DEVICES, Experiment, Facts, Sees
from placement_lint.rule import Page, Problem, Rule

PAGE = Page(
    what="""\
Reports inputs that are moved to a GPU before a `DataParallel` is called with them, which is often claimed to bypass
the scattering. It does not.
""",
    why="""\
`scatter` takes a tensor from any device and gives each replica its chunk
(`torch/nn/parallel/_functions.py`, `Scatter.forward`). The result is the same with any number of GPUs; the copy
to the first GPU is made by hand instead of by the wrapper.
""",
    example="""\
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.DataParallel(nn.Linear(4, 2).to(device))
x = torch.randn(8, 4).to(device)
print(model(x).shape)
""",
    instead="""\
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.DataParallel(nn.Linear(4, 2).to(device))
x = torch.randn(8, 4)
print(model(x).shape)
""",
    silent="""\
The inputs come from the CPU, or were made on the GPU.
""",
    fix="""\
No change is needed. In a training loop the targets are moved anyway, and inputs beside them.
""",
)


def check(event: Rumoured) -> Iterator[Problem]:
    if event.claim == "inputs moved first":
        yield Problem(
            event.node,
            f"`{event.label}` is on a GPU before DataParallel scatters it from there, with the same result",
        )


def flagged(facts: Facts) -> str:
    return _called(facts, moved=True)


def control(facts: Facts) -> str:
    return _called(facts, moved=False)


def _called(facts: Facts, moved: bool) -> str:
    import torch

    from placement_lint.probe.bench import Model, first_device, parallel, rows

    model = Model()
    x = rows(facts)
    right = model(x)
    out = parallel(model, facts)(x.to(first_device(facts)) if moved else x)
    same = out.device == first_device(facts) and torch.allclose(out.cpu(), right, atol=1e-6)
    return "the result is the same as without the wrapper" if same else "the result differs"


EXPERIMENT = Experiment(
    claim="DataParallel does not distribute inputs that are moved to a GPU first",
    flagged=flagged,
    control=control,
    symptoms=(Sees("the result differs"), *MIXED_DEVICES),
    facts={"device_ids": [0, 1]},
    gpus=2,
    one_gpu={"device_ids": [0, 0]},
    expects=Outcome.REFUTED,
)


RULE = Rule(
    "DPL902",
    "inputs-moved-before-data-parallel",
    Severity.INFO,
    PAGE,
    {Rumoured: check},
    default=False,
    experiment=EXPERIMENT,
)
