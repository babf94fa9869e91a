"""The programs of the fixtures show their findings exactly on the machines that the conditions name.

Each runs on simulated machines with no, 1, 2 and 4 GPUs, with its other findings repaired, and a finding for another
accelerator on a Mac and with an Intel GPU as well. A run takes one share of the fixtures, another one each day;
``SHARE=all`` takes them all (see ``shares.py``).
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

import pytest
import shares
from replaying import FIXTURES, cases_in, roots_of

from placement_lint.finding import Finding, When
from placement_lint.flow.domain.path_condition import MANY_GPUS, NO_GPU, ONE_GPU
from placement_lint.probe.devices import SIMULATED, Ground, of_kind, simulated_name
from placement_lint.probe.experiment import CUDA, OTHER_KINDS
from placement_lint.probe.prober import Prober
from placement_lint.probe.replay import Case, Piece, Played, Replayer, _failure, _shows
from placement_lint.probe.sandbox import Sandbox
from placement_lint.rule import ALONE

MACHINES = {0: NO_GPU, 1: ONE_GPU, 2: MANY_GPUS, 4: MANY_GPUS}
# The decision that only a machine with another accelerator takes.
DECISIONS = {
    "mps": "when `torch.backends.mps.is_available()` is true",
    "xpu": "when `torch.xpu.is_available()` is true",
}
MOST_PIECES = 4
WORKERS = 2
SHOWN = 0.9  # of the findings show on some machine; the others say why not

FEW = 2  # more, as a share may be small
# Why a program may show its finding on no machine at all.
REASONS = (
    "it needs a package: No module named",
    "` is not reached",
    "it fails with another error at `",
    "nothing in this file calls the reported code",
    "it does not fail here, but may fail elsewhere",
    "a replay shows nothing",
)


@dataclass
class Seen:
    """A finding and the machines on which its program shows it, goes through its line, or does neither."""

    finding: Finding
    # the minimum number of GPUs, if there are any, by what the program names
    fewest: int
    shown: list[Ground] = field(default_factory=list)
    right: list[Ground] = field(default_factory=list)
    otherwise: dict[Ground, str] = field(default_factory=dict)

    @property
    def when(self) -> When:
        assert self.finding.when is not None
        return self.finding.when

    @property
    def place(self) -> str:
        return f"{Path(self.finding.path).relative_to(FIXTURES)}:{self.finding.range.line} {self.finding.name}"

    @property
    def reason(self) -> str:
        """Why nothing is shown, on the last machine."""
        return list(self.otherwise.values())[-1] if self.otherwise else "a replay shows nothing"

    @property
    def accelerators(self) -> set[str]:
        """Those other than CUDA that the program must find."""
        return {kind for kind, decision in DECISIONS.items() if decision in self.when.decision}

    @property
    def machines(self) -> list[Ground]:
        counts = sorted({*MACHINES, self.fewest})
        others = [of_kind(SIMULATED, kind) for kind in OTHER_KINDS] if self.accelerators else []
        return [*(Ground(simulated_name(count), count) for count in counts), *others]

    def is_named(self, ground: Ground) -> bool:
        if ground.kind != CUDA or self.accelerators:
            return ground.kind in self.accelerators
        return bool(self.when.machines & MACHINES.get(ground.simulate, MANY_GPUS))

    def is_due(self, ground: Ground) -> bool:
        """Whether a machine that is named has to show it."""
        if ground.kind != CUDA:
            return self.when.decision == DECISIONS[ground.kind]
        # With fewer GPUs than processes it may show, if the processes need none.
        if 0 < ground.simulate < self.fewest:
            return False
        # Where no machine is named, its line may not be reached; and the program may not decide as it has to.
        return bool(self.when.where) or (ground in self.right and not self.when.decision)

    def mistakes(self) -> Iterator[str]:
        """What contradicts the condition of a finding that shows somewhere, or goes through everywhere."""
        for ground in (*self.shown, *self.right, *(self.otherwise if self.shown else ())):
            if ground in self.shown and not self.is_named(ground):
                yield f"it shows on {ground.name}"
            elif ground not in self.shown and self.is_named(ground) and self.is_due(ground):
                yield f"it does not show on {ground.name}: {self.otherwise.get(ground, 'no error')}"


def seen_of(replayer: Replayer, case: Case, seen: Seen) -> Seen:
    """The same with what the first piece of the program shows that shows the finding at all."""
    tried = []
    for piece in islice(_whole_first(case), MOST_PIECES):
        script, tried = case.scripted(piece), [*tried, replace(seen, shown=[], right=[], otherwise={})]
        for ground in seen.machines:
            _note(tried[-1], ground, case, replayer._played(script, ground))
        if tried[-1].shown:
            return tried[-1]
    return tried[0]


def _whole_first(case: Case) -> list[Piece]:
    *_, whole = case.wholes()
    parts = [piece for piece in case.parts() if piece.mended]
    return [whole, *sorted(parts, key=lambda piece: ("program", "slice").index(piece.name) if not piece.entry else 2)]


def _note(seen: Seen, ground: Ground, case: Case, played: Played) -> None:
    if _shows(case, played):
        seen.shown.append(ground)
    elif played.is_right and case.replay.right:
        seen.right.append(ground)
    else:
        seen.otherwise[ground] = _failure(case, played)


def fewest_gpus(case: Case) -> int:
    """How many GPUs there have to be, if any: as many as processes, and as the program names one by one."""
    named = case.experiment.gpus_for(case.experiment.completed(case.problem.facts))
    crew = case.replay.crew
    processes = crew.ranks // crew.nodes if crew != ALONE else 0
    return max(case.replay.gpus or 0, processes, named if named > 2 else 0)


def looked_at(paths: list[Path]) -> list[Seen]:
    told = []
    with Sandbox() as sandbox:
        for path in paths:
            replayer = Replayer(Prober("simulated", sandbox), roots_of(path))
            for finding, case in cases_in(path.read_text(encoding="utf-8"), str(path)):
                if finding.when is not None and finding.when.words:
                    seen = Seen(finding, fewest_gpus(case))
                    told.append(seen_of(replayer, case, seen) if case.is_visible else seen)
    return told


@pytest.mark.slow
def test_findings_show_on_the_machines_that_they_name(capsys: pytest.CaptureFixture[str]) -> None:
    files = [path for path in sorted(FIXTURES.rglob("*.py")) if shares.runs(path.relative_to(FIXTURES).as_posix())]
    paths = [path for path in files if "# want:" in path.read_text(encoding="utf-8")]
    # Not threads: in Python 3.11 two that parse at the same time may fail with a SystemError.
    with ProcessPoolExecutor(WORKERS) as pool:
        parts = pool.map(looked_at, [paths[number::WORKERS] for number in range(WORKERS)])
        told = [seen for part in parts for seen in part]
    rest = [seen for seen in told if not seen.shown]
    with capsys.disabled():
        print(f"\n{shares.described()}: {len(told)} findings with a condition, {len(told) - len(rest)} of them shown")
    mistaken = [f"{seen.place} [{seen.finding.when.words}]: {mistake}" for seen in told for mistake in seen.mistakes()]
    assert not mistaken, "\n".join(mistaken)
    reasons = [f"{seen.place}: {seen.reason}" for seen in rest]
    assert all(any(known in reason for known in REASONS) for reason in reasons), "\n".join(reasons)
    assert len(told) - len(rest) + FEW >= SHOWN * len(told), "\n".join(reasons)


PARALLEL = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.mean = torch.zeros(4)

    def forward(self, x):
        return x - self.mean

device = "cuda" if torch.cuda.is_available() else "cpu"
model = nn.DataParallel(Net()).to(device)
model(torch.randn(8, 4, device=device))
"""


@pytest.mark.parametrize(
    ("machines", "mistakes"),
    [
        (ONE_GPU | MANY_GPUS, []),
        (ONE_GPU, ["it shows on 2 simulated GPUs", "it shows on 4 simulated GPUs"]),
        (NO_GPU | ONE_GPU | MANY_GPUS, ["it does not show on a simulated machine without a GPU: no error"]),
    ],
)
def test_a_wrong_condition_is_noticed(machines: int, mistakes: list[str], prober: Prober) -> None:
    [(finding, case)] = cases_in(PARALLEL)
    said = replace(finding, when=When(machines, "on some machines"))
    assert list(seen_of(Replayer(prober), case, Seen(said, fewest_gpus(case))).mistakes()) == mistakes
