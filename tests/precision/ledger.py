"""The reviews of findings: `ledger.tsv`, one line per finding."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import NamedTuple

LEDGER = Path(__file__).with_name("ledger.tsv")
VERDICTS = ("true", "false")


class Entry(NamedTuple):
    """One reviewed finding; ``line`` is 1-based, ``why`` a sentence that its authors would accept."""

    package: str
    version: str
    path: str
    line: str
    code: str
    verdict: str
    why: str

    @property
    def place(self) -> tuple[str, ...]:
        return self[:5]

    @property
    def true(self) -> bool:
        return self.verdict == "true"

    def __str__(self) -> str:
        return f"{self.package} {self.version} {self.path}:{self.line} {self.code}"


COLUMNS = Entry._fields


def read_ledger() -> list[Entry]:
    """All entries. Raises ValueError that names an invalid line."""
    entries = []
    with LEDGER.open(encoding="utf-8", newline="") as file:
        for number, row in enumerate(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE), start=1):
            if len(row) != len(COLUMNS) or (number > 1 and row[5] not in VERDICTS):
                raise ValueError(f"{LEDGER.name}:{number}: needs {', '.join(COLUMNS)}, verdict true or false: {row}")
            entries.append(Entry(*row))
    return entries[1:]
