"""A keyword argument goes to replicas of DataParallel that get no rows of the batch."""

from __future__ import annotations

from collections.abc import Iterator

from placement_lint.finding import Severity
from placement_lint.flow.events.schema import KeywordAlone
from placement_lint.probe.experiment import Experiment, Facts, Raises
from placement_lint.rewriting import by_keyword, unsafe
from placement_lint.rule import Page, Problem, Replay, Rule

PAGE = Page(
    what="""\
Reports a call of a `DataParallel` model with a positional batch, keyword arguments without a tensor among them, and
too few rows for a chunk on each GPU: `model(image.unsqueeze(0), scale=2.0)`. Where the batch comes from a `DataLoader`
without `drop_last=True` and the size of its data is unknown, the last batch may be so small: a warning.
""",
    why="""\
Positional and keyword arguments are scattered separately (torch/nn/parallel/scatter_gather.py, `scatter_kwargs`).
One row makes one chunk, but a number or None is copied for every GPU, and every copy makes a replica: all but the
first are called with the keyword alone. With 2 GPUs or more the call raises
`TypeError: Caught TypeError in replica 1 on device 1.`, and below it
`forward() missing 1 required positional argument: 'x'`. With 0 or 1 GPU it works.
""",
    example="""\
import torch
from torch import nn


class Net(nn.Linear):
    def forward(self, x, scale=1.0):
        return super().forward(x) * scale


device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.DataParallel(Net(8, 4).to(device))
sample = torch.randn(8)
print(model(sample.unsqueeze(0), scale=2.0))
""",
    instead="""\
import torch
from torch import nn


class Net(nn.Linear):
    def forward(self, x, scale=1.0):
        return super().forward(x) * scale


device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.DataParallel(Net(8, 4).to(device))
sample = torch.randn(8)
print(model(x=sample.unsqueeze(0), scale=2.0))
""",
    silent="""\
- All arguments by keyword, or all by position: then there are as many replicas as chunks.
- A keyword argument that is a tensor, or may be one; `**kwargs`.
- The number of rows is enough for each listed id; without a list, two rows or more.
- The number of rows is unknown: of a batch from no loader, from one with `drop_last=True`, `batch_sampler` or unknown
  arguments, and of data sets of torchvision whose size is fixed, such as CIFAR10.
- The positional argument has a default in `forward`, or `forward` is unknown or decorated.
- A single device id, `dim=` other than 0, and a TypeError that is caught.
""",
    fix="""\
Pass the batch by keyword as well, `model(x=x, scale=2.0)`, or all by position. Unsafe: hooks see other arguments.
""",
)


def check(event: KeywordAlone) -> Iterator[Problem]:
    yield Problem(
        event.node,
        f"`{event.label}` {_too_few(event)}, but every replica gets "
        f"`{event.keyword}`: a replica without rows is called with keywords alone and raises TypeError",
        advice="pass all arguments by keyword, or all by position",
        rewrite=unsafe("pass all by keyword", by_keyword(event.node, event.names)),
        severity=None if event.rows else Severity.WARNING,
        facts={"rows": event.rows or 1, **({"device_ids": event.ids} if len(event.ids) > 1 else {})},
        replay=Replay(right=not event.last),
    )


def _too_few(event: KeywordAlone) -> str:
    if not event.rows:
        return "may have too few rows for all replicas in the last batch of its loader"
    count = f"{event.rows} rows" if event.rows > 1 else "1 row"
    return f"has {count}{' in the last batch' if event.last else ''}, not enough for all replicas"


def flagged(facts: Facts) -> str:
    return _called(facts, by_name=facts["by_name"])


def control(facts: Facts) -> str:
    return _called(facts, by_name=True)


def _called(facts: Facts, by_name: bool) -> str:
    import torch

    from placement_lint.probe.bench import SIDE, Model, parallel

    class Scaled(Model):
        def forward(self, x: torch.Tensor, scale: object = None) -> torch.Tensor:
            return x

    wrapped = parallel(Scaled(), facts)
    batch = torch.ones(facts["rows"], SIDE)
    keywords = {"scale": torch.ones(facts["rows"], 1) if facts["tensor"] else 2.0}
    out = wrapped(x=batch, **keywords) if by_name else wrapped(batch, **keywords)
    return f"all {len(out)} rows come back"


EXPERIMENT = Experiment(
    claim="DataParallel calls a replica on every GPU with a non-tensor keyword argument, even without any rows",
    flagged=flagged,
    control=control,
    symptoms=(Raises("TypeError", "missing 1 required positional argument"),),
    facts={"rows": 1, "by_name": False, "tensor": False, "device_ids": [0, 1]},
    gpus=2,
    harmless_on=1,
    one_gpu={"device_ids": [0, 0]},
)


RULE = Rule("DPL110", "keyword-with-partial-batch", Severity.ERROR, PAGE, {KeywordAlone: check}, experiment=EXPERIMENT)
