"""The README keeps up with the rules, and its commands are the ones that are run."""

from __future__ import annotations

import re
from pathlib import Path

from placement_lint import registry

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_table_lists_every_rule_that_is_on_by_default() -> None:
    listed = re.findall(r"^\| (DPL\d{3}) \| ([a-z0-9-]+) \|", README, re.MULTILINE)
    assert listed == [(rule.code, rule.name) for rule in registry.select((), ())]


def test_ci_runs_the_readmes_test_command() -> None:
    (command,) = re.findall(r"^pip install -e '\.\[test\]' && pytest$", README, re.MULTILINE)
    assert command in (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
