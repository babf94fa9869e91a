"""A replica reads its parameters, which are missing there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from placement_lint.finding import Severity
from placement_lint.flow.events.facts import replica_facts
from placement_lint.flow.events.schema import ParametersRead
from placement_lint.probe.experiment import Experiment, Facts, Sees
from placement_lint.replaying import claimed
from placement_lint.rule import Line, Page, Problem, Replay, Rule

PAGE = Page(
    what="""\
Reports `self.parameters()`, `named_parameters()`, `state_dict()`, `zero_grad()` and `requires_grad_()` that
run inside a `DataParallel` replica, including those in properties and methods that `forward` uses; also
`requires_grad_()` on a single weight and `isinstance(self.weight, nn.Parameter)`.
""",
    why="""\
A replica starts with `_parameters = {}` (torch/nn/modules/module.py, `Module._replicate_for_data_parallel`), and
its weights are set as plain non-leaf tensors (torch/nn/parallel/replicate.py, `replicate`). With 2 or more GPUs,
`next(self.parameters())` raises `StopIteration: Caught StopIteration in replica 0 on device 0.`; a penalty summed
over `self.parameters()` is silently 0; `state_dict()` contains only buffers; `zero_grad()` warns and does nothing;
`requires_grad_()` does nothing on a module, and on a weight `requires_grad_(False)` raises RuntimeError;
`isinstance(self.weight, nn.Parameter)` is False. Under `no_grad` replica 0 has the real parameters and the others
still have none. With 0 or 1 GPU there are no replicas.
""",
    example="""\
import torch
import torch.nn as nn


class ScaledLinear(nn.Linear):
    def forward(self, x):
        device = next(self.parameters()).device
        return super().forward(x * torch.full((8,), 0.5, device=device))


device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.DataParallel(ScaledLinear(8, 4).to(device))
print(model(torch.randn(16, 8)).shape)
""",
    instead="""\
import torch
import torch.nn as nn


class ScaledLinear(nn.Linear):
    def forward(self, x):
        device = x.device
        return super().forward(x * torch.full((8,), 0.5, device=device))


device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.DataParallel(ScaledLinear(8, 4).to(device))
print(model(torch.randn(16, 8)).shape)
""",
    silent="""\
- The call is outside `forward`: in `__init__`, in the training loop, on the wrapper.
- A weight is named directly (`self.fc.weight`), or comes from a `ParameterList` or `ParameterDict`.
- `self.buffers()`, `self.modules()`, `self.named_modules()`: replicas have those.
- The class is never wrapped in `DataParallel`, or only with a single device id.
""",
    fix="""\
Use the device or dtype of an input, or of a weight by name (`self.fc.weight.device`). Compute a penalty over all
parameters outside the model and add it to the loss. Review both: an input may have another dtype than the weights.
""",
)


_EFFECTS = {
    "isinstance": "is False",
    "requires_grad_": "freezes nothing, or raises RuntimeError on a weight",
    "state_dict": "lacks every parameter",
    "zero_grad": "has no effect",
}


def check(event: ParametersRead) -> Iterator[Problem]:
    effect = _EFFECTS.get(event.method, "is empty: `next()` raises StopIteration, and a sum over it is 0")
    yield Problem(
        event.node,
        f"in a DataParallel replica the parameters are plain tensors, so `{event.label}` {effect}",
        event.scene.replica,
        advice="use the device or dtype of an input, or name the weight itself",
        facts={"method": event.method, **replica_facts(event.scene)},
        replay=Replay(watch=_watch(event)),
    )


def _watch(event: ParametersRead) -> tuple[Line, ...]:
    claims = {
        "parameters": "list({node})",
        "named_parameters": "list({node})",
        "state_dict": "{node}",
        "isinstance": "{node}",
    }
    if event.method not in claims:
        return ()
    return (claimed(event.node, claims[event.method], "the replica has no parameters", before=True),)


def flagged(facts: Facts) -> str:
    return _asked(facts, facts["method"])


def control(facts: Facts) -> str:
    return _asked(facts, "the weight itself")


def _asked(facts: Facts, method: str) -> str:
    """The results of a method in the replicas, and the result in the module itself."""
    import torch
    from torch import Tensor, nn

    from placement_lint.probe.bench import Model, parallel, rows

    questions: dict[str, Callable[[Any], object]] = {
        "parameters": lambda module: len(list(module.parameters())),
        "named_parameters": lambda module: len(list(module.named_parameters())),
        "state_dict": lambda module: len(module.state_dict()),
        "isinstance": lambda module: isinstance(module.weight, nn.Parameter),
        "requires_grad_": lambda module: module.requires_grad_(False).weight.requires_grad,
        "zero_grad": lambda module: (module.zero_grad(), original.weight.grad is None)[1],
        "buffers": lambda module: len(list(module.buffers())),
        "ParameterList": lambda module: len(module.listed),
        "modules": lambda module: len(list(module.modules())),
        "the weight itself": lambda module: module.weight.shape,
    }
    answers: list[object] = []

    def ask(module: nn.Module, x: Tensor) -> Tensor:
        answers.append(questions[method](module))
        return x

    original: Any = Model(ask)
    original.listed = nn.ParameterList([torch.ones(2)])
    original.weight.grad = torch.ones_like(original.weight)
    parallel(original, facts)(rows(facts))
    in_replicas = answers.copy()
    right = questions[method](original)
    alike = all(answer == right for answer in in_replicas)
    return "the replicas agree with the module" if alike else f"the replicas have {in_replicas}, the module {right}"


EXPERIMENT = Experiment(
    claim="a replica has no parameters: parameters() is empty, and the weights are plain tensors",
    flagged=flagged,
    control=control,
    symptoms=(Sees("the replicas have ["),),
    facts={"method": "parameters", "device_ids": [0, 1]},
    gpus=2,
    one_gpu={"device_ids": [0, 0]},
    harmless_on=1,
)


RULE = Rule("DPL119", "parameters-in-replica", Severity.ERROR, PAGE, {ParametersRead: check}, experiment=EXPERIMENT)
