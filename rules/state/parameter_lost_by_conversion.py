"""A tensor computed from a Parameter is not a Parameter."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from operator import attrgetter, methodcaller
from typing import Any

from placement_lint.finding import Severity
from placement_lint.flow.api.torch_names import JOINS
from placement_lint.flow.domain.values import Symbol, describe
from placement_lint.flow.events.facts import place_fact
from placement_lint.flow.events.schema import ParameterLost
from placement_lint.probe.experiment import Experiment, Facts, OutOfReach, Raises, Sees
from placement_lint.replaying import claimed
from placement_lint.rewriting import converted_inside, made_parameter, safe
from placement_lint.rule import Note, Page, Problem, Replay, Rule

PAGE = Page(
    what="""\
Reports `self.x = nn.Parameter(...).to(device)`, `.cuda()`, `.double()`, `* 0.1`, `.view(...)` and the like. An
operation on a Parameter returns a plain tensor, which the module does not register.
""",
    why="""\
`Module.__setattr__` registers only an `nn.Parameter` (`torch/nn/modules/module.py`). The plain tensor is in
neither `parameters()` nor `state_dict()`: it is not trained, not saved and not moved. Nothing raises.

- `.to(device)`: with 0 GPUs it changes nothing and returns the Parameter itself, so the program trains. With
  1 GPU or more it returns a copy, and the same program leaves this parameter at its initial value.
- `.cuda()` is the same on a GPU and raises without one.
- `.double()`, `.clone()`, `.view(...)`, `.T`, `.detach()` and arithmetic return a plain tensor on every machine.

If the name already is a Parameter: `TypeError: cannot assign 'torch.FloatTensor' as parameter ...`.
""",
    example="""\
import torch
from torch import nn


class Scaled(nn.Module):
    def __init__(self, device):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(4)).to(device)

    def forward(self, x):
        return x * self.scale


device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = Scaled(device)
print(model(torch.randn(8, 4, device=device)).shape, len(list(model.parameters())))
""",
    instead="""\
import torch
from torch import nn


class Scaled(nn.Module):
    def __init__(self, device):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(4, device=device))

    def forward(self, x):
        return x * self.scale


device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = Scaled(device)
print(model(torch.randn(8, 4, device=device)).shape, len(list(model.parameters())))
""",
    silent="""\
- The conversion is inside: `nn.Parameter(t.to(device))`.
- `.requires_grad_(...)`, and `.float()`, `.contiguous()` or `.to("cpu")` of a Parameter that already has that
  property: they return the Parameter itself.
- The result is a local variable, is computed in `forward`, or is registered with `register_buffer`.
""",
    fix="""\
Apply the conversion to the tensor inside `nn.Parameter(...)`: `nn.Parameter(t.to(device))`. This is safe, and
offered for moves and floating types directly on `nn.Parameter(...)`. The parameter is trained and appears in
`state_dict` from then on, so checkpoints saved before lack its key. `nn.Parameter(t) * c` may become
`nn.Parameter(t * c)`: the same first value, but the factor no longer scales the gradient.
""",
)


def check(event: ParameterLost) -> Iterator[Problem]:
    lost = event.tensor.lost
    assert lost is not None
    how = f"`{lost.how}`" if lost.how.startswith(".") else lost.how
    place = event.tensor.place
    # `Tensor.to` returns the tensor itself if it is there already, or if the device is None.
    unless = f" unless it is already on {describe(place)}" if isinstance(place, Symbol) else ""
    if event.replaces:
        message = (
            f"{how} returns a plain tensor, and `{event.label}` is a Parameter: the assignment raises TypeError{unless}"
        )
    else:
        message = (
            f"{how} returns a plain tensor, which the module does not register, move, save or train: "
            f"`{event.label}` is not a Parameter{unless}"
        )
    yield Problem(
        event.node,
        message,
        (Note(lost.node, "the result is a plain tensor, not a Parameter"),),
        advice="apply it inside `nn.Parameter(…)`",
        rewrite=safe("convert the tensor", converted_inside(event.node, lost.node, event.tensor.created)),
        facts={
            "conversion": lost.how,
            "source": place_fact(lost.place),
            "target": place_fact(event.tensor.place),
            "replaces": event.replaces,
        },
        replay=Replay(
            watch=(claimed(event.node, f"isinstance({event.label}, torch.nn.Parameter)", "it is not a Parameter"),),
            repairs=(made_parameter(event.node),),
        ),
    )


def flagged(facts: Facts) -> str:
    import torch
    from torch import nn

    parameter = nn.Parameter(torch.ones(2, 2, device=facts["source"]))
    return _stored(_converted(parameter, facts), parameter if facts["replaces"] else None)


def control(facts: Facts) -> str:
    import torch
    from torch import nn

    parameter = nn.Parameter(_converted(torch.ones(2, 2, device=facts["source"]), facts))
    return _stored(parameter, parameter if facts["replaces"] else None)


def _converted(tensor: Any, facts: Facts) -> Any:
    how = facts["conversion"]
    if how in (".to(…)", ".cuda(…)", ".cpu(…)"):
        return tensor.to(facts["target"])
    if how not in CONVERSIONS:
        raise OutOfReach(f"no experiment for the conversion {how!r}")
    return CONVERSIONS[how](tensor)


def _stored(value: Any, before: Any) -> str:
    from torch import nn

    owner: Any = nn.Module()
    if before is not None:
        owner.value = before
    owner.value = value
    return f"it is {'a' if 'value' in owner.state_dict() else 'not a'} parameter of its module"


def _joined(name: str, tensor: Any) -> Any:
    import torch

    return getattr(torch, name)([tensor, tensor])


# By their names in the analysis. ``float`` and ``contiguous`` return the Parameter itself if it has that form already.
CONVERSIONS: dict[str, Callable[[Any], Any]] = {
    **{
        f".{name}()": methodcaller(name)
        for name in ("double", "half", "bfloat16", "float", "contiguous", "clone", "detach", "t", "abs", "exp", "sqrt")
    },
    **{f".{name}()": methodcaller(name, -1) for name in ("view", "reshape", "flatten", "squeeze", "unsqueeze")},
    **{f".{name}()": methodcaller(name, 2, 2) for name in ("expand", "repeat")},
    **{f".{name}()": methodcaller(name, 0, 1) for name in ("transpose", "permute", "swapaxes")},
    **{f".{name}()": methodcaller(name, 2) for name in ("add", "sub", "mul", "div", "pow", "clamp")},
    **{f".{name}": attrgetter(name) for name in ("T", "mT", "data")},
    **{f"`torch.{name}`": partial(_joined, name) for name in JOINS},
    **dict.fromkeys(("`+`", "`-`", "`*`", "`/`", "`@`", "`**`"), lambda tensor: tensor * 2),
    ".requires_grad_()": lambda tensor: tensor.requires_grad_(tensor.requires_grad),
    ".to(dtype)": methodcaller("double"),
    ".type(…)": methodcaller("double"),
    "negation": lambda tensor: -tensor,
    "indexing": lambda tensor: tensor[:1],
}

EXPERIMENT = Experiment(
    claim="an operation on a Parameter returns a plain tensor, which a module does not register",
    flagged=flagged,
    control=control,
    symptoms=(Sees("not a parameter"), Raises("TypeError", "as parameter")),
    facts={"conversion": ".to(…)", "source": "cpu", "target": "cuda", "replaces": False},
    gpus=1,
)


RULE = Rule(
    "DPL301", "parameter-lost-by-conversion", Severity.ERROR, PAGE, {ParameterLost: check}, experiment=EXPERIMENT
)
