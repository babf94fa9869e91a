"""A CUDA tensor is read as host memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from placement_lint.finding import Severity
from placement_lint.flow.domain.values import Role, describe
from placement_lint.flow.events.facts import place_fact
from placement_lint.flow.events.schema import HostRead
from placement_lint.probe.experiment import Experiment, Facts, Raises
from placement_lint.rewriting import appended, safe
from placement_lint.rule import Page, Problem, Replay, Rule

PAGE = Page(
    what="""\
Reports `t.numpy()` on a tensor that is on a GPU, and such a tensor passed to NumPy, SciPy, scikit-learn or
Matplotlib.
""",
    why="""\
NumPy reads host memory. `np.asarray(t)` calls `Tensor.__array__`, which calls `t.numpy()`
(`torch/_tensor.py`).

- 0 GPUs: a chosen device is the CPU, and the call works.
- 1 GPU or more:
  `TypeError: can't convert cuda:0 device type tensor to numpy. ...`
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
- `.item()`, `.tolist()` and `float(t)`: they copy the value to the host.
- `t.numpy(force=True)`: it detaches and copies.
- The tensor is on the CPU, or its device is unknown.
- The program tests first: `if t.is_cuda: t = t.cpu()`. On other accelerators DPL509 reports that.
""",
    fix="""\
`t.cpu().numpy()`, which is safe: on a CPU tensor `.cpu()` returns the tensor itself. A Parameter becomes
`p.detach().cpu()`. If another tensor requires grad, add `.detach()` yourself; otherwise the next error is
`Can't call numpy() on Tensor that requires grad.` Not offered for the items of a list.
""",
)


def check(event: HostRead) -> Iterator[Problem]:
    if event.guard is not None:
        return
    which = "each of its tensors" if event.inside else "it"
    copy = "detach().cpu()" if event.tensor.role is Role.PARAMETER else "cpu()"
    yield Problem(
        event.node,
        f"`{event.label}` is on {describe(event.tensor.place)}: `{event.how}` raises TypeError",
        event.tensor.history,
        advice=f"copy {which} to the host first with `.cpu()`",
        rewrite=None if event.inside else safe(f"copy it to the host with `.{copy}`", appended(event.source, copy)),
        facts={
            "place": place_fact(event.tensor.place),
            "reader": "numpy()" if event.how.endswith(".numpy()") else "asarray",
        },
        replay=Replay(),
    )


def flagged(facts: Facts) -> None:
    import torch

    _read(torch.ones(2, device=facts["place"]), facts["reader"])


def control(facts: Facts) -> None:
    import torch

    _read(torch.ones(2, device=facts["place"]).cpu(), facts["reader"])


def _read(tensor: Any, reader: str) -> None:
    import numpy as np

    readers: dict[str, Callable[[], object]] = {
        "numpy()": tensor.numpy,
        "numpy(force=True)": lambda: tensor.numpy(force=True),
        "tolist()": tensor.tolist,
        "asarray": lambda: np.asarray(tensor),
    }
    readers[reader]()


EXPERIMENT = Experiment(
    claim="NumPy cannot read the memory of a GPU",
    flagged=flagged,
    control=control,
    symptoms=(Raises("TypeError", "device type tensor to numpy"),),
    facts={"place": "cuda", "reader": "numpy()"},
    gpus=1,
)


RULE = Rule("DPL507", "numpy-on-cuda", Severity.ERROR, PAGE, {HostRead: check}, experiment=EXPERIMENT)
