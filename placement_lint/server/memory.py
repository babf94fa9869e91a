"""Placements that remain valid after edits: those on unchanged lines, at their new positions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile

from placement_lint.finding import Range
from placement_lint.server.analysis import Placed


def still_valid(placed: Sequence[Placed], before: Sequence[str], now: Sequence[str]) -> list[Placed]:
    """The placements on lines that have not changed, at their new positions.

    An edit is assumed to be one range of lines: all lines above are unchanged, and all lines below are shifted.
    """
    if before == now:
        return list(placed)
    above = _alike(before, now)
    below = min(_alike(before[::-1], now[::-1]), len(before) - above, len(now) - above)
    shift = len(now) - len(before)

    def moved(place: Range) -> Range | None:
        if place.end_line <= above:
            return place
        if place.line > len(before) - below:
            return Range(place.line + shift, place.column, place.end_line + shift, place.end_column)
        return None

    def around(place: Range) -> Range:
        """The new range of a scope, which may have been edited inside: its end shifts with the rest of the file."""
        first = place.line if place.line <= above else place.line + shift
        last = place.end_line if place.end_line <= above else place.end_line + shift
        return Range(first, place.column, last, place.end_column)

    return [
        replace(
            each,
            target=target,
            scope=around(each.scope) if each.scope else None,
            history=tuple(replace(step, range=place) for step in each.history if (place := moved(step.range))),
        )
        for each in placed
        if (target := moved(each.target))
    ]


def _alike(one: Sequence[str], other: Sequence[str]) -> int:
    pairs = zip(one, other, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
