"""Runs replays of the findings in folders and prints their verdicts: ``python -m tests.replays FOLDER…``.

Each folder is checked as a separate project, with ``check --probe simulated --trust``. The output is a line for each
finding, a table of the verdicts, and a table of the reasons for inconclusive ones.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CHECK = ("check", ".", "--probe", "simulated", "--trust", "--format", "json")
LIMIT = 1800.0  # seconds per folder
DECIDED = {"confirmed", "refuted"}


@dataclass(frozen=True)
class Told:
    """A finding and its verdict."""

    where: str
    rule: str
    outcome: str
    device: str
    observed: str

    def __str__(self) -> str:
        return "\t".join((self.where, self.rule, self.outcome, self.device, self.observed))

    @property
    def reason(self) -> str:
        """The observation without the parts that differ between programs."""
        what = self.observed.partition(" lines")[2].partition(": ")[2] or self.observed
        return " ".join("…" if any(sign in word for sign in "`'/0123456789") else word for word in what.split()[:9])


def told_of(folder: Path) -> Iterator[Told]:
    """The findings of a project, each with its verdict."""
    command = [sys.executable, "-m", "placement_lint", *CHECK]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=LIMIT, check=False)
    if done.returncode not in (0, 1) or not done.stdout:
        raise SystemExit(f"{folder}: {done.stderr.strip()}")
    for finding in json.loads(done.stdout)["findings"]:
        if finding["code"].startswith("DPL0"):
            continue  # findings about files rather than programs
        verdict: dict[str, Any] = finding["verdict"] or {"outcome": "none", "device": "", "observed": ""}
        where = f"{folder.name}/{finding['path']}:{finding['line']}"
        observed = " ".join(str(verdict["observed"]).split())
        yield Told(where, finding["code"], verdict["outcome"], verdict["device"], observed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    everything: list[Told] = []
    for folder in parser.parse_args().folders:
        for told in told_of(folder):
            print(told, flush=True)
            everything.append(told)
    outcomes = Counter(told.outcome for told in everything)
    decided = sum(outcomes[outcome] for outcome in DECIDED)
    print(f"\n{len(everything)} findings, {decided} decided ({decided / max(1, len(everything)):.0%})")
    for outcome, count in outcomes.most_common():
        print(f"{count:5} {outcome}")
    print("\nReasons for the rest")
    for reason, count in Counter(told.reason for told in everything if told.outcome not in DECIDED).most_common():
        print(f"{count:5} {reason}")


if __name__ == "__main__":
    main()
