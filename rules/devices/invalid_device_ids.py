"""DataParallel gets devices that it cannot use."""

from __future__ import annotations

from collections.abc import Iterator

from placement_lint.finding import Severity
from placement_lint.flow.events.schema import DeviceIdsInvalid
from placement_lint.probe.experiment import Experiment, Facts, Raises, Sees
from placement_lint.replaying import claimed, without_keywords
from placement_lint.rule import Page, Problem, Replay, Rule

PAGE = Page(
    what="""\
Reports `device_ids` or an `output_device` that `DataParallel` cannot use: an empty list, a number or a string
instead of a list, the CPU, one GPU twice, a GPU that `CUDA_VISIBLE_DEVICES` hides. An output device that runs no
replica is reported as advice.
""",
    why="""\
The constructor reads `device_ids[0]` and turns each entry into the index of a GPU
(torch/nn/parallel/data_parallel.py, `DataParallel.__init__`; torch/_utils.py, `_get_device_index`).

- 0 GPUs: both arguments are ignored, so the bug does not show.
- 1 GPU or more: `IndexError: list index out of range` for `[]`, `TypeError: 'int' object is not subscriptable`
  for `0` or `torch.cuda.device_count()`, `RuntimeError: Invalid device string: '0'` for `"0,1"` and `["0"]`,
  `ValueError: Expected a non cpu device, but got: cpu`, `AssertionError: Invalid device id`.
- `[0, 0]` makes two replicas on one GPU: twice the memory and no speedup.
""",
    example="""\
import torch
from torch import nn

model = nn.Linear(8, 4)
if torch.cuda.is_available():
    model = nn.DataParallel(model.cuda(), device_ids=torch.cuda.device_count())
print(model(torch.randn(16, 8)).shape)
""",
    instead="""\
import torch
from torch import nn

model = nn.Linear(8, 4)
if torch.cuda.is_available():
    model = nn.DataParallel(model.cuda(), device_ids=list(range(torch.cuda.device_count())))
print(model(torch.randn(16, 8)).shape)
""",
    silent="""\
- `device_ids=None`, which means all visible GPUs, and `list(range(torch.cuda.device_count()))`.
- `output_device=-1`, an old way to gather on the CPU that still works.
- Ids that are read from a command line or a configuration.
- The arguments of `DistributedDataParallel`: ddp-device-arguments checks those.
""",
    fix="""\
There is no automatic fix, because only the author knows which GPUs are intended. Omit `device_ids` to use all
visible GPUs.
""",
)

_MESSAGES = {
    "empty": "`device_ids` is an empty list: raises IndexError",
    "number": "`device_ids` is a number, not a list: raises TypeError",
    "text": "`device_ids` is a string, not a list: raises RuntimeError",
    "device": "`device_ids` is a device, not a list: raises TypeError",
    "no device": "`device_ids` contains a string that names no device: raises RuntimeError",
    "cpu": "`device_ids` contains the CPU: raises ValueError",
    "cpu output": "`output_device` is the CPU: raises ValueError",
    "repeated": (
        "`device_ids` names a GPU twice: the GPU runs two replicas one after the other and holds both in memory"
    ),
    "output elsewhere": "`output_device` is not one of the `device_ids`: outputs go to a GPU without a replica",
}

_CLAIMS = {
    "repeated": [("len({*{node}.device_ids}) == len({node}.device_ids)", "two replicas share a GPU")],
    "output elsewhere": [("{node}.output_device in {node}.device_ids", "the output is on a GPU without a replica")],
}

_SEVERITIES = {"repeated": Severity.WARNING, "output elsewhere": Severity.INFO}


def check(event: DeviceIdsInvalid) -> Iterator[Problem]:
    yield Problem(
        event.node,
        _MESSAGES.get(event.fault) or _hidden(event),
        event.trace,
        severity=_SEVERITIES.get(event.fault),
        facts={
            "fault": event.fault,
            "visible": ",".join(event.visible),
            **{name: value for name, value in _written(event).items() if "…" not in str(value)},
        },
        replay=Replay(
            watch=tuple(claimed(event.node, *claim, before=True) for claim in _CLAIMS.get(event.fault, ())),
            repairs=(without_keywords(event.node, "device_ids", "output_device"),),
        ),
    )


def _hidden(event: DeviceIdsInvalid) -> str:
    count = len(event.visible)
    seen = f"only {count} GPU{'s are' if count > 1 else ' is'} visible"
    return f"`device_ids={event.ids}`, but with CUDA_VISIBLE_DEVICES={','.join(event.visible)!r} {seen}: raises"


def _written(event: DeviceIdsInvalid) -> dict[str, object]:
    ids = 2 if event.fault == "number" else event.ids
    output = f"cuda:{event.output}" if isinstance(event.output, int) else event.output
    return {"device_ids": ids, "output_device": output}


def flagged(facts: Facts) -> str:
    import torch

    ids = facts["device_ids"]
    return _wrapped(facts, torch.device(ids) if facts["fault"] == "device" else ids, facts["output_device"])


def control(facts: Facts) -> str:
    return _wrapped(facts, None, None)


def _wrapped(facts: Facts, ids: object, output: object) -> str:
    from typing import Any

    from torch import nn

    from placement_lint.probe.bench import SIDE, Model, square, visible_devices

    wrap: Any = nn.DataParallel
    with visible_devices(facts["visible"]):
        wrapper = wrap(Model(), device_ids=ids, output_device=output)
    used = list(wrapper.device_ids)
    if len(set(used)) < len(used):
        return f"replicas share a GPU: {used}"
    result = wrapper.to(f"cuda:{used[0]}")(square().repeat(SIDE, 1))
    if result.device.type == "cuda" and result.device.index not in used:
        return "the output is on a GPU without a replica"
    return "one replica on each GPU, and the output on one of them"


EXPERIMENT = Experiment(
    claim="DataParallel rejects device_ids that are not a list of distinct visible GPUs",
    flagged=flagged,
    control=control,
    symptoms=(
        Raises("IndexError", "list index out of range"),
        Raises("TypeError", "is not subscriptable"),
        Raises("RuntimeError", "Invalid device string"),
        Raises("RuntimeError", "at start of device string"),
        Raises("ValueError", "Expected a non cpu device"),
        Raises("AssertionError", "Invalid device id"),
        Sees("replicas share a GPU"),
        Sees("the output is on a GPU without a replica"),
    ),
    facts={"fault": "", "device_ids": [], "output_device": None, "visible": ""},
    gpus=2,
)


RULE = Rule("DPL402", "invalid-device-ids", Severity.ERROR, PAGE, {DeviceIdsInvalid: check}, experiment=EXPERIMENT)
