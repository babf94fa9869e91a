"""Weights are tied, and then each of their names gets a Parameter of its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from placement_lint.finding import Severity
from placement_lint.flow.events.schema import TieBroken
from placement_lint.probe.experiment import Experiment, Facts, Sees
from placement_lint.replaying import still_tied
from placement_lint.rule import Note, Page, Problem, Rule
from placement_lint.source.wording import quoted, source_text

PAGE = Page(
    what="""\
Reports `to_empty()` of a model on the meta device, `load_state_dict(…, assign=True)` and conversions that overwrite
Parameters, if weights of the model were tied before, are not tied again, and an optimizer trains them.
""",
    why="""\
`decoder.weight = encoder.weight` registers one Parameter under two names. `Module._apply` and `load_state_dict`
(torch/nn/modules/module.py) visit each name; if they cannot put new data into the old Parameter, each name silently
gets a new one. From there on there are two matrices, each trained with its own gradient, and they drift apart.
Moves from one real device to another, `half()` and `copy.deepcopy` keep the tie.
""",
    example="""\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Embedding(10, 4)
        self.decoder = nn.Linear(4, 10, bias=False)
        self.decoder.weight = self.encoder.weight

    def forward(self, x):
        return self.decoder(self.encoder(x))


with torch.device("meta"):
    net = Net()
net.to_empty(device="cpu")
nn.init.normal_(net.encoder.weight)
nn.init.normal_(net.decoder.weight)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
words = torch.tensor([1, 2, 3])
nn.functional.cross_entropy(net(words), words).backward()
optimizer.step()
""",
    instead="""\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Embedding(10, 4)
        self.decoder = nn.Linear(4, 10, bias=False)
        self.decoder.weight = self.encoder.weight

    def forward(self, x):
        return self.decoder(self.encoder(x))


with torch.device("meta"):
    net = Net()
net.to_empty(device="cpu")
net.decoder.weight = net.encoder.weight
nn.init.normal_(net.encoder.weight)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
words = torch.tensor([1, 2, 3])
nn.functional.cross_entropy(net(words), words).backward()
optimizer.step()
""",
    silent="""\
- The weights are tied again afterwards, or the model is passed to a function that may do so.
- `.to()`, `.half()` and `to_empty()` of a model that is not on meta, `copy.deepcopy`, and `load_state_dict` without
  `assign`: the Parameter stays the same.
- One layer under two names, or `F.linear(x, self.encoder.weight)`: there is no second name for the weight.
- The two are not trained: the model is only evaluated, or they are frozen.
- `torch.__future__.set_swap_module_params_on_conversion(True)`, and `strict=False`, which may skip a name.
""",
    fix="""\
There is no automatic fix: repeat the assignment after the reported statement, or in a method of the model that is
called there.
""",
)

_WHAT = {
    "materialized": "`to_empty` on meta",
    "converted": "a conversion that overwrites Parameters",
    "moved to XLA": "a move to XLA",
    "assigned": "`load_state_dict(assign=True)`",
}


def check(event: TieBroken) -> Iterator[Problem]:
    yield Problem(
        event.node,
        f"{_WHAT[event.how]} creates a new Parameter for each name: `{source_text(event.tied)}` is no "
        f"longer true, and {quoted(event.optimizer)} silently trains the two separately",
        (Note(event.tied, "tied here"), event.stepped),
        advice="tie them again afterwards",
        facts={"how": event.how} if event.how != "moved to XLA" else {},
        replay=still_tied(event),
    )


def flagged(facts: Facts) -> str:
    return _trained(facts, again=False)


def control(facts: Facts) -> str:
    return _trained(facts, again=True)


def _trained(facts: Facts, again: bool) -> str:
    import torch
    from torch import nn

    how = facts["how"]

    def tie(model: Any) -> None:
        if not facts["shared"]:
            model[1].weight = model[0].weight

    with torch.device("meta" if how == "materialized" else "cpu"):
        first = nn.Linear(2, 2, bias=False)
        model = nn.Sequential(first, first if facts["shared"] else nn.Linear(2, 2, bias=False))
        tie(model)
    _done(model, how)
    if again:
        tie(model)
    one = model[0].weight is model[1].weight
    return "the two are one Parameter" if one else "the two are different Parameters"


def _done(model: Any, how: str) -> None:
    import copy

    import torch

    if how == "materialized":
        model.to_empty(device="cpu")
    elif how == "assigned":
        model.load_state_dict(copy.deepcopy(model).state_dict(), assign=True)
    elif how == "converted":
        torch.__future__.set_overwrite_module_params_on_conversion(True)
        try:
            model.double()
        finally:
            torch.__future__.set_overwrite_module_params_on_conversion(False)
    else:
        model.double().to("cpu").to_empty(device="cpu")


EXPERIMENT = Experiment(
    claim="an operation that creates a new Parameter for each name unties weights",
    flagged=flagged,
    control=control,
    symptoms=(Sees("different Parameters"),),
    facts={"how": "materialized", "shared": False},
)


RULE = Rule("DPL304", "tied-weights-broken", Severity.WARNING, PAGE, {TieBroken: check}, experiment=EXPERIMENT)
