"""Packed sequences in replicas of DataParallel: they are not split, and not padded to the same length."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from placement_lint.finding import Severity
from placement_lint.flow.events.facts import replica_facts
from placement_lint.flow.events.schema import PackingMisused
from placement_lint.probe.experiment import Experiment, Facts, Raises
from placement_lint.rewriting import appended, safe
from placement_lint.rule import Page, Problem, Replay, Rule

PAGE = Page(
    what="""\
Reports three uses of packed sequences that fail under `DataParallel`: a PackedSequence as an argument,
`pack_padded_sequence(x, lengths)` in its forward with lengths that are a tensor, and an output that
`pad_packed_sequence` made without `total_length`.
""",
    why="""\
- A PackedSequence is a named tuple, and its parts are scattered (torch/nn/parallel/scatter_gather.py, `scatter`). On 1
  GPU or more that raises `ValueError: batch_sizes should always be on CPU. ...`.
- `DataParallel` moves all tensors to the GPUs, including the lengths, which must be on the CPU. On 1 GPU or more it
  raises `RuntimeError: 'lengths' argument should be a 1D CPU int64 tensor, but got 1D cuda:0 Long tensor`.
- Each replica pads to the longest of its own sequences. On 2 GPUs or more, as soon as these differ in length, it raises
  `RuntimeError: Input tensor at index 1 has invalid shape ...` when the outputs are gathered.
""",
    example="""\
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(8, 8, batch_first=True)

    def forward(self, x, lengths):
        packed = pack_padded_sequence(x, lengths, batch_first=True)
        return self.rnn(packed)[1].transpose(0, 1)


device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.DataParallel(Encoder().to(device))
print(model(torch.randn(4, 5, 8), torch.tensor([5, 4, 3, 2])).shape)
""",
    instead="""\
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(8, 8, batch_first=True)

    def forward(self, x, lengths):
        packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True)
        return self.rnn(packed)[1].transpose(0, 1)


device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.DataParallel(Encoder().to(device))
print(model(torch.randn(4, 5, 8), torch.tensor([5, 4, 3, 2])).shape)
""",
    silent="""\
- `lengths.cpu()`, `lengths.tolist()`, and lengths that may not be a tensor.
- `total_length=`, and an output without the time dimension, such as a mean over it or the last state.
- Operations other than elementwise functions, `Linear` and similar layers change the padded tensor before it is
  returned.
- DistributedDataParallel, and an unwrapped model.
""",
    fix="""\
Pass the padded tensor and the lengths, and pack inside `forward`, with `lengths.cpu()` (this is offered, and safe).
Pad again with `total_length=x.size(1)`, where `x` is the packed tensor with the batch first.
""",
)

_ADVICE = {
    "argument": "pass the padded tensor and the lengths, and pack inside `forward`",
    "lengths": "move them with `.cpu()`",
    "output": "pass `total_length`, the length of the padded input",
}


def check(event: PackingMisused) -> Iterator[Problem]:
    yield Problem(
        event.node,
        _message(event),
        event.trace,
        advice=_ADVICE[event.what],
        rewrite=safe("move them to the CPU", appended(event.node, "cpu()")) if event.what == "lengths" else None,
        severity=Severity.WARNING if event.what == "output" else None,
        facts={"what": event.what, **replica_facts(event.scene)},
        replay=Replay(right=event.what != "output"),
    )


def _message(event: PackingMisused) -> str:
    if event.what == "argument":
        return (
            f"`{event.label}` is a PackedSequence, and DataParallel moves all of it to the GPUs: it raises ValueError"
        )
    if event.what == "lengths":
        return f"DataParallel moves `{event.label}` to a GPU, and packing by lengths on a GPU raises"
    return f"each replica pads to its own longest sequence: gathering `{event.label}` raises if these lengths differ"


def flagged(facts: Facts) -> str:
    return _called(facts, facts["repaired"])


def control(facts: Facts) -> str:
    return _called(facts, True)


def _called(facts: Facts, repaired: bool) -> str:
    import torch
    from torch.nn.utils import rnn

    from placement_lint.probe.bench import SIDE, parallel, replicas

    what, count = facts["what"], SIDE * replicas(facts)
    lengths = torch.full((count,), count) if facts["same"] else torch.arange(count, 0, -1)
    padded = torch.ones(count, count, SIDE)

    class Encoder(torch.nn.GRU):
        def forward(self, x: Any, lengths: Any = None) -> Any:
            if what == "argument" and not repaired:
                return super().forward(x)[1].transpose(0, 1)
            on_cpu = lengths if what == "lengths" and not repaired else lengths.cpu()
            states, last = super().forward(rnn.pack_padded_sequence(x, on_cpu, batch_first=True))
            if what != "output":
                return last.transpose(0, 1)
            return rnn.pad_packed_sequence(states, batch_first=True, total_length=x.size(1) if repaired else None)[0]

    wrapped = parallel(Encoder(SIDE, SIDE, batch_first=True), facts)
    packed = rnn.pack_padded_sequence(padded, lengths, batch_first=True)
    out = wrapped(packed) if what == "argument" and not repaired else wrapped(padded, lengths)
    return f"all {len(out)} rows come back"


EXPERIMENT = Experiment(
    claim="DataParallel moves lengths and packed sequences to the GPUs, and each replica pads by itself",
    flagged=flagged,
    control=control,
    symptoms=(
        Raises("ValueError", "batch_sizes should always be on CPU"),
        Raises("RuntimeError", "'lengths' argument should be a 1D CPU int64 tensor"),
        Raises("RuntimeError", "invalid shape"),
    ),
    facts={"what": "lengths", "repaired": False, "same": False, "device_ids": [0, 1]},
    gpus=2,
    harmless_on=1,
    one_gpu={"device_ids": [0, 0]},
)


RULE = Rule(
    "DPL112", "packed-sequence-in-replica", Severity.ERROR, PAGE, {PackingMisused: check}, experiment=EXPERIMENT
)
