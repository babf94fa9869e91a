"""Where the numbers begin that are given while a statement runs: where they did in the document's last text.

Ids, visits and questions are given in order, and what comes up again is known by them. So that a statement more, or one
that needs more numbers than before, does not change all that come after, each begins with numbers that leave its
``slot`` when they are divided by ``CIRCLE``; and between two slots there is room for others.
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
        """Give those of the next text theirs; most of them have one."""
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
        """Give statements slots between two others, if there are any."""
        if after is None and before is None:
            after, self._next = self._next, self._next + _ROOM * (len(statements) + 1)
        if after is None:
            after = (before or 0) - _ROOM
        step = _ROOM if before is None else max(1, (before - after) // (len(statements) + 1))
        for count, statement in enumerate(statements, 1):
            self._slots[statement] = after + count * step


def _blocks(module: cst.Module) -> Iterator[list[cst.CSTNode]]:
    """The statements of each block, those on one line by themselves."""
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
