"""The ranks of a process group all use the first GPU."""

from __future__ import annotations

from collections.abc import Iterator

from placement_lint.finding import Severity
from placement_lint.flow.events.schema import CurrentDeviceUnset
from placement_lint.probe.experiment import Experiment, Facts, Sees
from placement_lint.replaying import LOCAL_RANK, claimed
from placement_lint.rule import TWO_RANKS, Line, Page, Problem, Replay, Rule

PAGE = Page(
    what="""\
Reports a program that joins a process group and then uses CUDA without an index, `.cuda()`, `"cuda"`, or an NCCL
collective on objects, while nothing gives each rank a GPU of its own.
""",
    why="""\
Without `torch.cuda.set_device` the current device is `cuda:0` in every process.

- 1 GPU, one process: correct.
- 2 GPUs or more, one process each: all ranks are on the first GPU. NCCL raises
  `ncclInvalidUsage: Duplicate GPU detected : rank 1 and rank 0 both on CUDA device ...`; with Gloo nothing raises,
  and one GPU does the work of all ranks.
""",
    example="""\
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("nccl")
model = DistributedDataParallel(nn.Linear(8, 4).cuda())
print(model(torch.randn(2, 8, device="cuda")).shape)
""",
    instead="""\
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
model = DistributedDataParallel(nn.Linear(8, 4).cuda())
print(model(torch.randn(2, 8, device="cuda")).shape)
""",
    silent="""\
- `torch.cuda.set_device(rank)`, `with torch.cuda.device(rank):`, or a device with an index, `f"cuda:{rank}"`.
- Another function that runs before may set the device.
- `CUDA_VISIBLE_DEVICES` set for each rank, or `device_id=` given to `init_process_group`.
- A group of one process, `world_size=1`.
- A program that runs on the CPU as well, with another backend than NCCL.
- A program that uses no GPU, or leaves its devices to Accelerate or Lightning.
- The analysis does not see a launcher that shows each process one GPU. Suppress the finding in that case.
""",
    fix="""\
There is no automatic fix, because the name of the local rank is the program's own. Call
`torch.cuda.set_device(local_rank)` before anything else uses CUDA.
""",
)


def check(event: CurrentDeviceUnset) -> Iterator[Problem]:
    yield Problem(
        event.node,
        f"`{event.how}` uses the current device, and no rank sets its own: all processes use cuda:0",
        event.trace,
        advice="call `torch.cuda.set_device(local_rank)` first",
        replay=Replay(
            watch=(claimed(event.node, "len(set(told(torch.cuda.current_device()))) > 1", "the ranks share one GPU"),),
            mended=(Line(event.node, f"torch.cuda.set_device({LOCAL_RANK})", before=True),),
            crew=TWO_RANKS,
        ),
    )


def flagged(facts: Facts) -> str:
    return _in_two_ranks(facts["set_device"], facts["device"])


def control(facts: Facts) -> str:
    return _in_two_ranks(True, facts["device"])


def _in_two_ranks(set_device: bool, device: str) -> str:
    """Run two ranks as threads: the current device is thread-local, and a new thread begins like a process."""
    import threading

    import torch

    used: list[str] = []

    def work(rank: int) -> None:
        if set_device:
            torch.cuda.set_device(rank)
        used.append(str(torch.ones(1, device=device.format(rank=rank)).device))

    for rank in range(2):
        thread = threading.Thread(target=work, args=(rank,))
        thread.start()
        thread.join()
    return f"both ranks use {used[0]}" if used[0] == used[1] else f"the ranks use {used[0]} and {used[1]}"


EXPERIMENT = Experiment(
    claim="without torch.cuda.set_device every process uses the first GPU",
    flagged=flagged,
    control=control,
    symptoms=(Sees("both ranks use"),),
    facts={"set_device": False, "device": "cuda"},
    gpus=2,
)


RULE = Rule("DPL404", "missing-set-device", Severity.WARNING, PAGE, {CurrentDeviceUnset: check}, experiment=EXPERIMENT)
