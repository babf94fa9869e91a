"""What the two arms did, and what follows from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from placement_lint.finding import Level, Outcome, Verdict
from placement_lint.probe.experiment import Experiment, Raises, Symptom

HOLLOWED = "the values of large tensors"  # which have stand-ins where there is no time to compute them
LONGEST = 160  # characters of a message that are shown


@dataclass(frozen=True)
class Sight:
    """What was seen of one arm.

    ``kinds`` are the classes of the exception that it raised, most derived first; ``unable`` says why it could not be
    run. With neither it ran to its end.
    """

    text: str = ""
    kinds: tuple[str, ...] = ()
    unable: str = ""

    @classmethod
    def of(cls, answer: Mapping[str, Any]) -> Sight:
        """From a worker's answer."""
        if "unable" in answer:
            return cls(unable=str(answer["unable"]))
        if "raised" in answer:
            return cls(str(answer["message"]), tuple(answer["raised"]))
        return cls(str(answer["saw"] or ""))

    def shows(self, symptom: Symptom) -> bool:
        if isinstance(symptom, Raises):
            return symptom.kind in self.kinds and symptom.words in self.text
        return not self.kinds and not self.unable and symptom.words in self.text

    def __str__(self) -> str:
        if self.unable:
            return f"could not be run: {self.unable}"
        if self.kinds:
            return f"{self.kinds[0]}: {_gist(self.text)}" if self.text else self.kinds[0]
        return self.text or "no error"


@dataclass(frozen=True)
class Trial:
    """An experiment that was carried out, or the reason why it was not."""

    verdict: Verdict
    flagged: str
    control: str

    @classmethod
    def not_run(cls, device: str, reason: str, expected: str) -> Trial:
        verdict = Verdict(Level.PATTERN, Outcome.INCONCLUSIVE, device, reason, expected)
        return cls(verdict, f"not run: {reason}", "not run")


def judge(experiment: Experiment, flagged: Sight, control: Sight, device: str) -> Trial:
    """The pattern is reproduced if only the flagged arm shows the symptom, refuted if the flagged arm does not."""
    outcome, reason = _outcome(experiment, flagged, control)
    observed = reason or f"{flagged}; repaired: {control}"
    verdict = Verdict(Level.PATTERN, outcome, device, observed, expected(experiment))
    return Trial(verdict, str(flagged), str(control))


def expected(experiment: Experiment) -> str:
    return " or ".join(map(str, experiment.symptoms))


def _outcome(experiment: Experiment, flagged: Sight, control: Sight) -> tuple[Outcome, str]:
    def shown(arm: Sight) -> bool:
        return any(arm.shows(symptom) for symptom in experiment.symptoms)

    if flagged.unable or control.unable:
        arm, sight = ("flagged", flagged) if flagged.unable else ("repaired", control)
        return Outcome.INCONCLUSIVE, f"the {arm} arm {sight}"
    if not shown(flagged):
        if flagged.kinds:
            return Outcome.INCONCLUSIVE, f"the flagged code fails with another error: {flagged}"
        return Outcome.REFUTED, ""
    if shown(control):
        return Outcome.INCONCLUSIVE, f"the repaired code shows the symptom as well: {control}"
    if control.kinds:
        return Outcome.INCONCLUSIVE, f"the repaired code fails as well: {control}"
    return Outcome.REPRODUCED, ""


def _gist(message: str) -> str:
    """The first line of a message; of one that a DataParallel thread passed on, the last as well."""
    lines = [line.strip() for line in message.splitlines() if line.strip()] or [""]
    gist = lines[0]
    if gist.startswith("Caught ") and len(lines) > 1:
        gist = f"{gist} {lines[-1]}"
    return gist if len(gist) <= LONGEST else gist[: LONGEST - 1] + "…"
