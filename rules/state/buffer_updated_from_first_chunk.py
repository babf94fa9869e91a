"""Replicas update a buffer, and only the first one's update is kept."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from placement_lint.finding import Severity
from placement_lint.flow.events.facts import replica_facts
from placement_lint.flow.events.schema import SharedTensorChanged
from placement_lint.probe.experiment import Experiment, Facts, Sees
from placement_lint.replaying import callee, claimed, remembered
from placement_lint.rule import Line, Page, Problem, Replay, Rule

PAGE = Page(
    what="""\
Reports a `forward` of a `DataParallel` model that changes a buffer in place with values computed from the batch:
running statistics, moving averages, a queue, a count of rows.
""",
    why="""\
`replicate` gives the first replica the module's own buffers and the others copies (torch/nn/parallel/replicate.py).
Each replica updates its buffers with its chunk of the batch, and only the first replica's update is kept. With 2 or
more GPUs the statistics silently come from B/n of the B rows: a count is n times too small, a moving average is
noisier. With 0 or 1 GPU they come from the whole batch.
""",
    example="""\
import torch
from torch import nn


class Centred(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 4)
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, x):
        x = self.fc(x)
        self.mean.mul_(0.9).add_(x.detach().mean(0), alpha=0.1)
        return x - self.mean


device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.DataParallel(Centred().to(device))
model(torch.randn(8, 8))
""",
    instead="""\
import torch
from torch import nn


class Centred(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 4)
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, x):
        x = self.fc(x)
        return x - self.mean, x.detach()


device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.DataParallel(Centred().to(device))
_, output = model(torch.randn(8, 8))
model.module.mean.mul_(0.9).add_(output.mean(0), alpha=0.1)
""",
    silent="""\
- The change does not depend on the batch: `self.steps += 1`, `self.scale.mul_(0.99)`.
- It happens once, under a test of an attribute that the module changes (`if not self.initialised: ...`).
- BatchNorm and other layers of torch.nn keep their statistics this way by design; their documentation says so.
- The buffer is updated outside `forward`, from the gathered output.
- The class is never wrapped in `DataParallel`, or only with a single device id.
""",
    fix="""\
Return the values and update the buffer in the training loop from the gathered output, or train with
DistributedDataParallel and reduce the statistics over its ranks.
""",
)


def check(event: SharedTensorChanged) -> Iterator[Problem]:
    if event.buffer and event.from_batch:
        yield Problem(
            event.node,
            f"under DataParallel the buffer `{event.label}` keeps only the update of the first replica, which "
            "silently sees one chunk of the batch",
            event.scene.replica,
            advice="update it outside `forward`, from the gathered output",
            facts={"from_batch": True, **replica_facts(event.scene)},
            replay=Replay(watch=_watch(event)),
        )


def _watch(event: SharedTensorChanged) -> tuple[Line, ...]:
    """Check that the buffer that each replica changes belongs to the model itself."""
    called = event.scene.replica[-1].node
    if not callee(called):
        return ()
    return (
        *remembered(event.node, f"(self.{event.name}, torch.cuda.current_device())"),
        claimed(called, f"not is_lost(watched, {callee(called)})", "the other replicas' updates are lost"),
    )


def flagged(facts: Facts) -> str:
    return _updated(facts, inside=True)


def control(facts: Facts) -> str:
    return _updated(facts, inside=False)


def _updated(facts: Facts, inside: bool) -> str:
    """The buffer after a call of the wrapped model, and after a call of the module itself."""
    import torch
    from torch import Tensor

    from placement_lint.probe.bench import SIDE, Model, parallel, replicas

    def update(model: Any, x: Tensor) -> None:
        model.seen.add_(x.sum() if facts["from_batch"] else 1.0)

    def forward(self: Any, x: Tensor) -> Tensor:
        if inside:
            update(self, x)
        return x

    model: Any = Model(forward)
    model.register_buffer("other", torch.zeros(()))
    model.register_buffer("seen", torch.zeros(()))
    batch = torch.arange(1.0, 1 + SIDE * replicas(facts))[:, None]
    seen = []
    for caller in (model, parallel(model, facts)):
        model.seen.zero_()
        output = caller(batch.to(model.weight.device))
        if not inside:
            update(model, output)
        seen.append(float(model.seen))
    bare, wrapped = seen
    if wrapped == bare:
        return f"the buffer is {bare:g}, wrapped or not"
    return f"the buffer is {wrapped:g}, but {bare:g} in an unwrapped model"


EXPERIMENT = Experiment(
    claim="only the first replica's in-place updates of a buffer are kept",
    flagged=flagged,
    control=control,
    symptoms=(Sees("in an unwrapped model"),),
    facts={"from_batch": True, "device_ids": [0, 1]},
    gpus=2,
    harmless_on=1,
    one_gpu={"device_ids": [0, 0]},
)


RULE = Rule(
    "DPL307",
    "buffer-updated-from-first-chunk",
    Severity.WARNING,
    PAGE,
    {SharedTensorChanged: check},
    experiment=EXPERIMENT,
)
