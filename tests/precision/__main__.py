"""Checks pinned public packages and compares every finding with the ledger of reviewed ones.

`python -m tests.precision [--folder DIR] [PACKAGE…]` from the repository's root. It downloads the packages
in `packages.txt` (only once with `--folder`) and unpacks them without running or installing their code. It fails on a
finding without a review, and on one reviewed as true that is no longer reported.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.precision.findings import Reported, findings_in
from tests.precision.ledger import COLUMNS, LEDGER, Entry, read_ledger
from tests.precision.packages import Package, lines_of_code, read_packages, unpacked


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.precision", description=__doc__)
    parser.add_argument("packages", nargs="*", help="names from packages.txt; all of them where none is given")
    parser.add_argument("--folder", type=Path, help="where downloads are kept; a temporary folder otherwise")
    options = parser.parse_args()
    packages = _chosen(parser, options.packages)
    with _folder(options.folder) as folder:
        found = list(_all_findings(packages, folder))
    return _compare(found, [entry for entry in read_ledger() if entry.package in {p.name for p in packages}])


def _chosen(parser: argparse.ArgumentParser, names: Sequence[str]) -> list[Package]:
    known = {package.name: package for package in read_packages()}
    if unknown := sorted(set(names) - known.keys()):
        parser.error(f"packages.txt does not name {', '.join(unknown)}")
    return [known[name] for name in names or known]


@contextmanager
def _folder(given: Path | None) -> Iterator[Path]:
    if given is not None:
        given.mkdir(parents=True, exist_ok=True)
        yield given
    else:
        with tempfile.TemporaryDirectory() as scratch:
            yield Path(scratch)


def _all_findings(packages: Sequence[Package], folder: Path) -> Iterator[Reported]:
    total = 0
    for package in packages:
        root = unpacked(package, folder)
        total += (lines := lines_of_code(root))
        print(f"{package.name} {package.version}: {lines:,} lines", file=sys.stderr)
        yield from findings_in(package, root)
    print(f"{len(packages)} packages, {total:,} lines")


def _compare(found: Sequence[Reported], ledger: Sequence[Entry]) -> int:
    verdicts = {entry.place: entry for entry in ledger}
    _print_precision(found, verdicts)
    unreviewed = [finding for finding in found if finding.place not in verdicts]
    reported = {finding.place for finding in found}
    gone = [entry for entry in ledger if entry.place not in reported]
    _print_unreviewed(unreviewed)
    for entry in gone:
        meaning = "a true finding is lost" if entry.true else "take it out of the ledger"
        print(f"not reported any more, {meaning}: {entry}")
    return 1 if unreviewed or any(entry.true for entry in gone) else 0


def _print_precision(found: Iterable[Reported], verdicts: dict[tuple[str, ...], Entry]) -> None:
    counts: dict[str, Counter[str]] = {}
    for finding in found:
        entry = verdicts.get(finding.place)
        verdict = "unreviewed" if entry is None else entry.verdict
        for group in (finding.severity, finding.code):
            counts.setdefault(group, Counter())[verdict] += 1
    print(f"\n{'':10}{'true':>6}{'false':>7}{'unreviewed':>12}")
    for group in sorted(counts):
        row = counts[group]
        print(f"{group:10}{row['true']:6}{row['false']:7}{row['unreviewed']:12}")


def _print_unreviewed(findings: Sequence[Reported]) -> None:
    if not findings:
        return
    print(f"\n{len(findings)} findings to review; lines for {LEDGER.name} ({', '.join(COLUMNS)}):")
    for finding in findings:
        print("\t".join((*finding.place, "?", finding.message.replace("\n", " "))))


if __name__ == "__main__":
    sys.exit(main())
