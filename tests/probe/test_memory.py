"""Verdicts are cached only as long as they are valid."""

from __future__ import annotations

from pathlib import Path

import pytest

from placement_lint.finding import Level, Outcome, Verdict
from placement_lint.probe import memory
from placement_lint.probe.devices import Ground
from placement_lint.probe.memory import Memory
from placement_lint.registry import find_rule

RULE, OTHER = find_rule("DPL401").experiment, find_rule("DPL501").experiment
GROUND = Ground("2 simulated GPUs", 2, {"device_ids": (0, 1)})
VERDICT = Verdict(Level.PATTERN, Outcome.REPRODUCED, "2 simulated GPUs, torch 2", "seen", "expected")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    kept = Memory(tmp_path / "folder" / "verdicts.json")
    kept.keep(RULE, GROUND, "2", VERDICT)
    kept.save()
    return kept.file


def test_a_verdict_comes_back(file: Path) -> None:
    assert Memory(file).recall(RULE, GROUND, "2") == VERDICT


def test_only_of_the_same_experiment_facts_device_and_version(file: Path) -> None:
    kept = Memory(file)
    assert kept.recall(OTHER, GROUND, "2") is None
    assert kept.recall(RULE, Ground(GROUND.name, 2, {"device_ids": (1, 0)}), "2") is None
    assert kept.recall(RULE, Ground("NVIDIA H200", None, GROUND.facts), "2") is None
    assert kept.recall(RULE, GROUND, "3") is None


def test_not_after_the_code_changed(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_source", lambda arm: "another text")
    assert Memory(file).recall(RULE, GROUND, "2") is None


def test_what_was_inconclusive_is_tried_again(tmp_path: Path) -> None:
    kept = Memory(tmp_path / "verdicts.json")
    kept.keep(RULE, GROUND, "2", Verdict(Level.PATTERN, Outcome.INCONCLUSIVE, "d", "o", "e"))
    kept.save()
    assert not kept.file.exists()


@pytest.mark.parametrize("content", ["", "[]", "{", "\x00", '{"a": 1}'])
def test_a_spoilt_file_is_an_empty_one(content: str, file: Path) -> None:
    file.write_text(content, encoding="utf-8")
    assert Memory(file).recall(RULE, GROUND, "2") is None


@pytest.mark.parametrize("entry", [1, [], ["reproduced"], ["sure", "a", "b", "c"], None])
def test_a_spoilt_entry_is_none(entry: object, file: Path) -> None:
    kept = Memory(file)
    kept.entries = dict.fromkeys(kept.entries, entry)  # type: ignore[arg-type]
    assert kept.recall(RULE, GROUND, "2") is None


def test_a_pattern_that_an_earlier_version_called_confirmed_is_probed_again(file: Path) -> None:
    kept = Memory(file)
    kept.entries = {key: ["confirmed", *entry[1:]] for key, entry in kept.entries.items()}
    assert kept.recall(RULE, GROUND, "2") is None


def test_it_stays_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "MOST_ENTRIES", 3)
    kept = Memory(tmp_path / "verdicts.json")
    for torch in "12345":
        kept.keep(RULE, GROUND, torch, VERDICT)
    kept.save()
    assert len(Memory(kept.file).entries) == 3
    assert Memory(kept.file).recall(RULE, GROUND, "5") == VERDICT


def test_without_a_place_nothing_is_kept(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    kept = Memory(tmp_path / "file" / "verdicts.json")
    kept.keep(RULE, GROUND, "2", VERDICT)
    kept.save()
