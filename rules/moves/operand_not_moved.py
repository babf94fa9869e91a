"""Operands of one operation are on different devices."""

from __future__ import annotations

from collections.abc import Iterator

from placement_lint.finding import Severity
from placement_lint.flow.domain.values import OWN, describe
from placement_lint.flow.events.facts import mixed_facts
from placement_lint.flow.events.mismatch_cause import Cause, cause_of
from placement_lint.flow.events.schema import DevicesMixed
from placement_lint.probe.experiment import MIXED_DEVICES, Experiment, Facts
from placement_lint.replaying import arguments_moved, beside
from placement_lint.rewriting import moved_operand, unsafe
from placement_lint.rule import Note, Page, Problem, Replay, Rewrite, Rule

PAGE = Page(
    what="""\
Reports an operation, a loss or a call of a module whose tensors are provably on different devices. If the model is
on `"cuda" if torch.cuda.is_available() else "cpu"`, this happens on machines with a GPU.

This includes what tokenizers and processors of transformers return for `return_tensors="pt"`, if a model on a GPU gets
it as it is.
""",
    why="""\
An operation does not move its operands. Together with GPU tensors, it accepts only 0-dim CPU tensors
(`aten/src/ATen/TensorIterator.cpp`, `TensorIteratorBase::compute_types`).

- 0 GPUs: a chosen device is the CPU, and the program works.
- 1 GPU or more: `RuntimeError: Expected all tensors to be on the same device, but got ...` (or
  `but found at least two devices, cuda:0 and cpu!`); from a convolution
  `Input type (torch.FloatTensor) and weight type (torch.cuda.FloatTensor) should be the same`.
- `DataParallel` moves the inputs of the module (`torch/nn/parallel/scatter_gather.py`, `scatter`), not the
  targets: they must be on its `output_device`.
""",
    example="""\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(4, 3).to(device)
dataset = TensorDataset(torch.randn(32, 4), torch.randint(0, 3, (32,)))
for x, y in DataLoader(dataset, batch_size=8):
    loss = nn.functional.cross_entropy(model(x.to(device)), y)
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
- Inputs of a `DataParallel`, and of a DDP with `device_ids`: both move them
  (`torch/nn/parallel/distributed.py`, `DistributedDataParallel._pre_forward`).
- A 0-dim CPU tensor, or one whose number of dimensions is unknown.
- A CPU index or mask in `x[index]`, even if `x` is on a GPU; `copy_` and the assignment to a slice.
- A loss module that was moved, or is part of a moved one: its `weight` is a buffer and moves with it.
- A `BatchEncoding` of transformers after `.to(device)`, which moves it in place and returns it; inputs of a model that
  was loaded with `device_map=`; and inputs of `generate`, which moves them (transformers 5.24, `generation/utils.py`).
- Both sides depend on the same device variable or flag, or one side is unknown, such as a batch of a library's
  loader.
- A `try` whose handler catches the error and has a fallback: it returns a value, or assigns what the body assigns.
- DPL501, DPL302, DPL303, DPL504 or DPL509 reports the cause.
""",
    fix="""\
Move the operand: `y.to(device)`. Offered if the other operand's device has a name in scope. Unsafe: in a loop, a
move at the top, `x, y = x.to(device), y.to(device)`, may be better, and a constant such as `weight=` of a loss
should move once, before the loop. Not offered if the operand enters through a call of the model.
""",
)


def check(event: DevicesMixed) -> Iterator[Problem]:
    if cause_of(event) is not Cause.NOT_MOVED:
        return
    stray, home = event.stray, event.home
    entered = next((call for call in (stray.tensor.entered, home.tensor.entered) if call in event.scene.calls), None)
    met = (Note(event.node, f"{event.operation} gets both here"),) if entered is not None else ()
    moves = event.moves if home.tensor.place == OWN else ()
    yield Problem(
        entered or event.node,
        f"{stray.named} {stray.verb} on {describe(stray.tensor.place)} but {home.named} {home.verb} on "
        f"{describe(home.tensor.place)}: {event.operation} raises",
        (*home.tensor.history, *moves, *stray.tensor.history, *met),
        advice=f"move {stray.named} first",
        rewrite=_move_there(event) if entered is None else None,
        facts=mixed_facts(event),
        replay=Replay(repairs=(beside(event), arguments_moved(entered) if entered is not None else ())),
    )


def _move_there(event: DevicesMixed) -> Rewrite | None:
    stray, device = event.stray, event.home_name
    if stray.whole or stray.inside:
        return None
    return unsafe(f"move it to `{device}`", moved_operand(event.node, stray.source, device))


def flagged(facts: Facts) -> None:
    _meet(facts, stray_on=facts["stray"])


def control(facts: Facts) -> None:
    _meet(facts, stray_on=facts["home"])


def _meet(facts: Facts, stray_on: str) -> None:
    from placement_lint.probe.bench import operation, parallel

    what = operation(facts)
    places = {"stray": stray_on, "home": facts["home"]}
    if facts["module"] == "stray":  # the operands change sides, not what is done with them
        places = {"stray": places["home"], "home": places["stray"]}
    stray, home = what.stray().to(places["stray"]), what.home().to(places["home"])
    if facts["through"] == "DataParallel":
        home = parallel(home, facts)
    what.run(stray.flatten()[0] if facts["scalar"] else stray, home)


EXPERIMENT = Experiment(
    claim="an operation raises if its operands are on different devices",
    flagged=flagged,
    control=control,
    symptoms=MIXED_DEVICES,
    facts={
        "operation": "cross_entropy",
        "layer": "",
        "stray": "cpu",
        "home": "cuda",
        "module": "home",
        "scalar": False,
        "through": "",
    },
    gpus=1,
    harmless_on=0,
)


RULE = Rule("DPL503", "operand-not-moved", Severity.ERROR, PAGE, {DevicesMixed: check}, experiment=EXPERIMENT)
