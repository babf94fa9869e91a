"""DistributedDataParallel gets devices that do not fit its module."""

from __future__ import annotations

from collections.abc import Iterator

from placement_lint.finding import Severity
from placement_lint.flow.domain.values import describe
from placement_lint.flow.events.facts import place_fact
from placement_lint.flow.events.schema import DistributedArgumentsInvalid
from placement_lint.probe.experiment import MIXED_DEVICES, Experiment, Facts, Raises
from placement_lint.replaying import LOCAL_RANK, call_as, without_keywords
from placement_lint.rule import TWO_RANKS, Page, Problem, Replay, Rule

PAGE = Page(
    what="""\
Reports `device_ids` and `output_device` arguments of `DistributedDataParallel` that do not fit its module: several
ids, a module on the CPU or on another GPU, `device_ids=[rank]` for a module that `.cuda()` put on the current
device although no rank sets one, and an `output_device` without `device_ids`.
""",
    why="""\
One process drives one GPU (torch/nn/parallel/distributed.py, `DistributedDataParallel.__init__`).

- Several ids: `ValueError: device_ids can only be None or contain a single element.` A number instead of a list:
  `TypeError: object of type 'int' has no len()`.
- A module on the CPU, or an output device alone:
  `ValueError: DistributedDataParallel device_ids and output_device arguments only work with ...`
- A module on another GPU: the constructor does not check this. The inputs go to `device_ids[0]`, and the first
  forward raises `RuntimeError: Expected all tensors to be on the same device, ...`. With `.cuda()` and no current
  device, this happens in every rank but the first, so a machine with one GPU does not show it.
""",
    example="""\
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("nccl")
local_rank = int(os.environ["LOCAL_RANK"])
model = DistributedDataParallel(nn.Linear(8, 4), device_ids=[local_rank])
print(model(torch.randn(2, 8)).shape)
""",
    instead="""\
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("nccl")
local_rank = int(os.environ["LOCAL_RANK"])
model = DistributedDataParallel(nn.Linear(8, 4).to(local_rank), device_ids=[local_rank])
print(model(torch.randn(2, 8)).shape)
""",
    silent="""\
- `device_ids=None`, as for modules on the CPU or on several GPUs; an empty list means the same.
- `device_ids=[rank]` and a module that is on `rank`, by `.to(rank)` or by `torch.cuda.set_device(rank)`.
- `device_ids=[rank] if torch.cuda.is_available() else None`.
- `output_device=0` without ids: it counts as no device.
- One option moves the module to a GPU and another one wraps it: users set both.
- The device of the module or the id is unknown.
""",
    fix="""\
There is no automatic fix. Move the module to the rank's GPU first and pass `device_ids=[that GPU]`, or pass no ids.
""",
)


def check(event: DistributedArgumentsInvalid) -> Iterator[Problem]:
    yield Problem(
        event.node,
        _message(event),
        event.trace,
        advice="use one GPU for each process: move the module to it and pass its id",
        facts={
            "fault": event.fault,
            "place": place_fact(event.place) if event.place is not None else "cuda:0",
            **_written(event),
        },
        replay=Replay(
            repairs=(without_keywords(event.node, *_DEVICES), call_as(event.node, _ON_OWN_GPU)), crew=TWO_RANKS
        ),
    )


_ON_OWN_GPU = f"in_ddp(({{}}).cuda({LOCAL_RANK}))"
_DEVICES = ("device_ids", "output_device")


def _message(event: DistributedArgumentsInvalid) -> str:
    where = describe(event.place) if event.place is not None else ""
    return {
        "number": "`device_ids` is a number, not a list: raises TypeError",
        "several": "DistributedDataParallel takes one device id, not several: raises ValueError",
        "module on the CPU": f"{event.label} is on the CPU, but `device_ids` is for GPUs: raises ValueError",
        "another GPU": f"{event.label} is on {where}, but its inputs go to `device_ids[0]`: the first call raises",
        "current device": f"{event.label} is on {where} in every rank because no rank sets its current device, but its "
        "inputs go to the GPU of the rank: every rank but the first raises",
        "output alone": "`output_device` without `device_ids`: raises ValueError",
    }[event.fault]


def _written(event: DistributedArgumentsInvalid) -> dict[str, object]:
    """The arguments in the program; for those computed from a rank, the values of a rank that shows the fault."""
    if event.fault == "current device":
        return {"device_ids": [1], "output_device": None, "place": "cuda:0"}
    rank = {"device_ids": 1, "output_device": 1}
    written = {"device_ids": event.ids, "output_device": event.output}
    return {name: _with_rank(value, rank[name]) for name, value in written.items()}


def _with_rank(value: object, rank: int) -> object:
    if isinstance(value, list):
        known = [one for one in value if one != "…"]
        return known if len(known) == len(value) else [*known, rank]
    return rank if value == "…" else value


def flagged(facts: Facts) -> None:
    _train(facts, facts["place"], facts["device_ids"], facts["output_device"])


def control(facts: Facts) -> None:
    _train(facts, "cuda:0", [0], None)


def _train(facts: Facts, place: str, ids: object, output: object) -> None:
    from typing import Any

    import torch

    from placement_lint.probe.bench import Model, in_process_group, square

    in_process_group()
    wrap: Any = torch.nn.parallel.DistributedDataParallel
    model = Model().to(place)
    # Without ids the wrapper does not move the inputs.
    wrap(model, device_ids=ids, output_device=output)(square() if ids else square().to(place))


EXPERIMENT = Experiment(
    claim="DistributedDataParallel accepts only the id of the one GPU of its module",
    flagged=flagged,
    control=control,
    symptoms=(
        Raises("ValueError", "device_ids can only be None or contain a single element"),
        Raises("ValueError", "only work with single-device/multiple-device GPU modules or CPU modules"),
        Raises("TypeError", "has no len()"),
        *MIXED_DEVICES,
    ),
    facts={"fault": "", "place": "cpu", "device_ids": [0], "output_device": None},
    gpus=2,
)


RULE = Rule(
    "DPL403", "ddp-device-arguments", Severity.ERROR, PAGE, {DistributedArgumentsInvalid: check}, experiment=EXPERIMENT
)
