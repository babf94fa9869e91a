"""Host memory is asked of a CUDA tensor."""

from __future__ import annotations

from collections.abc import Iterator

from placement_lint.finding import Severity
from placement_lint.flow.events import HostRead
from placement_lint.flow.values import describe
from placement_lint.rule import Page, Problem, Rule

PAGE = Page(
    what="""\
Reports `t.numpy()` on a tensor that is on a GPU, and such a tensor given to NumPy, SciPy, scikit-learn or
Matplotlib.
""",
    why="""\
NumPy reads host memory. `np.asarray(t)` calls `Tensor.__array__`, which calls `t.numpy()`
(`torch/_tensor.py`).

- 0 GPUs: a chosen device is the CPU, and the call works.
- 1 GPU or more: `TypeError: can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy the
  tensor to host memory first.`
""",
    example="""\
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(4, 3).to(device)
with torch.no_grad():
    scores = model(torch.randn(8, 4).to(device))
print(scores.argmax(dim=1).numpy())
""",
    instead="""\
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(4, 3).to(device)
with torch.no_grad():
    scores = model(torch.randn(8, 4).to(device))
print(scores.argmax(dim=1).cpu().numpy())
""",
    silent="""\
- `.cpu()` or `.to("cpu")` comes before.
- `.item()`, `.tolist()` and `float(t)`: they copy by themselves.
- `t.numpy(force=True)`: it detaches and copies.
- The tensor is on the CPU, or where it is cannot be told.
- The program asks first: `if t.is_cuda: t = t.cpu()`.
""",
    fix="""\
`t.cpu().numpy()`, which is safe: on a CPU tensor `.cpu()` returns the tensor itself. Where `t` requires
grad, write `t.detach().cpu().numpy()`; otherwise the next error is `Can't call numpy() on Tensor that
requires grad.`
""",
)


def check(event: HostRead) -> Iterator[Problem]:
    yield Problem(
        event.node,
        f"`{event.label}` is on {describe(event.tensor.place)}: `{event.how}` raises TypeError",
        event.tensor.history,
        advice="copy it to the host first with `.cpu()`",
    )


RULE = Rule("DPL507", "numpy-on-cuda", Severity.ERROR, PAGE, {HostRead: check})
