"""The wrapper is moved instead of the model before wrapping, which is correct."""

from __future__ import annotations

from collections.abc import Iterator

from placement_lint.finding import Outcome, Severity
from placement_lint.flow.events.schema import Rumoured
from placement_lint.probe.experiment import Experiment, Facts, Raises, Sees
from placement_lint.rule import Page, Problem, Rule

PAGE = Page(
    what="""\
Reports `DataParallel(model).to(device)`: the wrapper is moved after wrapping, which is often claimed to be
redundant or wrong. It is neither.
""",
    why="""\
`Module.to` moves all children (`torch/nn/modules/module.py`, `Module._apply`), and the wrapped model is one. With 2
GPUs or more a `DataParallel` does not move its model itself, so one of the two moves is needed.
`DistributedDataParallel` is different: it no longer synchronises gradients if a move after wrapping changes the
device.
""",
    example="""\
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.DataParallel(nn.Linear(4, 2))
model.to(device)
print(model(torch.randn(8, 4)).shape)
""",
    instead="""\
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(4, 2).to(device)
model = nn.DataParallel(model)
print(model(torch.randn(8, 4)).shape)
""",
    silent="""\
The model is moved before wrapping, or the wrapper is not a `DataParallel`.
""",
    fix="""\
No change is needed. Both orders are correct.
""",
)


def check(event: Rumoured) -> Iterator[Problem]:
    if event.claim == "move after wrap":
        yield Problem(
            event.node,
            f"`{event.label}` is moved after it is wrapped: the move reaches the wrapped module",
        )


def flagged(facts: Facts) -> str:
    return _called(facts, wrapped_first=True)


def control(facts: Facts) -> str:
    return _called(facts, wrapped_first=False)


def _called(facts: Facts, wrapped_first: bool) -> str:
    import torch
    from torch import nn

    from placement_lint.probe.bench import Model, first_device, rows

    model, x = Model(), rows(facts)
    right = model(x)
    if not wrapped_first:
        model.to(first_device(facts))
    wrapper = nn.DataParallel(model, device_ids=facts["device_ids"])
    if wrapped_first:
        wrapper.to(first_device(facts))
    same = torch.allclose(wrapper(x).cpu(), right, atol=1e-6)
    return "the result is the same as without the wrapper" if same else "the result differs"


EXPERIMENT = Experiment(
    claim="a DataParallel model must not be moved after it is wrapped",
    flagged=flagged,
    control=control,
    symptoms=(Raises("RuntimeError", "module must have its parameters"), Sees("the result differs")),
    facts={"device_ids": [0, 1]},
    gpus=2,
    one_gpu={"device_ids": [0, 0]},
    expects=Outcome.REFUTED,
)


RULE = Rule(
    "DPL903",
    "move-after-wrap",
    Severity.INFO,
    PAGE,
    {Rumoured: check},
    default=False,
    experiment=EXPERIMENT,
)
