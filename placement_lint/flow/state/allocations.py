"""Modules and Parameters that forwards make."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from placement_lint.flow.state.notes import Moment, Notes, Use, noted

if TYPE_CHECKING:
    from placement_lint.flow.events.schema import Scene


@dataclass
class InForward(Moment):
    """Modules and Parameters that the running forward makes."""

    # by the id of a module or Parameter: the facts about it, until that forward ends
    made: dict[int, Made] = noted(dict, Use.PASSING)
    rehearsing: bool = noted(bool, Use.PASSING)


@dataclass
class Allocations(Notes):
    """Modules and Parameters that all forwards make."""

    # all modules and Parameters that some forward made, whether it has ended or not
    ids: set[int] = noted(set)


@dataclass
class Made:
    """A module or Parameter that a running forward made: whether it took part in it, and whether it is kept."""

    node: cst.CSTNode
    scene: Scene
    cls: str
    used: bool = False
    kept: bool = False
