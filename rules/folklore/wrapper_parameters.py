"""The optimizer gets the parameters of the wrapper, which is correct."""

from __future__ import annotations

from collections.abc import Iterator

from placement_lint.finding import Outcome, Severity
from placement_lint.flow.events.schema import Rumoured
from placement_lint.probe.experiment import Experiment, Facts, Sees
from placement_lint.rule import Page, Problem, Rule

PAGE = Page(
    what="""\
Reports an optimizer that gets `model.parameters()` of a wrapper, where `model.module.parameters()` is often claimed
to be needed. They are the same.
""",
    why="""\
The wrapper registers the model as its child `module` and has no parameters of its own
(`torch/nn/parallel/data_parallel.py`, `DataParallel.__init__`), so both calls return the same objects in the same
order. Only the names differ, by the prefix `module.`
""",
    example="""\
import torch
from torch import nn

model = nn.DataParallel(nn.Linear(4, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
""",
    instead="""\
import torch
from torch import nn

model = nn.DataParallel(nn.Linear(4, 2))
optimizer = torch.optim.SGD(model.module.parameters(), lr=0.1)
""",
    silent="""\
The parameters are those of an unwrapped model or of `model.module`.
""",
    fix="""\
No change is needed.
""",
)


def check(event: Rumoured) -> Iterator[Problem]:
    if event.claim == "parameters of wrapper":
        yield Problem(
            event.node,
            f"`{event.label}.parameters()` of a {event.wrapper} returns the Parameters of the wrapped module",
            facts={"wrapper": event.wrapper},
        )


def flagged(facts: Facts) -> str:
    return _compared(facts, through_wrapper=True)


def control(facts: Facts) -> str:
    return _compared(facts, through_wrapper=False)


def _compared(facts: Facts, through_wrapper: bool) -> str:
    from placement_lint.probe.bench import Model, in_wrapper

    model = Model()
    wrapper = in_wrapper(model, facts["wrapper"])
    given = (wrapper if through_wrapper else wrapper.module).parameters()
    same = [id(parameter) for parameter in given] == [id(parameter) for parameter in model.parameters()]
    return f"they are {'the same' if same else 'other'} objects"


EXPERIMENT = Experiment(
    claim="the parameters of a wrapper are not those of its module",
    flagged=flagged,
    control=control,
    symptoms=(Sees("they are other objects"),),
    facts={"wrapper": "DataParallel"},
    gpus=0,
    expects=Outcome.REFUTED,
)


RULE = Rule(
    "DPL905",
    "wrapper-parameters-vs-module-parameters",
    Severity.INFO,
    PAGE,
    {Rumoured: check},
    default=False,
    experiment=EXPERIMENT,
)
