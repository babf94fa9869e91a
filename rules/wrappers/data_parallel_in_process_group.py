"""DataParallel in a program of several processes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from placement_lint.finding import Severity
from placement_lint.flow.events.schema import ParallelInGroup
from placement_lint.probe.experiment import Experiment, Facts, Raises, Sees
from placement_lint.replaying import call_as, wrapped_module
from placement_lint.rewriting import NOTHING, Replacements, called_with, unsafe
from placement_lint.rule import TWO_RANKS, Line, Page, Problem, Replay, Rule
from placement_lint.source.wording import quoted

PAGE = Page(
    what="""\
Reports `DataParallel` over more than one GPU in a process that is one of several: in a function that `mp.spawn`
starts, in a program that calls `init_process_group`, or beside a `DistributedSampler`.
""",
    why="""\
DataParallel ignores other processes: in each process it replicates over all visible GPUs, and it does not average
gradients between processes. A rank that moves its model to its own GPU raises
`RuntimeError: module must have its parameters and buffers on device cuda:0 (device_ids[0])` in every rank but the
first (torch/nn/parallel/data_parallel.py, `DataParallel.forward`). If all ranks share `cuda:0`, or on the CPU,
nothing raises: each rank trains its own model on its share of the data, and the models drift apart.
""",
    example="""\
import torch
import torch.multiprocessing as mp
import torch.nn as nn


def train(rank):
    model = nn.DataParallel(nn.Linear(8, 4).to(rank))
    model(torch.randn(16, 8)).sum().backward()


if __name__ == "__main__":
    mp.spawn(train, nprocs=torch.cuda.device_count())
""",
    instead="""\
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn


def train(rank, world_size):
    dist.init_process_group("nccl", "tcp://127.0.0.1:29500", rank=rank, world_size=world_size)
    model = nn.parallel.DistributedDataParallel(nn.Linear(8, 4).to(rank), device_ids=[rank])
    model(torch.randn(16, 8)).sum().backward()


if __name__ == "__main__":
    world_size = torch.cuda.device_count()
    mp.spawn(train, args=(world_size,), nprocs=world_size)
""",
    silent="""\
- `device_ids` has a single entry: then DataParallel has no effect.
- The process group and DataParallel are on different branches (`if args.distributed: ... else: ...`).
- A group of one process (`world_size=1`, `nprocs=1`), or a branch for one rank alone (`if rank == 0:`).
""",
    fix="""\
`DistributedDataParallel(model, device_ids=[rank])`, with the rank's own GPU. Review it: the process group must be
initialised first, each rank moves its inputs to its own GPU, and the batch size is that of one GPU.
""",
)


def check(event: ParallelInGroup) -> Iterator[Problem]:
    yield Problem(
        event.node,
        f"this is DataParallel over several GPUs in one process of several: {quoted(event.label)} gets no "
        "gradients from the other ranks, and a rank whose module is not on cuda:0 raises",
        (event.started,),
        advice="use DistributedDataParallel with the GPU of the rank",
        rewrite=unsafe("wrap it in DistributedDataParallel", _in_ddp(event)),
        replay=Replay(
            watch=(Line(event.node, f"compare_gradients({wrapped_module(event.node)})"),),
            repairs=(call_as(event.node, "in_ddp({})"),),
            crew=TWO_RANKS,
            along=("backward",),
            right=False,
        ),
    )


def _in_ddp(event: ParallelInGroup) -> Replacements:
    if not event.ddp or not event.rank:
        return NOTHING
    return called_with(event.node, event.ddp, f"device_ids=[{event.rank}]")


def flagged(facts: Facts) -> str:
    return _trained(facts, "DataParallel")


def control(facts: Facts) -> str:
    return _trained(facts, "DistributedDataParallel")


def _trained(facts: Facts, wrapper: str) -> str:
    """Whether one rank's gradients are averaged with the other ranks', with its model on its own GPU."""
    import torch
    from torch import nn

    from placement_lint.probe.bench import averaged, in_wrapper, with_idle_rank

    if facts["world_size"] == 1:
        return "there is no other rank"
    device = torch.device("cuda", facts["rank"])
    model: Any = nn.Linear(2, 2).to(device)
    wrapped = with_idle_rank(in_wrapper(model, wrapper))
    return averaged(model, lambda: wrapped(torch.ones(1, 2, device=device)).sum())


EXPERIMENT = Experiment(
    claim=(
        "DataParallel in one of several processes needs the first GPU, and exchanges nothing with the other processes"
    ),
    flagged=flagged,
    control=control,
    symptoms=(
        Raises("RuntimeError", "module must have its parameters and buffers on device cuda:0"),
        Sees("keeps its gradients to itself"),
    ),
    facts={"rank": 1, "world_size": 2},
    gpus=2,
    one_gpu={"rank": 0},
)


RULE = Rule(
    "DPL114", "data-parallel-in-process-group", Severity.ERROR, PAGE, {ParallelInGroup: check}, experiment=EXPERIMENT
)
