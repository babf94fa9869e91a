"""An optimizer's state stays on the device from which the model was moved."""

from __future__ import annotations

from collections.abc import Iterator

from placement_lint.finding import Severity
from placement_lint.flow.domain.values import describe
from placement_lint.flow.events.facts import place_fact
from placement_lint.flow.events.schema import OptimizerStateStranded
from placement_lint.probe.experiment import MIXED_DEVICES, Experiment, Facts
from placement_lint.replaying import is_name
from placement_lint.rule import Line, Page, Problem, Replay, Rule
from placement_lint.source.wording import quoted

PAGE = Page(
    what="""\
Reports an optimizer whose state is created on one device before its model moves to another. Adagrad creates its
state when it is built, other optimizers at their first `step()`. `load_state_dict` puts the state on the present
device of the parameters.
""",
    why="""\
`Module.to` moves the parameters in place (`torch/nn/modules/module.py`, `Module._apply`) but not the state of
optimizers, so `exp_avg`, `momentum_buffer` or `sum` stay on the old device. `Adagrad.__init__` fills `sum` with
`torch.full_like(p, ...)` (`torch/optim/adagrad.py`).

- 0 GPUs: a chosen device is the CPU, and the program works.
- 1 GPU or more: the next `step()` raises ``RuntimeError: Tensors of the same index must be on the same device
  and the same dtype except `step` tensors ...``, with `foreach=False`
  `Expected all tensors to be on the same device, ...`.
""",
    example="""\
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(4, 2)
optimizer = torch.optim.Adagrad(model.parameters(), lr=0.1)
model.to(device)
model(torch.randn(8, 4, device=device)).sum().backward()
optimizer.step()
""",
    instead="""\
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(4, 2).to(device)
optimizer = torch.optim.Adagrad(model.parameters(), lr=0.1)
model(torch.randn(8, 4, device=device)).sum().backward()
optimizer.step()
""",
    silent="""\
- Any optimizer but Adagrad is built before the move and not stepped yet: it has no state, and the move keeps
  the Parameter objects.
- SGD without momentum has been stepped: it keeps no state.
- `load_state_dict` is called after the move: it casts the state to the device of each parameter.
- The program accesses `optimizer.state` before the next `step()`: it may move the state itself.
- The model is moved to its present device, or away and back before the next `step()`.
- An optimizer other than Adagrad takes no `step()` after the move, for example because a trained model moves to the
  CPU.
- The model is wrapped in DDP or passed to `torch.compile`: neither moves it.
""",
    fix="""\
Build the optimizer, or load its state, after the move. This is safe if nothing in between uses the optimizer.
Otherwise call `optimizer.load_state_dict(optimizer.state_dict())` after the move: it casts the state to the
parameters' device (`Optimizer._process_value_according_to_param_policy`).
""",
)


_HOW = {
    "built": "creates its state when it is built",
    "stepped": "created its state at its first step",
    "loaded": "loaded its state",
}


def check(event: OptimizerStateStranded) -> Iterator[Problem]:
    yield Problem(
        event.node,
        f"{quoted(event.optimizer)} ({event.cls}) {_HOW[event.reason]} while {quoted(event.module)} is on "
        f"{describe(event.source)}; the model then moves to {describe(event.target)} but the state does "
        "not: the next step raises",
        event.trace,
        advice="move the model first",
        facts={
            "optimizer": event.cls,
            "state": event.reason,
            "source": place_fact(event.source),
            "target": place_fact(event.target),
        },
        replay=Replay(mended=_cast(event)),
    )


def _cast(event: OptimizerStateStranded) -> tuple[Line, ...]:
    """Load the state again after the move, the second step of the trace: this moves it to the model."""
    if not is_name(event.optimizer):
        return ()
    return (Line(event.trace[1].node, f"{event.optimizer}.load_state_dict({event.optimizer}.state_dict())"),)


def flagged(facts: Facts) -> None:
    from placement_lint.probe.bench import optimizer, step, trainable

    model = trainable(facts).to(facts["source"])
    held = optimizer(model, facts)
    if facts["state"] != "built":
        step(model, held)
    if facts["state"] == "loaded":
        held.load_state_dict(held.state_dict())
    model.to(facts["target"])
    if facts["loaded_after"]:
        held.load_state_dict(held.state_dict())
    if facts["stepped_after"]:
        step(model, held)


def control(facts: Facts) -> None:
    from placement_lint.probe.bench import optimizer, step, trainable

    model = trainable(facts).to(facts["target"])
    held = optimizer(model, facts)
    step(model, held)
    step(model, held)


EXPERIMENT = Experiment(
    claim="the state of an optimizer stays on its device when the model moves, and the next step raises",
    flagged=flagged,
    control=control,
    symptoms=MIXED_DEVICES,
    facts={
        "optimizer": "Adagrad",
        "momentum": 0.9,
        "state": "built",
        "source": "cpu",
        "target": "cuda",
        "loaded_after": False,
        "stepped_after": True,
    },
    gpus=1,
)


RULE = Rule(
    "DPL201",
    "optimizer-state-before-move",
    Severity.ERROR,
    PAGE,
    {OptimizerStateStranded: check},
    experiment=EXPERIMENT,
)
