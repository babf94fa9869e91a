"""A forward hook in a replica of DataParallel keeps the replica's values instead of those of the whole batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from placement_lint.finding import Severity
from placement_lint.flow.events.schema import ChunkUsed
from placement_lint.probe.experiment import Experiment, Facts, Sees
from placement_lint.replaying import claimed
from placement_lint.rewriting import receiver
from placement_lint.rule import Line, Page, Problem, Replay, Rule
from placement_lint.source.wording import source_text

PAGE = Page(
    what="""\
Reports a forward hook, registered on a part of a `DataParallel` model, that keeps the output under one key of a
dict, in an attribute or in a variable, if the program uses it after the call of the model.
""",
    why="""\
Replicas are shallow copies with the hooks of the original (torch/nn/modules/module.py,
`Module._replicate_for_data_parallel`): with 2 GPUs or more each of them calls the same function, from its own
thread, with its chunk of the batch on its GPU. The hook silently keeps the chunk of the replica that came last,
which raises in an operation with the whole batch. With 0 or 1 GPU the hook gets all rows.
""",
    example="""\
import torch
from torch import nn

features = {}


def keep(module, args, output):
    features["body"] = output.detach()


device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
net = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4)).to(device)
net[0].register_forward_hook(keep)
model = nn.DataParallel(net)
logits = model(torch.randn(16, 8))
print(features["body"].mean(1))
""",
    instead="""\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(8, 8)
        self.head = nn.Linear(8, 4)

    def forward(self, x):
        features = self.body(x)
        return self.head(torch.relu(features)), features


device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.DataParallel(Net().to(device))
logits, features = model(torch.randn(16, 8))
print(features.detach().mean(1))
""",
    silent="""\
- A key for each replica, `features[output.device] = output`, and a hook of the wrapper itself.
- The output is appended to a list, which then has one entry for each replica, or is reduced or joined before it is
  kept.
- Only the size or the type of the output is used.
- The hook is removed before the model is called, or the model's class is unknown.
- A single device id, DistributedDataParallel, and a call of `model.module`.
""",
    fix="""\
Return it from `forward`: outputs are gathered. Or store it under `output.device` and join the parts in the order of
the GPUs, or call `model.module` for the hook.
""",
)


def check(event: ChunkUsed) -> Iterator[Problem]:
    yield Problem(
        event.node,
        (
            f"each replica of DataParallel calls this hook, so `{event.label}` holds one replica's chunk and "
            "not the batch"
        ),
        event.trace,
        advice="return it from `forward`, or store it by device and join the parts",
        facts={"device_ids": event.ids} if len(event.ids) > 1 else {},
        replay=Replay(watch=_called_once(event)),
    )


def _called_once(event: ChunkUsed) -> tuple[Line, ...]:
    noting = "lambda *_: watched.append(torch.cuda.current_device())"
    hooked = source_text(receiver(event.node))
    return (
        Line(event.node, f"{hooked}.register_forward_hook({noting})"),
        claimed(event.trace[-1].node, "len(set(watched)) < 2", "several replicas call the hook", before=True),
    )


def flagged(facts: Facts) -> str:
    return _kept(facts, by_device=facts["by_device"])


def control(facts: Facts) -> str:
    return _kept(facts, by_device=True)


def _kept(facts: Facts, by_device: bool) -> str:
    import torch
    from torch import nn

    from placement_lint.probe.bench import SIDE, parallel, rows

    kept: dict[str, torch.Tensor] = {}

    def keep(module: nn.Module, given: Any, output: torch.Tensor) -> None:
        kept[str(output.device) if by_device else "fc"] = output.detach().cpu()

    net = nn.Sequential(nn.Linear(SIDE, SIDE), nn.ReLU())
    batch, wrapped = rows(facts), parallel(net, facts)
    hooked = wrapped if facts["on_wrapper"] else net[0]
    hooked.register_forward_hook(keep)
    wrapped(batch)
    count = sum(len(one) for one in kept.values())
    return f"all {count} rows are kept" if count == len(batch) else f"{count} rows of {len(batch)} are kept"


EXPERIMENT = Experiment(
    claim="each replica of DataParallel calls the hooks with its own chunk, and only the last one's is kept",
    flagged=flagged,
    control=control,
    symptoms=(Sees("rows of"),),
    facts={"by_device": False, "on_wrapper": False, "device_ids": [0, 1]},
    gpus=2,
    harmless_on=1,
)


RULE = Rule("DPL115", "hook-keeps-one-chunk", Severity.WARNING, PAGE, {ChunkUsed: check}, experiment=EXPERIMENT)
