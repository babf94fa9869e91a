"""A module or Parameter is trained outside of DistributedDataParallel, by each rank separately."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from placement_lint.finding import Severity
from placement_lint.flow.events.schema import TrainedOutsideDdp
from placement_lint.probe.experiment import Experiment, Facts, Sees
from placement_lint.replaying import callee, is_name
from placement_lint.rule import TWO_RANKS, Line, Page, Problem, Replay, Rule
from placement_lint.source.wording import quoted

PAGE = Page(
    what="""\
Reports modules with parameters (a criterion with weights, a second head), and single Parameters, that take part in
the backward of a `DistributedDataParallel` model, are in an optimizer, and are in no DDP module.
""",
    why="""\
DDP averages the gradients of the parameters of the module that it wraps (`_build_params_for_reducer` in
torch/nn/parallel/distributed.py), and only these start with the same values on all ranks. A module beside it gets
the gradients of its own rank's batches: its weights silently drift apart between the ranks, and a checkpoint
contains only rank 0's weights.
""",
    example="""\
import torch
import torch.distributed as dist
from torch import nn


class CenterLoss(nn.Module):
    def __init__(self):
        super().__init__()
        self.centers = nn.Parameter(torch.randn(4, 8))

    def forward(self, features, labels):
        return (features - self.centers[labels]).square().mean()


dist.init_process_group("gloo")
model = nn.parallel.DistributedDataParallel(nn.Linear(6, 8))
criterion = CenterLoss()
optimizer = torch.optim.SGD([*model.parameters(), *criterion.parameters()], lr=0.1)
loss = criterion(model(torch.randn(16, 6)), torch.randint(0, 4, (16,)))
loss.backward()
optimizer.step()
""",
    instead="""\
import torch
import torch.distributed as dist
from torch import nn


class CenterLoss(nn.Module):
    def __init__(self):
        super().__init__()
        self.centers = nn.Parameter(torch.randn(4, 8))

    def forward(self, features, labels):
        return (features - self.centers[labels]).square().mean()


dist.init_process_group("gloo")
model = nn.parallel.DistributedDataParallel(nn.Linear(6, 8))
criterion = nn.parallel.DistributedDataParallel(CenterLoss())
optimizer = torch.optim.SGD([*model.parameters(), *criterion.parameters()], lr=0.1)
loss = criterion(model(torch.randn(16, 6)), torch.randint(0, 4, (16,)))
loss.backward()
optimizer.step()
""",
    silent="""\
- Modules without parameters, such as most criteria, or whose parameters are frozen.
- They are in a DDP of their own, or in the module that is wrapped.
- No optimizer holds them, or their outputs are not part of a loss of the wrapped model.
- The program averages gradients or weights over the ranks itself (`dist.all_reduce(p.grad)`), or passes the module
  to an unknown function, which may do so.
- A process group with `world_size=1`.
""",
    fix="""\
There is no automatic fix. Wrap the module in its own DDP, or make it part of the wrapped module and call it in
`forward`.
""",
)


def check(event: TrainedOutsideDdp) -> Iterator[Problem]:
    what = f"{quoted(event.label)} (`{event.kind}`)" if event.label else "this Parameter"
    yield Problem(
        event.node,
        f"{what} is in no DistributedDataParallel module, but {quoted(event.optimizer)} trains it beside "
        f"{quoted(event.wrapper)} with the gradients of this rank alone: the ranks silently get different "
        "weights",
        event.trace,
        advice=f"wrap it as well, or make it part of the module in {quoted(event.wrapper)}",
        facts={"parameter": not event.label},
        replay=_replay(event),
    )


def _replay(event: TrainedOutsideDdp) -> Replay | None:
    """Compare the gradients of a module at its call, and those of a Parameter where it is made."""
    module = callee(event.node) if event.label else "torch.nn.ParameterList([{target}])"
    if event.label and not is_name(module):
        return None
    return Replay(
        watch=(Line(event.node, f"compare_gradients({module})", before=bool(event.label)),),
        mended=(Line(event.node, f"average_gradients({module})", before=bool(event.label)),),
        crew=TWO_RANKS,
    )


def flagged(facts: Facts) -> str:
    return _trained(facts, wrapped=False)


def control(facts: Facts) -> str:
    return _trained(facts, wrapped=True)


def _trained(facts: Facts, wrapped: bool) -> str:
    import torch
    from torch import nn

    from placement_lint.probe.bench import averaged, in_wrapper, with_idle_rank

    class Scale(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(2))

        def forward(self, x: Any) -> Any:
            return x * self.weight

    beside: Any = Scale() if facts["parameter"] else nn.Linear(2, 2)
    beside.requires_grad_(not facts["frozen"])
    called = with_idle_rank(in_wrapper(beside, "DistributedDataParallel")) if wrapped else beside
    model = with_idle_rank(in_wrapper(nn.Linear(2, 2), "DistributedDataParallel"))
    x = torch.ones(1, 2)
    return averaged(beside, lambda: model(x).sum() + called(x).sum())


EXPERIMENT = Experiment(
    claim="DDP averages only the gradients of the module that it wraps",
    flagged=flagged,
    control=control,
    symptoms=(Sees("keeps its gradients to itself"),),
    facts={"parameter": False, "frozen": False},
)


RULE = Rule(
    "DPL123",
    "trainable-outside-ddp",
    Severity.WARNING,
    PAGE,
    {TrainedOutsideDdp: check},
    experiment=EXPERIMENT,
)
