"""DPL004: answers to a program's calls of ``reveal_placement``."""

from __future__ import annotations

from collections.abc import Iterator

from placement_lint.finding import Severity
from placement_lint.flow.events.schema import Revealed
from placement_lint.rule import Page, Problem, Rule


def check(event: Revealed) -> Iterator[Problem]:
    yield Problem(event.node, f"`{event.label}`: {event.known}" if event.label else event.known)


RULE = Rule(
    code="DPL004",
    name="revealed-placement",
    severity=Severity.INFO,
    page=Page(
        what=(
            "Reports what the analysis knows of the argument of `placement_lint.reveal_placement(value)`: "
            "what it is, on which device, and under which condition."
        ),
        why=(
            "It answers why a finding is reported, or is missing, as `reveal_type` does in type checkers. "
            "At run time the function returns its argument and does nothing else."
        ),
        example=(
            "import torch\n"
            "from placement_lint import reveal_placement\n\n"
            'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")\n'
            "x = torch.zeros(2).to(device)\n"
            "reveal_placement(x)\n"
        ),
        instead=(
            "import torch\n\n"
            'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")\n'
            "x = torch.zeros(2).to(device)\n"
        ),
        silent="No analysed path leads to the call. `placement-lint debug FILE:LINE` says why.",
        fix="Remove the call.",
    ),
    listens={Revealed: check},
)

RULES = (RULE,)
