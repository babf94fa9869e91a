"""The vector with one loss per replica is used as a single number."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from placement_lint.finding import Severity
from placement_lint.flow.events.schema import ReplicaLossUsed
from placement_lint.probe.experiment import Experiment, Facts, Raises
from placement_lint.rewriting import appended, is_path, safe
from placement_lint.rule import Page, Problem, Replay, Rule

PAGE = Page(
    what="""\
Reports a loss that a `DataParallel` model computes in its `forward` and that the caller uses as one number:
`backward()`, `item()`, `float()`, a truth value or a format specification. If the class of the
model is unknown, `backward()` on an output is reported, and the other uses of an output that the program also averages.
""",
    why="""\
Each replica returns a 0-dim loss, and `Gather.forward` (torch/nn/parallel/_functions.py) makes them a vector with
one element for each replica, with a UserWarning. With 0 or 1 GPU the module is called directly and the loss stays
0-dim. With 2 or more GPUs, `backward()` raises
`RuntimeError: grad can be implicitly created only for scalar outputs`, `item()` raises
`RuntimeError: a Tensor with 2 elements cannot be converted to Scalar`, `float()` raises ValueError and a format
such as `:.3f` TypeError. Only a batch that fills one GPU passes, because its vector has one element.
""",
    example="""\
import torch
import torch.nn as nn
import torch.nn.functional as F


class LinearWithLoss(nn.Linear):
    def forward(self, x, target):
        return F.cross_entropy(super().forward(x), target)


device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.DataParallel(LinearWithLoss(8, 4).to(device))
loss = model(torch.randn(8, 8), torch.randint(0, 4, (8,)))
loss.backward()
""",
    instead="""\
import torch
import torch.nn as nn
import torch.nn.functional as F


class LinearWithLoss(nn.Linear):
    def forward(self, x, target):
        return F.cross_entropy(super().forward(x), target)


device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.DataParallel(LinearWithLoss(8, 4).to(device))
loss = model(torch.randn(8, 8), torch.randint(0, 4, (8,)))
loss = loss.mean()
loss.backward()
""",
    silent="""\
- The vector is reduced first: `loss.mean()`, `loss.sum()`, `torch.mean(loss)`, also under `if n_gpu > 1:`.
- The loss is computed outside the model, on the gathered output.
- `backward(gradient=...)`, which accepts a vector.
- `device_ids` has a single entry, so that there is no gather.
""",
    fix="""\
`loss.mean()` at each use, or `loss = loss.mean()` before the first; `.sum()` if each loss is a sum. The fix
rewrites the use, which is safe: it does not change a 0-dim loss. Comparisons are not rewritten. The mean is that of
the whole batch only if all replicas get the same number of rows; a loss computed on the gathered output is always
right.
""",
)


def check(event: ReplicaLossUsed) -> Iterator[Problem]:
    # The tested value is rarely the loss itself: it may be the mean of a comparison.
    fixable = event.use != "bool" or is_path(event.source)
    reduced = "sum()" if event.tensor.loss.reduction == "sum" else "mean()"
    why = (
        "comes from a forward that returns a 0-dim loss, so DataParallel gathers a vector with one loss for each "
        "replica"
        if event.tensor.loss.per_replica
        else "is an output that DataParallel gathers, with at least one element for each replica"
    )
    advice = f", `{event.label} = {event.label}.mean()`" if is_path(event.source) else " with `.mean()`"
    yield Problem(
        event.node,
        f"`{event.label}` {why}: {event.how} raises",
        event.tensor.history,
        advice=f"reduce it first{advice}",
        rewrite=safe(f"reduce it with `.{reduced}`", appended(event.source, reduced)) if fixable else None,
        facts={"use": event.use},
        replay=Replay(),
    )


def flagged(facts: Facts) -> None:
    _used(_loss(facts), facts["use"])


def control(facts: Facts) -> None:
    _used(_loss(facts).mean(), facts["use"])


def _loss(facts: Facts) -> Any:
    from placement_lint.probe.bench import in_replicas

    loss = in_replicas(lambda model, x: (x @ model.weight).mean(), facts)
    return loss.mean() if facts["reduced"] else loss


def _used(loss: Any, use: str) -> None:
    uses: dict[str, Callable[[], object]] = {
        "backward": loss.backward,
        "backward(gradient)": lambda: loss.backward(loss.detach()),
        "item": loss.item,
        "int": lambda: int(loss),
        "bool": lambda: bool(loss),
        "format": lambda: f"{loss:.3f}",
    }
    uses.get(use, lambda: float(loss))()


EXPERIMENT = Experiment(
    claim="DataParallel gathers one loss for each replica, and the vector of losses is not a scalar",
    flagged=flagged,
    control=control,
    symptoms=(
        Raises("RuntimeError", "grad can be implicitly created only for scalar outputs"),
        Raises("RuntimeError", "cannot be converted to Scalar"),
        Raises("RuntimeError", "more than one value is ambiguous"),
        Raises("ValueError", "only one element tensors can be converted"),
        Raises("TypeError", "unsupported format string"),
    ),
    facts={"use": "backward", "reduced": False, "device_ids": [0, 1]},
    gpus=2,
    one_gpu={"device_ids": [0, 0]},
    harmless_on=1,
)


RULE = Rule("DPL104", "unreduced-replica-loss", Severity.ERROR, PAGE, {ReplicaLossUsed: check}, experiment=EXPERIMENT)
