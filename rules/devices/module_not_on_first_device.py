"""DataParallel's module is not on the first of its devices."""

from __future__ import annotations

from collections.abc import Iterator

from placement_lint.finding import Severity
from placement_lint.flow.domain.values import Device, Symbol, describe
from placement_lint.flow.events.facts import place_fact
from placement_lint.flow.events.schema import FirstDeviceMissed
from placement_lint.probe.experiment import Experiment, Facts, Raises
from placement_lint.replaying import moved_before
from placement_lint.rewriting import appended
from placement_lint.rule import Page, Problem, Replay, Rule

PAGE = Page(
    what="""\
Reports a `DataParallel` model that is called while its parameters are not on the first GPU of `device_ids`:
it was never moved there, or was moved elsewhere last. That is so too if an option names the ids, as a list or as a text
such as `0,1`, and `model.cuda()` moves the model to the first GPU of all.
""",
    why="""\
Every forward compares the device of each parameter and buffer with `device_ids[0]`
(torch/nn/parallel/data_parallel.py, `DataParallel.forward`). With 2 GPUs or more the first call raises
`RuntimeError: module must have its parameters and buffers on device cuda:0 (device_ids[0]) but found ...`. With 1
GPU the constructor moves the model, and without a GPU the wrapper calls it on its device (`DataParallel.__init__`),
so a model that was never moved fails on the larger machine only.
""",
    example="""\
import torch
import torch.nn as nn

model = nn.DataParallel(nn.Linear(8, 4))
print(model(torch.randn(16, 8)).shape)
""",
    instead="""\
import torch
import torch.nn as nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.DataParallel(nn.Linear(8, 4)).to(device)
print(model(torch.randn(16, 8)).shape)
""",
    silent="""\
- The model is moved after it is wrapped, `DataParallel(net).to(device)`, or before; both are correct.
- It is on the first id: `.to("cuda:2")` with `device_ids=[2, 0, 1]`; `.cuda()` without an index.
- `device_ids` has a single entry: the constructor moves the model.
- The ids are those of an option, and the program sets `CUDA_VISIBLE_DEVICES` or the current device itself.
- The module has no parameters and no buffers, or the wrapper is never called.
- Inputs on the CPU or on another GPU: they are scattered from any device.
""",
    fix="""\
Move the model to `device_ids[0]` before the first call, with the program's own `device` where it has one.
Review it: a literal `"cuda:0"` raises on a machine without a GPU. Moving keeps the Parameter objects, so
optimizers other than Adagrad may be built before it.
""",
)


def check(event: FirstDeviceMissed) -> Iterator[Problem]:
    chosen = event.first.index if isinstance(event.first, Device) else None
    arguments = f"(device_ids={list(event.ids)})" if event.ids else ""
    move = f"cuda({chosen.text})" if isinstance(chosen, Symbol) else f"to({str(event.first)!r})"
    yield Problem(
        event.node,
        f"{event.label} is on {describe(event.place)} but DataParallel{arguments} needs it on "
        f"{event.first}: the first call raises",
        (*([event.placed] if event.placed else []), event.called),
        advice=f"call `{event.wrapper}.{move}` first",
        facts={"place": place_fact(event.place), "device_ids": _ids(event), **_order(event)},
        replay=Replay(
            repairs=(appended(event.node, f"to('{place_fact(event.first)}')"),),
            instead=moved_before(event.called, f"'{place_fact(event.first)}'"),
        ),
    )


def _ids(event: FirstDeviceMissed) -> tuple[object, ...]:
    """The ids of the wrapper; if they are not literal, two that begin with the first device, or with any but 0."""
    index = event.first.index if isinstance(event.first, Device) else 0
    first = 1 if isinstance(index, Symbol) else index or 0
    return event.ids or (first, 0 if first else 1)


def _order(event: FirstDeviceMissed) -> dict[str, object]:
    """With a single id the constructor moves the module, so it was moved after that, or wrapped by `data_parallel`."""
    return {"moved_last": True} if len(event.ids) == 1 else {}


def flagged(facts: Facts) -> None:
    from torch import nn

    from placement_lint.probe.bench import Model, rows

    model = Model() if facts["parameters"] else nn.ReLU()
    wrapped = nn.DataParallel(model.to(facts["place"]), device_ids=facts["device_ids"])
    if facts["moved_last"]:
        wrapped.to(facts["place"])
    wrapped(rows(facts))


def control(facts: Facts) -> None:
    from placement_lint.probe.bench import Model, parallel, rows

    parallel(Model(), facts)(rows(facts))


EXPERIMENT = Experiment(
    claim="DataParallel raises at its first call unless the module is on device_ids[0]",
    flagged=flagged,
    control=control,
    symptoms=(Raises("RuntimeError", "module must have its parameters and buffers on device"),),
    facts={"place": "cpu", "device_ids": [0, 1], "moved_last": False, "parameters": True},
    gpus=2,
    one_gpu={"device_ids": [0, 0]},
    harmless_on=1,
)


RULE = Rule(
    "DPL401", "module-not-on-first-device", Severity.ERROR, PAGE, {FirstDeviceMissed: check}, experiment=EXPERIMENT
)
