"""A module is changed in a way that its DDP wrapper does not notice."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from typing import Any

from placement_lint.finding import Severity
from placement_lint.flow.events.schema import DdpModuleChanged
from placement_lint.probe.experiment import Experiment, Facts, OutOfReach, Raises, Sees
from placement_lint.rule import TWO_RANKS, Line, Page, Problem, Replay, Rule
from placement_lint.source.wording import quoted

PAGE = Page(
    what="""\
Reports a change of a model between its wrapping in `DistributedDataParallel` and its training: a move to another
device or dtype, `load_state_dict(assign=True)`, a replaced layer, `weight_norm` and similar utilities, a change of
`requires_grad`.
""",
    why="""\
The constructor hooks the gradient accumulator of each parameter that requires grad at that moment
(torch/nn/parallel/distributed.py, `DistributedDataParallel.__init__`; torch/csrc/distributed/c10d/reducer.cpp). A
parameter that moves gets a new accumulator without the hook, and a new or unfrozen parameter has no hook. Nothing
raises: its gradients are not averaged, and the ranks drift apart. DDP waits for the gradient of a frozen or removed
parameter: the second iteration raises `RuntimeError: Expected to have finished reduction in the prior iteration`.
""",
    example="""\
import torch
import torch.distributed as dist
import torch.nn as nn

dist.init_process_group()
local_rank = dist.get_rank() % torch.cuda.device_count()
model = nn.parallel.DistributedDataParallel(nn.Linear(8, 4))
model = model.to(f"cuda:{local_rank}")
model(torch.randn(16, 8, device=f"cuda:{local_rank}")).sum().backward()
""",
    instead="""\
import torch
import torch.distributed as dist
import torch.nn as nn

dist.init_process_group()
local_rank = dist.get_rank() % torch.cuda.device_count()
model = nn.Linear(8, 4).to(f"cuda:{local_rank}")
model = nn.parallel.DistributedDataParallel(model, device_ids=[local_rank])
model(torch.randn(16, 8)).sum().backward()
""",
    silent="""\
- The change comes before wrapping, or the module is wrapped again after it.
- A move to the present device, a conversion to the present dtype.
- A plain `load_state_dict`, `copy_` into weights, pruning, `torch.nn.utils.spectral_norm`: the Parameter objects and
  their accumulators stay.
- Freezing with `find_unused_parameters=True` or `static_graph=True`, which accept parameters without a gradient.
- The wrapper is not trained afterwards, or all of it is frozen while another model is trained.
""",
    fix="""\
Make the change before wrapping, or wrap again after it. During training, do it on all ranks.
""",
)

_WHAT = {
    "moved": "moves it {what}",
    "converted": "converts it {what}",
    "assigned": "replaces its parameters with the loaded tensors",
    "replaced": "replaces `{what}`",
    "frozen": "freezes some of its parameters",
    "trainable": "unfreezes some of its parameters",
}
_STALLS = "the next iteration raises RuntimeError, or the ranks drift apart"
_DRIFTS = "gradients are no longer averaged, and the ranks silently drift apart"


def check(event: DdpModuleChanged) -> Iterator[Problem]:
    what = _WHAT.get(event.how, f"calls `{event.how}` on `{event.what}`").format(what=event.what)
    silent = event.how in ("moved", "converted", "assigned", "trainable")
    yield Problem(
        event.node,
        (
            f"{quoted(event.label)} is already in DistributedDataParallel, and this {what}: "
            f"{_DRIFTS if silent else _STALLS}"
        ),
        event.trace,
        advice="do this before wrapping",
        facts={"how": event.how},
        replay=Replay(
            watch=(Line(event.node, f"compare_gradients({event.label})"),),
            mended=(Line(event.node, "wrap_anew()"),),
            crew=TWO_RANKS,
        ),
    )


def flagged(facts: Facts) -> str:
    return _trained(facts, wrap_first=True)


def control(facts: Facts) -> str:
    return _trained(facts, wrap_first=False)


def _trained(facts: Facts, wrap_first: bool) -> str:
    """Whether DDP averages the gradients if the module is changed after wrapping, or before it."""
    import torch
    from torch import nn

    from placement_lint.probe.bench import averaged, with_idle_rank

    model: Any = _two_layers(nn)
    if facts["how"] == "trainable":
        model.first.requires_grad_(False)
    wrapped = None
    for wrapping in (wrap_first, not wrap_first):
        if wrapping:
            wrapped = with_idle_rank(_in_ddp(model, facts))
        else:
            _change(torch, facts["how"])(model)
    weight = model.second.weight
    one_row = torch.ones(1, 2, dtype=weight.dtype, device=weight.device)
    return averaged(model, lambda: wrapped(one_row).sum())  # type: ignore[misc]


def _two_layers(nn: Any) -> Any:
    class Sum(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(2, 2), nn.Linear(2, 2)

        def forward(self, x: Any) -> Any:
            return self.first(x) + self.second(x)

    return Sum()


def _in_ddp(model: Any, facts: Facts) -> Any:
    from placement_lint.probe.bench import in_wrapper

    return in_wrapper(model, "DistributedDataParallel", find_unused_parameters=facts["find_unused_parameters"])


def _change(torch: Any, how: str) -> Callable[[Any], object]:
    def reload(model: Any, assign: bool) -> None:
        model.load_state_dict({name: value.clone() for name, value in model.state_dict().items()}, assign=assign)

    parametrizations: Any = importlib.import_module("torch.nn.utils.parametrizations")
    prune: Any = importlib.import_module("torch.nn.utils.prune")
    changes: dict[str, Callable[[Any], object]] = {
        "moved": lambda model: model.to("cuda:0"),
        "converted": lambda model: model.double(),
        "assigned": lambda model: reload(model, assign=True),
        "replaced": lambda model: setattr(model, "first", torch.nn.Linear(2, 2)),
        "frozen": lambda model: model.first.requires_grad_(False),
        "trainable": lambda model: model.first.requires_grad_(True),
        "weight_norm": lambda model: parametrizations.weight_norm(model.first),
        "spectral_norm": lambda model: parametrizations.spectral_norm(model.first),
        "orthogonal": lambda model: parametrizations.orthogonal(model.first),
        "nothing": lambda model: None,
        "moved to where it is": lambda model: model.to("cpu").float(),
        "loaded": lambda model: reload(model, assign=False),
        "pruned": lambda model: prune.l1_unstructured(model.first, "weight", 0.5),
    }
    if how not in changes:
        raise OutOfReach(f"no experiment for the change {how!r}")
    return changes[how]


EXPERIMENT = Experiment(
    claim="DDP averages the gradients only of the parameters that it found when it was built",
    flagged=flagged,
    control=control,
    symptoms=(Sees("keeps its gradients to itself"), Raises("RuntimeError", "Expected to have finished reduction")),
    facts={"how": "moved", "find_unused_parameters": False},
    gpus=1,
)


RULE = Rule(
    "DPL116", "ddp-module-changed-after-wrap", Severity.ERROR, PAGE, {DdpModuleChanged: check}, experiment=EXPERIMENT
)
