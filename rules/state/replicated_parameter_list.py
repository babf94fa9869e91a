"""A list of layers is multiplied: it contains one layer many times."""

from __future__ import annotations

from collections.abc import Iterator

from placement_lint.finding import Severity
from placement_lint.flow.events.schema import LayerRepeated
from placement_lint.probe.experiment import Experiment, Facts, Sees
from placement_lint.replaying import claimed
from placement_lint.rewriting import bare_text, each_made_anew, unsafe
from placement_lint.rule import Page, Problem, Replay, Rule

PAGE = Page(
    what="""\
Reports `[nn.Linear(8, 8)] * n` and `[nn.Parameter(t)] * n` if a container of `torch.nn` gets the list.
""",
    why="""\
Multiplying a list repeats references and does not copy: the container has n names for one layer. `parameters()`
returns each Parameter once (`_named_members` in torch/nn/modules/module.py), so an optimizer silently trains one
set of weights with the gradients of all uses. The state dict has n names for it, as if there were n layers. The
machine does not matter.
""",
    example="""\
import torch
from torch import nn

layers = nn.Sequential(*[nn.Linear(8, 8)] * 4)
print(layers(torch.randn(2, 8)).shape, len(list(layers.parameters())))
""",
    instead="""\
import torch
from torch import nn

layers = nn.Sequential(*[nn.Linear(8, 8) for _ in range(4)])
print(layers(torch.randn(2, 8)).shape, len(list(layers.parameters())))
""",
    silent="""\
- A layer that has a name before it is repeated (`shared = nn.Linear(8, 8)`), or whose surroundings mention sharing
  or tying weights, or are one side of an explicit choice: this is intended.
- Layers without parameters: `[nn.ReLU()] * n`.
- The factor is 1, or may be a flag: `[nn.LayerNorm(8)] * use_norm`.
- The list only reserves places, and other layers are put into it.
- Lists that no container of `torch.nn` gets.
""",
    fix="""\
A comprehension, `[nn.Linear(8, 8) for _ in range(n)]`. This is unsafe: there are then n times as many weights, and
old checkpoints have the same ones for all.
""",
)


def check(event: LayerRepeated) -> Iterator[Problem]:
    times = bare_text(event.times)
    yield Problem(
        event.node,
        f"`{times}` names for one `{event.kind}`: multiplying a list does not copy its items, so the "
        "optimizer silently trains one set of weights for all of them",
        advice="create each one in a comprehension",
        rewrite=unsafe("create each one in a comprehension", each_made_anew(event.node, event.items, event.times)),
        facts={"parameters": event.kind == "Parameter"},
        replay=Replay(watch=(claimed(event.node, _DIFFERENT, "it is the same object each time"),)),
    )


_DIFFERENT = "len(set(map(id, {node}))) == len({node})"


def flagged(facts: Facts) -> str:
    return _made(facts, each=False)


def control(facts: Facts) -> str:
    return _made(facts, each=True)


def _made(facts: Facts, each: bool) -> str:
    import torch
    from torch import nn

    if facts["parameters"]:
        parameters = [nn.Parameter(torch.ones(2)) for _ in range(3)] if each else [nn.Parameter(torch.ones(2))] * 3
        container: nn.Module = nn.ParameterList(parameters)
    else:
        layers = [nn.Linear(2, 2, bias=False) for _ in range(3)] if each else [nn.Linear(2, 2, bias=False)] * 3
        container = nn.ModuleList(layers[: facts["times"]])
    known, learned = len(container.state_dict()), len(list(container.parameters()))
    return f"{known} names for {learned} Parameters" if known > learned else "a Parameter for each name"


EXPERIMENT = Experiment(
    claim="a multiplied list contains one layer many times",
    flagged=flagged,
    control=control,
    symptoms=(Sees("names for 1 Parameters"),),
    facts={"parameters": False, "times": 3},
)


RULE = Rule(
    "DPL311",
    "replicated-parameter-list",
    Severity.ERROR,
    PAGE,
    {LayerRepeated: check},
    experiment=EXPERIMENT,
)
