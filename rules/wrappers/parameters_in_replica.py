"""A replica asks for its parameters."""

from __future__ import annotations

from collections.abc import Iterator

from placement_lint.finding import Severity
from placement_lint.flow.events import ParametersRead
from placement_lint.rule import Page, Problem, Rule

PAGE = Page(
    what="""\
Reports `self.parameters()`, `named_parameters()`, `state_dict()`, `zero_grad()` and `requires_grad_()` that
run inside a `DataParallel` replica, including those in properties and methods that `forward` uses; also
`requires_grad_()` on a single weight and `isinstance(self.weight, nn.Parameter)`.
""",
    why="""\
A replica starts with `_parameters = {}` (torch/nn/modules/module.py, `Module._replicate_for_data_parallel`),
and its weights are set as plain non-leaf tensors (torch/nn/parallel/replicate.py, `replicate`). From 2 GPUs
on `next(self.parameters())` raises `StopIteration: Caught StopIteration in replica 0 on device 0.`; a penalty
summed over `self.parameters()` is silently 0; `state_dict()` has buffers only; `zero_grad()` warns and does
nothing; `requires_grad_()` does nothing on a module, and on a weight `requires_grad_(False)` raises
RuntimeError; `isinstance(self.weight, nn.Parameter)` is False. Under `no_grad` replica 0 has the real
parameters and the others still have none. With 0 or 1 GPU there are no replicas.
""",
    example="""\
import torch
import torch.nn as nn


class ScaledLinear(nn.Linear):
    def forward(self, x):
        device = next(self.parameters()).device
        return super().forward(x * torch.full((8,), 0.5, device=device))


device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.DataParallel(ScaledLinear(8, 4).to(device))
print(model(torch.randn(16, 8)).shape)
""",
    instead="""\
import torch
import torch.nn as nn


class ScaledLinear(nn.Linear):
    def forward(self, x):
        device = x.device
        return super().forward(x * torch.full((8,), 0.5, device=device))


device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.DataParallel(ScaledLinear(8, 4).to(device))
print(model(torch.randn(16, 8)).shape)
""",
    silent="""\
- The call is outside `forward`: in `__init__`, in the training loop, on the wrapper.
- A weight is named directly (`self.fc.weight`), or comes from a `ParameterList` or `ParameterDict`.
- `self.buffers()`, `self.modules()`, `self.named_modules()`: replicas have those.
- The class is never wrapped in `DataParallel`, or only with a single device id.
""",
    fix="""\
For a device or dtype use that of an input, or of a weight by name (`self.fc.weight.device`). Compute a
penalty over all parameters outside the model and add it to the loss. Review both: an input may have another
dtype than the weights.
""",
)


_EFFECTS = {
    "isinstance": "is False",
    "requires_grad_": "freezes nothing, or raises RuntimeError on a weight",
    "state_dict": "lacks every parameter",
    "zero_grad": "has no effect",
}


def check(event: ParametersRead) -> Iterator[Problem]:
    effect = _EFFECTS.get(event.method, "is empty: `next()` raises StopIteration, a sum over it is 0")
    yield Problem(
        event.node,
        f"in a DataParallel replica parameters are plain tensors: `{event.label}` {effect}",
        event.scene.replica,
        advice="use the device or dtype of an input, or name the weight itself",
    )


RULE = Rule("DPL119", "parameters-in-replica", Severity.ERROR, PAGE, {ParametersRead: check})
