"""A training step calls the module in a DDP wrapper instead of the wrapper."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from placement_lint.finding import Severity
from placement_lint.flow.events.schema import DdpBypassed
from placement_lint.probe.experiment import Experiment, Facts, Sees
from placement_lint.rewriting import callee_replaced, unsafe
from placement_lint.rule import TWO_RANKS, Line, Page, Problem, Replay, Rule

PAGE = Page(
    what="""\
Reports a training step (forward, backward, step of the optimizer) that calls the unwrapped model, `model.module`,
or a part of it although the model is in `DistributedDataParallel`.
""",
    why="""\
`DistributedDataParallel.forward` prepares the hooks that average the gradients (torch/nn/parallel/distributed.py,
`_pre_forward`, `prepare_for_backward`). A call that bypasses the wrapper does not prepare them: backward fills
`.grad` with the rank's own gradients, the optimizer steps with these, and the ranks silently drift apart.
""",
    example="""\
import torch
import torch.distributed as dist
import torch.nn as nn

dist.init_process_group("gloo")
model = nn.parallel.DistributedDataParallel(nn.Linear(8, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loss = model.module(torch.randn(16, 8)).pow(2).mean()
loss.backward()
optimizer.step()
""",
    instead="""\
import torch
import torch.distributed as dist
import torch.nn as nn

dist.init_process_group("gloo")
model = nn.parallel.DistributedDataParallel(nn.Linear(8, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loss = model(torch.randn(16, 8)).pow(2).mean()
loss.backward()
optimizer.step()
""",
    silent="""\
- The call is under `no_grad`, or no backward follows, or no optimizer steps with its gradients (they are zeroed
  first, or another model's optimizer steps).
- The same loss also came through the wrapper: then the hooks are prepared for all of its parameters.
- The callee has no parameters, such as a loss helper on the outputs.
- `no_sync()` around calls of the wrapper, and FSDP.
""",
    fix="""\
Call the wrapper. To call only a part of the model, give the model's `forward` an argument for it: DDP averages
gradients only of what runs inside the wrapper's call. The rewrite is unsafe, because averaged gradients change the
training.
""",
)


def check(event: DdpBypassed) -> Iterator[Problem]:
    wrapper = f"the DDP wrapper `{event.label}`" if event.label != "the wrapper" else "the DDP wrapper"
    yield Problem(
        event.node,
        f"this bypasses {wrapper}: the gradients of this rank are not averaged with "
        "those of the others, and the ranks silently drift apart",
        event.trace,
        advice=f"call `{event.instead}`" if event.instead else "call it inside `forward`, through the wrapper",
        rewrite=unsafe("call the wrapper", callee_replaced(event.node, event.instead)),
        facts={"called": "the bare module" if event.instead else "a part"},
        replay=Replay(
            watch=(Line(event.node, f"compare_gradients({event.label})", before=True),),
            mended=(Line(event.node, f"average_gradients({event.label})", before=True),),
            crew=TWO_RANKS,
        ),
    )


def flagged(facts: Facts) -> str:
    return _trained(facts["called"])


def control(facts: Facts) -> str:
    return _trained("the wrapper")


def _trained(called: str) -> str:
    import torch
    from torch import nn

    from placement_lint.probe.bench import averaged, in_wrapper, with_idle_rank

    model: Any = nn.Sequential(nn.Linear(2, 2))
    wrapper = with_idle_rank(in_wrapper(model, "DistributedDataParallel"))
    calls: dict[str, Callable[[Any], Any]] = {
        "the wrapper": wrapper,
        "the bare module": model,
        "a part": model[0],
        "both": lambda x: (wrapper(x) + model(x)) / 2,
        "a helper": lambda x: nn.Dropout(0.0)(wrapper(x)),
    }
    return averaged(model, lambda: calls[called](torch.ones(1, 2)).sum())


EXPERIMENT = Experiment(
    claim="DDP averages the gradients of a backward only after a call of the wrapper",
    flagged=flagged,
    control=control,
    symptoms=(Sees("keeps its gradients to itself"),),
    facts={"called": "the bare module"},
)


RULE = Rule("DPL117", "ddp-forward-bypasses-wrapper", Severity.ERROR, PAGE, {DdpBypassed: check}, experiment=EXPERIMENT)
