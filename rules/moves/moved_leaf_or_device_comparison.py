"""The gradient of a moved leaf is read, or a device compared with what it never equals."""

from __future__ import annotations

from collections.abc import Iterator

from placement_lint.finding import Severity
from placement_lint.flow.domain.values import describe
from placement_lint.flow.events.facts import place_fact
from placement_lint.flow.events.schema import DeviceNeverEqual, GradientOfCopyRead
from placement_lint.probe.experiment import Experiment, Facts, Sees
from placement_lint.replaying import asks_for_difference, claimed
from placement_lint.rewriting import appended, made_there, safe, type_of_device
from placement_lint.rule import Line, Page, Problem, Replay, Rule
from placement_lint.source.wording import source_text

PAGE = Page(
    what="""\
Reports `.grad` of `torch.zeros(n, requires_grad=True).to(device)`, and the `.device` of a tensor compared with a
string or with `torch.device("cuda")`; and a `torch.device` compared with a string.
""",
    why="""\
- `.to` is an operation: its result is not a leaf, and the gradient goes to the original tensor, which no variable
  holds. `.grad` is None, with a UserWarning. On the CPU, `.to` returns the leaf itself and the program works
  (`torch/_tensor.py`, `Tensor.grad`).
- A tensor on a GPU has a device with an index: `torch.device("cuda") != torch.device("cuda:0")`, and a device never
  equals a string. The comparison is silently false on every machine.
""",
    example="""\
import torch

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
weight = torch.zeros(3, requires_grad=True).to(device)
(weight * torch.ones(3, device=device)).sum().backward()
print(weight.grad)
""",
    instead="""\
import torch

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
weight = torch.zeros(3, requires_grad=True, device=device)
(weight * torch.ones(3, device=device)).sum().backward()
print(weight.grad)
""",
    silent="""\
- `torch.zeros(3).to(device).requires_grad_()`, and `device=` in the call that creates the tensor.
- `retain_grad()` is called on the copy, or its `.grad` is never read.
- `x.device.type == "cuda"`, a comparison with a device that has an index, with `torch.device("cpu")`, or with the
  device of another tensor.
- A `device` attribute of the program's own class, which may be a string.
- `device == "cpu" or device == torch.device("cpu")`, which holds for both.
""",
    fix="""\
`device=` moves into the call that creates the tensor, and `x.device == torch.device("cuda")` becomes
`x.device.type == "cuda"`. Both are safe. Not offered if the name has an index, with `is`, or for a variable that
holds a device, which may be a string elsewhere.
""",
)


def check_gradient(event: GradientOfCopyRead) -> Iterator[Problem]:
    yield Problem(
        event.node,
        f"`{event.label}` was moved to {describe(event.place)}, and the gradient goes to the leaf from "
        f"which it was moved: `{event.label}.grad` is None",
        event.trace,
        advice="create it on that device, or call `requires_grad_()` after the move",
        rewrite=safe("create it on that device", made_there(event.moved)),
        facts={"fault": "leaf", "target": place_fact(event.place)},
        replay=Replay(
            watch=(claimed(event.node, f"{event.label}.grad is not None", "there is no gradient", before=True),),
            repairs=(appended(event.moved, "detach().requires_grad_()"),),
        ),
    )


def check_device(event: DeviceNeverEqual) -> Iterator[Problem]:
    tested, other = source_text(event.tested), source_text(event.other)
    why = "a device equals no string" if event.text else "a tensor's device has an index"
    fixed = type_of_device(event.tested, event.other) if event.of_tensor and not event.identity else ()
    yield Problem(
        event.node,
        f"{why}: `{tested}` is never `{other}`",
        advice=_advice(event),
        rewrite=safe("compare the type", fixed),
        facts={"fault": "comparison", "text": event.text},
        replay=Replay(watch=(_watch(event),), repairs=(((event.other, f"torch.device({other})"),),)),
    )


def _advice(event: DeviceNeverEqual) -> str:
    if event.spelled_out:
        return f"compare it with `torch.device({source_text(event.other)})`"
    return f"compare `{_device(event)}.type`"


def _device(event: DeviceNeverEqual) -> str:
    """The tested device; what holds a ``torch.device`` here may be a string in another call."""
    tested = source_text(event.tested)
    return tested if event.of_tensor else f"torch.device({tested})"


def _watch(event: DeviceNeverEqual) -> Line:
    """The comparison holds where the types of both are the same."""
    agrees = "is not" if asks_for_difference(event.node) else "is"
    same = f"({_device(event)}.type == torch.device({source_text(event.other)}).type)"
    return claimed(event.node, f"({{node}}) {agrees} {same}", "the devices are not equal", before=True)


def flagged(facts: Facts) -> str:
    if facts["fault"] == "leaf":
        return _gradient(facts, made_there=False)
    return _equality(facts["text"], facts["index"])


def control(facts: Facts) -> str:
    return _gradient(facts, made_there=True) if facts["fault"] == "leaf" else _equality(False, True)


def _gradient(facts: Facts, made_there: bool) -> str:
    import torch

    target = facts["target"]
    leaf = torch.zeros(2, requires_grad=True, device=target if made_there else "cpu").to(target)
    if facts["retained"]:
        leaf.retain_grad()
    torch.autograd.backward((leaf * 2).sum())
    return "there is no gradient" if leaf.grad is None else "there is a gradient"


def _equality(text: bool, index: bool) -> str:
    import torch

    tensor = torch.ones(1, device="cuda")
    name = "cuda:0" if index else "cuda"
    equal = tensor.device == (name if text else torch.device(name))
    return "the devices are equal" if equal else "the devices are not equal"


EXPERIMENT = Experiment(
    claim="a moved leaf has no gradient, and a tensor's device equals neither a string nor a device without an index",
    flagged=flagged,
    control=control,
    symptoms=(Sees("there is no gradient"), Sees("the devices are not equal")),
    facts={"fault": "leaf", "target": "cuda", "retained": False, "text": False, "index": False},
    gpus=1,
)


RULE = Rule(
    "DPL505",
    "moved-leaf-or-device-comparison",
    Severity.WARNING,
    PAGE,
    {GradientOfCopyRead: check_gradient, DeviceNeverEqual: check_device},
    experiment=EXPERIMENT,
)
