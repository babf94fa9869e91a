"""A forward makes a layer and computes with it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from placement_lint.finding import Severity
from placement_lint.flow.events.schema import MadeInForward, OptimizerStale
from placement_lint.probe.experiment import Experiment, Facts, Sees
from placement_lint.replaying import never_trained
from placement_lint.rule import Line, Page, Problem, Replay, Rule
from placement_lint.source.wording import quoted, source_text

PAGE = Page(
    what="""\
Reports a layer with parameters, or an `nn.Parameter`, that `forward` (or a method that it calls) creates and uses:
on each call, or in the first call if an optimizer was built before.
""",
    why="""\
A layer starts with random weights (`reset_parameters` in `torch/nn/modules/linear.py`). Created on each call, it
has other weights each time and loses what it learned. Created in the first call, it stays, but an optimizer that
was built before does not hold its parameters.

- 0 GPUs: nothing raises; the layer is never trained, and is not in the `state_dict()` of a fresh model.
- 1 GPU or more: it is also created on the CPU, and with an input on a GPU raises
  `RuntimeError: Expected all tensors to be on the same device, ...`, unless it is moved.
""",
    example="""\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(8, 16)

    def forward(self, x):
        features = torch.relu(self.body(x))
        return nn.Linear(16, 2)(features)


net = Net()
print(net(torch.randn(4, 8)).shape)
""",
    instead="""\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(8, 16)
        self.head = nn.Linear(16, 2)

    def forward(self, x):
        features = torch.relu(self.body(x))
        return self.head(features)


net = Net()
print(net(torch.randn(4, 8)).shape)
""",
    silent="""\
- The module has no parameters: `nn.ReLU()`, `nn.Softmax(dim=1)`, a loss, a norm with `affine=False`.
- It only combines layers of the model and has no weights of its own.
- Its weights are set, loaded or frozen at once: a fixed filter.
- It is created once, before the optimizer is built, for example by a call with a sample, or the analysis sees no
  optimizer step.
- `nn.LazyLinear` and similar layers: the Parameter objects exist from the start.
- A method that `__init__` calls creates it.
""",
    fix="""\
Create the layer in `__init__`. If its size is known only in the first call, use `nn.LazyLinear` or a similar layer,
or call the model with a sample before the optimizer is built.
""",
)


def check(event: MadeInForward) -> Iterator[Problem]:
    yield Problem(
        event.node,
        f"each call of `forward` creates a new {event.cls} here, whose weights are never trained",
        advice="create it in `__init__`",
        facts={"made": event.cls, "kept": "each time" if event.kept else ""},
        replay=_replay(event),
    )


def _replay(event: MadeInForward) -> Replay:
    """Compare the new module with the one from an earlier call of the same module; each call is made twice."""
    made = source_text(event.node)
    return Replay(
        noted=((event.node, f"as_before(self, {made})"),),
        watch=tuple(Line(call, "{node}") for call in event.scene.calls[:1]),
        repairs=(((event.node, f"as_before(self, kept(self, 'made_once', lambda: {made}))"),),),
        right=False,
    )


def check_first_call(event: OptimizerStale) -> Iterator[Problem]:
    if event.how == "made in forward":
        yield Problem(
            event.node,
            f"the first call creates {quoted(event.replaced)} here, after {quoted(event.optimizer)} got the "
            "parameters: it is silently never trained",
            (event.built, event.stepped),
            advice="create it in `__init__`, or call the model once before building the optimizer",
            severity=Severity.WARNING,
            facts={"kept": "once"},
            replay=never_trained(event),
        )


def flagged(facts: Facts) -> str:
    return _train(facts)


def control(facts: Facts) -> str:
    return _train({**facts, "kept": "in __init__"})


def _train(facts: Facts) -> str:
    import torch
    from torch import Tensor, nn

    from placement_lint.probe.bench import SIDE, Model

    used: list[Tensor] = []

    def made() -> Any:
        if facts["made"] == "Parameter":
            return nn.ParameterList([nn.Parameter(torch.randn(SIDE))])
        return nn.Softmax(dim=1) if facts["made"] == "Softmax" else nn.Linear(SIDE, SIDE)

    def part_of(self: Any) -> Any:
        if not facts["kept"]:
            return made()
        if facts["kept"] == "each time" or not hasattr(self, "part"):
            self.part = made()
        return self.part

    def forward(self: Any, x: Tensor) -> Any:
        part = part_of(self)
        used.extend(part.parameters())
        return x * self.weight.sum() * part[0] if isinstance(part, nn.ParameterList) else part(x * self.weight.sum())

    model = Model(forward)
    x = torch.randn(SIDE, SIDE)
    if facts["kept"] == "in __init__":
        part_of(model)
    if facts["called_before"]:
        model(x)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    used.clear()
    for _ in range(2):
        model(x).square().sum().backward()
        optimizer.step()
    held = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
    missed = [parameter for parameter in used if id(parameter) not in held]
    return "it uses parameters that are never trained" if missed else "all parameters that it uses are trained"


EXPERIMENT = Experiment(
    claim="an optimizer does not hold a layer that forward creates, so the layer is never trained",
    flagged=flagged,
    control=control,
    symptoms=(Sees("never trained"),),
    facts={"made": "Linear", "kept": "", "called_before": False},
)


RULE = Rule(
    "DPL308",
    "module-created-in-forward",
    Severity.ERROR,
    PAGE,
    {MadeInForward: check, OptimizerStale: check_first_call},
    experiment=EXPERIMENT,
)
