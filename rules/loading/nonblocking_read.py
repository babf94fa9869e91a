"""A copy to the host is read before it is finished."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from placement_lint.finding import Severity
from placement_lint.flow.events.schema import UnfinishedCopyRead
from placement_lint.probe.experiment import Experiment, Facts, Sees
from placement_lint.replaying import claimed
from placement_lint.rewriting import safe, without_argument
from placement_lint.rule import Line, Page, Problem, Replay, Rule

PAGE = Page(
    what="""\
Reports a tensor that `x.to("cpu", non_blocking=True)` has copied from a GPU and that the host reads before it waits
for the GPU.
""",
    why="""\
The copy goes to pinned memory and the call returns before the copy is done
(aten/src/ATen/native/TensorConversions.cpp). What `numpy()`, `item()`, `print` or an operation on the CPU read
depends on how busy the GPU is: the values, or the previous content of the memory. Nothing raises, with any number
of GPUs. Without a GPU, nothing is copied.
""",
    example="""\
import torch

scores = torch.randn(1000, 1000, device="cuda").softmax(dim=1)
host = scores.to("cpu", non_blocking=True)
print(host.numpy().max())
""",
    instead="""\
import torch

scores = torch.randn(1000, 1000, device="cuda").softmax(dim=1)
host = scores.to("cpu", non_blocking=True)
torch.cuda.synchronize()
print(host.numpy().max())
""",
    silent="""\
- Copies to a GPU: operations there wait by themselves.
- `.cpu()`, which always waits, and `non_blocking=False`.
- Something waits before the read: `torch.cuda.synchronize()`, an event or a stream.
- Only the shape or another property is read.
""",
    fix="""\
Remove `non_blocking=True` from the copy, which then waits. This is safe.
""",
)


def check(event: UnfinishedCopyRead) -> Iterator[Problem]:
    yield Problem(
        event.node,
        f"`{event.label}` is read while its copy to the host may still be running: the values may be "
        "wrong, without an error",
        (event.copied,),
        advice="call `torch.cuda.synchronize()` first, or copy without `non_blocking=True`",
        rewrite=safe("wait for the copy", without_argument(event.copied.node, "non_blocking")),
        replay=Replay(
            watch=(
                Line(event.copied.node, "torch.cuda._sleep(500_000_000)", before=True),
                claimed(event.node, "torch.cuda.current_stream().query()", "the copy is not finished", before=True),
            ),
            mended=(Line(event.node, "torch.cuda.synchronize()", before=True),),
            right=False,  # on another machine the copy may take longer
        ),
    )


def flagged(facts: Facts) -> str:
    return _pending(facts["waits"])


def control(facts: Facts) -> str:
    return _pending(waits=True)


def _pending(waits: bool) -> str:
    """Whether the GPU is still busy when the call returns: the copy is the last operation in its queue."""
    import torch

    cuda: Any = torch.cuda
    tensor = torch.ones(4, device="cuda")
    cuda.synchronize()
    cuda._sleep(500_000_000)
    tensor.to("cpu", non_blocking=True)
    if waits:
        cuda.synchronize()
    return "the copy is finished" if cuda.current_stream().query() else "the copy is not finished"


EXPERIMENT = Experiment(
    claim="a non-blocking copy to the host is still running when the call returns",
    flagged=flagged,
    control=control,
    symptoms=(Sees("the copy is not finished"),),
    facts={"waits": False},
    gpus=1,
)


RULE = Rule("DPL602", "nonblocking-read", Severity.ERROR, PAGE, {UnfinishedCopyRead: check}, experiment=EXPERIMENT)
