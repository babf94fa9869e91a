"""A scheduler keeps an optimizer that was replaced by another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from placement_lint.finding import Severity
from placement_lint.flow.events.schema import SchedulerOutlived
from placement_lint.probe.experiment import Experiment, Facts, OutOfReach, Sees
from placement_lint.replaying import callee, claimed, is_name, remembered
from placement_lint.rule import Line, Page, Problem, Replay, Rule

PAGE = Page(
    what="""\
Reports a variable whose optimizer is replaced while the scheduler of the old optimizer keeps stepping, and the new
optimizer, which trains the same parameters, has no scheduler.
""",
    why="""\
A scheduler keeps the optimizer that it was built with (`self.optimizer` in `torch/optim/lr_scheduler.py`), not the
variable. `scheduler.step()` changes the `param_groups` of that optimizer; the new one has its own groups.

Nothing raises, with any number of GPUs: the learning rate that is used never changes, and `scheduler.get_last_lr()`
reports one that is not used. If the old optimizer never took a step, there is a misleading warning: "Detected call
of `lr_scheduler.step()` before `optimizer.step()`".
""",
    example="""\
import torch
from torch import nn

model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

x, y = torch.randn(16, 4), torch.randint(0, 2, (16,))
for epoch in range(4):
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
    scheduler.step()
""",
    instead="""\
import torch
from torch import nn

model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)

x, y = torch.randn(16, 4), torch.randint(0, 2, (16,))
for epoch in range(4):
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
    scheduler.step()
""",
    silent="""\
- A new scheduler is built for the new optimizer, or gets it with `scheduler.optimizer = optimizer`.
- The old optimizer is still stepped, or the two train different parameters.
- The program sets the learning rate of the new one itself: it assigns to its `param_groups` or loads its state.
- Both got the same dict as a param group, or the same tensor as `lr`: these are shared.
- One of the two is in a list or dict, or passed to an unknown function.
""",
    fix="""\
Build the scheduler after its optimizer. There is no automatic fix, because only the author knows whether the new
schedule starts again or continues the old one.
""",
)


def check(event: SchedulerOutlived) -> Iterator[Problem]:
    yield Problem(
        event.node,
        f"`{event.optimizer}` is replaced by another optimizer here, but `{event.scheduler}` keeps the "
        "old one: the learning rate of the new optimizer silently never changes",
        (event.built, event.stepped),
        advice="build a new scheduler for it",
        replay=_followed(event),
    )


def _followed(event: SchedulerOutlived) -> Replay:
    """Check at a step of the scheduler that it has the optimizer that replaced the old one."""
    scheduler, step = event.scheduler, event.stepped.node
    if not is_name(scheduler) or not callee(step):
        return Replay()
    follows = f"not watched or {scheduler}.optimizer is watched[-1]"
    return Replay(
        watch=(
            *remembered(event.node, "{target}"),
            claimed(step, follows, "it is the old learning rate"),
        ),
        mended=(Line(step, f"watched and follow({scheduler}, watched[-1])", before=True),),
    )


def flagged(facts: Facts) -> str:
    return _schedule(facts)


def control(facts: Facts) -> str:
    return _schedule({**facts, "how": "rebuilt"})


def _schedule(facts: Facts) -> str:
    import torch

    from placement_lint.probe.bench import optimizer, step, trainable
    from placement_lint.probe.observers import follow

    model = trainable(facts)
    old = optimizer(model, facts)
    if facts["how"] == "same rate":
        old.param_groups[0]["lr"] = torch.tensor(0.1)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(old, gamma=0.5)
    new = _taking_its_place(model, old, facts)
    if facts["how"] == "rebuilt":
        scheduler = torch.optim.lr_scheduler.ExponentialLR(new, gamma=0.5)
    if facts["how"] == "handed over":
        follow(scheduler, new)
    before = [float(group["lr"]) for group in new.param_groups]
    for _ in range(2):
        step(model, new)
        scheduler.step()
    after = [float(group["lr"]) for group in new.param_groups]
    return "the learning rate never changes" if before == after else "the learning rate changes"


def _taking_its_place(model: Any, old: Any, facts: Facts) -> Any:
    from placement_lint.probe.bench import optimizer

    makers: dict[str, Callable[[], Any]] = {
        **dict.fromkeys(("built again", "rebuilt", "handed over"), lambda: optimizer(model, facts)),
        "the same": lambda: old,
        "same groups": lambda: type(old)(old.param_groups, lr=0.1),
        "same rate": lambda: type(old)(model.parameters(), lr=old.param_groups[0]["lr"]),
    }
    if facts["how"] not in makers:
        raise OutOfReach(f"no experiment for an optimizer that is {facts['how']!r}")
    return makers[facts["how"]]()


EXPERIMENT = Experiment(
    claim="a scheduler changes the learning rate of the optimizer that it was built with, and of no other",
    flagged=flagged,
    control=control,
    symptoms=(Sees("never changes"),),
    facts={"optimizer": "SGD", "momentum": 0.0, "how": "built again"},
)


RULE = Rule(
    "DPL208", "scheduler-on-old-optimizer", Severity.WARNING, PAGE, {SchedulerOutlived: check}, experiment=EXPERIMENT
)
