"""The optimizer is built before the model is wrapped, which is correct."""

from __future__ import annotations

from collections.abc import Iterator

from placement_lint.finding import Outcome, Severity
from placement_lint.flow.events.schema import Rumoured
from placement_lint.probe.experiment import Experiment, Facts, Sees
from placement_lint.rule import Page, Problem, Rule
from placement_lint.source.wording import quoted

PAGE = Page(
    what="""\
Reports an optimizer that is built before its model goes into `DataParallel` or `DistributedDataParallel`, which is
often claimed to leave the optimizer with the wrong parameters. It does not.
""",
    why="""\
The wrapper keeps the model as `self.module` (`torch/nn/parallel/data_parallel.py`, `DataParallel.__init__`) and
creates no new Parameter: `model.parameters()` returns the same objects before and after, and the gradients of the
replicas are summed in them. With any number of GPUs the model trains.
""",
    example="""\
import torch
from torch import nn

model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model = nn.DataParallel(model)
""",
    instead="""\
import torch
from torch import nn

model = nn.DataParallel(nn.Linear(4, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
""",
    silent="""\
The optimizer is built after wrapping, or holds parameters of another model.
""",
    fix="""\
No change is needed. Both orders are correct.
""",
)


def check(event: Rumoured) -> Iterator[Problem]:
    if event.claim == "optimizer before wrapper":
        yield Problem(
            event.node,
            f"{quoted(event.label)} is built before the model is wrapped in {event.wrapper}: the Parameter "
            "objects stay the same, so it trains them",
            facts={"optimizer": event.optimizer},
        )


def flagged(facts: Facts) -> str:
    return _train(facts, built_first=True)


def control(facts: Facts) -> str:
    return _train(facts, built_first=False)


def _train(facts: Facts, built_first: bool) -> str:
    from placement_lint.probe.bench import first_device, optimizer, parallel, step, trainable, unchanged

    model = trainable(facts).to(first_device(facts))
    wrapped = parallel(model, facts)
    held = optimizer(model if built_first else wrapped, facts)
    return "parameters are never trained" if unchanged(model, lambda: step(wrapped, held)) else "all parameters change"


EXPERIMENT = Experiment(
    claim="an optimizer that is built before the model is wrapped does not train it",
    flagged=flagged,
    control=control,
    symptoms=(Sees("never trained"),),
    facts={"optimizer": "SGD", "momentum": 0.0, "device_ids": [0, 1]},
    gpus=2,
    one_gpu={"device_ids": [0, 0]},
    expects=Outcome.REFUTED,
)


RULE = Rule(
    "DPL901",
    "optimizer-before-wrapper",
    Severity.INFO,
    PAGE,
    {Rumoured: check},
    default=False,
    experiment=EXPERIMENT,
)
