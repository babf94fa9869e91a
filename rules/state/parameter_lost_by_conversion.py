"""What is computed from a Parameter is no Parameter."""

from __future__ import annotations

from collections.abc import Iterator

from placement_lint.finding import Severity
from placement_lint.flow.events import ParameterLost
from placement_lint.rule import Note, Page, Problem, Rule

PAGE = Page(
    what="""\
Reports `self.x = nn.Parameter(...).to(device)`, `.cuda()`, `.double()`, `* 0.1`, `.view(...)` and the like.
What is computed from a Parameter is a plain tensor, and the module does not register it.
""",
    why="""\
`Module.__setattr__` registers only an `nn.Parameter` (`torch/nn/modules/module.py`). The plain tensor is in
neither `parameters()` nor `state_dict()`: it is not trained, not saved and not moved. Nothing raises.

- `.to(device)`: with 0 GPUs it changes nothing and returns the Parameter itself, so the program trains. With
  1 GPU or more it returns a copy, and the same program leaves this parameter at its initial value.
- `.cuda()` is the same on a GPU and raises without one.
- `.double()`, `.clone()`, `.view(...)`, `.T`, `.detach()` and arithmetic lose the Parameter on every
  machine.

Where the name already is a Parameter: `TypeError: cannot assign 'torch.FloatTensor' as parameter ...`.
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
- `.requires_grad_(...)`, and `.float()`, `.contiguous()` or `.to("cpu")` of a Parameter that is so already:
  they return the Parameter itself.
- The result is a local variable, is computed in `forward`, or is registered with `register_buffer`.
""",
    fix="""\
Apply the conversion to the tensor inside `nn.Parameter(...)`. The parameter is trained and appears in
`state_dict` from then on, so checkpoints saved before lack its key. `nn.Parameter(t) * c` may become
`nn.Parameter(t * c)`: the same first value, but the factor no longer scales the gradient.
""",
)


def check(event: ParameterLost) -> Iterator[Problem]:
    lost = event.tensor.lost
    assert lost is not None
    yield Problem(
        event.node,
        f"`{event.label}` is not a Parameter: {lost.how} returns a plain tensor, which the module does not "
        "register, move, save or train",
        (Note(lost.node, "the Parameter becomes a plain tensor here"),),
        advice="apply it inside `nn.Parameter(…)`",
    )


RULE = Rule("DPL301", "parameter-lost-by-conversion", Severity.ERROR, PAGE, {ParameterLost: check})
