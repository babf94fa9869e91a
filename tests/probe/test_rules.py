"""The pattern of every rule is reproduced, and all folklore refuted, on simulated GPUs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from placement_lint.finding import Level, Outcome
from placement_lint.registry import all_rules, family_name
from placement_lint.rule import Rule

PROVED = [rule for rule in all_rules() if rule.experiment is not None]
RECORD = json.loads((Path(__file__).parents[2] / "docs" / "experiments.json").read_text(encoding="utf-8"))
RECORDED = {row["code"]: row for row in RECORD["rows"]}
by_name = pytest.mark.parametrize("rule", PROVED, ids=lambda rule: rule.name)


@by_name
def test_the_experiment_comes_out_as_the_rule_says(rule: Rule, probe) -> None:
    trial = probe(rule.code)
    expected = Outcome.REFUTED if family_name(rule) == "folklore" else Outcome.REPRODUCED
    assert trial.verdict.outcome is expected, trial.verdict.observed
    assert rule.experiment is not None
    assert rule.experiment.expects is expected


@pytest.mark.skipif(torch.__version__ != RECORD["torch"], reason="the record is of another version of PyTorch")
@by_name
def test_the_documentation_records_what_the_experiment_shows(rule: Rule, probe) -> None:
    trial, row = probe(rule.code), RECORDED[rule.code]
    assert rule.experiment is not None
    assert (rule.experiment.claim, trial.flagged, trial.control) == (row["claim"], row["flagged"], row["control"])


@by_name
def test_a_verdict_says_where_and_what(rule: Rule, probe) -> None:
    verdict = probe(rule.code).verdict
    assert verdict.level is Level.PATTERN
    where = "1 simulated MPS device" if rule.code == "DPL509" else "2 simulated GPUs"
    assert verdict.device.startswith(f"{where}, torch ")
    assert "; repaired: " in verdict.observed
    assert verdict.expected


def test_folklore_is_off_by_default() -> None:
    folklore = [rule for rule in all_rules() if family_name(rule) == "folklore"]
    assert [rule.code for rule in folklore] == [f"DPL90{number}" for number in range(1, 7)]
    assert not any(rule.default for rule in folklore)
