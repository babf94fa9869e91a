"""Placements in the editor: a device beside each assignment that changes it, and the history of a hovered name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from placement_lint.finding import Range
from placement_lint.server.analysis import Placed, Step
from placement_lint.server.memory import still_valid
from placement_lint.server.session import Watched

NAME = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")


def known(watched: Watched) -> list[Placed]:
    """The placements of the current text, or of the lines that it shares with the last text that could be parsed."""
    if watched.located is None:
        return []
    return still_valid(watched.located.placed, watched.located.lines, watched.document.program_lines())


def hints(placed: Iterable[Placed]) -> Iterator[Placed]:
    """The assignments that get a hint: their place is known, and the statement itself causes it."""
    return (each for each in placed if each.arrived and each.where)


def name_at(line: str, column: int) -> tuple[str, int, int] | None:
    """The name at a column, with the names before its dots: ``net.fc`` for a column at ``fc`` in ``net.fc.weight``.

    It comes with the columns at which it begins and ends.
    """
    for match in NAME.finditer(line):
        if match.start() < column <= match.end() + 1:
            end = line.find(".", column - 1, match.end())
            end = match.end() if end < 0 else end
            return line[match.start() : end], match.start() + 1, end + 1
    return None


def history(placed: Sequence[Placed], name: str, line: int, room: int) -> str:
    """The steps of a variable in at most ``room`` lines of Markdown, the last ones if there are too many.

    Empty if nothing is known. ``line`` is the line of the request.
    """
    concerned = _of_innermost([each for each in placed if each.name == name and _holds(each.scope, line)])
    steps = sorted({step for each in concerned for step in each.history}, key=_order)
    if not steps:
        return ""
    here = [each.where for each in concerned if each.target.line <= line and each.where]
    heading = f"**`{name}`**" + (f" ‹{here[-1]}›" if here else "")
    listed = [f"- line {step.range.line}: {step.message.removesuffix(' here')}" for step in steps]
    if len(listed) + 2 > room:
        left_out = len(listed) + 3 - room
        listed = [f"- {left_out} earlier steps", *listed[left_out:]]
    return "\n".join([heading, "", *listed])


def _of_innermost(placed: Sequence[Placed]) -> list[Placed]:
    scopes = {each.scope for each in placed}
    inner = max((scope for scope in scopes if scope is not None), key=lambda scope: scope.line, default=None)
    return sorted((each for each in placed if each.scope == inner), key=lambda each: each.target)


def _holds(scope: Range | None, line: int) -> bool:
    return scope is None or scope.line <= line <= scope.end_line


def _order(step: Step) -> tuple[Range, str]:
    return step.range, step.message
