"""Timelines as one HTML page that needs nothing from elsewhere: their data as JSON in ``timeline.html``.

This file does not import PyTorch.
"""

from __future__ import annotations

import collections
import heapq
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

TEMPLATE = Path(__file__).with_name("timeline.html")
PLACE = "TIMELINE_DATA"


class Span(NamedTuple):
    """The steps that a bar covers, and its lane."""

    device: str
    start: int
    end: int
    named: bool


def page(program: str, heading: str, red: str, views: Sequence[dict[str, Any]]) -> str:
    """The HTML text of a page with these views; it shows the last one first, and ``red`` names what is in red."""
    data = json.dumps({"program": program, "heading": heading, "red": red, "views": views}, separators=(",", ":"))
    # In a script element "<" could begin its end tag.
    return TEMPLATE.read_text(encoding="utf-8").replace(PLACE, data.replace("<", "\\u003c"))


def lanes(gpus: int, devices: set[str], kind: str = "cuda") -> list[str]:
    """The devices that have a lane: the CPU, then the GPUs by number, then the rest."""
    first = ["cpu", *(f"{kind}:{index}" for index in range(gpus))]
    return first + sorted(devices - set(first))


def rows(spans: Sequence[Span]) -> list[int]:
    """A row for each bar in its device's lane, such that no two overlap; bars with names come first.

    The bars are in the order of their first steps.
    """
    placed = [0] * len(spans)
    groups: dict[str, dict[bool, list[int]]] = collections.defaultdict(lambda: {True: [], False: []})
    for index, span in enumerate(spans):
        groups[span.device][span.named].append(index)
    for group in groups.values():
        used = 0
        for indices in group.values():
            packed = _packed([spans[index] for index in indices])
            for index, row in zip(indices, packed, strict=True):
                placed[index] = used + row
            used += max(packed, default=-1) + 1
    return placed


def _packed(spans: Sequence[Span]) -> list[int]:
    """For each the first row that is free at its first step."""
    found: list[int] = []
    busy: list[tuple[int, int]] = []
    free: list[int] = []
    for span in spans:
        while busy and busy[0][0] < span.start:
            heapq.heappush(free, heapq.heappop(busy)[1])
        row = heapq.heappop(free) if free else len(busy)
        heapq.heappush(busy, (span.end, row))
        found.append(row)
    return found
