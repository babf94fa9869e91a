"""Placement rules of Acme."""

from collections.abc import Iterator

from placement_lint.finding import Severity
from placement_lint.flow.events.schema import OptimizerStale
from placement_lint.rule import Page, Problem, Rule

PAGE = Page(
    what="""\
Reports a layer that is replaced after the optimizer was built, and names the function of Acme's library that does both
in the right order.
""",
    why="""\
The optimizer keeps the parameters of the old layer, so the new one is never trained. `acme.finetune.replace_head`
builds the optimizer afterwards.
""",
    example="""\
import torch
from torch import nn

model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model[1] = nn.Linear(8, 5)
model(torch.randn(4, 8)).sum().backward()
optimizer.step()
""",
    instead="""\
import torch
from torch import nn

model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 2))
model[1] = nn.Linear(8, 5)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model(torch.randn(4, 8)).sum().backward()
optimizer.step()
""",
    silent="The optimizer is built after the replacement.",
    fix="Call `acme.finetune.replace_head`.",
)


def check(event: OptimizerStale) -> Iterator[Problem]:
    yield Problem(
        event.node,
        f"`{event.replaced}` is replaced after its optimizer was built, which never trains the new layer",
        trace=(event.built, event.stepped),
        advice="call `acme.finetune.replace_head`",
    )


RULES = [Rule("ACME001", "replace-head-by-hand", Severity.ERROR, PAGE, {OptimizerStale: check}, since="1.0.0")]
