"""A replica requests one fixed GPU."""

from __future__ import annotations

from collections.abc import Iterator

from placement_lint.finding import Severity
from placement_lint.flow.events.facts import mixed_facts
from placement_lint.flow.events.mismatch_cause import Cause, cause_of
from placement_lint.flow.events.schema import DevicesMixed
from placement_lint.probe.experiment import MIXED_DEVICES, Experiment, Facts
from placement_lint.replaying import beside
from placement_lint.rewriting import on_device, unsafe
from placement_lint.rule import Note, Page, Problem, Replay, Rule

PAGE = Page(
    what="""\
Reports a tensor that the `forward` of a `DataParallel` model puts on one numbered GPU, such as `"cuda:0"`, and
combines with the replica's inputs or weights. Also reports a tensor on one GPU that reaches `forward` in an object
of one of the program's classes or as a global variable.
""",
    why="""\
Replica k runs on the k-th GPU of `device_ids`, where its inputs and weights are (torch/nn/parallel/replicate.py,
`replicate`; torch/nn/parallel/parallel_apply.py, `_worker`). Replica 0 finds the tensor on its own GPU. Replica 1
does not: `RuntimeError: Caught RuntimeError in replica 1 on device 1.`, and below it
`Expected all tensors to be on the same device`. With 1 GPU the program works; without a GPU, `"cuda:0"` itself
raises.

Only tensor arguments, and lists, tuples and dicts of them, are copied to the replicas' GPUs. All replicas share any
other object (torch/nn/parallel/scatter_gather.py, `scatter`).
""",
    example="""\
import torch
import torch.nn as nn


class NoisyLinear(nn.Linear):
    def forward(self, x):
        noise = torch.randn(x.shape, device="cuda:0")
        return super().forward(x + noise)


model = nn.DataParallel(NoisyLinear(8, 4).cuda())
print(model(torch.randn(16, 8)).shape)
""",
    instead="""\
import torch
import torch.nn as nn


class NoisyLinear(nn.Linear):
    def forward(self, x):
        noise = torch.randn(x.shape, device=x.device)
        return super().forward(x + noise)


model = nn.DataParallel(NoisyLinear(8, 4).cuda())
print(model(torch.randn(16, 8)).shape)
""",
    silent="""\
- `"cuda"`, `torch.device("cuda")` or `.cuda()` without an index: inside a replica the current device is the
  replica's own GPU (`_worker` enters it).
- `x.device`, `.to(x)`, `torch.randn_like(x)`, `x.new_zeros(...)`, `self.fc.weight.device`.
- The numbered GPU is used only outside `forward`, for example to move the model before wrapping.
- The model is not wrapped, or `device_ids` has a single entry.
""",
    fix="""\
Use the device of an input, `device=x.device`. This keeps the behaviour on one GPU. Offered if exactly one argument
of the function is known to be a tensor. Unsafe, because an input may be on another device than the weights.
""",
)


_PASSED = "pass the tensor itself: DataParallel moves arguments and the items of lists, tuples and dicts among them"


def check(event: DevicesMixed) -> Iterator[Problem]:
    if cause_of(event) is not Cause.FIXED_IN_REPLICA:
        return
    stray = event.stray.tensor
    made = stray.history[-1].node
    device = f"{event.inputs[0]}.device" if len(event.inputs) == 1 else ""
    how = f"has this on {stray.place}" if event.brought else f"puts this on {stray.place}"
    yield Problem(
        made,
        f"every DataParallel replica {how}, but replica 1 runs on another GPU: {event.operation} raises "
        f"there with {event.home.named}",
        (*event.scene.replica, Note(event.node, f"meets {event.home.named} here")),
        advice=_PASSED if event.brought else "use the device of an input",
        rewrite=unsafe("use the device of the input", on_device(made, device)),
        facts=mixed_facts(event),
        replay=Replay(repairs=(beside(event),)),
    )


def flagged(facts: Facts) -> None:
    _make_in_forward(facts, facts["stray"])


def control(facts: Facts) -> None:
    _make_in_forward(facts, "that of the input")


def _make_in_forward(facts: Facts, device: str) -> None:
    from torch import Tensor, nn

    from placement_lint.probe.bench import Operation, meet_in_forward

    def make(model: nn.Module, what: Operation, x: Tensor) -> Tensor:
        return what.stray().to(x.device if device == "that of the input" else device)

    meet_in_forward(facts, make)


EXPERIMENT = Experiment(
    claim="a replica on the second GPU cannot use a tensor that forward puts on the first",
    flagged=flagged,
    control=control,
    symptoms=MIXED_DEVICES,
    facts={
        "operation": "+",
        "layer": "",
        "stray": "cuda:0",
        "home": "cuda",
        "wrapper": "DataParallel",
        "device_ids": [0, 1],
    },
    gpus=2,
    harmless_on=1,
)


RULE = Rule("DPL118", "hardcoded-device-in-replica", Severity.ERROR, PAGE, {DevicesMixed: check}, experiment=EXPERIMENT)
