"""Experiment and facts in, verdict out."""

from __future__ import annotations

from importlib.metadata import version

from placement_lint.finding import Verdict
from placement_lint.probe.devices import GPU, SIMULATED, Ground, TooFew, choose, real_name
from placement_lint.probe.experiment import Arm, Experiment, Facts
from placement_lint.probe.memory import Memory
from placement_lint.probe.sandbox import ArmLost, Inventory, Sandbox
from placement_lint.probe.verdicts import Sight, Trial, expected, judge


class Prober:
    """Carries out experiments in a sandbox; with a memory, none twice."""

    def __init__(self, mode: str, sandbox: Sandbox, memory: Memory | None = None) -> None:
        self.mode = mode
        self.sandbox = sandbox
        self.memory = memory

    @property
    def found(self) -> Inventory:
        """This machine; where everything is simulated, nothing has to be started to know it."""
        return Inventory(version("torch"), ()) if self.mode == SIMULATED else self.sandbox.inventory

    @property
    def device(self) -> str:
        """What there is to run on."""
        if self.mode == GPU:
            return real_name(self.found)
        return real_name(self.found) if self.found.gpus else "simulated GPUs"

    def verdict(self, experiment: Experiment, facts: Facts) -> Verdict:
        """The verdict on the pattern with these facts; a remembered verdict needs no process."""
        ground = self._ground(experiment, facts)
        if isinstance(ground, Trial):
            return ground.verdict
        known = self.memory.recall(experiment, ground, self.found.torch) if self.memory else None
        if known is None:
            known = self._carried_out(experiment, ground).verdict
            if self.memory:
                self.memory.keep(experiment, ground, self.found.torch, known)
        return known

    def trial(self, experiment: Experiment, facts: Facts) -> Trial:
        """The same without the cache, with the observation of each arm."""
        ground = self._ground(experiment, facts)
        return ground if isinstance(ground, Trial) else self._carried_out(experiment, ground)

    def _ground(self, experiment: Experiment, facts: Facts) -> Ground | Trial:
        try:
            return choose(self.mode, experiment, experiment.completed(facts), self.found)
        except TooFew as reason:
            return Trial.not_run(self.mode, str(reason), expected(experiment))

    def _carried_out(self, experiment: Experiment, ground: Ground) -> Trial:
        flagged = self._sight(experiment.flagged, ground)
        control = self._sight(experiment.control, ground)
        return judge(experiment, flagged, control, f"{ground.name}, torch {self.found.torch}")

    def _sight(self, arm: Arm, ground: Ground) -> Sight:
        try:
            return Sight.of(self.sandbox.run(arm, ground.facts, ground.simulate, ground.kind))
        except ArmLost as reason:
            return Sight(unable=str(reason))
