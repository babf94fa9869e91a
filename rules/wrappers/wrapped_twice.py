"""A model that is already wrapped is wrapped again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from placement_lint.finding import Severity
from placement_lint.flow.events.schema import WrappedTwice
from placement_lint.probe.experiment import Experiment, Facts, Sees
from placement_lint.replaying import claimed, first_argument
from placement_lint.rewriting import replaced_by
from placement_lint.rule import Page, Problem, Replay, Rule
from placement_lint.source.wording import source_text

PAGE = Page(
    what="""\
Reports `DataParallel(model)` and `DistributedDataParallel(model)` if `model` is a wrapper already: wrapped a second
time, or once in each round of a loop.
""",
    why="""\
A wrapper accepts any module, including a wrapper. Each one adds a `module.` to the keys of the state dict, so
checkpoints of different rounds do not fit each other, and `model.module` is the inner wrapper, which has none of
the model's attributes. With two or more GPUs the first call of `DataParallel(DataParallel(model))` raises: the
replicas of the outer wrapper have no parameters for the inner one to replicate (torch/nn/parallel/data_parallel.py,
`DataParallel.forward`), whose own replicas then use weights on another GPU:
`Expected all tensors to be on the same device`.
""",
    example="""\
import torch
import torch.nn as nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(8, 4).to(device)
for epoch in range(3):
    model = nn.DataParallel(model)
    model(torch.randn(16, 8)).sum().backward()
""",
    instead="""\
import torch
import torch.nn as nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(8, 4).to(device)
model = nn.DataParallel(model)
for epoch in range(3):
    model(torch.randn(16, 8)).sum().backward()
""",
    silent="""\
- `DataParallel(model.module)`: the unwrapped model is wrapped.
- A model that is built in each round, or a wrapper under another name than the model.
- An `isinstance` or `hasattr(model, "module")` guard, or a flag that is set after the first time.
- A condition that may hold in one round only, such as `epoch == 0`.
""",
)


_ONCE = "not hasattr(getattr({target}, 'module', None), 'module')"


def check(event: WrappedTwice) -> Iterator[Problem]:
    when = f"in each round `{event.label}` is" if event.repeated else f"`{event.label}` is already"
    wrapped = first_argument(event.node)
    yield Problem(
        event.node,
        f"{when} wrapped in {event.already} and wrapped in {event.wrapper} again: the keys of its state "
        "dict start with `module.module.`, and `.module` is a wrapper",
        (event.first,),
        advice="wrap it once, before the loop" if event.repeated else "wrap it once",
        facts={"wrapper": event.wrapper, "already": event.already},
        replay=Replay(
            watch=(claimed(event.node, _ONCE, "it is wrapped twice"),),
            repairs=(replaced_by(event.node, source_text(wrapped)) if wrapped is not None else (),),
        ),
    )


def flagged(facts: Facts) -> str:
    from torch import nn

    return _wrapped(nn.Linear(2, 2), facts["already"], facts["wrapper"])


def control(facts: Facts) -> str:
    from torch import nn

    return _wrapped(nn.Linear(2, 2), facts["wrapper"])


def _wrapped(model: Any, *wrappers: str) -> str:
    """The prefix of the state dict's keys with the model in these wrappers, the innermost first."""
    from placement_lint.probe.bench import in_wrapper

    for wrapper in wrappers:
        model = in_wrapper(model, wrapper)
    prefix = next(iter(model.state_dict())).removesuffix("weight")
    return f"the keys start with '{prefix}'"


EXPERIMENT = Experiment(
    claim="wrapping a wrapper does not unwrap it first: the keys have a prefix for each wrapper",
    flagged=flagged,
    control=control,
    symptoms=(Sees("'module.module.'"),),
    facts={"wrapper": "DataParallel", "already": "DataParallel"},
)


RULE = Rule("DPL122", "wrapped-twice", Severity.ERROR, PAGE, {WrappedTwice: check}, experiment=EXPERIMENT)
