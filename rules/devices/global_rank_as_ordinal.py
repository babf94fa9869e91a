"""The global rank is used as a GPU index of one node."""

from __future__ import annotations

from collections.abc import Iterator

from placement_lint.finding import Severity
from placement_lint.flow.events.schema import GlobalRankUsed
from placement_lint.probe.experiment import Experiment, Facts, OutOfReach, Raises
from placement_lint.rewriting import first_argument, unsafe
from placement_lint.rule import TWO_NODES, Page, Problem, Replay, Rule

PAGE = Page(
    what="""\
Reports `dist.get_rank()`, `RANK` or `args.rank` as a GPU index, in a program for several nodes: one that also uses
a local rank, a node rank or a number of nodes.
""",
    why="""\
The rank counts the processes of all nodes; GPUs are numbered from 0 on each node.

- One node: rank and local rank are the same, so the bug does not show.
- The second of two nodes with 8 GPUs has the ranks 8 to 15: `CUDA error: invalid device ordinal` in each.
""",
    example="""\
import os

import torch
import torch.distributed as dist

dist.init_process_group("nccl")
rank, local_rank = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
print(torch.ones(2).cuda(), local_rank)
""",
    instead="""\
import os

import torch
import torch.distributed as dist

dist.init_process_group("nccl")
rank, local_rank = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)
print(torch.ones(2).cuda(), rank)
""",
    silent="""\
- The local rank, or `rank % torch.cuda.device_count()`.
- The index that `mp.spawn` gives its function: it counts the processes of one node.
- A program without signs that it runs on several nodes.
""",
    fix="""\
`int(os.environ["LOCAL_RANK"])`, which `torchrun` sets. Unsafe, because other launchers use other names. Offered for
the argument of a call if the file imports `os` and the rank names a GPU nowhere else.
""",
)


def check(event: GlobalRankUsed) -> Iterator[Problem]:
    local = f'int({event.environ}["LOCAL_RANK"])' if event.environ else ""
    yield Problem(
        event.node,
        f"`{event.label}` uses the global rank as a GPU index: every node but the first raises",
        event.trace,
        advice="use the local rank",
        rewrite=unsafe("use the local rank", first_argument(event.node, local)) if local and not event.trace else None,
        # The program may compute the number of its node in its own way: a run may be that of the first node.
        replay=Replay(crew=TWO_NODES, right=not event.computed),
    )


def flagged(facts: Facts) -> None:
    _on_second_node(facts["ordinal"])


def control(facts: Facts) -> None:
    _on_second_node("local rank")


def _on_second_node(ordinal: str) -> None:
    """The first process of the second node, if all nodes have as many GPUs as this one."""
    import torch

    count = torch.cuda.device_count()
    rank = count
    ordinals = {"rank": rank, "local rank": 0, "rank % count": rank % count}
    if ordinal not in ordinals:
        raise OutOfReach(f"no experiment with the ordinal {ordinal!r}")
    torch.cuda.set_device(ordinals[ordinal])
    torch.ones(1).cuda()


EXPERIMENT = Experiment(
    claim="on the second node the global rank is not a GPU index",
    flagged=flagged,
    control=control,
    symptoms=(Raises("RuntimeError", "invalid device ordinal"),),
    facts={"ordinal": "rank"},
    gpus=1,
)


RULE = Rule("DPL406", "global-rank-as-ordinal", Severity.WARNING, PAGE, {GlobalRankUsed: check}, experiment=EXPERIMENT)
