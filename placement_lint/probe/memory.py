"""Verdicts of earlier pattern probes, in a small file of the user's cache folder.

An entry holds for one experiment with its facts, on one kind of device, under one version of PyTorch and of the code
that carries experiments out. What was inconclusive is tried again.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

from platformdirs import user_cache_path

from placement_lint import writing
from placement_lint.finding import Level, Outcome, Verdict
from placement_lint.probe.devices import Ground
from placement_lint.probe.experiment import Experiment

MOST_ENTRIES = 2000
FOLDER = Path(__file__).parent.parent
ROOMS = ("probe", "simulate")


class Memory:
    """Used in three steps: recalled from, added to, saved."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.entries: dict[str, list[str]] = _read(file)
        self.changed = False

    @classmethod
    def of_user(cls) -> Memory:
        return cls(user_cache_path("placement-lint") / "verdicts.json")

    def recall(self, experiment: Experiment, ground: Ground, torch: str) -> Verdict | None:
        entry = self.entries.get(_key(experiment, ground, torch))
        try:
            return None if entry is None else Verdict(Level.PATTERN, Outcome(entry[0]), *entry[1:])
        except (TypeError, ValueError, IndexError):  # not written by us, or by an earlier version
            return None

    def keep(self, experiment: Experiment, ground: Ground, torch: str, verdict: Verdict) -> None:
        if verdict.outcome is not Outcome.INCONCLUSIVE:
            entry = [verdict.outcome.value, verdict.device, verdict.observed, verdict.expected]
            self.entries[_key(experiment, ground, torch)] = entry
            self.changed = True

    def save(self) -> None:
        """Write the newest entries, all at once or not at all; without a place to write to, nothing is kept."""
        if not self.changed:
            return
        kept = dict(list(self.entries.items())[-MOST_ENTRIES:])
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            writing.write(self.file, json.dumps(kept).encode(), durable=False)
        except OSError:
            pass


def _read(file: Path) -> dict[str, list[str]]:
    try:
        entries = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return entries if isinstance(entries, dict) else {}


def _key(experiment: Experiment, ground: Ground, torch: str) -> str:
    arms = [f"{arm.__module__}:{arm.__qualname__}" for arm in (experiment.flagged, experiment.control)]
    machine = (ground.simulate, ground.kind, ground.name, torch)
    told = json.dumps([arms, ground.facts, *machine], sort_keys=True, default=str)
    digest = hashlib.sha256(told.encode())
    digest.update(_apparatus().encode())
    digest.update(_source(experiment.flagged).encode())
    return digest.hexdigest()


@cache
def _apparatus() -> str:
    """A digest of the code with which experiments are carried out."""
    digest = hashlib.sha256(sys.version.encode())
    for room in ROOMS:
        for file in sorted((FOLDER / room).glob("*.py")):
            digest.update(file.read_bytes())
    return digest.hexdigest()


@cache
def _source(arm: Callable[..., object]) -> str:
    """A digest of the file in which an arm is written."""
    file = getattr(sys.modules.get(arm.__module__), "__file__", None)
    return hashlib.sha256(Path(file).read_bytes()).hexdigest() if file else ""
