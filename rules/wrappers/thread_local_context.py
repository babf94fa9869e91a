"""Autocast's dtype does not reach the replicas of DataParallel."""

from __future__ import annotations

from collections.abc import Iterator

from placement_lint.finding import Severity
from placement_lint.flow.events.facts import replica_facts
from placement_lint.flow.events.schema import PrecisionLost
from placement_lint.probe.experiment import Experiment, Facts, Sees
from placement_lint.replaying import claimed
from placement_lint.rule import Line, Note, Page, Problem, Replay, Rule

PAGE = Page(
    what="""\
Reports `torch.autocast("cuda", dtype=torch.bfloat16)`, or another dtype than float16, around a call of a
`DataParallel` model.
""",
    why="""\
Autocast is thread-local, and each replica runs in its own thread. `DataParallel` passes on whether autocast is
enabled, but not the dtype (torch/nn/parallel/parallel_apply.py, `_worker`:
`autocast(device_type, enabled=autocast_enabled)`). With 2 GPUs or more the replicas silently compute in float16:
values beyond 65504 become inf, and small gradients become 0, because bfloat16 training does not scale the loss.
With 0 or 1 GPU there are no threads, and the dtype is the requested one.
""",
    example="""\
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.DataParallel(nn.Linear(8, 4).to(device))
with torch.autocast("cuda", dtype=torch.bfloat16):
    logits = model(torch.randn(16, 8))
""",
    instead="""\
import torch
from torch import nn


class Net(nn.Linear):
    def forward(self, x):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            return super().forward(x)


device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.DataParallel(Net(8, 4).to(device))
logits = model(torch.randn(16, 8))
""",
    silent="""\
- float16, or no dtype at all: the replicas compute in it.
- Autocast inside forward, or an unknown context or decorator there.
- `enabled=False`, another `device_type` than CUDA, a single device id, DistributedDataParallel.
- The analysis sees no layer that autocast affects, such as `Linear` or `Conv2d`.
- The default device is thread-local as well: factory-without-device reports that.
""",
    fix="""\
Enter autocast in `forward`, as its documentation says, or decorate `forward` with it, so that each thread enters
it.
""",
)


def check(event: PrecisionLost) -> Iterator[Problem]:
    wrapped, called = event.scene.replica
    yield Problem(
        event.node,
        f"the replicas of DataParallel compute in float16 instead of {event.dtype}: autocast is "
        "thread-local, and the replicas do not get its dtype",
        (wrapped, called, Note(event.layer, "computed in float16 here")),
        advice="enter autocast inside `forward`",
        facts={"dtype": event.dtype, **replica_facts(event.scene)},
        replay=Replay(watch=_asked_for(event)) if event.layer is not called.node else None,
    )


def _asked_for(event: PrecisionLost) -> tuple[Line, ...]:
    same = f"not torch.is_autocast_enabled('cuda') or torch.get_autocast_dtype('cuda') == torch.{event.dtype}"
    return (claimed(event.layer, same, "the replica computes in another dtype", before=True),)


def flagged(facts: Facts) -> str:
    return _computed(facts, inside=False)


def control(facts: Facts) -> str:
    return _computed(facts, inside=True)


def _computed(facts: Facts, inside: bool) -> str:
    from contextlib import nullcontext

    import torch

    from placement_lint.probe.bench import in_replicas

    def autocast(here: bool) -> torch.autocast | nullcontext[None]:
        dtype = getattr(torch, facts["dtype"])
        return torch.autocast("cuda", dtype=dtype, enabled=facts["enabled"]) if here else nullcontext()

    def forward(model: torch.nn.Linear, x: torch.Tensor) -> torch.Tensor:
        with autocast(inside):
            return torch.nn.functional.linear(x, model.weight)

    with autocast(not inside):
        dtype = str(in_replicas(forward, facts).dtype).removeprefix("torch.")
    asked = facts["dtype"] if facts["enabled"] else "float32"
    return f"it is computed in {asked}" if dtype == asked else f"it is computed in {dtype} instead of {asked}"


EXPERIMENT = Experiment(
    claim=(
        "the replicas of DataParallel run under autocast with the default dtype, float16, whatever the dtype outside"
    ),
    flagged=flagged,
    control=control,
    symptoms=(Sees("instead of"),),
    facts={"dtype": "bfloat16", "enabled": True, "device_ids": [0, 1]},
    gpus=2,
    harmless_on=1,
    one_gpu={"device_ids": [0, 0]},
)


RULE = Rule("DPL113", "thread-local-context", Severity.WARNING, PAGE, {PrecisionLost: check}, experiment=EXPERIMENT)
