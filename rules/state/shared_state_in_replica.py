"""Replicas put their tensors into one list, dict or tensor."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from placement_lint.finding import Severity
from placement_lint.flow.events.facts import replica_facts
from placement_lint.flow.events.schema import SharedContainerChanged, SharedTensorChanged
from placement_lint.probe.experiment import Experiment, Facts, Sees
from placement_lint.replaying import claimed, remembered
from placement_lint.rule import Line, Page, Problem, Replay, Rule

PAGE = Page(
    what="""\
Reports a `forward` of a `DataParallel` model that puts tensors into a list, set or dict of the module
(`self.features.append(x)`, `self.cache[name] = x`), or changes in place a tensor that is a plain attribute.
""",
    why="""\
A replica is made from a shallow copy of the module's `__dict__` (torch/nn/modules/module.py,
`Module._replicate_for_data_parallel`): all replicas, which run in threads, share one list.

- 0 or 1 GPU: the module itself is called, and one call leaves one entry.
- 2 or more: each call leaves one entry for each replica, in varying order, each with a chunk of the batch on
  another GPU. A key of a dict keeps only the last replica's chunk. Nothing raises until they are combined:
  `RuntimeError: Expected all tensors to be on the same device, ...`. A tensor that is changed in place is changed
  once for each replica, and raises with operands on another GPU.
""",
    example="""\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 4)
        self.features = []

    def forward(self, x):
        x = self.fc(x)
        self.features.append(x.detach())
        return x


device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.DataParallel(Net().to(device))
model(torch.randn(8, 8))
print(len(model.module.features))
""",
    instead="""\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 4)

    def forward(self, x):
        x = self.fc(x)
        return x, x.detach()


device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.DataParallel(Net().to(device))
features = []
_, feature = model(torch.randn(8, 8))
features.append(feature)
print(len(features))
""",
    silent="""\
- The collected values are Python numbers or unknown.
- The dict has a key for each device: `self.cache[x.device] = x`.
- The list is created in the same `forward`.
- The class is never wrapped in `DataParallel`, or only with a single device id.
- A buffer is changed in place: DPL307 reports that if it is wrong.
- A plain tensor on the CPU is combined with one of a replica: that raises with one GPU as well and is DPL302.
""",
    fix="""\
Return the values from `forward`: `DataParallel` gathers it in the order of the batch.
""",
)


def check_container(event: SharedContainerChanged) -> Iterator[Problem]:
    many = "only the last replica's chunk" if event.how in ("[]=", "update") else "an entry from each replica"
    yield Problem(
        event.node,
        f"under DataParallel all replicas share the {event.container} `{event.label}`: a call leaves "
        f"{many}, on different GPUs",
        event.scene.replica,
        advice="return it from `forward`",
        facts={"how": event.how, **replica_facts(event.scene)},
        replay=Replay(watch=_watch(event)),
    )


def check_tensor(event: SharedTensorChanged) -> Iterator[Problem]:
    if not event.buffer:
        yield Problem(
            event.node,
            f"under DataParallel all replicas share the tensor `{event.label}`, and each of them changes it",
            event.scene.replica,
            advice="return the change from `forward`",
            facts={"how": "in place", **replica_facts(event.scene)},
            replay=Replay(watch=_watch(event)),
        )


def _watch(event: SharedContainerChanged | SharedTensorChanged) -> tuple[Line, ...]:
    """Check whether several GPUs change the same object in a call."""
    return (
        *remembered(event.node, f"(self.{event.name}, torch.cuda.current_device())"),
        claimed(event.scene.replica[-1].node, "not is_shared(watched)", "the replicas change the same object"),
    )


def flagged(facts: Facts) -> str:
    return _left(facts, shared=True)


def control(facts: Facts) -> str:
    return _left(facts, shared=False)


def _left(facts: Facts, shared: bool) -> str:
    """The state after a call of the wrapped model, and after a call of the module itself."""
    from placement_lint.probe.bench import Model, parallel, rows

    model: Any = Model(lambda self, x: _put(self.kept, x, facts) if shared else x)
    batch = rows(facts)
    left = []
    for caller in (model, parallel(model, facts)):
        model.kept = _empty(facts["how"])
        output = caller(batch.to(model.weight.device))
        if not shared:
            _put(model.kept, output, {**facts, "keyed": False})
        left.append(_described(model.kept, facts["how"]))
    alone, wrapped = left
    if alone == wrapped:
        return f"a call leaves {alone}, wrapped or not"
    return f"a call leaves {wrapped}, but {alone} in an unwrapped model"


def _empty(how: str) -> Any:
    import torch

    if how == "in place":
        return torch.zeros(())
    return {} if how in ("[]=", "update", "setdefault") else []


def _put(kept: Any, x: Any, facts: Facts) -> Any:
    key = x.device if facts["keyed"] else "last"
    puts = {
        "[]=": lambda: kept.__setitem__(key, x),
        "update": lambda: kept.update({key: x}),
        "setdefault": lambda: kept.setdefault(key, x),
        "extend": lambda: kept.extend([x]),
        "insert": lambda: kept.insert(0, x),
        "in place": lambda: kept.add_(1),
    }
    puts.get(facts["how"], lambda: kept.append(x))()
    return x


def _described(kept: Any, how: str) -> str:
    if how == "in place":
        return f"the number {int(kept)}"
    entries = kept.values() if isinstance(kept, dict) else kept
    total = f"{sum(len(entry) for entry in entries)} rows"
    return total if isinstance(kept, dict) else f"{len(kept)} entries of {total}"


EXPERIMENT = Experiment(
    claim="all replicas share the lists, dicts and plain tensors of a module",
    flagged=flagged,
    control=control,
    symptoms=(Sees("in an unwrapped model"),),
    facts={"how": "append", "keyed": False, "device_ids": [0, 1]},
    gpus=2,
    harmless_on=1,
    one_gpu={"device_ids": [0, 0]},
)


RULE = Rule(
    "DPL306",
    "shared-state-in-replica",
    Severity.WARNING,
    PAGE,
    {SharedContainerChanged: check_container, SharedTensorChanged: check_tensor},
    experiment=EXPERIMENT,
)
