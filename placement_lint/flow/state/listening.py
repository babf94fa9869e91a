"""Interfaces through which the machine serves an editor: a log of placements, and a memory of results."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import libcst as cst

    from placement_lint.flow.domain.values import Value
    from placement_lint.flow.state.machine import Machine
    from placement_lint.rule import Note


class Log(Protocol):
    """Receives every assignment, parameter and move while the program is analysed."""

    def reached(self, machine: Machine, statement: cst.CSTNode) -> None:
        """A statement is about to be executed."""

    def assigned(self, machine: Machine, target: cst.BaseExpression, value: Value, statement: cst.CSTNode) -> None:
        """A name or attribute gets a value."""

    def entered(self, machine: Machine, parameters: cst.Parameters, function: cst.CSTNode) -> None:
        """A function is called: its parameters have their values."""

    def moved(self, identity: int, note: Note) -> None:
        """A module, by its id, moves to another place."""


class Recollection(Protocol):
    """Results from an editor's previous text, reused instead of runs that would give the same again."""

    def execute(self, machine: Machine, statement: cst.CSTNode, run: Callable[[], None]) -> None:
        """Execute a statement of the program's own file."""

    def run(self, machine: Machine, what: Hashable, run: Callable[[], Value]) -> Value:
        """The value of the run, reused or new."""
