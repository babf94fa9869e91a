"""How rules are heard: weighed, confined when they crash, and kept away from the syntax tree."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import libcst as cst
import placement_lint.rules

from placement_lint.finding import Severity
from placement_lint.flow.events import DevicesMixed
from placement_lint.listen import problems_in
from placement_lint.rule import Page, Problem, Rule

PROGRAM = cst.parse_module("import torch\nx = torch.ones(3) + torch.ones(3).cuda()\n")
PAGE = Page("what", "why", "", "", "silent")


def _raises(event: DevicesMixed) -> Iterator[Problem]:
    raise LookupError("a rule with a bug")
    yield


def _reports(event: DevicesMixed) -> Iterator[Problem]:
    yield Problem(event.node, "devices are mixed", advice="do not")


BROKEN = Rule("DPL998", "broken", Severity.ERROR, PAGE, {DevicesMixed: _raises})
SOUND = Rule("DPL999", "sound", Severity.ERROR, PAGE, {DevicesMixed: _reports})


def test_a_crash_is_confined_to_its_rule() -> None:
    hearing = problems_in(PROGRAM, (BROKEN, SOUND))
    assert [(rule, type(error)) for rule, error in hearing.crashes] == [(BROKEN, LookupError)]
    assert [(rule, problem.message) for rule, problem in hearing.problems] == [(SOUND, "devices are mixed; do not")]


def test_rules_read_events_and_walk_no_tree() -> None:
    folder = Path(next(iter(placement_lint.rules.__path__)))
    for source in folder.rglob("*.py"):
        assert "libcst" not in source.read_text(encoding="utf-8"), f"{source} handles syntax"
