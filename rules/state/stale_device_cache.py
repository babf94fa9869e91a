"""A value that forward keeps for later calls stays on its device when the module moves."""

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
from placement_lint.rule import Note, Page, Problem, Replay, Rule

PAGE = Page(
    what="""\
Reports a tensor that a forward caches on its module as a plain attribute and uses again without checking its
device, only whether it exists or is long enough.
""",
    why="""\
The tensor stays on the device that the module had in the call that created it. `Module._apply` moves `_parameters`
and `_buffers` (`torch/nn/modules/module.py`); a tensor assigned to `self` is in neither.

- 0 GPUs: works.
- 1 GPU or more: once the module is called, moved and called again, `forward` raises
  `RuntimeError: Expected all tensors to be on the same device, ...`. This happens when a model is tried on the CPU
  before it moves to the GPU, or moves back for an export.
- Under `DataParallel` with 2 GPUs or more, all replicas share a tensor that was cached before wrapping, and those
  on other GPUs raise.
""",
    example="""\
import torch
from torch import nn


class Positions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(dim))
        self.steps = None

    def forward(self, x):
        if self.steps is None or self.steps.size(0) < x.size(0):
            self.steps = torch.arange(x.size(0), device=x.device).unsqueeze(1)
        return x * self.scale + self.steps[: x.size(0)]


model = Positions(4)
print(model(torch.randn(8, 4)).shape)

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model.to(device)
print(model(torch.randn(8, 4, device=device)).shape)
""",
    instead="""\
import torch
from torch import nn


class Positions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(dim))
        self.register_buffer("steps", torch.zeros(0, 1), persistent=False)

    def forward(self, x):
        if self.steps.size(0) < x.size(0):
            self.steps = torch.arange(x.size(0), device=x.device).unsqueeze(1)
        return x * self.scale + self.steps[: x.size(0)]


model = Positions(4)
print(model(torch.randn(8, 4)).shape)

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model.to(device)
print(model(torch.randn(8, 4, device=device)).shape)
""",
    silent="""\
- The test before its use compares the device, or a key that contains the device.
- It is moved at its use, `self.steps.to(x.device)`, or assigned to a name that is registered as a buffer.
- Each call creates it, such as a hidden state.
- It is 0-dim or only indexes another tensor. Such tensors may be on the CPU.
- If the analysis sees no move of the module between two calls, the severity is info. There is no finding if the
  class overrides `_apply`, `to`, `cuda` or `cpu`, or has a method that clears the cache, `self.steps = None`.
""",
    fix="""\
Register it with `self.register_buffer("steps", ..., persistent=False)` in `__init__`: a later assignment keeps it a
buffer, which moves. Or test the device as well: `if self.steps is None or self.steps.device != x.device`.
""",
)


def check(event: DevicesMixed) -> Iterator[Problem]:
    holder = event.stray.tensor.holder
    if cause_of(event) is not Cause.LEFT or holder is None:
        return
    seen = not event.scene.standalone
    moves = event.moves if seen else ()
    stays = f"on {describe(event.stray.tensor.place)}" if seen else "on its device"
    raises = "raises in a later call" if seen else "raises if the module is called, moved and called again"
    yield Problem(
        holder.node,
        f"`self.{holder.name}` is a plain tensor that one call of forward caches for later ones: moving "
        f"the module leaves it {stays}, and {event.operation} {raises}",
        (*event.stray.tensor.history, *moves, Note(event.node, f"meets {event.home.named} here")),
        advice="make it a buffer with `persistent=False`, or compare its device before using it again",
        severity=None if seen else Severity.INFO,
        facts=mixed_facts(event),
        replay=Replay(repairs=(beside(event),), right=False) if seen else None,
    )


def flagged(facts: Facts) -> None:
    _call_move_call(facts, facts["asks_for_device"])


def control(facts: Facts) -> None:
    _call_move_call(facts, True)


def _call_move_call(facts: Facts, asks_for_device: bool) -> None:
    from torch import Tensor

    from placement_lint.probe.bench import Operation, meet_in_forward, square

    def take(model: Any, what: Operation, x: Tensor) -> Any:
        kept = model.__dict__.get("kept")
        if kept is None or (asks_for_device and kept.device != x.device):
            model.kept = kept = what.stray().to(x.device)
        return kept.flatten()[0] if facts["scalar"] else kept

    def call(model: Any, what: Operation) -> None:
        home = what.home()
        model.to(facts["stray"])((home if isinstance(home, Tensor) else square()).to(facts["stray"]))

    meet_in_forward(facts, take, call if facts["called_before"] else lambda model, what: None)


EXPERIMENT = Experiment(
    claim="a tensor that forward caches on its module does not move with it, and a later call raises",
    flagged=flagged,
    control=control,
    symptoms=MIXED_DEVICES,
    facts={
        "operation": "+",
        "layer": "",
        "stray": "cpu",
        "home": "cuda",
        "scalar": False,
        "wrapper": "",
        "called_before": True,
        "asks_for_device": False,
    },
    gpus=1,
    harmless_on=0,
)


RULE = Rule("DPL310", "stale-device-cache", Severity.ERROR, PAGE, {DevicesMixed: check}, experiment=EXPERIMENT)
