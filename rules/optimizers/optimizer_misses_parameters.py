"""Parameters take part in the training, but no optimizer holds them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from placement_lint.finding import Severity
from placement_lint.flow.events.schema import GroupsMiss, OptimizerMisses, OptimizerStale
from placement_lint.probe.experiment import Experiment, Facts, Sees
from placement_lint.replaying import remembered, trained_in_the_end, unfrozen
from placement_lint.rule import Note, Page, Problem, Rule
from placement_lint.source.wording import quoted

PAGE = Page(
    what="""\
Reports parameters that a loss depends on and no optimizer holds. They are unfrozen after the optimizer got only those
that require grad, belong to a part of a model while the optimizer's groups name most other parts, or are the weights of
a criterion. A single `nn.Parameter` counts as well. An earlier optimizer may have held them until another one took over
its variable.
""",
    why="""\
An optimizer updates only the parameters in its `param_groups`. Those that were filtered out
(`filter(lambda p: p.requires_grad, ...)`) are not among them, and setting `requires_grad = True` later does not add
them. The centres of a centre loss are in `criterion.parameters()`, not in `model.parameters()`.

Nothing raises, with any number of GPUs: these parameters get gradients and keep their values.
""",
    example="""\
import torch
from torch import nn

model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
model[0].requires_grad_(False)
optimizer = torch.optim.SGD(filter(lambda p: p.requires_grad, model.parameters()), lr=0.1)

for epoch in range(4):
    if epoch == 2:
        model[0].requires_grad_(True)
    optimizer.zero_grad()
    model(torch.randn(16, 4)).square().mean().backward()
    optimizer.step()
""",
    instead="""\
import torch
from torch import nn

model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
model[0].requires_grad_(False)
optimizer = torch.optim.SGD(filter(lambda p: p.requires_grad, model.parameters()), lr=0.1)

for epoch in range(4):
    if epoch == 2:
        model[0].requires_grad_(True)
        optimizer.add_param_group({"params": model[0].parameters(), "lr": 0.01})
    optimizer.zero_grad()
    model(torch.randn(16, 4)).square().mean().backward()
    optimizer.step()
""",
    silent="""\
- The optimizer gets all parameters, which are frozen or unfrozen later: it skips those without a gradient.
- `add_param_group` adds the unfrozen parameters, or another optimizer holds them, as in a GAN.
- Only a part of the model is trained, such as its head, and the rest is never unfrozen or was loaded.
- The criterion has no weights, its weights are frozen, or they were trained elsewhere (a VGG).
- The program reads the parameters, or passes the module to an unknown function, which may train them.
- Parameters of a plain list, of a layer made in `forward` or lost by a conversion: DPL303, DPL308, DPL301.
""",
    fix="""\
Pass the missing parameters to the optimizer: `optimizer.add_param_group({"params": ...})` after unfreezing, or
`[*model.parameters(), *criterion.parameters()]` when it is built.
""",
)


def check_unfrozen(event: OptimizerStale) -> Iterator[Problem]:
    if event.how == "unfrozen":
        yield Problem(
            event.node,
            f"the parameters that require gradients from here on are not in {quoted(event.optimizer)}, which "
            "got only those that required gradients when it was built: they are silently never trained",
            (event.built, event.stepped),
            advice="call `add_param_group`",
            facts={"how": "unfrozen"},
            replay=trained_in_the_end(event.stepped, remembered(event.node, unfrozen(event.node))),
        )


def check_missed(event: OptimizerMisses) -> Iterator[Problem]:
    by_itself = not event.missed
    missed, them = ("a Parameter", "it") if by_itself else (f"the parameters of {quoted(event.missed)}", "them")
    if event.before is None:
        message = f"which neither {quoted(event.optimizer)} nor any other optimizer holds: no step trains {them}"
    else:
        message = f"which the optimizer before held and this one does not: no step trains {them} any more"
    yield Problem(
        event.node,
        f"the loss depends on {missed}, {message}",
        (Note(event.made, "made here"), *((event.before,) if event.before else ()), event.stepped),
        advice="pass it to the optimizer",
        facts={"how": "a Parameter" if by_itself else "a criterion"},
        replay=trained_in_the_end(event.stepped, remembered(event.made, "{target}")),
    )


def check_groups(event: GroupsMiss) -> Iterator[Problem]:
    yield Problem(
        event.node,
        f"no group of {quoted(event.optimizer)} holds the parameters of `{event.parts}`, on which the loss depends: no "
        "step trains them",
        (event.stepped,),
        advice="give them to a group as well, or freeze them",
        facts={"how": "a part"},
    )


def flagged(facts: Facts) -> str:
    return _train(facts, given=False)


def control(facts: Facts) -> str:
    return _train(facts, given=True)


def _train(facts: Facts, given: bool) -> str:
    """Train for one step; returns whether a parameter with a gradient stays unchanged."""
    import torch
    from torch import nn

    from placement_lint.probe.bench import SIDE, square

    model = nn.Sequential(nn.Linear(SIDE, SIDE), nn.Linear(SIDE, SIDE))
    more: list[Any] = list(model[1].parameters()) if facts["how"] == "a part" else []
    if facts["how"] == "a criterion":
        more = list(nn.Linear(SIDE, 1).parameters())
    elif facts["how"] == "a Parameter":
        more = [nn.Parameter(torch.ones(1, SIDE))]
    if facts["how"] == "unfrozen":
        model[0].requires_grad_(False)
    trained = model[0] if facts["how"] == "a part" else model
    taken = [p for p in trained.parameters() if p.requires_grad or facts["all_given"]]
    optimizer = torch.optim.SGD(taken, lr=0.1)
    if facts["how"] == "unfrozen" and facts["unfrozen"]:
        model[0].requires_grad_(True)
        more = list(model[0].parameters())
    if (given or facts["added"]) and more and not facts["all_given"]:
        optimizer.add_param_group({"params": more})
    watched = [parameter for parameter in (*model.parameters(), *more) if parameter.requires_grad]
    before = [parameter.detach().clone() for parameter in watched]
    loss = model(square()).square().sum()
    for parameter in more:
        loss = loss + parameter.square().sum()
    loss.backward()
    optimizer.step()
    same = any(torch.equal(old, new) for old, new in zip(before, watched, strict=True))
    return "parameters with a gradient are not trained" if same else "all parameters that require gradients are trained"


EXPERIMENT = Experiment(
    claim="parameters in no param_group get gradients and are never updated",
    flagged=flagged,
    control=control,
    symptoms=(Sees("are not trained"),),
    facts={"how": "unfrozen", "unfrozen": True, "all_given": False, "added": False},
)


RULE = Rule(
    "DPL206",
    "optimizer-misses-parameters",
    Severity.WARNING,
    PAGE,
    {OptimizerStale: check_unfrozen, OptimizerMisses: check_missed, GroupsMiss: check_groups},
    experiment=EXPERIMENT,
)
