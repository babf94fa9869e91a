"""The mean losses of the replicas are summed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from placement_lint.finding import Severity
from placement_lint.flow.events.schema import ReplicaLossReduced
from placement_lint.probe.experiment import Experiment, Facts, Sees
from placement_lint.replaying import claimed
from placement_lint.rewriting import renamed, unsafe
from placement_lint.rule import Line, Page, Problem, Replay, Rule

PAGE = Page(
    what="""\
Reports `.sum()` over the losses of the `DataParallel` replicas if each loss is a mean over its replica's rows. As
advice, reports `.mean()` over them if a batch is known not to divide evenly among the GPUs.
""",
    why="""\
The gathered vector has one mean loss for each replica (torch/nn/parallel/_functions.py, `Gather.forward`). For n
replicas, their sum is about n times the loss of the batch and the gradient is n times as large, so the training
depends on the number of GPUs. `.mean()` averages over replicas, not rows: of 5 rows on 2 GPUs (3 + 2), the rows of
the smaller chunk count more. Nothing raises. With 0 or 1 GPU there is no gather, the loss is 0-dim and neither
changes anything. `DataParallel` itself sums the replicas' gradients and does not average them (`Broadcast.backward`
in the same file).
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
loss = loss.sum()
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
- The loss of a replica is itself a sum (`reduction="sum"`): the sum of sums is correct, divided by the batch size.
- `forward` returns a loss for each row (`reduction="none"`).
- `.mean()` where the batches divide evenly, or their sizes or the number of GPUs are unknown.
- The loss is computed outside the model, on the gathered output.
- `device_ids` has a single entry.
""",
    fix="""\
Use `.mean()`, which is offered for `.sum()`. It is unsafe: it changes the gradient on two or more GPUs, so the
learning rate may need tuning again. To avoid uneven chunks, pass `drop_last=True` with a batch size that divides.
Computing the loss on the gathered output gives the single-GPU gradient for every batch size.
""",
)


def check(event: ReplicaLossReduced) -> Iterator[Problem]:
    if event.how == "sum" and event.tensor.loss.reduction == "mean":
        yield Problem(
            event.node,
            (
                f"`{event.label}` holds one mean loss for each replica: their sum multiplies the gradient by the "
                "number of GPUs"
            ),
            event.tensor.history,
            advice="use `.mean()`",
            rewrite=unsafe("take the mean of the replicas' losses", renamed(event.node, "mean")),
            facts={"how": "sum"},
            replay=Replay(watch=(_is_mean(event),)),
        )
    elif event.how == "mean" and event.tensor.loss.reduction == "mean" and event.tensor.loss.uneven:
        yield Problem(
            event.node,
            f"`{event.label}` holds one mean loss for each replica, and the last batch does not divide "
            "evenly: the rows of the smaller chunk count more",
            event.tensor.history,
            advice="pass `drop_last=True`, or compute the loss outside of forward",
            severity=Severity.INFO,
            facts={"how": "mean", "uneven": True},
        )


def _is_mean(event: ReplicaLossReduced) -> Line:
    mean = f"torch.allclose({{node}}, {event.label}.mean())"
    return claimed(event.node, mean, "the loss is counted once for each replica", before=True)


def flagged(facts: Facts) -> str:
    return _gradient(facts, facts["how"], facts["uneven"])


def control(facts: Facts) -> str:
    return _gradient(facts, "sum" if facts["reduction"] == "sum" else "mean", uneven=False)


def _gradient(facts: Facts, how: str, uneven: bool) -> str:
    """The ratio of the gradient of the reduced losses to that of the same loss of the whole batch."""
    import torch
    from torch import Tensor, nn

    from placement_lint.probe.bench import SIDE, Model, parallel, replicas

    def loss(module: Any, x: Tensor) -> Any:
        rows = nn.Linear.forward(module, x) ** 2
        return rows if facts["reduction"] == "none" else getattr(rows, facts["reduction"])()

    model: Any = Model(loss)
    batch = torch.randn(SIDE * replicas(facts) + uneven, SIDE)
    reduced = getattr(parallel(model, facts)(batch), how)()
    (reduced / replicas(facts) if facts["divided"] else reduced).backward()
    gathered, model.weight.grad = model.weight.grad.clone(), None
    whole = loss(model, batch.to(model.weight.device))
    (getattr(whole, how)() if facts["reduction"] == "none" else whole).backward()
    if torch.allclose(gathered, model.weight.grad, rtol=1e-3, atol=1e-5):
        return "the gradient is that of the whole batch"
    return f"the gradient is {gathered.norm() / model.weight.grad.norm():.2f}× that of the whole batch"


EXPERIMENT = Experiment(
    claim="the sum of the replicas' mean losses multiplies the gradient by the number of GPUs",
    flagged=flagged,
    control=control,
    symptoms=(Sees("× that of the whole batch"),),
    facts={"how": "sum", "reduction": "mean", "uneven": False, "divided": False, "device_ids": [0, 1]},
    gpus=2,
    one_gpu={"device_ids": [0, 0]},
    harmless_on=1,
)


RULE = Rule("DPL105", "summed-replica-loss", Severity.WARNING, PAGE, {ReplicaLossReduced: check}, experiment=EXPERIMENT)
