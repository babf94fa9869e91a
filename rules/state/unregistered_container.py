"""Modules or Parameters are in a plain list or dict."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from placement_lint.finding import Severity
from placement_lint.flow.events.schema import UnregisteredUsed
from placement_lint.probe.experiment import Experiment, Facts, Sees
from placement_lint.replaying import claimed
from placement_lint.rewriting import unsafe, wrapped_in
from placement_lint.rule import Page, Problem, Replay, Rule

PAGE = Page(
    what="""\
Reports modules or Parameters that a module holds only in a plain list, tuple or dict and uses in `forward`.
""",
    why="""\
`Module.__setattr__` registers a Module or a Parameter, not a container of them (`torch/nn/modules/module.py`). Its
items are in neither `parameters()` nor `state_dict()`: they are not trained, saved or moved, and `train()` and
`eval()` do not reach them.

- 0 GPUs: nothing raises; these layers keep their initial weights. If the model has no other parameters, the
  optimizer raises `ValueError: optimizer got an empty parameter list`.
- 1 GPU or more: they stay on the CPU, and `forward` raises
  `RuntimeError: Expected all tensors to be on the same device, ...`.
""",
    example="""\
import torch
from torch import nn


class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads = [nn.Linear(4, 2) for _ in range(3)]

    def forward(self, x):
        return torch.cat([head(x) for head in self.heads], dim=1)


device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = Heads().to(device)
print(model(torch.randn(8, 4, device=device)).shape, len(model.state_dict()))
""",
    instead="""\
import torch
from torch import nn


class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads = nn.ModuleList([nn.Linear(4, 2) for _ in range(3)])

    def forward(self, x):
        return torch.cat([head(x) for head in self.heads], dim=1)


device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = Heads().to(device)
print(model(torch.randn(8, 4, device=device)).shape, len(model.state_dict()))
""",
    silent="""\
- The list is passed to `nn.Sequential(*layers)` or `nn.ModuleList(layers)`.
- Its items are registered as well: `self.layers = [self.conv1, self.conv2]`, or by `add_module`.
- It contains names, plain functions or numbers.
- `forward` does not use its items.
- Its items come from outside and are moved or frozen there, or are frozen and moved separately: a teacher that is
  hidden on purpose.
- The owner is not an `nn.Module`: a trainer may keep its networks in a dict and move them one by one.
""",
    fix="""\
`nn.ModuleList`, `nn.ModuleDict`, `nn.ParameterList` or `nn.ParameterDict` around the container. Offered if all
items fit and the file imports `torch.nn`. Unsafe: the layers start to train and `state_dict()` gets new keys, so
old checkpoints no longer load with `strict=True`. Indices and keys work as before; the keys of a ModuleDict must be
strings.
""",
)


def check(event: UnregisteredUsed) -> Iterator[Problem]:
    yield Problem(
        event.node,
        f"`self.{event.name}` is a plain Python container: {event.owner} does not register its items, so "
        "it does not move, train or save them",
        (*([event.moved] if event.moved else []), event.used),
        advice="use nn.ModuleList, nn.ModuleDict or nn.ParameterList",
        rewrite=unsafe(f"register it in a {event.registering}", wrapped_in(event.node, event.registering)),
        facts={"container": event.container, "content": event.content},
        replay=Replay(
            watch=(claimed(event.used.node, f"'{event.name}' in self._modules", "it is not registered", before=True),)
        ),
    )


def flagged(facts: Facts) -> str:
    return _held_in(facts, facts["container"])


def control(facts: Facts) -> str:
    return _held_in(facts, "ModuleList" if facts["content"] == "module" else "ParameterList")


def _held_in(facts: Facts, container: str) -> str:
    import torch
    from torch import nn

    containers: dict[str, Callable[[Any], object]] = {
        "list": lambda part: [part],
        "tuple": lambda part: (part,),
        "dict": lambda part: {"part": part},
        "ModuleList": lambda part: nn.ModuleList([part]),
        "ModuleDict": lambda part: nn.ModuleDict({"part": part}),
        "ParameterList": lambda part: nn.ParameterList([part]),
        "ParameterDict": lambda part: nn.ParameterDict({"part": part}),
    }
    part = nn.Linear(2, 2) if facts["content"] == "module" else nn.Parameter(torch.ones(2))
    owner: Any = nn.Module()
    owner.parts = containers[container](part)
    if facts["registered_too"]:
        owner.first = part
    owner.to(facts["home"])
    weight = part.weight if isinstance(part, nn.Linear) else part
    found = any(parameter is weight for parameter in owner.parameters())
    return f"it is {'registered' if found else 'not registered'} and on {weight.device}"


EXPERIMENT = Experiment(
    claim="a module does not move, train or save the items of a plain list, tuple or dict",
    flagged=flagged,
    control=control,
    symptoms=(Sees("not registered"),),
    facts={"container": "list", "content": "module", "registered_too": False, "home": "cuda"},
    gpus=1,
)


RULE = Rule("DPL303", "unregistered-container", Severity.ERROR, PAGE, {UnregisteredUsed: check}, experiment=EXPERIMENT)
