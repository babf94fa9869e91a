"""DataParallel splits an argument that is not a batch."""

from __future__ import annotations

from collections.abc import Iterator

from placement_lint.finding import Severity
from placement_lint.flow.events.schema import NotBatched
from placement_lint.probe.experiment import Experiment, Facts, Raises, Sees
from placement_lint.replaying import like_its_module
from placement_lint.rewriting import appended
from placement_lint.rule import Page, Problem, Replay, Rule

PAGE = Page(
    what="""\
Reports a tensor argument of a `DataParallel` call whose first dimension is not the batch: a 0-dim tensor, a tensor
with a single row beside a batch, or one with a constant number of rows, such as a weight for each class.
""",
    why="""\
Every tensor argument is split along dimension 0 (torch/nn/parallel/scatter_gather.py, `scatter`). A 0-dim tensor
raises `RuntimeError: chunk expects at least a 1-dimensional tensor`, even with one GPU. One row makes one chunk,
and `zip` drops the other chunks of the batch: with 8 rows on 4 GPUs, 2 rows silently come back. As a keyword
argument it raises AssertionError instead. A longer tensor is split: each replica gets a part of the class weights.
""",
    example="""\
import torch
import torch.nn as nn


class Scaled(nn.Linear):
    def forward(self, x, temperature):
        return super().forward(x) / temperature


device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.DataParallel(Scaled(8, 4).to(device))
logits = model(torch.randn(16, 8), torch.tensor([0.5]))
""",
    instead="""\
import torch
import torch.nn as nn


class Scaled(nn.Linear):
    def forward(self, x, temperature):
        return super().forward(x) / temperature


device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.DataParallel(Scaled(8, 4).to(device))
logits = model(torch.randn(16, 8), 0.5)
""",
    silent="""\
- Python numbers, which every replica gets; buffers and parameters of the module.
- A tensor expanded to the batch: `t.expand(x.size(0), -1)`.
- A single device id (a 0-dim tensor raises there as well), `dim=` other than 0.
- Unknown sizes, and an argument with as many rows as the batch.
""",
    fix="""\
Pass a Python number, keep the tensor as a buffer of the module, or expand it to one row for each row of the batch.
""",
)


def check(event: NotBatched) -> Iterator[Problem]:
    yield Problem(
        event.node,
        _message(event),
        event.history,
        advice="pass a Python number, or expand it to the batch" if event.rows in (None, 1) else "make it a buffer",
        facts={"rows": event.rows, "keyword": event.keyword},
        replay=Replay(
            watch=() if event.rows is None or event.keyword else like_its_module(event.call),
            repairs=(appended(event.node, "item()"),) if event.rows is None else (),
        ),
    )


def _message(event: NotBatched) -> str:
    if event.rows is None:
        return (
            f"`{event.label}` is a 0-dim tensor, and DataParallel splits every tensor argument: it raises RuntimeError"
        )
    batch = f"the batch has {event.batch}" if event.batch is not None else "the batch has another number of rows"
    if event.rows > 1:
        return f"`{event.label}` has {event.rows} rows and {batch}: each replica silently gets a part of them"
    effect = "it raises AssertionError" if event.keyword else "rows of the batch are silently dropped"
    return f"`{event.label}` has a single row and {batch}, so it is one chunk for one replica: {effect}"


def flagged(facts: Facts) -> str:
    return _called(facts, facts["rows"])


def control(facts: Facts) -> str:
    from placement_lint.probe.bench import SIDE, replicas

    return _called(facts, SIDE * replicas(facts))


def _called(facts: Facts, count: int | None) -> str:
    """The number of rows of an argument that a replica gets; ``count`` is None for a 0-dim argument."""
    import torch

    from placement_lint.probe.bench import Model, parallel, rows

    seen: list[int] = []

    def forward(x: torch.Tensor, argument: torch.Tensor) -> torch.Tensor:
        seen.append(argument.size(0))
        return x

    model = Model()
    model.forward = forward  # type: ignore[method-assign,assignment]
    batch = rows(facts)
    argument = torch.ones(()) if count is None else torch.ones(count, 1)
    wrapped = parallel(model, facts)
    out = wrapped(batch, argument=argument) if facts["keyword"] else wrapped(batch, argument)
    if len(out) < len(batch):
        return f"{len(out)} rows of {len(batch)} come back"
    with_batch = count == len(batch) or max(seen) == count
    return "every replica gets the argument" if with_batch else f"a replica gets {max(seen)} of {count} rows"


EXPERIMENT = Experiment(
    claim="DataParallel splits every tensor argument, whether or not it is a batch",
    flagged=flagged,
    control=control,
    symptoms=(
        Sees("come back"),
        Sees("a replica gets"),
        Raises("RuntimeError", "chunk expects at least a 1-dimensional tensor"),
        Raises("AssertionError"),
    ),
    facts={"rows": 1, "keyword": False, "device_ids": [0, 1]},
    gpus=2,
    harmless_on=1,
    one_gpu={"device_ids": [0, 0]},
)


RULE = Rule("DPL108", "non-batch-argument", Severity.ERROR, PAGE, {NotBatched: check}, experiment=EXPERIMENT)
