"""The optimizer is built before the model is moved, which is correct."""

from __future__ import annotations

from collections.abc import Iterator

from placement_lint.finding import Outcome, Severity
from placement_lint.flow.events.schema import Rumoured
from placement_lint.probe.experiment import MIXED_DEVICES, Experiment, Facts, Sees
from placement_lint.rule import Page, Problem, Rule
from placement_lint.source.wording import quoted

PAGE = Page(
    what="""\
Reports an optimizer that is built before its model is moved, which the docstring of `Module.cuda` warns about
("should be called before constructing the optimizer"). For all optimizers except Adagrad, the warning is outdated.
""",
    why="""\
`Module.to` puts the moved data into the same Parameter objects (`torch/nn/modules/module.py`, `Module._apply`,
`param.data = ...`), on the CPU and on CUDA. An optimizer creates its state at the first `step()`, on the device of
the parameters. Adagrad creates it when it is built; DPL201 reports that, and a move after a step.
""",
    example="""\
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(4, 2)
optimizer = torch.optim.Adam(model.parameters())
model.to(device)
""",
    instead="""\
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(4, 2).to(device)
optimizer = torch.optim.Adam(model.parameters())
""",
    silent="""\
The optimizer is built after the move, has state already, or is Adagrad.
""",
    fix="""\
No change is needed. Moving first is also correct for Adagrad, meta tensors and XLA.
""",
)


def check(event: Rumoured) -> Iterator[Problem]:
    if event.claim == "optimizer before move":
        yield Problem(
            event.node,
            f"{quoted(event.label)} ({event.optimizer}) is built before this move: the Parameter objects stay "
            "the same, and the optimizer has no state yet",
            facts={"optimizer": event.optimizer},
        )


def flagged(facts: Facts) -> str:
    return _train(facts, built_first=True)


def control(facts: Facts) -> str:
    return _train(facts, built_first=False)


def _train(facts: Facts, built_first: bool) -> str:
    from placement_lint.probe.bench import optimizer, step, trainable, unchanged

    model = trainable(facts)
    held = optimizer(model, facts)
    model.to("cuda")
    if not built_first:
        held = optimizer(model, facts)
    return "parameters are never trained" if unchanged(model, lambda: step(model, held)) else "all parameters change"


EXPERIMENT = Experiment(
    claim="an optimizer that is built before model.to(device) keeps the parameters on the CPU",
    flagged=flagged,
    control=control,
    symptoms=(Sees("never trained"), *MIXED_DEVICES),
    facts={"optimizer": "Adam", "momentum": 0.0},
    gpus=1,
    expects=Outcome.REFUTED,
)


RULE = Rule(
    "DPL904",
    "optimizer-before-move",
    Severity.INFO,
    PAGE,
    {Rumoured: check},
    default=False,
    experiment=EXPERIMENT,
)
