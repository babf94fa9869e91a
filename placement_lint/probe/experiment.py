"""What an experiment is: a claim, two arms built from facts, and the symptom that tells them apart.

Plain data, so that a rule can carry its experiment without importing PyTorch.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from placement_lint.finding import Outcome

Facts = Mapping[str, Any]
"""What is known of a finding, by name: numbers, strings, booleans, None and lists of these; never code."""

Arm = Callable[[Facts], "str | None"]
"""Builds the pattern from facts and runs it; it raises, or says what is to be seen, or neither.

It is a function at the top of a module, found there by name in the process that runs it, and imports PyTorch
within its body.
"""

CUDA = "cuda"
OTHER_KINDS = ("mps", "xpu")
"""Kinds of GPU that are always simulated."""

CARD = re.compile(r"cuda:(\d{1,2})")


class OutOfReach(Exception):
    """The facts ask for something that the experiment does not know how to build."""


@dataclass(frozen=True)
class Raises:
    """An exception of this type, or one derived from it, with these words in its message."""

    kind: str
    words: str = ""

    def __str__(self) -> str:
        return f"{self.kind}: …{self.words}…" if self.words else self.kind


@dataclass(frozen=True)
class Sees:
    """Nothing raises, and this is in what the arm says of itself."""

    words: str

    def __str__(self) -> str:
        return self.words


Symptom = Raises | Sees


@dataclass(frozen=True)
class Experiment:
    """``symptoms`` are the ways in which the one fault shows, depending on the facts.

    ``facts`` are those of the rule's own demonstration, and complete a finding's where the analysis does not know.
    ``gpus`` is how many GPUs the pattern takes in itself. ``one_gpu`` are facts to change where there is only one,
    as ``device_ids=[0, 0]``, which makes two replicas of one card; None where the pattern cannot do with less.
    ``harmless_on`` is the number of GPUs on which a program is right as it is: the control of a replay where there is
    no way to write the program otherwise.
    ``expects`` is what the rule itself says will come out: of folklore, that it is refuted.
    """

    claim: str
    flagged: Arm
    control: Arm
    symptoms: tuple[Symptom, ...]
    facts: Facts = field(default_factory=dict)
    gpus: int = 0
    one_gpu: Facts | None = None
    harmless_on: int | None = None
    expects: Outcome = Outcome.REPRODUCED

    def completed(self, facts: Facts) -> Facts:
        """A finding's facts, and the demonstration's where it has none."""
        return {**self.facts, **facts}

    def gpus_for(self, facts: Facts) -> int:
        """How many GPUs it takes with these facts: as many as the highest index they name asks for."""
        return max([self.gpus, *(index + 1 for index in _cards(facts))])

    def kind_for(self, facts: Facts) -> str:
        """The kind of GPU it takes: CUDA's, unless a fact names another one."""
        named = {value.partition(":")[0] for value in facts.values() if isinstance(value, str)}
        return next((kind for kind in OTHER_KINDS if kind in named), CUDA)

    def on_one_gpu(self, facts: Facts) -> Facts | None:
        """The facts changed so that a single GPU is enough; None where that cannot be."""
        if self.one_gpu is None:
            return None
        changed = {**facts, **self.one_gpu}
        return changed if max(_cards(changed), default=0) == 0 else None


def _cards(facts: Facts) -> Iterator[int]:
    ids = facts.get("device_ids")
    listed = ids if isinstance(ids, (list, tuple)) else ()
    yield from (one for one in listed if isinstance(one, int))
    for value in (*facts.values(), *listed):
        if isinstance(value, str) and (card := CARD.fullmatch(value)):
            yield int(card[1])


MIXED_DEVICES: tuple[Symptom, ...] = (
    Raises("RuntimeError", "same device"),
    Raises("RuntimeError", "should be the same"),
    Raises("RuntimeError", "indices should be either on"),
    Raises("RuntimeError", "too many CPU scalars"),
    Raises("RuntimeError", "for value tensor"),
    # linear layers, products of matrices, and other kernels for MPS
    Raises("RuntimeError", "expected on mps"),
    Raises("RuntimeError", "expected it to be on GPU"),
    Raises("RuntimeError", "has not been allocated on MPS device"),
)
"""How PyTorch refuses operands of different devices."""
