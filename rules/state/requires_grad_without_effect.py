"""A flag that freezes nothing: misspelt, or set on a module."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from placement_lint.finding import Severity
from placement_lint.flow.events.schema import GradFlagAssigned
from placement_lint.probe.experiment import Experiment, Facts, Sees
from placement_lint.replaying import claimed
from placement_lint.rewriting import called_with_value, renamed_attribute, safe, unsafe
from placement_lint.rule import Page, Problem, Replay, Rewrite, Rule

PAGE = Page(
    what="""\
Reports an assignment to a misspelt `requires_grad` of a tensor, Parameter or module (`require_grad`,
`requires_gradient` …), and `module.requires_grad = False` on an `nn.Module`. Where the flag has that value anyway, it
is an info: on a tensor for a buffer, or `= True` on a module whose parameters nothing has frozen.""",
    why="""\
Python silently creates a new attribute. A module has no such flag: `nn.Module.__setattr__`
(torch/nn/modules/module.py) stores a plain bool, and every parameter keeps its own `requires_grad`. Parameters that
should be frozen are still trained, on any machine and without an error.
""",
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
- `requires_grad` is assigned on a tensor or a Parameter, where the flag exists.
- `module.requires_grad_(False)`.
- The class defines an attribute of that name itself, or its methods read it.
- An `__init__` stores an option of that name, in a class that extends no layer.
- The object is neither a tensor nor known to be a module.
""",
    fix="""\
Write the correct name, or call `requires_grad_` on the module. Safe if freezing is intended: parameters that were
trained by accident stop training. Unsafe if a module gets another value than `False` and it is unknown whether its
parameters are frozen. The name is not corrected on a tensor that is computed from others, whose flag
cannot be set.
""",
)


def check(event: GradFlagAssigned) -> Iterator[Problem]:
    if event.name == "requires_grad" and not event.on_module:
        return
    effect = "only sets an attribute of the module" if event.on_module else "only creates a new attribute"
    right = f"call `{event.owner}.requires_grad_({event.value})`" if event.on_module else "write `requires_grad`"
    facts = {"module": event.on_module, "name": event.name, "value": event.value == "True"}
    if event.value == str(event.before):
        yield Problem(
            event.node,
            f"`{event.label} = {event.value}` {effect}, and {_already(event)}",
            advice="delete the line",
            severity=Severity.INFO,
            facts=facts,
        )
        return
    yield Problem(
        event.node,
        f"`{event.label} = {event.value}` {effect}: the parameters silently stay as they are",
        advice=right,
        rewrite=_set_flag(event),
        facts=facts,
        replay=Replay(watch=(claimed(event.node, _has_effect(event), "the assignment has no effect"),)),
    )


def _already(event: GradFlagAssigned) -> str:
    if not event.on_module:
        return "the tensor asks for no gradient anyway"
    return "its parameters train anyway" if event.before else "its parameters are frozen already"


def _set_flag(event: GradFlagAssigned) -> Rewrite | None:
    if event.on_module:
        # `True` would also unfreeze parameters that something unknown has frozen on purpose.
        fix = unsafe if event.before is None and event.value != "False" else safe
        return fix("set the flag of its parameters", called_with_value(event.node, "requires_grad_"))
    return safe("write the correct name", renamed_attribute(event.node, "requires_grad")) if event.leaf else None


def _has_effect(event: GradFlagAssigned) -> str:
    if event.on_module:
        return f"all(p.requires_grad == {event.value} for p in {event.owner}.parameters())"
    return f"{event.owner}.requires_grad == {event.value}"


def flagged(facts: Facts) -> str:
    thing = _made(facts)
    setattr(thing, facts["name"], facts["value"])
    return _seen(thing, facts)


def control(facts: Facts) -> str:
    return _seen(_made(facts).requires_grad_(facts["value"]), facts)


def _made(facts: Facts) -> Any:
    """A module or a tensor without the effect that the assignment should have."""
    import torch

    made = torch.nn.Linear(2, 2) if facts["module"] else torch.ones(2)
    return made.requires_grad_(not facts["value"])


def _seen(thing: Any, facts: Facts) -> str:
    tensors = thing.parameters() if facts["module"] else [thing]
    done = all(tensor.requires_grad is facts["value"] for tensor in tensors)
    return "the assignment has its effect" if done else "the assignment has no effect"


EXPERIMENT = Experiment(
    claim="`requires_grad` of a module is a plain attribute; requires_grad_() changes its parameters",
    flagged=flagged,
    control=control,
    symptoms=(Sees("no effect"),),
    facts={"module": True, "name": "requires_grad", "value": False},
)


RULE = Rule(
    "DPL309", "requires-grad-without-effect", Severity.ERROR, PAGE, {GradFlagAssigned: check}, experiment=EXPERIMENT
)
