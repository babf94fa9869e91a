"""Fingerprints by which services recognise findings from one run to the next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from hashlib import sha256

from placement_lint.finding import Finding


def fingerprints(findings: Iterable[Finding]) -> Iterator[tuple[Finding, str, int]]:
    """Each finding, the hash of its identity, and its number among those with the same hash.

    The message is not part of the hash, because it names lines.
    """
    seen: Counter[str] = Counter()
    for finding in findings:
        text = "\0".join(finding.identity)
        mark = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        seen[mark] += 1
        yield finding, mark, seen[mark]
