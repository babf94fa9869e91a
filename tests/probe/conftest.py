"""One sandbox for all tests: PyTorch is imported once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext

import pytest

from placement_lint.probe.prober import Prober
from placement_lint.probe.sandbox import Sandbox
from placement_lint.probe.verdicts import Trial
from placement_lint.registry import find_rule

pytest.importorskip("torch", reason="probes need PyTorch")

Probe = Callable[..., Trial]


@pytest.fixture(scope="session")
def prober() -> Iterator[Prober]:
    with Sandbox() as sandbox:
        yield Prober("simulated", sandbox)


@pytest.fixture(scope="session")
def probe(prober: Prober) -> Probe:
    """Carry out a rule's experiment with some facts of its demonstration changed."""

    def carry_out(rule: str, **facts: object) -> Trial:
        experiment = find_rule(rule).experiment
        assert experiment is not None
        return prober.trial(experiment, facts)

    return carry_out


@pytest.fixture
def one_sandbox(prober: Prober, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands use the sandbox of all tests instead of starting their own."""
    for room in ("findings", "table"):
        monkeypatch.setattr(f"placement_lint.probe.{room}.Sandbox", lambda: nullcontext(prober.sandbox))
