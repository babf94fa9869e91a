"""A Parameter shares memory with another attribute, and one of them is changed in place."""

from __future__ import annotations

from collections.abc import Iterator

from placement_lint.finding import Severity
from placement_lint.flow.events.schema import ParameterShared
from placement_lint.probe.experiment import Experiment, Facts, Sees
from placement_lint.replaying import claimed
from placement_lint.rewriting import argument_copied, safe
from placement_lint.rule import Line, Page, Problem, Replay, Rule

PAGE = Page(
    what="""\
Reports `nn.Parameter(t)` where `t` is also kept in another attribute, or in another Parameter, if `__init__`
changes one of the two in place.
""",
    why="""\
`nn.Parameter(t)` does not copy: it is a new tensor in the memory of `t` (torch/nn/parameter.py,
`Parameter.__new__`). Initialising one silently overwrites the other, and so does every optimizer step on the CPU.
When the module moves, each gets its own memory (`Module._apply` in torch/nn/modules/module.py): on a GPU the two
are separate from there on, with the same content.
""",
    example="""\
import torch
from torch import nn


class Gaussian(nn.Module):
    def __init__(self, size):
        super().__init__()
        weight = torch.empty(size, size)
        self.mu = nn.Parameter(weight)
        self.sigma = nn.Parameter(weight)
        nn.init.normal_(self.mu)
        nn.init.constant_(self.sigma, 0.1)

    def forward(self, x):
        return x @ (self.mu + self.sigma * torch.randn_like(self.sigma))


print(Gaussian(3)(torch.eye(3)))
""",
    instead="""\
import torch
from torch import nn


class Gaussian(nn.Module):
    def __init__(self, size):
        super().__init__()
        weight = torch.empty(size, size)
        self.mu = nn.Parameter(weight)
        self.sigma = nn.Parameter(weight.clone())
        nn.init.normal_(self.mu)
        nn.init.constant_(self.sigma, 0.1)

    def forward(self, x):
        return x @ (self.mu + self.sigma * torch.randn_like(self.sigma))


print(Gaussian(3)(torch.eye(3)))
""",
    silent="""\
- `nn.Parameter(t.clone())`, and a Parameter of a tensor computed from `t`.
- Only a local variable refers to `t`, or nothing reads the other attribute once the module is built.
- It is changed before the two share it, or through the local variable, which is intended for both.
- `self.b = self.a`: the same Parameter, as in tied weights.
- The module moved in between, or `.data` was assigned: the memory is no longer the same.
""",
    fix="""\
`nn.Parameter(t.clone())`. This is safe: the content is the same until one of the two changes.
""",
)


def check(event: ParameterShared) -> Iterator[Problem]:
    yield Problem(
        event.node,
        f"`self.{event.changed_name}` and `self.{event.other}` share memory: an in-place change of one "
        "silently changes the other",
        (event.changed, *event.reads[:1]),
        advice="create the Parameter from a copy, `.clone()`",
        rewrite=safe("create it from a copy", argument_copied(event.node)),
        facts={"parameters": event.both},
        replay=Replay(watch=_kept_apart(event)),
    )


def _kept_apart(event: ParameterShared) -> tuple[Line, ...]:
    one, other = f"self.{event.changed_name}", f"self.{event.other}"
    apart = f"{one}.data_ptr() != {other}.data_ptr()"
    return (claimed(event.changed.node, apart, "the two share memory"),)


def flagged(facts: Facts) -> str:
    return _changed(facts, copied=False)


def control(facts: Facts) -> str:
    return _changed(facts, copied=True)


def _changed(facts: Facts, copied: bool) -> str:
    import torch
    from torch import nn

    start = torch.zeros(2)
    other = nn.Parameter(start) if facts["parameters"] else start
    changed = nn.Parameter(start.clone() if copied or facts["copied"] else start)
    nn.init.ones_(changed)
    return "the other tensor does not change" if other.sum() == 0 else "the other tensor changes too"


EXPERIMENT = Experiment(
    claim="a Parameter shares the memory of the tensor that it is created from",
    flagged=flagged,
    control=control,
    symptoms=(Sees("tensor changes too"),),
    facts={"parameters": True, "copied": False},
)


RULE = Rule("DPL312", "parameter-shares-storage", Severity.ERROR, PAGE, {ParameterShared: check}, experiment=EXPERIMENT)
