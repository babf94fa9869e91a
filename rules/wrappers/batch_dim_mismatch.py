"""DataParallel splits or gathers along another dimension than that of the batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from placement_lint.finding import Severity
from placement_lint.flow.events.facts import replica_facts
from placement_lint.flow.events.schema import BatchMisplaced
from placement_lint.probe.experiment import Experiment, Facts, OutOfReach, Raises, Sees
from placement_lint.replaying import like_its_module
from placement_lint.rule import Page, Problem, Replay, Rule

PAGE = Page(
    what="""\
Reports a recurrent layer, an attention or a transformer in `DataParallel` that gets its input as `DataParallel`
split it, but uses another dimension for the batch (`batch_first=False` is the default); a hidden state
`(layers, batch, features)` that is passed to the call; and an output, such as `h_n`, whose batch is not in the
dimension along which outputs are gathered.
""",
    why="""\
DataParallel chunks every input along `dim` (0 by default) and concatenates every output along the same dimension
(torch/nn/parallel/scatter_gather.py). A layer without `batch_first=True` has the time steps there: each replica
gets a part of the sequence of all rows. The shape is right and the values are silently wrong. `h_n` always has the
batch in its second dimension, so it comes back as `(n * layers, batch / n, features)`; a hidden state argument is
not split with its rows, and the layer raises `Expected hidden size (1, 2, 2), got [1, 4, 2]`.
""",
    example="""\
import torch
import torch.nn as nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.DataParallel(nn.LSTM(8, 16).to(device))
output, _ = model(torch.randn(32, 20, 8))
""",
    instead="""\
import torch
import torch.nn as nn


class Encoder(nn.LSTM):
    def forward(self, x):
        return super().forward(x)[0]


device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.DataParallel(Encoder(8, 16, batch_first=True).to(device))
output = model(torch.randn(32, 20, 8))
""",
    silent="""\
- `batch_first=True`, with outputs that have the batch first.
- `DataParallel(model, dim=1)` around a model whose inputs and outputs all have the batch in dimension 1.
- A `forward` that transposes its input and its output, or `h_n` before it is returned.
- A hidden state that is made inside `forward`, and outputs whose batch dimension is unknown.
""",
    fix="""\
`batch_first=True` and inputs `(batch, time, features)`, or `dim=1` if every tensor has its batch there; return
`h_n.transpose(0, 1)`, and transpose it again on the way in.
""",
)


def check(event: BatchMisplaced) -> Iterator[Problem]:
    yield Problem(
        event.node,
        _message(event),
        event.trace,
        advice=_ADVICE[event.what],
        facts={
            "what": event.what,
            "layer": event.layer,
            "dim": event.split,
            "batch_first": (event.dim if event.what == "input" else event.split) == 0,
            **replica_facts(event.scene),
        },
        replay=Replay(watch=like_its_module(event.trace[-1 if event.what == "output" else 2].node)),
    )


_ADVICE = {
    "input": "build it with `batch_first=True`, or transpose in forward",
    "state": "create the state inside forward, or pass it with the batch first and transpose it there",
    "output": "transpose it before it is returned",
}


def _message(event: BatchMisplaced) -> str:
    if event.what == "output":
        return (
            f"`{event.label}` has the batch in dimension {event.dim}, but DataParallel gathers outputs along "
            f"dimension {event.split}: the results of the replicas are concatenated along the wrong dimension"
        )
    if event.what == "state":
        return (
            f"DataParallel splits a hidden state of `{event.label}` along dimension {event.split}, but its "
            f"batch is in dimension {event.dim}: the {event.layer} raises, or gets the wrong rows"
        )
    return (
        f"DataParallel splits along dimension {event.split}, but the batch of `{event.label}` "
        f"({event.layer}) is in dimension {event.dim}: each replica gets a part of the sequence of all "
        "rows, and the results are silently wrong"
    )


def flagged(facts: Facts) -> str:
    return _compared(facts, facts["batch_first"], facts["dim"], facts["what"])


def control(facts: Facts) -> str:
    return _compared(facts, facts["dim"] == 0, facts["dim"], "input")


def _compared(facts: Facts, batch_first: bool, dim: int, what: str) -> str:
    """Whether the wrapped layer computes the same as the bare one."""
    import torch
    from torch import nn

    from placement_lint.probe.bench import first_device

    class Encoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = _layer(facts["layer"], batch_first)

        def forward(self, x: Any, state: Any = None) -> Any:
            if what == "inside":
                return self.layer(x.transpose(0, 1))[0].transpose(0, 1)
            if isinstance(self.layer, nn.MultiheadAttention):
                return self.layer(x, x, x)[0]
            if not isinstance(self.layer, nn.RNNBase):
                return self.layer(x)
            output, last = self.layer(x) if state is None else self.layer(x, state)
            states = {"output": last, "transposed": last.transpose(0, 1)} if isinstance(last, torch.Tensor) else {}
            return states.get(what, output)

    device = first_device(facts)
    model = Encoder().to(device).eval()
    x = torch.randn(4, 4, 4, device=device)
    arguments = (x, torch.zeros(1, 4, 4, device=device)) if what == "state" else (x,)
    with torch.no_grad():
        expected = model(*arguments)
        got = nn.DataParallel(model, device_ids=facts["device_ids"], dim=dim)(*arguments)
    if got.shape != expected.shape:
        return f"the output differs: its shape is {tuple(got.shape)} instead of {tuple(expected.shape)}"
    return "the output is the same" if torch.allclose(got, expected, atol=1e-5) else "the output differs"


def _layer(name: str, batch_first: bool) -> Any:
    from torch import nn

    options: dict[str, Any] = {"batch_first": batch_first}
    if name in ("RNN", "GRU", "LSTM"):
        return getattr(nn, "GRU" if name == "LSTM" else name)(4, 4, **options)
    if name == "MultiheadAttention":
        return nn.MultiheadAttention(4, 2, **options)
    if name in ("", "TransformerEncoderLayer", "TransformerEncoder", "Transformer"):
        return nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, **options) if name else nn.GRU(4, 4, **options)
    raise OutOfReach(f"no experiment with the layer {name!r}")


EXPERIMENT = Experiment(
    claim="DataParallel splits and gathers along one dimension, whatever the model uses it for",
    flagged=flagged,
    control=control,
    symptoms=(Sees("the output differs"), Raises("RuntimeError", "Expected hidden size")),
    facts={"what": "input", "layer": "LSTM", "batch_first": False, "dim": 0, "device_ids": [0, 1]},
    gpus=2,
    harmless_on=1,
    one_gpu={"device_ids": [0, 0]},
)


RULE = Rule("DPL111", "batch-dim-mismatch", Severity.ERROR, PAGE, {BatchMisplaced: check}, experiment=EXPERIMENT)
