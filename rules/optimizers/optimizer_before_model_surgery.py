"""An optimizer gets parameters that a utility replaces afterwards."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from typing import Any

from placement_lint.finding import Severity
from placement_lint.flow.api.torch_names import SURGERY
from placement_lint.flow.events.schema import OptimizerStale
from placement_lint.probe.experiment import Experiment, Facts, OutOfReach, Sees
from placement_lint.replaying import named_argument, never_trained
from placement_lint.rewriting import moved_below, safe
from placement_lint.rule import Note, Page, Problem, Rule
from placement_lint.source.wording import quoted

PAGE = Page(
    what="""\
Reports an optimizer that gets the parameters of a model before a utility replaces them: `weight_norm` (both
versions), `remove_weight_norm`, `remove_spectral_norm`, `remove_parametrizations` after `weight_norm`,
`get_peft_model`, `add_adapter`, `quantize_`, or `prepare_qat` without `inplace=True`.
""",
    why="""\
`weight_norm` splits one Parameter into two new ones (`torch/nn/utils/parametrizations.py`, `_WeightNorm`), and its
removal makes one new Parameter from them; adapters freeze the existing Parameters and add their own; `prepare_qat`
works on a copy. The optimizer holds the old Parameters: they no longer get a gradient, and `step()` skips them.

Nothing raises, with any number of GPUs: the new parameters keep their initial values.
""",
    example="""\
import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
weight_norm(model[0])

model(torch.randn(16, 4)).square().mean().backward()
optimizer.step()
""",
    instead="""\
import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
weight_norm(model[0])
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

model(torch.randn(16, 4)).square().mean().backward()
optimizer.step()
""",
    silent="""\
- The optimizer is built, or built again, afterwards, or gets the new parameters with `add_param_group`.
- `spectral_norm`, `orthogonal`, a parametrization of one tensor, and pruning keep the Parameter object
  (`torch/nn/utils/parametrize.py`, `ParametrizationList`); so do `SyncBatchNorm.convert_sync_batchnorm`,
  `torch.compile` and `prepare_qat(..., inplace=True)`.
- The optimizer takes no `step()` afterwards, for example because `remove_weight_norm` prepares an export.
""",
    fix="""\
Build the optimizer after the utility. Offered if no statement between the two mentions the optimizer. Safe, because
these parameters were not trained before.
""",
)

_UTILITIES = {name.rpartition(".")[2] for name in SURGERY} | {"add_adapter"}


def check(event: OptimizerStale) -> Iterator[Problem]:
    if event.how in _UTILITIES:
        yield Problem(
            event.built.node,
            f"{quoted(event.optimizer)} gets the parameters of {quoted(event.replaced)} before `{event.how}` "
            "replaces them: the new parameters are silently never trained",
            (Note(event.node, f"`{event.how}` is called here"), event.stepped),
            advice="build the optimizer afterwards",
            rewrite=safe("build the optimizer afterwards", moved_below(event.statements, event.optimizer)),
            facts={"how": event.how, "optimizer": event.cls},
            replay=never_trained(event, named_argument(event.node)),
        )


def flagged(facts: Facts) -> str:
    return _train(facts, built_first=True)


def control(facts: Facts) -> str:
    return _train(facts, built_first=False)


def _train(facts: Facts, built_first: bool) -> str:
    from placement_lint.probe.bench import optimizer, step, trainable, unchanged

    model, change = _prepared(trainable(facts), facts["how"])
    held = optimizer(model, facts)
    model = change(model) or model
    if not built_first:
        held = optimizer(model, facts)
    elif facts["added"]:
        held.add_param_group({"params": model.parameters()})
    same = unchanged(model, lambda: step(model, held))
    left = [name for name in same if model.get_parameter(name).requires_grad]
    return "parameters are never trained" if left else "all parameters change"


def _adapted(layer: Any) -> Any:
    """A minimal adapter: the existing Parameters are frozen, and others are added."""
    from torch import nn

    from placement_lint.probe.bench import SIDE

    return nn.Sequential(layer.requires_grad_(False), nn.Linear(SIDE, SIDE, bias=False))


def _quantized(layer: Any) -> None:
    from torch import nn

    layer.weight = nn.Parameter((layer.weight * 8).round() / 8)


def _prepared(model: Any, how: str) -> tuple[Any, Callable[[Any], Any]]:
    """The model before the utility runs, and the utility."""
    from torch import nn
    from torch.nn.utils import parametrizations, parametrize

    quantization: Any = importlib.import_module("torch.ao.quantization")
    pruning: Any = importlib.import_module("torch.nn.utils.prune")
    model.qconfig = quantization.get_default_qat_qconfig("fbgemm")
    ways: dict[str, tuple[Callable[[Any], Any] | None, Callable[[Any], Any]]] = {
        "weight_norm": (None, parametrizations.weight_norm),
        "remove_weight_norm": (nn.utils.weight_norm, nn.utils.remove_weight_norm),
        "remove_spectral_norm": (nn.utils.spectral_norm, nn.utils.remove_spectral_norm),
        "remove_parametrizations": (
            parametrizations.weight_norm,
            lambda layer: parametrize.remove_parametrizations(layer, "weight"),
        ),
        "get_peft_model": (None, _adapted),
        "add_adapter": (None, _adapted),
        "quantize_": (None, _quantized),
        "prepare_qat": (None, lambda layer: quantization.prepare_qat(nn.Sequential(layer))),
        "prepare_qat in place": (None, lambda layer: quantization.prepare_qat(nn.Sequential(layer), inplace=True)),
        "spectral_norm": (None, parametrizations.spectral_norm),
        "orthogonal": (None, parametrizations.orthogonal),
        "prune": (None, lambda layer: pruning.identity(layer, "weight")),
    }
    if how not in ways:
        raise OutOfReach(f"no experiment with {how!r}")
    before, change = ways[how]
    return (before(model) if before else model), change


EXPERIMENT = Experiment(
    claim="an optimizer that is built before a utility replaces parameters does not hold the new ones",
    flagged=flagged,
    control=control,
    symptoms=(Sees("never trained"),),
    facts={"optimizer": "SGD", "momentum": 0.0, "how": "weight_norm", "added": False},
)


RULE = Rule(
    "DPL204", "optimizer-before-model-surgery", Severity.ERROR, PAGE, {OptimizerStale: check}, experiment=EXPERIMENT
)
