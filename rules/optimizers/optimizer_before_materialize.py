"""An optimizer gets parameters that have no data yet."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from placement_lint.finding import Severity
from placement_lint.flow.events.schema import OptimizerStale
from placement_lint.probe.experiment import Experiment, Facts, OutOfReach, Sees
from placement_lint.replaying import never_trained
from placement_lint.rewriting import moved_below, safe
from placement_lint.rule import Note, Page, Problem, Rule
from placement_lint.source.wording import quoted

PAGE = Page(
    what="""\
Reports an optimizer that is built while the model is on the meta device, before `to_empty` or
`load_state_dict(..., assign=True)` gives it data. The same holds for a model that moves to XLA afterwards, and
for every conversion once `torch.__future__.set_overwrite_module_params_on_conversion(True)` was called.
""",
    why="""\
A move keeps the Parameter objects if the new data is compatible with the old ones (`param.data = ...`), such as
between CPU and CUDA. Otherwise `Module._apply` replaces each Parameter with a new one
(`torch/nn/modules/module.py`). The optimizer keeps the old ones, which are not part of any computation: they get no
gradient, and `step()` skips them.

Nothing raises, with any number of GPUs, and no parameter is trained.
""",
    example="""\
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
with torch.device("meta"):
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
model.to_empty(device=device)
for layer in (model[0], model[2]):
    layer.reset_parameters()

model(torch.randn(16, 4, device=device)).square().mean().backward()
optimizer.step()
""",
    instead="""\
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
with torch.device("meta"):
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
model.to_empty(device=device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for layer in (model[0], model[2]):
    layer.reset_parameters()

model(torch.randn(16, 4, device=device)).square().mean().backward()
optimizer.step()
""",
    silent="""\
- The optimizer is built, or built again, once the model has data.
- `torch.__future__.set_swap_module_params_on_conversion(True)` is active: it keeps the Parameter objects.
- `to_empty` is called on a model that is on the CPU or a GPU, or the model is moved or converted to another
  floating type: the Parameter objects stay.
- The optimizer takes no `step()` afterwards.
""",
    fix="""\
Build the optimizer after the statement that gives the model its data. Offered if no statement between the two
mentions the optimizer. Safe, because it trained nothing before.
""",
)

_HOW = {
    "materialized": "while the model has no data, and the model gets new Parameter objects with its data",
    "converted": "before a conversion that makes new Parameter objects",
    "moved to XLA": "before the model moves to XLA, where it gets new Parameter objects",
}


def check(event: OptimizerStale) -> Iterator[Problem]:
    if event.how in _HOW:
        yield Problem(
            event.built.node,
            f"{quoted(event.optimizer)} gets the parameters of {quoted(event.replaced)} {_HOW[event.how]}: "
            "`step()` silently trains nothing",
            (Note(event.node, "the parameters become new objects here"), event.stepped),
            advice="build the optimizer afterwards",
            rewrite=safe("build the optimizer afterwards", moved_below(event.statements, event.optimizer)),
            facts={"how": event.how, "optimizer": event.cls},
            replay=never_trained(event),
        )


def flagged(facts: Facts) -> str:
    return _train(facts, built_first=True)


def control(facts: Facts) -> str:
    return _train(facts, built_first=False)


def _train(facts: Facts, built_first: bool) -> str:
    import torch
    from torch import nn

    from placement_lint.probe.bench import optimizer, step, trainable, unchanged

    def fill() -> None:
        model.to_empty(device="cpu")
        for parameter in model.parameters():
            nn.init.ones_(parameter)

    ways: dict[str, Callable[[], object]] = {
        "materialized": fill,
        "converted": lambda: model.to("cpu"),
        "of another type": lambda: model.double().float(),
    }
    if facts["how"] not in ways:
        raise OutOfReach(f"no experiment for a model that is {facts['how']!r}")
    torch.__future__.set_swap_module_params_on_conversion(facts["swapping"])
    torch.__future__.set_overwrite_module_params_on_conversion(facts["how"] == "converted")
    try:
        home = facts["home"] if facts["how"] == "materialized" else "cpu"
        model = trainable(facts).to(home)
        held = optimizer(model, facts)
        ways[facts["how"]]()
    finally:
        torch.__future__.set_swap_module_params_on_conversion(False)
        torch.__future__.set_overwrite_module_params_on_conversion(False)
    if not built_first:
        held = optimizer(model, facts)
    return "parameters are never trained" if unchanged(model, lambda: step(model, held)) else "all parameters change"


EXPERIMENT = Experiment(
    claim="parameters that an optimizer gets while they have no data are not those that the model has later",
    flagged=flagged,
    control=control,
    symptoms=(Sees("never trained"),),
    facts={"optimizer": "SGD", "momentum": 0.0, "how": "materialized", "home": "meta", "swapping": False},
)


RULE = Rule(
    "DPL202", "optimizer-before-materialize", Severity.ERROR, PAGE, {OptimizerStale: check}, experiment=EXPERIMENT
)
