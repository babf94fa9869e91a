"""CUDA is asked for although the program chooses a device."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from placement_lint.finding import Severity
from placement_lint.flow.events.schema import CpuRefused, CudaRequested
from placement_lint.probe.experiment import MIXED_DEVICES, Experiment, Facts, Raises
from placement_lint.replaying import is_name
from placement_lint.rewriting import Replacements, on_device, replaced_by, unsafe
from placement_lint.rule import Page, Problem, Replay, Rule
from placement_lint.source.wording import source_text

PAGE = Page(
    what="""\
Reports `.cuda()`, `"cuda"`, `torch.cuda.FloatTensor(...)` or `torch.cuda.set_device(...)` in a program that elsewhere
chooses its device: by the machine, by an option, or by a setting in the script such as `USE_CUDA = True`. The
statement runs although the choice may be the CPU or another GPU. A literal that reaches a move through an argument,
a variable or an attribute is reported at the literal. A call that only accepts GPUs, as `x.cuda(device)` and
`y.to(x.get_device())`, is reported if it is given the CPU.
""",
    why="""\
- 0 GPUs, or the CPU chosen: a build without CUDA raises
  `AssertionError: Torch not compiled with CUDA enabled` (`torch/cuda/__init__.py`, `_lazy_init`; a
  `TypeError` for `torch.cuda.FloatTensor`), a build with CUDA and no driver
  `RuntimeError: Found no NVIDIA driver on your system.`
- A GPU is there but the user chose the CPU: the tensor goes to the GPU anyway, and an operation with the other
  tensors raises `RuntimeError: Expected all tensors to be on the same device, ...`.
- 2 GPUs or more and `cuda:1` chosen: `.cuda()` means the current device, `cuda:0`, with the same result.
- 1 GPU, chosen: works, so the bug does not show.
""",
    example="""\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(4, 3).to(device)
dataset = TensorDataset(torch.randn(32, 4), torch.randint(0, 3, (32,)))
for x, y in DataLoader(dataset, batch_size=8):
    loss = nn.functional.cross_entropy(model(x.to(device)), y.cuda())
    loss.backward()
""",
    instead="""\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(4, 3).to(device)
dataset = TensorDataset(torch.randn(32, 4), torch.randint(0, 3, (32,)))
for x, y in DataLoader(dataset, batch_size=8):
    loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device))
    loss.backward()
""",
    silent="""\
- The statement is under the same flag or under one that implies it, as `if device.type == "cuda":`.
- It runs only after a test that something is on a GPU, `if x.is_cuda:`, and the program does not choose the number of
  the GPU; or a handler catches its failure and does more than skip the iteration.
- It runs only if CUDA is available, and the result is copied to the host before a module uses it.
- It runs only if the program runs as several processes, `if distributed:`. The choice is for a single process.
- All that the program chooses is the number of the process, `args.local_rank`: users do not choose that.
- The flag says where results are stored: if it is not set, `.cpu()` copies tensors to the host.
- The program never chooses: the script needs CUDA on every machine.
- The module has no tensors to move: `nn.CrossEntropyLoss().cuda()` works on any machine.
- `torch.cuda.manual_seed_all`, `torch.cuda.empty_cache`, `autocast("cuda", ...)` and `GradScaler`: they do not move
  tensors.
- The program exits or raises if there is no GPU.
""",
    fix="""\
Use the chosen device: `y.to(device)`. Offered if the device has a name in scope. Unsafe, because the work may move
to another device. Within `forward`, use the device of an input instead.
""",
)


def check(event: CudaRequested) -> Iterator[Problem]:
    legacy = event.how.startswith("torch.cuda.")
    movable = not legacy and not event.fixed and event.used is None
    ignores = f"`{event.how}` uses CUDA although the program chooses its device ({event.choice_text})"
    yield Problem(
        event.node,
        f"{ignores}: it raises or is on another device than the rest",
        (event.choice, *([event.used] if event.used is not None else [])),
        advice="use the chosen device",
        rewrite=unsafe(f"use `{event.device}`", on_device(event.node, event.device)) if movable else None,
        facts={"legacy": legacy},
        replay=Replay(repairs=() if event.fixed else tuple(_on(event, device) for device in _devices(event)), gpus=0),
        for_any_caller=True,
        without_gpu=f"{ignores}: it raises",
    )


def check_cpu(event: CpuRefused) -> Iterator[Problem]:
    given = source_text(event.given)
    tensor = given.removesuffix(".get_device()")
    if not event.number:
        cause, advice, device = f"`{given}` is the CPU, and only a GPU is accepted", f"use `.to({given})`", given
    elif tensor != given:
        device = f"{tensor}.device"
        cause, advice = f"`{given}` is -1 because `{tensor}` is on the CPU", f"use `{device}`"
    else:
        cause, advice, device = f"`{given}` is -1, the number of the CPU", "use the `device` of the tensor", ""
    yield Problem(
        event.node,
        f"{cause}: `{source_text(event.node)}` raises",
        advice=advice,
        rewrite=unsafe(f"use `{device}`", on_device(event.node, device)) if device else None,
        facts={"legacy": False},
        replay=Replay(),
    )


def _on(event: CudaRequested, device: str) -> Replacements:
    return on_device(event.node, device) if event.used is None else replaced_by(event.node, device)


def _devices(event: CudaRequested) -> tuple[str, ...]:
    """What the program chooses; without a GPU that is the CPU."""
    return (event.choice_text, '"cpu"') if is_name(event.choice_text) else ('"cpu"',)


def flagged(facts: Facts) -> None:
    import torch

    from placement_lint.probe.bench import SIDE, Model, square

    model = Model().to(facts["choice"])
    cuda: Any = torch.cuda
    model(cuda.FloatTensor(SIDE, SIDE) if facts["legacy"] else square().to(facts["asked"]))


def control(facts: Facts) -> None:
    from placement_lint.probe.bench import Model, square

    Model().to(facts["choice"])(square().to(facts["choice"]))


NO_CUDA = (
    Raises("RuntimeError", "Found no NVIDIA driver"),
    Raises("RuntimeError", "Attempting to deserialize object on"),
    Raises("AssertionError", "not compiled with CUDA enabled"),
    Raises("TypeError", "not available"),
)
# What PyTorch says when it gets the CPU, or a negative number, instead of a GPU.
NO_CPU = (Raises("RuntimeError", "must be cuda device"), Raises("RuntimeError", "Device index must not be negative"))

EXPERIMENT = Experiment(
    claim="if the program chooses the CPU on a machine with a GPU, `.cuda()` puts one tensor on another device",
    flagged=flagged,
    control=control,
    symptoms=(*MIXED_DEVICES, *NO_CUDA, *NO_CPU),
    facts={"choice": "cpu", "asked": "cuda", "legacy": False},
    gpus=1,
    harmless_on=1,
)


RULE = Rule(
    "DPL506",
    "device-choice-ignored",
    Severity.WARNING,
    PAGE,
    {CudaRequested: check, CpuRefused: check_cpu},
    experiment=EXPERIMENT,
)
