"""Stable first numbers for each statement, the same as in the document's last text.

Ids, visits and questions are numbered in order, and their numbers identify them in the next text. An inserted
statement, or one that needs more numbers, must not renumber all later ones. So the first number of each statement is
congruent to its ``slot`` modulo ``CIRCLE``, and gaps between slots leave room for insertions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

CIRCLE = 2**32
_ROOM = 2**16


class Slots:
    """The slots of the statements of a document."""

    def __init__(self) -> None:
        self._slots: dict[cst.CSTNode, int] = {}
        self._next = 0

    def __getitem__(self, statement: cst.CSTNode) -> int:
        return self._slots.get(statement, 0)

    def assign(self, module: cst.Module) -> None:
        """Assign slots to the statements of the next text; unchanged statements keep theirs."""
        known, self._slots = self._slots, {}
        for block in _blocks(module):
            last, new = None, []
            for statement in block:
                slot = known.get(statement)
                if slot is None:
                    new.append(statement)
                    continue
                self._put(new, last, slot)
                self._slots[statement] = last = slot
                new = []
            self._put(new, last, None)

    def _put(self, statements: Sequence[cst.CSTNode], after: int | None, before: int | None) -> None:
        """Assign slots to statements between two others, if any."""
        if after is None and before is None:
            after, self._next = self._next, self._next + _ROOM * (len(statements) + 1)
        if after is None:
            after = (before or 0) - _ROOM
        step = _ROOM if before is None else max(1, (before - after) // (len(statements) + 1))
        for count, statement in enumerate(statements, 1):
            self._slots[statement] = after + count * step


def _blocks(module: cst.Module) -> Iterator[list[cst.CSTNode]]:
    """The statements of each block; the statements on one line are separate."""
    waiting: list[Sequence[cst.CSTNode]] = [module.body]
    while waiting:
        block: list[cst.CSTNode] = []
        for line in waiting.pop():
            if isinstance(line, cst.SimpleStatementLine):
                block.extend(line.body)
            else:
                block.append(line)
                waiting.extend(_inside(line))
        yield block


def _inside(node: cst.CSTNode | None) -> Iterator[Sequence[cst.CSTNode]]:
    """The blocks of a compound statement, or of a part of one."""
    body = getattr(node, "body", None)
    if isinstance(body, cst.BaseSuite):
        yield body.body
    for name in ("orelse", "finalbody"):
        part = getattr(node, name, None)
        if part is not None:
            yield from _inside(part)
    for name in ("handlers", "cases"):
        for part in getattr(node, name, ()):
            yield from _inside(part)
