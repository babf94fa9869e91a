"""A single sandbox for all tests, so that PyTorch is imported once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext

import pytest

from placement_lint.probe import confinement
from placement_lint.probe.prober import Prober
from placement_lint.probe.sandbox import Sandbox
from placement_lint.probe.verdicts import Trial
from placement_lint.registry import find_rule

pytest.importorskip("torch", reason="probes need PyTorch")

Probe = Callable[..., Trial]


@pytest.fixture(scope="session")
def prober() -> Iterator[Prober]:
    with Sandbox(confining=confinement.missing() is None) as sandbox:
        yield Prober("simulated", sandbox)


@pytest.fixture(scope="session")
def unconfined() -> Iterator[Sandbox]:
    with Sandbox(confining=False) as sandbox:
        yield sandbox


@pytest.fixture(scope="session")
def probe(prober: Prober) -> Probe:
    """Carry out a rule's experiment with some facts of its demonstration changed."""

    def carry_out(rule: str, **facts: object) -> Trial:
        experiment = find_rule(rule).experiment
        assert experiment is not None
        return prober.trial(experiment, facts)

    return carry_out


@pytest.fixture
def one_sandbox(prober: Prober, unconfined: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands use the sandboxes of all tests instead of starting their own."""

    def shared(confining: bool = True) -> AbstractContextManager[Sandbox]:
        return nullcontext(prober.sandbox if confining else unconfined)

    for room in ("findings", "table"):
        monkeypatch.setattr(f"placement_lint.probe.{room}.Sandbox", shared)
