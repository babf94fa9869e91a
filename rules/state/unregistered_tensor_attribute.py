"""A plain tensor attribute stays on its device when its module moves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from placement_lint.finding import Severity
from placement_lint.flow.domain.values import describe
from placement_lint.flow.events.facts import mixed_facts
from placement_lint.flow.events.mismatch_cause import Cause, cause_of
from placement_lint.flow.events.schema import DevicesMixed
from placement_lint.probe.experiment import MIXED_DEVICES, Experiment, Facts
from placement_lint.replaying import beside
from placement_lint.rewriting import registered_as_buffer, safe
from placement_lint.rule import Note, Page, Problem, Replay, Rule

PAGE = Page(
    what="""\
Reports a plain tensor that a module keeps as an attribute and combines in `forward` with inputs or parameters.
Moving the module does not move that tensor.
""",
    why="""\
`Module._apply` moves `_parameters` and `_buffers` (`torch/nn/modules/module.py`); a tensor assigned to
`self` is in neither, and not in `state_dict()`.

- 0 GPUs: works.
- 1 GPU or more: `forward` raises `RuntimeError: Expected all tensors to be on the same device, ...`.
- Under `DataParallel` with 2 GPUs or more: the same, after `Caught RuntimeError in replica 0 on device 0.` All
  replicas share the tensor, so `device="cuda:0"` only shifts the error to replica 1.
""",
    example="""\
import torch
from torch import nn


class Normalize(nn.Module):
    def __init__(self):
        super().__init__()
        self.mean = torch.tensor([0.5, 0.4, 0.3])

    def forward(self, x):
        return x - self.mean


device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = Normalize().to(device)
print(model(torch.rand(8, 3, device=device)).mean().item())
""",
    instead="""\
import torch
from torch import nn


class Normalize(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.tensor([0.5, 0.4, 0.3]), persistent=False)

    def forward(self, x):
        return x - self.mean


device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = Normalize().to(device)
print(model(torch.rand(8, 3, device=device)).mean().item())
""",
    silent="""\
- The attribute is a Parameter, an `nn.Buffer` or registered with `register_buffer`.
- It is 0-dim and on the CPU: such a tensor mixes with tensors on any device.
- It only indexes another tensor, `x[self.order]`: an index may be on the CPU.
- It is moved at its use, `self.mean.to(x.device)`, or only its shape is read.
- The class overrides `_apply` and moves the tensor itself, or the tensor is created on the model's device.
- If the analysis sees no move and no wrapping of the module, the severity is info.
""",
    fix="""\
`self.register_buffer("mean", ..., persistent=False)`. This is safe: the tensor moves with the module and
`state_dict()` keeps its keys. Offered for the first assignment in `__init__` after `super().__init__()`. With
`persistent=True`, the default, older checkpoints lack a key. `nn.Parameter` is not a fix, because it would be
trained.
""",
)


def check(event: DevicesMixed) -> Iterator[Problem]:
    if cause_of(event) is not Cause.PLAIN_ATTRIBUTE:
        return
    holder = event.stray.tensor.holder
    assert holder is not None
    yield Problem(
        holder.node,
        f"`self.{holder.name}` is a plain tensor: moving the module leaves it on "
        f"{describe(event.stray.tensor.place)}, and {event.operation} in forward raises",
        (*event.stray.tensor.history, *event.moves, Note(event.node, f"meets {event.home.named} here")),
        advice=f'use `self.register_buffer("{holder.name}", …, persistent=False)`',
        rewrite=safe("register it as a buffer", registered_as_buffer(holder.node)) if holder.registrable else None,
        severity=None if event.seen_moving else Severity.INFO,
        facts=mixed_facts(event),
        replay=Replay(repairs=(beside(event),)),
    )


def flagged(facts: Facts) -> None:
    _use_attribute(facts, facts["role"])


def control(facts: Facts) -> None:
    _use_attribute(facts, "buffer")


def _use_attribute(facts: Facts, role: str) -> None:
    from torch import Tensor, nn

    from placement_lint.probe.bench import Operation, meet_in_forward

    def keep(model: Any, what: Operation) -> None:
        kept = what.stray().to(facts["stray"])
        if role == "buffer":
            model.register_buffer("kept", kept, persistent=False)
        else:
            model.kept = nn.Parameter(kept) if role == "parameter" else kept

    def use(model: Any, what: Operation, x: Tensor) -> Any:
        return model.kept.flatten()[0] if facts["scalar"] else model.kept

    meet_in_forward(facts, use, keep)


EXPERIMENT = Experiment(
    claim="a plain tensor attribute does not move with its module, and forward raises",
    flagged=flagged,
    control=control,
    symptoms=MIXED_DEVICES,
    facts={
        "operation": "-",
        "layer": "",
        "role": "plain",
        "stray": "cpu",
        "home": "cuda",
        "scalar": False,
        "wrapper": "",
    },
    gpus=1,
    harmless_on=0,
)


RULE = Rule(
    "DPL302", "unregistered-tensor-attribute", Severity.ERROR, PAGE, {DevicesMixed: check}, experiment=EXPERIMENT
)
