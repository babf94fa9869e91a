"""A DistributedSampler gives every epoch the same order, or is used in a way that raises."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from placement_lint.finding import Severity
from placement_lint.flow.events.schema import SamplerMisused
from placement_lint.probe.experiment import Experiment, Facts, Raises, Sees
from placement_lint.replaying import argument_as, claimed, given_keyword
from placement_lint.rule import Line, Page, Problem, Replay, Rule

PAGE = Page(
    what="""\
Reports a loop over epochs of a loader with a shuffling `DistributedSampler` if `set_epoch` is never called, a
`DistributedSampler` of a class instead of a dataset, `shuffle=True` together with a `sampler`, and a loader that
trains a `DistributedDataParallel` model with `shuffle=True` and no sampler.
""",
    why="""\
- The sampler shuffles with `seed + epoch`, and the epoch stays 0 unless the program sets it
  (`torch/utils/data/distributed.py`, `DistributedSampler.__iter__`): every epoch has the same order, and each
  process the same share of the data. Nothing raises, with any number of GPUs.
- Without a sampler each process draws from the whole dataset (`torch/utils/data/dataloader.py`, `RandomSampler`). An
  epoch then takes as many steps on eight GPUs as on one, and sees each sample eight times. Nothing raises.
- `DistributedSampler(Dataset)` raises `TypeError: object of type 'type' has no len()`.
- `DataLoader(..., shuffle=True, sampler=...)` raises `ValueError: sampler option is mutually exclusive with shuffle`.
""",
    example="""\
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

dist.init_process_group("gloo")
dataset = TensorDataset(torch.arange(32.0))
loader = DataLoader(dataset, batch_size=4, sampler=DistributedSampler(dataset))
for epoch in range(3):
    for (x,) in loader:
        print(epoch, x)
""",
    instead="""\
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

dist.init_process_group("gloo")
dataset = TensorDataset(torch.arange(32.0))
loader = DataLoader(dataset, batch_size=4, sampler=DistributedSampler(dataset))
for epoch in range(3):
    loader.sampler.set_epoch(epoch)
    for (x,) in loader:
        print(epoch, x)
""",
    silent="""\
- `set_epoch` is called on that sampler anywhere, on any sampler in that loop, or on one that may be that sampler.
- A loop under `torch.no_grad()`, where the order does not matter.
- `shuffle=False`, a single epoch, or a new sampler each epoch.
- A loader that Accelerate has prepared.
- `shuffle=(sampler is None)`.
- A loader without a sampler, if its dataset, or the code that makes it, speaks of ranks, a world size, shards or
  workers; if it is a stream (`IterableDataset`), a `Subset` or unknown; and where only one rank trains.
""",
    fix="""\
There is no automatic fix. Call `loader.sampler.set_epoch(epoch)` at the start of each epoch. A loader without a sampler
needs one: `DataLoader(dataset, sampler=DistributedSampler(dataset))` instead of `shuffle=True`.
""",
)

_MESSAGES = {
    "no epoch": "`set_epoch` is never called, so every epoch uses the same order",
    "class": "DistributedSampler gets a class instead of a dataset: raises TypeError",
    "shuffled": "`shuffle=True` and a sampler exclude each other: raises ValueError",
    "no share": "every process of DistributedDataParallel goes through all of the data, and not through a share of it",
}
_ADVICE = {
    "no epoch": "call `set_epoch(epoch)` of the sampler before each epoch",
    "no share": "use `sampler=DistributedSampler(dataset)` instead of `shuffle=True`",
}
# These raise.
_ERRORS = {"class", "shuffled"}


def check(event: SamplerMisused) -> Iterator[Problem]:
    yield Problem(
        event.node,
        _MESSAGES[event.fault],
        event.trace,
        advice=_ADVICE.get(event.fault, ""),
        severity=Severity.ERROR if event.fault in _ERRORS else None,
        facts={"fault": event.fault},
        replay=_replay(event),
    )


def _replay(event: SamplerMisused) -> Replay | None:
    if event.fault == "no share":
        return None
    if event.fault == "class":
        return Replay(repairs=(argument_as(event.node, "{}()"),))
    if event.fault == "shuffled":
        return Replay(repairs=(given_keyword(event.node, "shuffle", "False"),))
    return Replay(
        watch=(
            Line(event.node, "note_orders(watched)", before=True),
            claimed(event.node, "len({*watched}) == len(watched)", "two epochs have the same order"),
        ),
        mended=(Line(event.node, "set_epochs()", before=True),),
    )


def flagged(facts: Facts) -> str:
    return _sampled(facts, right=False)


def control(facts: Facts) -> str:
    return _sampled(facts, right=True)


def _sampled(facts: Facts, right: bool) -> str:
    """The orders of several epochs in the second of two processes."""
    from torch.utils.data import DataLoader, DistributedSampler

    from placement_lint.probe.bench import Samples

    fault = "" if right else facts["fault"]
    if facts["fault"] == "no share":
        return _shared(Samples("cpu"), right)
    dataset: Any = Samples if fault == "class" else Samples("cpu")
    sampler: Any = DistributedSampler(dataset, num_replicas=2, rank=1, shuffle=facts["shuffle"])
    DataLoader(dataset, sampler=sampler, shuffle=fault == "shuffled")
    orders = []
    for epoch in range(facts["epochs"]):
        if right:
            sampler.set_epoch(epoch)
        orders.append(list(sampler))
    same = any(order in orders[:place] for place, order in enumerate(orders))
    return "epochs have the same order" if same and facts["shuffle"] else "every epoch has another order"


def _shared(dataset: Any, right: bool) -> str:
    """The samples that two processes draw in an epoch."""
    from torch.utils.data import DataLoader, DistributedSampler

    ranks: Any = (DistributedSampler(dataset, num_replicas=2, rank=rank) for rank in range(2))
    loaders = [DataLoader(dataset, sampler=one) if right else DataLoader(dataset, shuffle=True) for one in ranks]
    drawn = sum(len(list(loader.sampler)) for loader in loaders)
    return "each sample is drawn by both processes" if drawn == 2 * len(dataset) else "each process draws its share"


EXPERIMENT = Experiment(
    claim="a DistributedSampler shuffles again only after set_epoch",
    flagged=flagged,
    control=control,
    symptoms=(
        Sees("epochs have the same order"),
        Sees("drawn by both processes"),
        Raises("TypeError", "has no len()"),
        Raises("ValueError", "mutually exclusive with shuffle"),
    ),
    facts={"fault": "no epoch", "shuffle": True, "epochs": 2},
)


RULE = Rule(
    "DPL604", "distributed-sampler-misuse", Severity.WARNING, PAGE, {SamplerMisused: check}, experiment=EXPERIMENT
)
