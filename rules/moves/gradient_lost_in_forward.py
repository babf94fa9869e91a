"""A forward cuts off what its own layers compute: nothing ever trains them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from placement_lint.finding import Severity
from placement_lint.flow.events.schema import GradientLost, ParameterReadAsData
from placement_lint.probe.experiment import Experiment, Facts, Sees
from placement_lint.replaying import claimed
from placement_lint.rewriting import operand_itself
from placement_lint.rule import Line, Page, Problem, Replay, Rule
from placement_lint.source.wording import quoted

PAGE = Page(
    what="""\
Reports `.detach()`, `.data` and `torch.tensor(value)` in a `forward`, also on the way through a NumPy array, after
layers whose parameters an optimizer holds and no backward of the program reaches in another way. Also a Parameter that
a class reads in `forward` and nowhere else, through `.data`: as an info, since the optimizer is not in sight.
""",
    why="""\
The result of these has no history: autograd stops there, and `.grad` of the parameters before stays None. An
optimizer skips parameters without a gradient (torch/optim/sgd.py, `SGD._init_group`), so these layers silently keep
their random initial weights, while the layers after the cut adapt to them. If no layer follows, `backward()` raises
`element 0 of tensors does not require grad and does not have a grad_fn`. The machine does not matter.
""",
    example="""\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(8, 16)
        self.head = nn.Linear(16, 2)

    def forward(self, x):
        hidden = torch.tensor(self.encoder(x))
        return self.head(hidden)


net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
loss = nn.functional.cross_entropy(net(torch.randn(4, 8)), torch.tensor([0, 1, 1, 0]))
loss.backward()
optimizer.step()
print(loss.item())
""",
    instead="""\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(8, 16)
        self.head = nn.Linear(16, 2)

    def forward(self, x):
        hidden = self.encoder(x)
        return self.head(hidden)


net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
loss = nn.functional.cross_entropy(net(torch.randn(4, 8)), torch.tensor([0, 1, 1, 0]))
loss.backward()
optimizer.step()
print(loss.item())
""",
    silent="""\
- The gradient has another way back: straight-through estimators (`x + (y - x).detach()`), statistics, targets that the
  same network computes, a second loss.
- The layers before are frozen, loaded, or not in the optimizer: a teacher, a pretrained backbone, a target network.
- It is under `no_grad`, or outside of a `forward`.
- Indices, masks and numbers for a report, which are not part of the loss.
- An unknown value is part of a loss of the program.
""",
    fix="""\
There is no automatic fix. Remove the cut. If it is intended, do not give those parameters to the optimizer, or set
`requires_grad_(False)` on them, to make it explicit.
""",
)


def check(event: GradientLost) -> Iterator[Problem]:
    yield Problem(
        event.node,
        f"no gradient flows back through `{event.text}`: {quoted(event.optimizer)} holds parameters that "
        "are used only before it, so they are silently never trained",
        (event.backward, event.stepped),
        advice="remove the cut, or do not optimize the parameters before it",
        facts={"how": event.how},
        replay=_replay(event),
    )


def check_parameter(event: ParameterReadAsData) -> Iterator[Problem]:
    yield Problem(
        event.node,
        f"`{event.label}` is a Parameter, and forward reads it through `.data` only: no gradient reaches it, so no "
        "optimizer trains it",
        (),
        advice="read it without `.data`, or set `requires_grad=False` if it is not to be trained",
        severity=Severity.INFO,
        facts={"how": ".data"},
    )


def _replay(event: GradientLost) -> Replay:
    owner = Line(event.node, "watched.append(self)", before=True)
    trained = "not watched or all(p.grad is not None for p in watched[-1].parameters() if p.requires_grad)"
    return Replay(
        watch=(
            owner,
            claimed(event.stepped.node, trained, "some parameters get no gradient"),
        ),
        repairs=(operand_itself(event.node),),
    )


def flagged(facts: Facts) -> str:
    return _trained(facts, facts["how"])


def control(facts: Facts) -> str:
    return _trained(facts, "")


def _trained(facts: Facts, how: str) -> str:
    import torch
    from torch import nn

    encoder, head = nn.Linear(2, 2), nn.Linear(2, 1)
    hidden: Any = encoder(torch.ones(4, 2))
    seen = {".detach()": hidden.detach, ".data": lambda: hidden.data, "torch.tensor": lambda: torch.tensor(hidden)}
    loss = head(seen[how]() if how else hidden).sum()
    if facts["also"]:
        loss = loss + hidden.sum()
    loss.backward()
    reached = all(parameter.grad is not None for parameter in encoder.parameters())
    return "all parameters get a gradient" if reached else "the parameters before the cut get no gradient"


EXPERIMENT = Experiment(
    claim="no gradient flows back through `.detach()`, `.data` and `torch.tensor()`",
    flagged=flagged,
    control=control,
    symptoms=(Sees("get no gradient"),),
    facts={"how": ".detach()", "also": False},
)


RULE = Rule(
    "DPL508",
    "gradient-lost-in-forward",
    Severity.WARNING,
    PAGE,
    {GradientLost: check, ParameterReadAsData: check_parameter},
    experiment=EXPERIMENT,
)
