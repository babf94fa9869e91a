"""A replica assigns to an attribute; the value is lost with the replica."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from placement_lint.finding import Severity
from placement_lint.flow.events.facts import replica_facts
from placement_lint.flow.events.schema import AttributeRebound
from placement_lint.probe.experiment import Experiment, Facts, Sees
from placement_lint.replaying import callee, claimed, remembered
from placement_lint.rule import Line, Page, Problem, Replay, Rule

PAGE = Page(
    what="""\
Reports an attribute that the `forward` of a `DataParallel` model assigns (`self.steps += 1`,
`self.hidden = h`, `setattr`) and that a later forward or other code reads.
""",
    why="""\
Each call creates new replicas from a copy of the module's `__dict__` (torch/nn/modules/module.py,
`Module._replicate_for_data_parallel`), and the assignment changes that copy. With 2 or more GPUs it is lost with
the replica, including replica 0, and nothing raises: a counter stays at its first value, a schedule never advances,
a hidden state starts again each time. With 0 or 1 GPU the module itself is called and the value is kept.
""",
    example="""\
import torch
import torch.nn as nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.steps = 0
        self.fc = nn.Linear(8, 4)

    def forward(self, x):
        self.steps += 1
        return self.fc(x)


device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.DataParallel(Net().to(device))
model(torch.randn(8, 8))
print(model.module.steps)
""",
    instead="""\
import torch
import torch.nn as nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("steps", torch.tensor(0))
        self.fc = nn.Linear(8, 4)

    def forward(self, x):
        self.steps.add_(1)
        return self.fc(x)


device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.DataParallel(Net().to(device))
model(torch.randn(8, 8))
print(model.module.steps)
""",
    silent="""\
- The attribute is written before it is read in the same forward, or is never read.
- A buffer is changed in place: replica 0 shares its buffers with the module (torch/nn/parallel/replicate.py,
  `replicate`), so its change is kept. It has seen only its chunk of the batch.
- The assignment is outside `forward`, for instance `model.module.steps += 1` in the training loop.
- The class is never wrapped in `DataParallel`, or only with a single device id.
""",
    fix="""\
Keep the value in the training loop, or return a state from `forward`. A counter can be a buffer that changes in
place (`add_`, not `self.steps = self.steps + 1`). Review it: a buffer adds a key to the state dict unless it is
registered with `persistent=False`, and a value computed from the batch is that of the first chunk.
""",
)


def check(event: AttributeRebound) -> Iterator[Problem]:
    yield Problem(
        event.node,
        f"under DataParallel `{event.label}` is assigned on a replica and lost with it: the module "
        "silently keeps its old value",
        (*event.scene.replica, *event.reads),
        facts={"buffer": event.buffer, **replica_facts(event.scene)},
        replay=Replay(watch=_watch(event)),
    )


def _watch(event: AttributeRebound) -> tuple[Line, ...]:
    """Check that the value that a replica assigns arrives in one of the modules of the wrapped model."""
    called = event.scene.replica[-1].node
    model = callee(called)
    if not model:
        return ()
    arrived = f"any(getattr(m, '{event.name}', None) is watched[-1] for m in {model}.modules())"
    return (*remembered(event.node, event.label), claimed(called, arrived, "the module keeps its old value"))


def flagged(facts: Facts) -> str:
    return _counted(facts, facts["buffer"], facts["in_place"])


def control(facts: Facts) -> str:
    return _counted(facts, buffer=True, in_place=True)


def _counted(facts: Facts, buffer: bool, in_place: bool) -> str:
    import torch
    from torch import Tensor

    from placement_lint.probe.bench import Model, parallel, rows

    def count(self: Any, x: Tensor) -> Any:
        if in_place:
            self.seen.add_(1)
        else:
            self.seen = self.seen + 1
        return x * self.weight.sum()

    model: Any = Model(count)
    if buffer:
        model.register_buffer("seen", torch.tensor(0))
    else:
        model.seen = torch.tensor(0) if in_place else 0
    wrapped = parallel(model, facts)
    for _ in range(3):
        wrapped(rows(facts))
    return "the module keeps its old value" if int(model.seen) == 0 else f"the module counts to {int(model.seen)}"


EXPERIMENT = Experiment(
    claim="an attribute that a replica assigns is lost with the replica",
    flagged=flagged,
    control=control,
    symptoms=(Sees("keeps its old value"),),
    facts={"buffer": False, "in_place": False, "device_ids": [0, 1]},
    gpus=2,
    one_gpu={"device_ids": [0, 0]},
    harmless_on=1,
)


RULE = Rule(
    "DPL305", "state-rebound-in-replica", Severity.WARNING, PAGE, {AttributeRebound: check}, experiment=EXPERIMENT
)
