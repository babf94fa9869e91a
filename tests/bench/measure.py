"""Runs a command and measures its cost."""

from __future__ import annotations

import os
import statistics
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Cost:
    """Wall-clock seconds, processor seconds of all processes, and MiB of the largest process."""

    wall: float
    cpu: float
    peak: float


@dataclass
class Costs:
    """The costs of several runs of one command."""

    runs: list[Cost] = field(default_factory=list)

    @property
    def wall(self) -> float:
        return statistics.median(cost.wall for cost in self.runs)

    @property
    def cpu(self) -> float:
        return statistics.median(cost.cpu for cost in self.runs)

    @property
    def peak(self) -> float:
        return max(cost.peak for cost in self.runs)


def cost_of(command: Sequence[str], environment: Mapping[str, str]) -> Cost:
    """Run a command to its end; its output is discarded, and findings are not an error."""
    begun = time.perf_counter()
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env={**os.environ, **environment}
    )
    assert process.stderr is not None
    complaint = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode < 0 or b"Traceback" in complaint:
        raise RuntimeError(f"{' '.join(command)} failed:\n{complaint.decode(errors='replace')[-2000:]}")
    return Cost(time.perf_counter() - begun, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)
