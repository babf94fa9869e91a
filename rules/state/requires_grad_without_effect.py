"""A flag that freezes nothing: misspelt, or set on a module."""

from __future__ import annotations

from collections.abc import Iterator

from placement_lint.finding import Severity
from placement_lint.flow.events import GradFlagAssigned
from placement_lint.rule import Page, Problem, Rule

PAGE = Page(
    what="""\
Reports an assignment to a misspelt `requires_grad` of a tensor, Parameter or module (`require_grad`,
`requires_gradient` …), and `module.requires_grad = False` on an `nn.Module`.""",
    why="""\
Python makes a new attribute and says nothing. A module has no flag of its own: `nn.Module.__setattr__`
(torch/nn/modules/module.py) stores a plain bool, and every parameter keeps its own `requires_grad`. What was meant to
be frozen goes on training, on any machine, silently.""",
    example="""\
import torch.nn as nn

backbone = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
backbone.requires_grad = False
print([p.requires_grad for p in backbone.parameters()])
""",
    instead="""\
import torch.nn as nn

backbone = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
backbone.requires_grad_(False)
print([p.requires_grad for p in backbone.parameters()])
""",
    silent="""\
- `requires_grad` is assigned on a tensor or a Parameter, where it is the real flag.
- `module.requires_grad_(False)`.
- The class defines an attribute of that name itself.
- The object is neither a tensor nor known to be a module.""",
    fix="""\
Write the right name, or call `requires_grad_` on the module. Safe where freezing was meant; what trained by accident
stops training.""",
)


def check(event: GradFlagAssigned) -> Iterator[Problem]:
    if event.name == "requires_grad" and not event.on_module:
        return
    effect = "only gives the module an attribute" if event.on_module else "only makes a new attribute"
    right = f"call `{event.owner}.requires_grad_({event.value})`" if event.on_module else "write `requires_grad`"
    yield Problem(
        event.node,
        f"`{event.label} = {event.value}` {effect}: what its parameters do is unchanged, silently",
        advice=right,
    )


RULE = Rule("DPL309", "requires-grad-without-effect", Severity.ERROR, PAGE, {GradFlagAssigned: check})
