"""An attribute of the wrapped module is assigned on its wrapper."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from placement_lint.finding import Severity
from placement_lint.flow.events.schema import WrapperAttributeWritten
from placement_lint.probe.experiment import Experiment, Facts, Sees
from placement_lint.replaying import claimed, is_name
from placement_lint.rewriting import module_of_target, safe, unsafe
from placement_lint.rule import Page, Problem, Replay, Rule

PAGE = Page(
    what="""\
Reports an assignment to an attribute of a `DataParallel` or `DistributedDataParallel` wrapper although the wrapped
module reads its own attribute of that name. It has another one, or none at all.
""",
    why="""\
The wrapper stores the model as `self.module` and has no `__setattr__` of its own, so `nn.Module.__setattr__`
(torch/nn/modules/module.py) silently sets an attribute of the wrapper. The wrapped module keeps the old one: a flag
has no effect, and a new layer is beside the model and gets no gradient, although its weights are in `parameters()`
and in the state dict. If it has none, reading it raises `AttributeError`. The number of GPUs does not matter; if the
wrapping is under a condition such as `device_count() > 1`, only on machines where the condition is true.
""",
    example="""\
import torch
import torch.nn as nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(8, 16)
        self.head = nn.Linear(16, 10)

    def forward(self, x):
        return self.head(self.body(x))


model = nn.DataParallel(Net())
model.head = nn.Linear(16, 4)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
print(model.to(device)(torch.randn(16, 8)).shape)
""",
    instead="""\
import torch
import torch.nn as nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(8, 16)
        self.head = nn.Linear(16, 10)

    def forward(self, x):
        return self.head(self.body(x))


model = nn.DataParallel(Net())
model.module.head = nn.Linear(16, 4)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
print(model.to(device)(torch.randn(16, 8)).shape)
""",
    silent="""\
- `model.module.head = …`, and assignments to the variable that still refers to the unwrapped model.
- The name is one of the wrapper's own (`device_ids`, `training`), or nothing in the module reads it.
- The program reads it from the wrapper, or assigns it on the wrapped module as well.
- The assigned value is, or may be, that of the wrapped module: `model.config = model.module.config`.
- Wrappers that pass assignments on: a subclass with a `__setattr__`.
""",
    fix="""\
Assign it on `model.module`. This is safe if the model is always wrapped there. If it is wrapped on some paths only,
`getattr(model, "module", model)` is offered as an unsafe fix.
""",
)


def check(event: WrapperAttributeWritten) -> Iterator[Problem]:
    fix = safe if event.always else unsafe
    lacks, keeps = f"which reads `{event.name}`, has none", f"silently keeps its old `{event.name}`"
    inner = f"the wrapped module, {lacks}" if event.missing else f"the wrapped module {keeps}"
    yield Problem(
        event.node,
        f"`{event.owner}` is a {event.wrapper}: this sets the attribute on the wrapper, and {inner}",
        (event.wrapped, *event.reads[:1]),
        advice=f"assign `{event.owner}.module.{event.name}`",
        rewrite=fix("assign it on the wrapped module", module_of_target(event.node, event.always)),
        facts={"wrapper": event.wrapper, "name": event.name, "part": event.part, "missing": event.missing},
        replay=_replay(event),
    )


def _replay(event: WrapperAttributeWritten) -> Replay | None:
    if not is_name(event.label):
        return None
    reached = f'not hasattr({event.owner}, "module") or "{event.name}" not in dir({event.owner})'
    otherwise = f"the wrapped module has {'no value' if event.missing else 'its old value'}"
    return Replay(watch=(claimed(event.node, reached, otherwise),))


def flagged(facts: Facts) -> str:
    return _assigned(facts, inside=False)


def control(facts: Facts) -> str:
    return _assigned(facts, inside=True)


def _assigned(facts: Facts, inside: bool) -> str:
    from torch import nn

    from placement_lint.probe.bench import in_wrapper

    model = nn.Sequential(nn.Linear(2, 2))
    new = nn.Linear(2, 2) if facts["part"] else "new"
    if not facts["missing"]:
        setattr(model, facts["name"], nn.Linear(2, 2) if facts["part"] else "old")
    wrapper: Any = in_wrapper(model, facts["wrapper"])
    setattr(model if inside else wrapper, facts["name"], new)
    if getattr(model, facts["name"], None) is new:
        return "the wrapped module has the new value"
    return "the wrapped module has no value" if facts["missing"] else "the wrapped module has its old value"


EXPERIMENT = Experiment(
    claim="an assignment on a wrapper does not reach the wrapped module",
    flagged=flagged,
    control=control,
    symptoms=(Sees("its old value"), Sees("has no value")),
    facts={"wrapper": "DataParallel", "name": "head", "part": True, "missing": False},
)


RULE = Rule(
    "DPL102",
    "wrapper-attribute-write",
    Severity.WARNING,
    PAGE,
    {WrapperAttributeWritten: check},
    experiment=EXPERIMENT,
)
