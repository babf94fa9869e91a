"""A DataParallel is called with inputs on the CPU, which is correct."""

from __future__ import annotations

from collections.abc import Iterator

from placement_lint.finding import Outcome, Severity
from placement_lint.flow.events.schema import Rumoured
from placement_lint.probe.experiment import MIXED_DEVICES, Experiment, Facts
from placement_lint.rule import Page, Problem, Rule

PAGE = Page(
    what="""\
Reports a `DataParallel` that is called with inputs on the CPU, which is often claimed to raise. It does not.
""",
    why="""\
`scatter` copies each chunk to the GPU of its replica, from any device (`torch/nn/parallel/_functions.py`,
`Scatter.forward`). What does raise is the loss: targets are not moved and must be on the wrapper's `output_device`.
That is DPL503.
""",
    example="""\
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.DataParallel(nn.Linear(4, 2).to(device))
print(model(torch.randn(8, 4)).shape)
""",
    instead="""\
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.DataParallel(nn.Linear(4, 2).to(device))
print(model(torch.randn(8, 4, device=device)).shape)
""",
    silent="""\
The inputs are on a GPU or their device is unknown.
""",
    fix="""\
No change is needed.
""",
)


def check(event: Rumoured) -> Iterator[Problem]:
    if event.claim == "inputs on the CPU":
        yield Problem(
            event.node,
            f"`{event.label}` is on the CPU: DataParallel scatters it from there",
        )


def flagged(facts: Facts) -> None:
    from placement_lint.probe.bench import Model, in_wrapper, rows

    model = Model().to("cuda")
    in_wrapper(model, facts["wrapper"])(rows(facts))


def control(facts: Facts) -> None:
    from placement_lint.probe.bench import Model, in_wrapper, rows

    model = Model().to("cuda")
    in_wrapper(model, facts["wrapper"])(rows(facts).to("cuda"))


EXPERIMENT = Experiment(
    claim="inputs on the CPU raise in a DataParallel whose module is on a GPU",
    flagged=flagged,
    control=control,
    symptoms=MIXED_DEVICES,
    facts={"wrapper": "DataParallel"},
    gpus=1,
    expects=Outcome.REFUTED,
)


RULE = Rule(
    "DPL906",
    "cpu-inputs-into-data-parallel",
    Severity.INFO,
    PAGE,
    {Rumoured: check},
    default=False,
    experiment=EXPERIMENT,
)
