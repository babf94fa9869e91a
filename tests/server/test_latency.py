"""Loose bounds on the results of ``measure_latency.py``: they hold on busy machines and catch regressions."""

from __future__ import annotations

from pathlib import Path

import measure_latency
import pytest
from training_file import training_file

pytestmark = [pytest.mark.asyncio, pytest.mark.slow]


async def test_first_diagnostics(tmp_path: Path) -> None:
    assert await measure_latency.first_diagnostics(tmp_path) < 20


async def test_a_keystroke_costs_a_few_times_the_parse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure_latency, "KEYSTROKES", 8)
    text = training_file(600)
    before = measure_latency.parse_seconds(text)
    wait = await measure_latency.in_one_file(tmp_path, text)
    assert wait < 20 * max(before, measure_latency.parse_seconds(text))


async def test_memory_does_not_grow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure_latency, "EDITS", 100)
    for resident in await measure_latency.memory(tmp_path, training_file(60)):
        assert resident[-1] < resident[3] * 1.2
