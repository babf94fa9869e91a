"""A replica assigns to an attribute that is lost with it."""

from __future__ import annotations

from collections.abc import Iterator

from placement_lint.finding import Severity
from placement_lint.flow.events import AttributeRebound
from placement_lint.rule import Page, Problem, Rule

PAGE = Page(
    what="""\
Reports an attribute that the `forward` of a `DataParallel` model assigns (`self.steps += 1`,
`self.hidden = h`, `setattr`) and that a later forward or other code reads.
""",
    why="""\
A replica is made anew for each call from a copy of the module's `__dict__` (torch/nn/modules/module.py,
`Module._replicate_for_data_parallel`), and the assignment goes to that copy. From 2 GPUs on it is lost with
the replica, replica 0 included, and nothing raises: a counter stays at its first value, a schedule never
advances, a hidden state starts afresh each time. With 0 or 1 GPU the module itself is called and the value is
kept.
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
  `replicate`), so its change is kept. It has seen its own chunk of the batch only.
- The assignment is outside `forward`, for instance `model.module.steps += 1` in the training loop.
- The class is never wrapped in `DataParallel`, or only with a single device id.
""",
    fix="""\
Keep the value in the training loop, or return a state from `forward`. A counter can be a buffer that is
changed in place (`add_`, not `self.steps = self.steps + 1`). Review it: a buffer adds a key to the state dict
unless it is registered with `persistent=False`, and a value computed from the rows of the batch is that of
the first chunk.
""",
)


def check(event: AttributeRebound) -> Iterator[Problem]:
    yield Problem(
        event.node,
        f"under DataParallel `{event.label}` is assigned on a replica and lost with it: "
        "the module itself keeps its old value, silently",
        (*event.scene.replica, *event.reads),
    )


RULE = Rule("DPL305", "state-rebound-in-replica", Severity.WARNING, PAGE, {AttributeRebound: check})
