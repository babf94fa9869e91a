"""A test for CUDA decides whether a tensor is moved, in a program that may run on another accelerator."""

from __future__ import annotations

from collections.abc import Iterator

from placement_lint.finding import Severity
from placement_lint.flow.domain.values import Device, Place, describe, guard_of
from placement_lint.flow.events.mismatch_cause import Cause, cause_of
from placement_lint.flow.events.schema import DevicesMixed, HostRead
from placement_lint.probe.experiment import MIXED_DEVICES, OTHER_KINDS, Experiment, Facts, Raises
from placement_lint.replaying import beside
from placement_lint.rewriting import appended, safe
from placement_lint.rule import Note, Page, Problem, Replay, Rule
from placement_lint.source.wording import quoted, source_text

PAGE = Page(
    what="""\
Reports a test for CUDA that decides whether a tensor is moved, in a program that may choose another accelerator, such
as `mps` or `xpu`. There the test is false, the tensor stays where it is, and an operation raises. Such tests are
`x.is_cuda`, `device.type == "cuda"`, `"cuda" in str(device)` and `torch.cuda.is_available()`.
""",
    why="""\
`is_cuda` is True for CUDA tensors only (`c10/core/Device.h`, `is_cuda`), and `torch.cuda.is_available()` is False on
a machine whose accelerator is another one.

- CUDA: the test is true, the tensor is moved, and the program works.
- CPU: the test is false, and nothing needs to move.
- Another accelerator: `RuntimeError: Expected all tensors to be on the same device, ...`, or
  `TypeError: can't convert mps:0 device type tensor to numpy. ...`
""",
    example="""\
import torch
from torch import nn

if torch.cuda.is_available():
    device = torch.device("cuda")
elif torch.backends.mps.is_available():
    device = torch.device("mps")
else:
    device = torch.device("cpu")
model = nn.Linear(4, 3).to(device)
with torch.no_grad():
    scores = model(torch.randn(8, 4, device=device))
if scores.is_cuda:
    scores = scores.cpu()
print(scores.numpy())
""",
    instead="""\
import torch
from torch import nn

if torch.cuda.is_available():
    device = torch.device("cuda")
elif torch.backends.mps.is_available():
    device = torch.device("mps")
else:
    device = torch.device("cpu")
model = nn.Linear(4, 3).to(device)
with torch.no_grad():
    scores = model(torch.randn(8, 4, device=device))
print(scores.cpu().numpy())
""",
    silent="""\
- The program chooses between CUDA and the CPU only, or its choice of device is unknown.
- The test covers each accelerator that the program may choose: `device.type != "cpu"`,
  `device.type in ("cuda", "mps")`, `if x.is_cuda ... elif x.device.type == "mps" ...`.
- The other branch moves the tensor as well.
- The tensor is moved without a test: `y.to(x.device)`, `x.cpu()`.
- The operation raises on CUDA as well: DPL503, DPL504 or DPL507 reports it.
- No tensor that the test decides about meets one on another device.
""",
    fix="""\
`t.cpu()` where NumPy reads the tensor, which is safe: on a CPU tensor it returns the tensor itself. Otherwise move the
tensor to the device of the other one, without a test: `y.to(x.device)` has no effect if it is there already.
""",
)


def check_operands(event: DevicesMixed) -> Iterator[Problem]:
    kept = event.guarded
    if kept is None or cause_of(event) is not Cause.CUDA_ONLY_GUARD:
        return
    guard = guard_of(kept.tensor.place)
    assert guard is not None
    other = event.home if kept is event.stray else event.stray
    stays = f"{kept.named} {'stay' if kept.whole else 'stays'} on {describe(kept.tensor.place)}"
    yield Problem(
        guard,
        f"{quoted(source_text(guard))} tests for CUDA only: {stays} but {other.named} {other.verb} on "
        f"{describe(other.tensor.place)}, and {event.operation} raises",
        (*other.tensor.history, *kept.tensor.history, Note(event.node, f"{event.operation} takes both here")),
        advice="bring both to one device without this test",
        facts={"read": False, **_accelerator(kept.tensor.place, other.tensor.place)},
        replay=Replay(repairs=(beside(event),)),
    )


def check_read(event: HostRead) -> Iterator[Problem]:
    if event.guard is None:
        return
    place = describe(event.tensor.place)
    yield Problem(
        event.guard,
        f"{quoted(source_text(event.guard))} tests for CUDA only: {quoted(event.label)} stays on {place}, and "
        f"`{event.how}` raises TypeError",
        (*event.tensor.history, Note(event.node, f"`{event.how}` reads the memory of {place} here")),
        advice="call `.cpu()` without a test",
        rewrite=None if event.inside else safe("copy it to the host with `.cpu()`", appended(event.source, "cpu()")),
        facts={"read": True, **_accelerator(event.tensor.place)},
        replay=Replay(),
    )


def _accelerator(*places: Place) -> dict[str, str]:
    """The kind of the accelerator that the program may choose, if the experiment knows it."""
    kinds = {place.kind for place in places if isinstance(place, Device)}
    known = kinds.intersection(OTHER_KINDS)
    return {"device": known.pop()} if known else {}


def flagged(facts: Facts) -> None:
    _guarded(facts, facts["known"])


def control(facts: Facts) -> None:
    _guarded(facts, [facts["device"]])


def _guarded(facts: Facts, known: list[str]) -> None:
    """A program on an accelerator that asks whether it is a known one."""
    import torch

    x, y = torch.ones(2, device=facts["device"]), torch.ones(2)
    is_known = x.device.type in known
    if facts["read"]:
        x = x.cpu() if is_known else x
        x.numpy()
    else:
        y = y.to(x.device) if is_known else y
        torch.add(x, y)


EXPERIMENT = Experiment(
    claim="a test for one kind of accelerator leaves tensors unmoved on another kind",
    flagged=flagged,
    control=control,
    symptoms=(*MIXED_DEVICES, Raises("TypeError", "device type tensor to numpy")),
    facts={"device": "mps", "known": ["cuda"], "read": True},
    gpus=1,
)


RULE = Rule(
    "DPL509",
    "cuda-only-guard",
    Severity.ERROR,
    PAGE,
    {DevicesMixed: check_operands, HostRead: check_read},
    experiment=EXPERIMENT,
    since="0.3.0",
)
