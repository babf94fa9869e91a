"""A forward makes a tensor on the CPU whatever its inputs are on."""

from __future__ import annotations

from collections.abc import Iterator

from placement_lint.finding import Severity
from placement_lint.flow.domain.values import describe
from placement_lint.flow.events.facts import mixed_facts
from placement_lint.flow.events.mismatch_cause import Cause, cause_of
from placement_lint.flow.events.schema import DevicesMixed
from placement_lint.probe.experiment import MIXED_DEVICES, Experiment, Facts
from placement_lint.replaying import beside
from placement_lint.rewriting import on_device, safe
from placement_lint.rule import Note, Page, Problem, Replay, Rule

PAGE = Page(
    what="""\
Reports a tensor that `forward` creates without `device=` and combines with its inputs or parameters. `torch.zeros`,
`arange`, `tensor`, `randn` and similar functions create tensors on the default device, which is the CPU.
""",
    why="""\
- 0 GPUs: works.
- 1 GPU or more, the module on a GPU: `RuntimeError: Expected all tensors to be on the same device, ...`.
- Under `DataParallel` with 2 GPUs or more: the same, after `Caught RuntimeError in replica 0 on device 0.`
  `torch.set_default_device` does not help there: the default device is thread-local, and each replica runs in its
  own thread (`torch/nn/parallel/parallel_apply.py`, `parallel_apply`).
""",
    example="""\
import torch
from torch import nn


class Positions(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(16, 4)

    def forward(self, x):
        positions = torch.arange(x.size(1))
        return x + self.table(positions)


device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = Positions().to(device)
print(model(torch.randn(2, 8, 4, device=device)).shape)
""",
    instead="""\
import torch
from torch import nn


class Positions(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(16, 4)

    def forward(self, x):
        positions = torch.arange(x.size(1), device=x.device)
        return x + self.table(positions)


device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = Positions().to(device)
print(model(torch.randn(2, 8, 4, device=device)).shape)
""",
    silent="""\
- A 0-dim tensor, as `torch.tensor(0.5)`: it mixes with any device.
- The tensor only indexes another one, `x[torch.arange(n)]`.
- `zeros_like(x)`, `x.new_zeros(...)`, or a later `.to(x.device)` or `.to(x)`.
- Under `torch.set_default_device` or `with torch.device(...)`, outside a replica.
- Only its shape or its Python values (`tolist()`) are used.
- It is combined with lengths for `pack_padded_sequence`, which are on the CPU in any case.
- If the analysis sees no move and no wrapping of the module, the severity is info.
""",
    fix="""\
Pass `device=` of an input, `device=x.device`. This is safe: nothing changes on the CPU. Offered if an argument of
the function is known to be a tensor. In a module that may run under `DataParallel`, use an input's device and not a
fixed one. Register a constant table as a buffer instead.
""",
)


def check(event: DevicesMixed) -> Iterator[Problem]:
    if cause_of(event) is not Cause.MADE_IN_FORWARD:
        return
    made = event.stray.tensor.created
    assert made is not None
    device = f"{event.inputs[0]}.device" if event.inputs else ""
    yield Problem(
        made,
        f"this tensor is made on the CPU in forward and meets {event.home.named} on "
        f"{describe(event.home.tensor.place)}: {event.operation} raises"
        + ("" if event.seen_moving else " once the module is on a GPU"),
        (*event.stray.tensor.history, *event.moves, Note(event.node, f"{event.operation} takes both here")),
        advice="pass the `device=` of an input",
        rewrite=safe("make it on the device of an input", on_device(made, device)),
        severity=None if event.seen_moving else Severity.INFO,
        facts=mixed_facts(event),
        replay=Replay(repairs=(beside(event),)),
    )


def flagged(facts: Facts) -> None:
    import torch

    with torch.device(facts["default_device"]):
        _make_in_forward(facts, facts["device"])


def control(facts: Facts) -> None:
    _make_in_forward(facts, "that of the input")


def _make_in_forward(facts: Facts, device: str) -> None:
    from torch import Tensor, nn

    from placement_lint.probe.bench import Operation, meet_in_forward

    def make(model: nn.Module, what: Operation, x: Tensor) -> Tensor:
        made = what.stray()
        if device == "that of the input":
            made = made.to(x.device)
        return made.flatten()[0] if facts["scalar"] else made

    meet_in_forward(facts, make)


EXPERIMENT = Experiment(
    claim="a tensor that forward makes without `device=` is on the CPU and does not mix with inputs on a GPU",
    flagged=flagged,
    control=control,
    symptoms=MIXED_DEVICES,
    facts={
        "operation": "+",
        "layer": "",
        "home": "cuda",
        "scalar": False,
        "wrapper": "",
        "device": "",
        "default_device": "cpu",
    },
    gpus=1,
    harmless_on=0,
)


RULE = Rule("DPL504", "factory-without-device", Severity.ERROR, PAGE, {DevicesMixed: check}, experiment=EXPERIMENT)
