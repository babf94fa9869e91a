"""A replica reaches the original module through an attribute."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from placement_lint.finding import Severity
from placement_lint.flow.events.facts import replica_facts
from placement_lint.flow.events.schema import AliasUsed
from placement_lint.probe.experiment import Experiment, Facts, Raises, Sees
from placement_lint.rewriting import read_instead, safe, unsafe, wrapped_in
from placement_lint.rule import Page, Problem, Rewrite, Rule

PAGE = Page(
    what="""\
Reports an attribute through which a `DataParallel` replica refers to the original module: a plain list, tuple or
dict of layers or Parameters that are registered under another name, a method of `self` that was bound in
`__init__`, a lambda or `partial` over `self`.
""",
    why="""\
A replica is a shallow copy. Its registered children are replaced by the replica's own, and everything else in its
`__dict__` is shared with the original (torch/nn/modules/module.py, `Module._replicate_for_data_parallel`). A list
of layers still contains the original's layers, and a bound method has the original as its `self`. The first replica
computes with the original's weights; the second has its inputs on another GPU and raises
`Caught RuntimeError in replica 1 on device 1 ... Expected all tensors to be on the same device`.
""",
    example="""\
import torch
import torch.nn as nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 4)
        self.layers = [self.first, self.second]

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.DataParallel(Net().to(device))
model(torch.randn(16, 8)).sum().backward()
""",
    instead="""\
import torch
import torch.nn as nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(8, 8), nn.Linear(8, 4)])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.DataParallel(Net().to(device))
model(torch.randn(16, 8)).sum().backward()
""",
    silent="""\
- `ModuleList`, `ModuleDict`, `Sequential`, `ParameterList`: replicas have their own.
- A list of names, with `getattr(self, name)`; functions without `self`, static methods.
- A bound method that uses no weights, and code that runs only outside `forward`.
- The class is never wrapped in `DataParallel`, or only with a single device id.
""",
    fix="""\
Put layers in an `nn.ModuleList` or `nn.ModuleDict`. This is unsafe, because the state dict then has each layer
twice. Call a bound method by its own name in `forward`, which is safe.
""",
)


def check(event: AliasUsed) -> Iterator[Problem]:
    holds = f"a plain {event.how}" if event.how in ("list", "tuple", "dict") else f"a {event.how}"
    yield Problem(
        event.node,
        f"`self.{event.name}` of `{event.owner}` is {holds}, which DataParallel does not replicate: in a "
        "replica it refers to the original's weights, on the first GPU",
        (*event.scene.replica, event.used),
        advice="put it in a container of torch.nn" if holds.startswith("a plain") else "use `self` in forward",
        rewrite=_rewrite(event),
        facts={"how": event.how, **replica_facts(event.scene)},
    )


def _rewrite(event: AliasUsed) -> Rewrite | None:
    if event.method:
        return safe("call the method itself", read_instead(event.read, event.method))
    return unsafe("register its items", wrapped_in(event.node, event.registering))


def flagged(facts: Facts) -> str:
    return _computed(facts, facts["how"])


def control(facts: Facts) -> str:
    return _computed(facts, "ModuleList")


def _computed(facts: Facts, how: str) -> str:
    """Whether each replica uses its own layer if it reaches the layer in this way."""
    import functools

    from torch import Tensor, nn

    from placement_lint.probe.bench import SIDE, parallel, rows

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(SIDE, SIDE)
            held: dict[str, Any] = {
                "list": [self.layer],
                "tuple": (self.layer,),
                "dict": {0: self.layer},
                "ModuleList": nn.ModuleList([self.layer]),
                "bound method": self.reach,
                "lambda": lambda: self.layer,
                "partial": functools.partial(Net.reach, self),
                "static": None,
            }
            self.held = held[how]

        def reach(self) -> nn.Module:
            return self.layer

        def forward(self, x: Tensor) -> Tensor:
            contained = isinstance(self.held, (list, tuple, dict, nn.ModuleList))
            used = self.layer if self.held is None else self.held[0] if contained else self.held()
            seen.append(used is self.layer)
            return x @ used.weight

    seen: list[bool] = []
    parallel(Net(), facts)(rows(facts))
    return "each replica uses its own layer" if all(seen) else "a replica uses the original's layer"


EXPERIMENT = Experiment(
    claim="in every replica, a plain container or a bound method refers to the original's layers",
    flagged=flagged,
    control=control,
    symptoms=(Raises("RuntimeError", "same device"), Sees("uses the original's layer")),
    facts={"how": "list", "device_ids": [0, 1]},
    gpus=2,
    one_gpu={"device_ids": [0, 0]},
    harmless_on=1,
)


RULE = Rule("DPL120", "alias-escapes-replica", Severity.ERROR, PAGE, {AliasUsed: check}, experiment=EXPERIMENT)
