"""A moved tensor is thrown away."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from placement_lint.finding import Severity
from placement_lint.flow.domain.values import Device, Role
from placement_lint.flow.events.facts import place_fact
from placement_lint.flow.events.schema import MoveDiscarded
from placement_lint.probe.experiment import Experiment, Facts, Sees
from placement_lint.replaying import claimed
from placement_lint.rewriting import assigned_to_itself, is_path, receiver, safe, unsafe
from placement_lint.rule import Line, Page, Problem, Replay, Rule
from placement_lint.source.wording import source_text

PAGE = Page(
    what="""\
Reports a statement `t.to(...)`, `t.cuda()`, `t.cpu()` or `t.pin_memory()` on a tensor if its result is not used.
""",
    why="""\
`Tensor.to` returns a copy on the other device and leaves `t` on its device; only `nn.Module.to` changes its
receiver (`torch/nn/modules/module.py`, `Module._apply`).

- 0 GPUs: `.to("cpu")` returns `t` itself, so nothing goes wrong; `.cuda()` raises.
- 1 GPU or more: `t` is still on the CPU. Its next operation with a tensor on the GPU raises
  `RuntimeError: Expected all tensors to be on the same device, ...`, a convolution
  `Input type (torch.FloatTensor) and weight type (torch.cuda.FloatTensor) should be the same`. Without such an
  operation, the work is silently done on the CPU, after a useless copy.
""",
    example="""\
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(4, 2).to(device)
batch = torch.randn(8, 4)
batch.to(device)
print(model(batch).sum().item())
""",
    instead="""\
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(4, 2).to(device)
batch = torch.randn(8, 4)
batch = batch.to(device)
print(model(batch).sum().item())
""",
    silent="""\
- The receiver is an `nn.Module`, a loss module included: its `to` works in place.
- The receiver moves in place, such as `BatchEncoding`, PyG's `Data` and classes of the program.
- The type of the receiver is unknown.
- The result is assigned, passed on, returned or read.
- The tensor is already on that device.
- Only the dtype changes, `t.to(torch.float64)`, which is not a move.
""",
    fix="""\
Assign the result: `t = t.to(device)`. This is safe for a variable or an attribute, and unsafe for an item, because
its container may not allow it. Other names of the tensor still refer to the original. Not offered for a Parameter
(its copy is not a Parameter), for a global variable that the assignment would make local, and for the variable of a
loop over a container.
""",
)


def check(event: MoveDiscarded) -> Iterator[Problem]:
    label, method = event.label, event.method
    # A Parameter's copy is none; what a container or a foreign object keeps may not be replaced.
    fixable = event.named and event.assignable and event.tensor.role is not Role.PARAMETER
    fix = safe if is_path(receiver(event.node)) else unsafe
    yield Problem(
        event.node,
        f"`{label}.{method}(…)` returns the moved tensor and leaves `{label}` where it is: the statement has no effect",
        event.tensor.history,
        advice=f"assign the result, `{label} = {label}.{method}(…)`" if event.named else "assign the result",
        rewrite=fix("assign the moved tensor", assigned_to_itself(event.node)) if fixable else None,
        facts={"method": method, "place": _source(event), "target": place_fact(event.target)},
        replay=Replay(watch=(_watch(event),), repairs=(assigned_to_itself(event.node),) if event.named else ()),
    )


def _source(event: MoveDiscarded) -> str:
    """The place of the tensor; if that may be the target, for all that is known, the kind of device that is not.

    Only a tensor on the CPU can be pinned (aten/src/ATen/native/Memory.cpp, `_pin_memory`).
    """
    if event.method == "pin_memory":
        return "cpu"
    target = place_fact(event.target)
    if isinstance(event.tensor.place, Device) and (place := place_fact(event.tensor.place)) != target:
        return place
    return "cuda" if target == "cpu" else "cpu"


def _watch(event: MoveDiscarded) -> Line:
    moved = source_text(event.node)
    if event.method == "pin_memory":
        return claimed(event.node, f"{event.label}.is_pinned()", "the move had no effect")
    return claimed(event.node, f"{event.label}.data.device == {moved}.data.device", "the move had no effect")


def flagged(facts: Facts) -> str:
    thing = _made(facts)
    _moved(thing, facts)
    return _seen(thing, facts)


def control(facts: Facts) -> str:
    return _seen(_moved(_made(facts), facts), facts)


def _made(facts: Facts) -> Any:
    import torch

    made = torch.nn.Linear(2, 2) if facts["receiver"] == "module" else torch.ones(2)
    return made.to(facts["place"])


def _moved(thing: Any, facts: Facts) -> Any:
    return thing.pin_memory() if facts["method"] == "pin_memory" else thing.to(facts["target"])


def _seen(thing: Any, facts: Facts) -> str:
    import torch

    tensor = thing.weight if facts["receiver"] == "module" else thing
    if facts["method"] == "pin_memory":
        return "it is pinned" if tensor.is_pinned() else "the move had no effect: it is not pinned"
    arrived = tensor.device == torch.ones(1, device=facts["target"]).device
    return f"it is on {tensor.device}" if arrived else f"the move had no effect: it is on {tensor.device}"


EXPERIMENT = Experiment(
    claim="a tensor stays on its device if the result of its move is discarded",
    flagged=flagged,
    control=control,
    symptoms=(Sees("the move had no effect"),),
    facts={"method": "to", "place": "cpu", "target": "cuda", "receiver": "tensor"},
    gpus=1,
)


RULE = Rule("DPL501", "move-result-discarded", Severity.ERROR, PAGE, {MoveDiscarded: check}, experiment=EXPERIMENT)
