"""`.module` is read from a model that may be unwrapped."""

from __future__ import annotations

from collections.abc import Iterator

from placement_lint.finding import Severity
from placement_lint.flow.events.schema import BareModuleRead
from placement_lint.probe.experiment import Experiment, Facts, Raises
from placement_lint.rewriting import module_or_itself, receiver, unsafe
from placement_lint.rule import Page, Problem, Replay, Rule

PAGE = Page(
    what="""\
Reports a read of `model.module` that may get the unwrapped model, because the model is wrapped only under a
condition.
""",
    why="""\
Only `DataParallel` and `DistributedDataParallel` have the attribute `module` (torch/nn/parallel/data_parallel.py,
`DataParallel.__init__`). If the condition is false, the lookup raises
`AttributeError: 'Linear' object has no attribute 'module'` (torch/nn/modules/module.py, `Module.__getattr__`).
Wrapped under `device_count() > 1`, the program works with two or more GPUs and raises with 0 or 1, often only when
it saves its first checkpoint.
""",
    example="""\
import torch
import torch.nn as nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(8, 4).to(device)
if torch.cuda.device_count() > 1:
    model = nn.DataParallel(model)
torch.save(model.module.state_dict(), "net.pt")
""",
    instead="""\
import torch
import torch.nn as nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(8, 4).to(device)
if torch.cuda.device_count() > 1:
    model = nn.DataParallel(model)
torch.save(getattr(model, "module", model).state_dict(), "net.pt")
""",
    silent="""\
- The read is under the condition of the wrapping, or under one that implies it.
- It is guarded by `hasattr(model, "module")` or `isinstance(model, nn.DataParallel)`.
- The model is wrapped on every path. `DataParallel` needs no condition: with 0 or 1 GPU it calls the model
  directly.
- The class defines `module` itself, has an unknown base class, or comes from a library that may wrap it.
""",
    fix="""\
`getattr(model, "module", model)`, a variable for the unwrapped model, or wrapping without a condition. The first is
offered and changes nothing if the model is wrapped. It is unsafe if the unwrapped model has another attribute
`module`.
""",
)


def check(event: BareModuleRead) -> Iterator[Problem]:
    yield Problem(
        event.node,
        f"`{event.label}` is wrapped on some paths only; here it may be the unwrapped module, which has "
        "no attribute `module` (AttributeError)",
        event.wrapped,
        advice=f'use `getattr({event.label}, "module", {event.label})`',
        rewrite=unsafe("read `module` only if there is one", module_or_itself(event.node, receiver(event.node))),
        replay=Replay(),
    )


def flagged(facts: Facts) -> None:
    from torch import nn

    from placement_lint.probe.bench import in_wrapper

    model = nn.Linear(2, 2)
    if facts["own_attribute"]:
        model.add_module("module", nn.ReLU())
    _ = in_wrapper(model, facts["wrapper"]).module


def control(facts: Facts) -> None:
    from torch import nn

    from placement_lint.probe.bench import in_wrapper

    model = in_wrapper(nn.Linear(2, 2), facts["wrapper"])
    getattr(model, "module", model)


EXPERIMENT = Experiment(
    claim="an unwrapped module has no attribute `module`",
    flagged=flagged,
    control=control,
    symptoms=(Raises("AttributeError", "has no attribute 'module'"),),
    facts={"wrapper": "", "own_attribute": False},
)


RULE = Rule(
    "DPL121", "module-attribute-on-unwrapped", Severity.ERROR, PAGE, {BareModuleRead: check}, experiment=EXPERIMENT
)
