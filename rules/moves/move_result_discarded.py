"""A moved tensor is thrown away."""

from __future__ import annotations

from collections.abc import Iterator

from placement_lint.finding import Severity
from placement_lint.flow.events import MoveDiscarded
from placement_lint.rule import Page, Problem, Rule

PAGE = Page(
    what="""\
Reports a statement `t.to(...)`, `t.cuda()`, `t.cpu()` or `t.pin_memory()` on a tensor whose result is not
used.
""",
    why="""\
`Tensor.to` returns a copy on the other device and leaves `t` where it is; only `nn.Module.to` changes its
receiver (`torch/nn/modules/module.py`, `Module._apply`).

- 0 GPUs: `.to("cpu")` returns `t` itself, and nothing is wrong yet; `.cuda()` raises.
- 1 GPU or more: `t` is still on the CPU. Its next operation with a tensor on the GPU raises `RuntimeError:
  Expected all tensors to be on the same device, ...`, a convolution `Input type (torch.FloatTensor) and
  weight type (torch.cuda.FloatTensor) should be the same`. Where it meets no such tensor, the work is
  silently done on the CPU, after a copy for nothing.
""",
    example="""\
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(4, 2).to(device)
batch = torch.randn(8, 4)
batch.to(device)
print(model(batch).sum().item())
""",
    instead="""\
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(4, 2).to(device)
batch = torch.randn(8, 4)
batch = batch.to(device)
print(model(batch).sum().item())
""",
    silent="""\
- The receiver is an `nn.Module`, a loss module included: its `to` works in place.
- The receiver moves itself in place, as `BatchEncoding`, PyG's `Data` and classes of the program's own may.
- What the receiver is cannot be told.
- The result is assigned, passed on, returned or read.
- Only the type changes, `t.to(torch.float64)`: that is no move.
""",
    fix="""\
Assign the result: `t = t.to(device)`. This is safe for a local variable. Where `t` is an element of a
container or another name refers to the same tensor, that reference still holds the tensor that did not move.
""",
)


def check(event: MoveDiscarded) -> Iterator[Problem]:
    label, method = event.label, event.method
    yield Problem(
        event.node,
        f"`{label}.{method}(…)` returns the moved tensor and leaves `{label}` where it is: the statement has no effect",
        event.tensor.history,
        advice=f"assign the result, `{label} = {label}.{method}(…)`",
    )


RULE = Rule("DPL501", "move-result-discarded", Severity.ERROR, PAGE, {MoveDiscarded: check})
