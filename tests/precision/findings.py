"""The tool's findings in one unpacked package, by the command that users run."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.precision.packages import Package


@dataclass(frozen=True)
class Reported:
    """One finding; ``place`` is its key in the ledger."""

    place: tuple[str, ...]
    severity: str
    message: str

    @property
    def code(self) -> str:
        return self.place[-1]


def findings_in(package: Package, root: Path) -> Iterator[Reported]:
    """Every finding, including informational ones, once per place. Raises RuntimeError if the tool fails."""
    command = [sys.executable, "-m", "placement_lint", "check", ".", "--format", "json", "--ignore", "DPL0"]
    run = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if run.returncode not in (0, 1):
        raise RuntimeError(f"{package.name}: placement-lint exits with {run.returncode}: {run.stderr}")
    seen = set()
    for finding in json.loads(run.stdout)["findings"]:
        place = (package.name, package.version, finding["path"], str(finding["line"]), finding["code"])
        if place not in seen:
            seen.add(place)
            yield Reported(place, finding["severity"], finding["message"])
