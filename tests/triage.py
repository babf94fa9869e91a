"""Compares findings with and without triage: ``python -m tests.triage FOLDER…``.

Each folder is checked as a separate project, twice: as usual, and with every file parsed and every uncalled definition
analysed. The output is a line for each finding that only one of the two checks reports, and the totals. The exit status
is 1 if triage loses a finding. It may add some, because it leaves more of the budget for other files' code.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Set
from pathlib import Path
from unittest.mock import patch

from placement_lint.checking.checker import Reading
from placement_lint.config.settings import Settings
from placement_lint.finding import Finding
from placement_lint.project.files import Selection
from placement_lint.report.results import Job
from placement_lint.run.engine import check_files


def findings(folder: Path) -> Set[Finding]:
    """The findings of a run in one process, in which triage can be disabled; without those about files."""
    job = Job(Settings(root=folder), roots=(str(folder),))
    found = check_files(Selection(sorted(folder.rglob("*.py"))), job, jobs=1).findings
    return {finding for finding in found if not finding.code.startswith("DPL0")}


def findings_without_triage(folder: Path) -> Set[Finding]:
    with (
        patch.object(Reading, "may_tell", lambda *_: True),
        patch("placement_lint.flow.driver.entry_points.Prospects.promising", lambda *_: True),
    ):
        return findings(folder)


def told(what: str, found: Iterable[Finding]) -> None:
    for one in sorted(found, key=lambda finding: finding.sort_key):
        print(f"{what}\t{one.path}:{one.range.line}\t{one.code}\t{one.message}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    reported = lost = added = 0
    folders = [folder.resolve() for folder in parser.parse_args().folders]
    for folder in folders:
        start = time.process_time()
        with_triage = findings(folder)
        between = time.process_time()
        without = findings_without_triage(folder)
        end = time.process_time()
        print(f"{folder.name}: {len(with_triage)} findings, {between - start:.1f} s; {end - between:.1f} s without")
        told("lost", without - with_triage)
        told("added", with_triage - without)
        reported += len(with_triage)
        lost += len(without - with_triage)
        added += len(with_triage - without)
    print(f"\n{len(folders)} projects, {reported} findings: triage loses {lost} and adds {added}")
    return 1 if lost else 0


if __name__ == "__main__":
    raise SystemExit(main())
