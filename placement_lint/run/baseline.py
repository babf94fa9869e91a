"""Findings that a project accepts for now: listed in a file, and recognised after lines have moved.

An entry names the rule, the file relative to the baseline's own folder, the enclosing function and the text of the
line, and the number of findings that it covers.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from placement_lint import writing
from placement_lint.errors import UsageError
from placement_lint.finding import Finding
from placement_lint.report.results import Run

VERSION = 1


class Entry(NamedTuple):
    """The fields are in the sort order of entries."""

    path: str
    rule: str
    function: str
    line: str


@dataclass(frozen=True)
class Baseline:
    file: Path
    entries: Mapping[Entry, int]

    def split(self, run: Run) -> tuple[Run, list[Entry]]:
        """The run with its known findings separated, and the entries that its files no longer have."""
        left = Counter(self.entries)
        new: list[Finding] = []
        known: list[Finding] = []
        for finding in run.findings:
            entry = _entry(finding, self.file)
            listed = left[entry] > 0
            left[entry] -= listed
            (known if listed else new).append(finding)
        looked_at = {_relative(path, self.file) for path in run.paths}
        gone = [entry for entry in sorted(left) if left[entry] > 0 and self._concerns(entry, looked_at)]
        return replace(run, findings=tuple(new), known=tuple(known)), gone

    def _concerns(self, entry: Entry, looked_at: set[str]) -> bool:
        """Whether the run could have found it: its file was checked, or no longer exists."""
        return entry.path in looked_at or not (self.file.parent / entry.path).exists()


def read_baseline(name: str) -> Baseline:
    try:
        content = json.loads(Path(name).read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read the baseline {name}: {error.strerror or error}") from None
    except ValueError as error:
        raise UsageError(f"{name} is no baseline: {error}") from None
    if not isinstance(content, dict) or content.get("version") != VERSION:
        raise UsageError(f"{name} is no baseline of version {VERSION}; make one with --write-baseline")
    try:
        return Baseline(Path(os.path.abspath(name)), dict(_entries(content["findings"])))
    except (KeyError, TypeError, ValueError):
        raise UsageError(f"{name} is no baseline: its entries are not as --write-baseline makes them") from None


def write_baseline(name: str, findings: Iterable[Finding]) -> int:
    """Write the baseline of these findings, with the same bytes in whatever order; returns the number of entries."""
    file = Path(os.path.abspath(name))
    counts = Counter(_entry(finding, file) for finding in findings)
    listed = [{**entry._asdict(), "count": counts[entry]} for entry in sorted(counts)]
    text = json.dumps({"version": VERSION, "findings": listed}, indent=2)
    try:
        writing.write(file, f"{text}\n".encode())
    except OSError as error:
        raise UsageError(f"cannot write {name}: {error.strerror or error}") from None
    return len(listed)


def _entries(listed: Iterable[Mapping[str, Any]]) -> Iterator[tuple[Entry, int]]:
    for item in listed:
        yield Entry(*(str(item[key]) for key in Entry._fields)), int(item["count"])


def _entry(finding: Finding, baseline: Path) -> Entry:
    path, code, function, line = finding.identity
    return Entry(_relative(path, baseline), code, function, line)


def _relative(path: str, baseline: Path) -> str:
    try:
        return Path(os.path.relpath(path, baseline.parent)).as_posix()
    except ValueError:  # another drive
        return path
