"""An optimizer keeps parameters that were replaced."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from placement_lint.finding import Severity
from placement_lint.flow.events.schema import OptimizerStale
from placement_lint.probe.experiment import Experiment, Facts, OutOfReach, Sees
from placement_lint.replaying import never_trained
from placement_lint.rule import Page, Problem, Rule
from placement_lint.source.wording import quoted

PAGE = Page(
    what="""\
Reports a module or Parameter that is replaced after the optimizer is built, if training continues. The same applies
to `load_state_dict(..., assign=True)`, to a copy that replaces the model, and to `resize_token_embeddings` of a
transformers model with an output layer (a warning).
""",
    why="""\
An optimizer holds Parameter objects, not names. The new Parameters are in no `param_group`. The old ones no longer
get a gradient, and `step()` skips parameters without one (`if p.grad is not None` in `torch/optim/sgd.py`,
`SGD._init_group`).

Nothing raises, with any number of GPUs: the new parameters keep their initial values. `optimizer.zero_grad()` does
not reach them either, so their gradients accumulate and distort gradient clipping with `model.parameters()`.

`resize_token_embeddings` of transformers 5.24 fills the Parameter of the embeddings with other data, but makes a new
`lm_head` (`transformers/modeling_utils.py`, `_get_resized_lm_head`). It is trained only if the model ties it to the
embeddings (`config.tie_word_embeddings`). Before version 4.44, the embeddings were new Parameters as well.
""",
    example="""\
import torch
from torch import nn

model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model[2] = nn.Linear(8, 3)

x, y = torch.randn(16, 4), torch.randint(0, 3, (16,))
nn.functional.cross_entropy(model(x), y).backward()
optimizer.step()
""",
    instead="""\
import torch
from torch import nn

model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
model[2] = nn.Linear(8, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

x, y = torch.randn(16, 4), torch.randint(0, 3, (16,))
nn.functional.cross_entropy(model(x), y).backward()
optimizer.step()
""",
    silent="""\
- `p.data = ...`, `p.copy_(...)`, `nn.init` and a plain `load_state_dict` keep the Parameter objects.
- `add_param_group` adds the new parameters to the optimizer, or the optimizer is built again.
- The optimizer already holds the new parameters, as with tied weights, or there are none.
- `resize_token_embeddings` of a model without an output layer, such as `AutoModel`.
- A copy of the model serves as a teacher, a moving average or a snapshot and is not trained.
- The optimizer takes no `step()` after the replacement.
""",
    fix="""\
Replace first and build the optimizer afterwards, or call `optimizer.add_param_group({"params": ...})` with the new
parameters. Review it: the parameters start to train, and a new optimizer starts without momentum and moments.
""",
)


_HOW = {
    "replaced": "is replaced here",
    "assigned": "gets new Parameter objects from `load_state_dict(assign=True)` here",
    "succeeded": "is replaced by another model here",
    "copied": "is copied here, and the copy is trained",
    "resized": "gets a new output layer here, unless that is tied to the embeddings",
}


def check(event: OptimizerStale) -> Iterator[Problem]:
    if event.how in _HOW:
        yield Problem(
            event.node,
            f"{quoted(event.replaced)} {_HOW[event.how]}, but {quoted(event.optimizer)} holds the old "
            "parameters: the new parameters are silently never trained",
            (event.built, event.stepped),
            advice="build the optimizer afterwards, or call `add_param_group`",
            severity=Severity.WARNING if event.how == "resized" else None,
            facts={"how": event.how, "optimizer": event.cls},
            replay=never_trained(event),
        )


def flagged(facts: Facts) -> str:
    return _train(facts, built_first=True)


def control(facts: Facts) -> str:
    return _train(facts, built_first=False)


def _train(facts: Facts, built_first: bool) -> str:
    from placement_lint.probe.bench import optimizer, step, trainable, unchanged

    model = trainable(facts)
    held = optimizer(model, facts)
    model = _changed(model, facts["how"])
    if not built_first:
        held = optimizer(model, facts)
    elif facts["added"]:
        held.add_param_group({"params": [model.weight]})
    return "parameters are never trained" if unchanged(model, lambda: step(model, held)) else "all parameters change"


def _changed(model: Any, how: str) -> Any:
    import copy

    import torch
    from torch import nn

    def weight(new: torch.Tensor) -> None:
        model.weight = nn.Parameter(new)

    changes: dict[str, Callable[[], object]] = {
        "replaced": lambda: weight(model.weight.detach().clone()),
        "assigned": lambda: model.load_state_dict(copy.deepcopy(model.state_dict()), assign=True),
        "succeeded": lambda: copy.deepcopy(model),
        "copied": lambda: copy.deepcopy(model),
        "weight_norm": lambda: nn.utils.parametrizations.weight_norm(model),
        "spectral_norm": lambda: nn.utils.parametrizations.spectral_norm(model),
        "resized": lambda: weight(model.weight.detach().clone()),
        "loaded": lambda: model.load_state_dict(copy.deepcopy(model.state_dict())),
        "tied": lambda: setattr(model, "weight", model.weight),
        "copied aside": lambda: [copy.deepcopy(model)],
        "filled": lambda: nn.init.ones_(model.weight),
        "moved": lambda: model.to("cpu"),
    }
    if how not in changes:
        raise OutOfReach(f"no experiment for parameters that are {how!r}")
    result = changes[how]()
    return result if isinstance(result, nn.Module) else model


EXPERIMENT = Experiment(
    claim="an optimizer keeps the Parameters that it was built with; Parameters that replace them are never trained",
    flagged=flagged,
    control=control,
    symptoms=(Sees("never trained"),),
    facts={"optimizer": "SGD", "momentum": 0.0, "how": "replaced", "added": False},
)


RULE = Rule(
    "DPL205", "optimizer-stale-after-replacement", Severity.ERROR, PAGE, {OptimizerStale: check}, experiment=EXPERIMENT
)
