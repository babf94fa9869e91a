"""Where an experiment runs: on real GPUs where there are enough, on one where the pattern allows, else simulated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from placement_lint.probe.experiment import CUDA, Experiment, Facts
from placement_lint.probe.sandbox import Inventory

AUTO, SIMULATED, GPU = "auto", "simulated", "gpu"
MODES = (AUTO, SIMULATED, GPU)
MOST_SIMULATED = 16


@dataclass(frozen=True)
class Ground:
    """``simulate`` is how many GPUs of this ``kind`` are simulated, None for the machine as it is; ``facts`` fit it."""

    name: str
    simulate: int | None
    facts: Facts = field(default_factory=dict, hash=False)
    kind: str = CUDA


class TooFew(Exception):
    """There are not the GPUs that the facts need."""


def choose(mode: str, experiment: Experiment, facts: Facts, found: Inventory) -> Ground:
    """The ground for an experiment; ``found`` says what this machine has."""
    kind = experiment.kind_for(facts)
    if kind != CUDA:
        return of_kind(mode, kind, facts)
    needed, real = experiment.gpus_for(facts), len(found.gpus)
    if mode != SIMULATED:
        if needed <= real:
            return Ground(real_name(found), None, facts)
        alone = experiment.on_one_gpu(facts) if real == 1 else None
        if alone is not None:
            return Ground(real_name(found), None, alone)
    if mode == GPU:
        raise TooFew(f"needs {counted(needed)}, found {real}")
    if needed > MOST_SIMULATED:
        raise TooFew(f"needs {counted(needed)}, and at most {MOST_SIMULATED} are simulated")
    count = max(needed, 2)
    return Ground(simulated_name(count), count, facts)


def of_kind(mode: str, kind: str, facts: Facts | None = None) -> Ground:
    """One GPU of another kind than CUDA's."""
    if mode == GPU:
        raise TooFew(f"needs an {kind.upper()} device")
    return Ground(f"1 simulated {kind.upper()} device", 1, facts or {}, kind)


def grounds(mode: str, counts: Sequence[int], found: Inventory) -> list[Ground]:
    """Where a program may run that shows its fault with any of these numbers of GPUs; the real ones first.

    A program sees all GPUs that there are, and so only a number that fits exactly is right, or two and more for more.
    """
    real = len(found.gpus)
    fitting = [count for count in counts if count == real > 0 or (count > 1 and real >= count)]
    if mode == GPU:
        if not fitting:
            raise TooFew(f"needs {' or '.join(map(counted, counts))}, found {real}")
        return [Ground(real_name(found), None)]
    if mode == AUTO and fitting:
        return [Ground(real_name(found), None)]
    if min(counts) > MOST_SIMULATED:
        raise TooFew(f"needs {counted(min(counts))}, and at most {MOST_SIMULATED} are simulated")
    return [Ground(simulated_name(count), count) for count in counts if count <= MOST_SIMULATED]


def simulated_name(count: int) -> str:
    if count == 0:
        return "a simulated machine without a GPU"
    return "1 simulated GPU" if count == 1 else f"{count} simulated GPUs"


def real_name(found: Inventory) -> str:
    """``2 × NVIDIA H200``, or ``CPU``."""
    names = Counter(found.gpus)
    return ", ".join(name if count == 1 else f"{count} × {name}" for name, count in names.items()) or "CPU"


def counted(number: int) -> str:
    return "1 GPU" if number == 1 else f"{number} GPUs"
