"""Replays of the fixtures: nearly all show their findings, and none of the others is refuted.

Another share of the fixtures runs each day; ``SHARE=all`` runs all of them (see ``shares.py``).
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
# Of all findings nine in ten are confirmed, each beside the same program without the fault; a share may have fewer.
SHOWN = 0.8

# Said of code that only other files run, of which a replay of its file shows nothing.
UNCALLED = "nothing in this file calls the reported code"

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
        told = [(place, said) for part in parts for place, said in part if UNCALLED not in said.observed]
    rest = [f"{place} {said.outcome.value}: {said.observed}" for place, said in told if not is_shown(said)]
    with capsys.disabled():
        print(f"\n{shares.described()}: {len(told)} findings of fixtures, {len(told) - len(rest)} of them shown")
    listed = "\n".join(rest)
    assert len(told) - len(rest) >= SHOWN * len(told), listed
    assert not [line for line in rest if f" {Outcome.REFUTED.value}: " in line], listed


def is_shown(verdict: Verdict) -> bool:
    """Whether it is confirmed by the program itself, and its control is no other program."""
    return verdict.outcome is Outcome.CONFIRMED and OWN.match(verdict.observed) is not None
