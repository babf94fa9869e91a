"""Replays of the fixtures: nearly all show their findings, and the others say why they cannot.

``unshown.txt`` lists the others. Another share of the fixtures runs each day; ``SHARE=all`` runs all of them (see
``shares.py``).
"""

from __future__ import annotations

import re
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest
import shares
from replaying import FIXTURES, cases_in

from placement_lint.finding import Outcome, Verdict
from placement_lint.probe.prober import Prober
from placement_lint.probe.replay import Replayer
from placement_lint.probe.sandbox import Sandbox

WORKERS = 2
FEW = 2  # findings that a busy machine may leave without a verdict

UNSHOWN = Path(__file__).with_name("unshown.txt").read_text(encoding="utf-8").splitlines()

# What an inconclusive replay may say; anything else is a gap to be closed.
REASONS = (
    "needs a package: No module named",
    "needs a file: ",
    "` is not reached",
    "fails in another way at `",
    "fails in another way in train.py: ",
    "nothing in this file calls what the finding is about",
    "it does not fail here, which says nothing of where it would",
    "; repaired: ",
    "; on 1 GPU: ",
    "the rule's pattern",
)

OWN = re.compile(r"(slice|program)\b(?!.*the rule's pattern)", re.DOTALL)

Told = list[tuple[str, Verdict]]


def replayed(paths: list[Path]) -> Told:
    told = []
    with Sandbox() as sandbox:
        for path in paths:
            replayer = Replayer(Prober("simulated", sandbox), [str(path.parent)])
            for finding, case in cases_in(path.read_text(encoding="utf-8"), str(path)):
                verdict, _ = replayer.replayed(case)
                told.append((f"{path.relative_to(FIXTURES)}:{finding.range.line}: {finding.code}", verdict))
    return told


@pytest.mark.slow
def test_nearly_all_fixtures_show_their_findings(capsys: pytest.CaptureFixture[str]) -> None:
    files = [path for path in sorted(FIXTURES.rglob("*.py")) if shares.runs(path.relative_to(FIXTURES).as_posix())]
    paths = [path for path in files if "# want:" in path.read_text(encoding="utf-8")]
    # Not threads: in Python 3.11 two that parse at the same time may fail with a SystemError.
    with ProcessPoolExecutor(WORKERS) as pool:
        parts = pool.map(replayed, [paths[number::WORKERS] for number in range(WORKERS)])
        told = [one for part in parts for one in part]
    rest = {place: f"{place} {said.outcome.value}: {said.observed}" for place, said in told if not is_shown(said)}
    with capsys.disabled():
        print(f"\n{shares.described()}: {len(told)} findings of fixtures, {len(told) - len(rest)} of them shown")
    unexpected = [line for place, line in rest.items() if place not in UNSHOWN]
    listed = "\n".join(unexpected)
    assert len(unexpected) <= FEW, listed
    assert not [line for line in unexpected if f" {Outcome.REFUTED.value}: " in line], listed
    for line in rest.values():
        assert any(reason in line for reason in REASONS), line


def is_shown(verdict: Verdict) -> bool:
    """Whether it is confirmed by the program itself, and its control is no other program."""
    return verdict.outcome is Outcome.CONFIRMED and OWN.match(verdict.observed) is not None
