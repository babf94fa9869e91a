"""A record of the state at each execution of selected statements."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import libcst as cst

from placement_lint.flow.domain.values import Class, External, Function, Imported, Value
from placement_lint.flow.models.describing import described, words
from placement_lint.flow.observers.placements import PlacementLog
from placement_lint.flow.state.machine import Machine
from placement_lint.flow.state.moment import Calls, Replica
from placement_lint.flow.state.names import value_of
from placement_lint.source.walking import children
from placement_lint.source.wording import source_text

# Values that are irrelevant to placement.
_DEFINED = (Class, External, Function, Imported)


@dataclass(frozen=True)
class Visit:
    """One execution of a statement.

    ``reach`` is the path condition as text, empty if it always holds; ``calls`` the call stack, outermost call first;
    ``standalone`` is set if the enclosing function is an analysed entry point; ``in_replica`` if it runs in a replica
    of DataParallel. ``names`` are the variables and attributes that the statement reads, with descriptions of their
    values.
    """

    statement: cst.CSTNode
    reach: str
    calls: tuple[cst.CSTNode, ...]
    standalone: bool
    in_replica: bool
    names: tuple[tuple[str, str], ...]


class VisitLog(PlacementLog):
    """Records the visits of selected statements."""

    explains = True

    def __init__(self, statements: Collection[cst.CSTNode]) -> None:
        super().__init__()
        self.visits: dict[Visit, None] = {}
        self._statements = frozenset(statements)

    def reached(self, machine: Machine, statement: cst.CSTNode) -> None:
        if statement in self._statements:
            names = {source_text(read): described(machine, value) for read, value in names_read(machine, statement)}
            visit = Visit(
                statement,
                words(machine.path),
                tuple(machine.now[Calls].nodes),
                machine.now[Calls].standalone,
                bool(machine.now[Replica].notes),
                tuple(names.items()),
            )
            self.visits[visit] = None


def names_read(machine: Machine, node: cst.CSTNode) -> Iterator[tuple[cst.CSTNode, Value]]:
    """The names and attributes that a statement itself reads, without those in the blocks of a compound statement."""
    if isinstance(node, (cst.Name, cst.Attribute)) and (value := value_of(machine, node)) is not None:
        if not isinstance(value, _DEFINED):
            yield node, value
    elif isinstance(node, (cst.Arg, cst.Attribute)):
        yield from names_read(machine, node.value)
    elif isinstance(node, cst.For):
        yield from names_read(machine, node.iter)
    elif not isinstance(node, cst.BaseSuite) and not _binds_name(node):
        for child in children(node):
            yield from names_read(machine, child)


def _binds_name(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.AssignTarget) and isinstance(node.target, cst.Name)
