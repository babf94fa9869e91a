"""CUDA_VISIBLE_DEVICES is set too late, or GPUs are numbered as if it were not set."""

from __future__ import annotations

import re
from collections.abc import Iterator

from placement_lint.finding import Severity
from placement_lint.flow.events.schema import InvisibleDevice, VisibleDevicesLate
from placement_lint.probe.experiment import Experiment, Facts, Raises, Sees
from placement_lint.replaying import claimed
from placement_lint.rule import Line, Page, Problem, Replay, Rule
from placement_lint.source.wording import source_text

PAGE = Page(
    what="""\
Reports an assignment of `os.environ["CUDA_VISIBLE_DEVICES"]` after CUDA is initialised, a GPU index that a literal
list of visible GPUs excludes, and an option that the program uses both as the list and for the indices.
""",
    why="""\
The driver reads the variable once, when CUDA is initialised, and numbers the visible GPUs from 0.

- Set late, it silently has no effect. `torch.cuda.is_available()` is enough to be late (`torch/cuda/__init__.py`),
  `import torch` is not. The program runs on the first GPU of the machine, whatever the program asked for.
  An import of a file that calls it at its top level is enough as well.
- With `"2,3"` the GPUs are `cuda:0` and `cuda:1`: `cuda:2` raises `CUDA error: invalid device ordinal`,
  `DataParallel(device_ids=[2, 3])` raises `AssertionError: Invalid device id`.
""",
    example="""\
import os

import torch
from torch import nn

os.environ["CUDA_VISIBLE_DEVICES"] = "2,3"
model = nn.Linear(8, 4).to("cuda:2")
""",
    instead="""\
import os

import torch
from torch import nn

os.environ["CUDA_VISIBLE_DEVICES"] = "2,3"
model = nn.Linear(8, 4).to("cuda:0")
""",
    silent="""\
- The variable is set before CUDA is initialised, even after `import torch`.
- Only `torch.cuda.device_count()` comes before: it does not initialise CUDA.
- It is set for processes that start afterwards, or in a copy of the environment. This includes a process that has
  chosen its own GPU with `torch.cuda.set_device`.
- It is set to its present value.
- `os.environ.setdefault`; a list that is not literal, unless the indices are taken from it.
""",
    fix="""\
There is no automatic fix. Set the variable before CUDA is initialised, best outside the program, and count from 0.
""",
)


_LISTED = '__import__("os").environ["CUDA_VISIBLE_DEVICES"]'
MANY = 4  # GPUs, more than the program uses


def check_late(event: VisibleDevicesLate) -> Iterator[Problem]:
    yield Problem(
        event.node,
        "CUDA_VISIBLE_DEVICES is set after CUDA is initialised: the setting has no effect",
        (event.touched,),
        advice="set it before the first use of CUDA",
        severity=Severity.WARNING,
        facts={"late": True},
        replay=Replay(
            watch=(claimed(event.node, f"torch.cuda.device_count() == len({_LISTED}.split(','))", "it has no effect"),),
            mended=(Line(event.touched.node, source_text(event.node), before=True),),
            gpus=MANY,
        ),
    )


def check_number(event: InvisibleDevice) -> Iterator[Problem]:
    listed, count = ",".join(event.visible), len(event.visible)
    last = f"cuda:{count - 1} is the last" if count > 1 else "cuda:0 is the only one"
    shown = f"`{event.given}`" if event.given else repr(listed)
    when = f" where `{event.given}` is not 0" if event.given else ""
    if event.several:
        last, when = "GPUs are numbered from 0", f" where `{event.given}` is not a list such as 0 or 0,1"
    yield Problem(
        event.node,
        f"with CUDA_VISIBLE_DEVICES={shown}, {last}: `{event.how}` names a GPU that does not exist{when}",
        (event.set_here,),
        advice="number the visible GPUs from 0",
        facts={
            "late": False,
            "visible": listed,
            "device": f"cuda:{event.indices[-1]}",
            "last of the machine": f"cuda:{max(map(int, event.visible))}",
        },
        replay=_counted_from_0(event),
    )


def _counted_from_0(event: InvisibleDevice) -> Replay:
    """The program with other numbers; if it has no literal numbers, without the list."""
    text = source_text(event.node)
    fitting = re.sub(r"(?<![\w.])(cuda:)?(\d+)\b", lambda found: _renumbered(found, event.visible), text)
    if fitting == text:
        # With the default number of an option, the program may be correct.
        return Replay(mended=(Line(event.set_here.node, f"del {_LISTED}"),), right=not event.given)
    return Replay(repairs=(((event.node, fitting),),))


def _renumbered(found: re.Match[str], visible: tuple[str, ...]) -> str:
    kind, number = found[1] or "", found[2]
    return f"{kind}{visible.index(number)}" if number in visible else found[0]


def flagged(facts: Facts) -> str:
    return _restricted(facts, facts["device"], facts["late"])


def control(facts: Facts) -> str:
    return _restricted(facts, "cuda:0", False)


def _restricted(facts: Facts, device: str, late: bool) -> str:
    from typing import Any

    import torch

    from placement_lint.probe.bench import visible_devices

    cuda: Any = torch.cuda
    if late:
        cuda.init()
    with visible_devices(facts["visible"]):
        if not facts["late"]:
            torch.ones(1).to(device)
        cuda.init()
        visible = torch.cuda.device_count()
    wanted = len(facts["visible"].split(","))
    return "only the requested GPUs are visible" if visible == wanted else f"{visible} GPUs are visible, not {wanted}"


EXPERIMENT = Experiment(
    claim="the driver reads CUDA_VISIBLE_DEVICES once and numbers the visible GPUs from 0",
    flagged=flagged,
    control=control,
    symptoms=(
        Raises("RuntimeError", "invalid device ordinal"),
        Raises("AssertionError", "Invalid device id"),
        Sees("GPUs are visible, not"),
    ),
    facts={"late": False, "visible": "1", "device": "cuda:1"},
    gpus=2,
)


RULE = Rule(
    "DPL405",
    "visible-devices-misuse",
    Severity.ERROR,
    PAGE,
    {VisibleDevicesLate: check_late, InvisibleDevice: check_number},
    experiment=EXPERIMENT,
)
