"""The gradients of a copy of the model are clipped, which has none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from placement_lint.finding import Severity
from placement_lint.flow.events.schema import GradientsOfCopyClipped
from placement_lint.probe.experiment import Experiment, Facts, Sees
from placement_lint.replaying import argument_as, claimed, first_argument
from placement_lint.rule import Page, Problem, Replay, Rule
from placement_lint.source.wording import quoted

PAGE = Page(
    what="""\
Reports `clip_grad_norm_` with the parameters of a model that has a copy (`copy.deepcopy`), if every backward of the
program reaches the other one of the two.
""",
    why="""\
A copy has Parameters of its own, and no gradient: `Parameter.__deepcopy__` (torch/nn/parameter.py) copies the data
only. `clip_grad_norm_` uses the parameters that have a gradient (torch/nn/utils/clip_grad.py); without any it
silently returns 0 and changes nothing. The gradients of the model that is trained are not clipped.
""",
    example="""\
import copy

import torch
from torch import nn

net = nn.Linear(8, 2)
model = nn.DataParallel(copy.deepcopy(net))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loss = nn.functional.cross_entropy(model(torch.randn(4, 8)), torch.tensor([0, 1, 1, 0]))
loss.backward()
nn.utils.clip_grad_norm_(net.parameters(), 1.0)
optimizer.step()
""",
    instead="""\
import copy

import torch
from torch import nn

net = nn.Linear(8, 2)
model = nn.DataParallel(copy.deepcopy(net))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loss = nn.functional.cross_entropy(model(torch.randn(4, 8)), torch.tensor([0, 1, 1, 0]))
loss.backward()
nn.utils.clip_grad_norm_(model.parameters(), 1.0)
optimizer.step()
""",
    silent="""\
- The module inside a wrapper, `model.module`, and the variable that held it before it was wrapped: these are the same
  Parameters.
- A backward reaches the clipped parameters, for example because both models are trained, or may do so.
- The program assigns gradients itself, or the analysis does not see all of its backwards.
- `zero_grad()`, freezing and loading of copies, as moving averages and teachers need, and `clip_grad_value_`, which
  raises without a gradient.
""",
    fix="""\
There is no automatic fix: clip the parameters of the model that is trained.
""",
)


def check(event: GradientsOfCopyClipped) -> Iterator[Problem]:
    trained = f"`{event.trained}`" if event.trained else "its copy"
    yield Problem(
        event.node,
        f"`{event.how}` finds no gradients because {trained} is trained, and {quoted(event.label)} has "
        "had Parameters of its own since one was copied from the other: nothing is clipped, without an "
        "error",
        (event.copied,),
        advice="clip the parameters of the model that is trained",
        facts={"how": event.how},
        replay=_replay(event),
    )


def _replay(event: GradientsOfCopyClipped) -> Replay | None:
    given = first_argument(event.node)
    if given is None:
        return None
    some = claimed(given, "any(p.grad is not None for p in {node})", "there is no gradient", before=True)
    repairs = (argument_as(event.node, f"{event.name}.parameters()"),) if event.name else ()
    return Replay(watch=(some,), repairs=repairs)


def flagged(facts: Facts) -> str:
    return _clipped(facts, trained=False)


def control(facts: Facts) -> str:
    return _clipped(facts, trained=True)


def _clipped(facts: Facts, trained: bool) -> str:
    import copy

    import torch
    from torch import nn

    net = nn.Linear(2, 2)
    model: Any = nn.Sequential(copy.deepcopy(net) if facts["copied"] else net)
    model(torch.full((1, 2), 9.0)).sum().backward()
    clip = getattr(nn.utils, facts["how"])
    clip((model if trained else net).parameters(), 0.5)
    gradients = [p.grad for p in model.parameters()]
    return "the gradients are clipped" if all(bool((g <= 0.5).all()) for g in gradients) else "nothing is clipped"


EXPERIMENT = Experiment(
    claim="a copy of a model has no gradients to clip",
    flagged=flagged,
    control=control,
    symptoms=(Sees("nothing is clipped"),),
    facts={"how": "clip_grad_norm_", "copied": True},
)


RULE = Rule(
    "DPL209",
    "grad-ops-on-model-copy",
    Severity.WARNING,
    PAGE,
    {GradientsOfCopyClipped: check},
    experiment=EXPERIMENT,
)
