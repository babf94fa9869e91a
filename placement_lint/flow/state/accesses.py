"""Reads and writes of attributes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from placement_lint.flow.state.notes import Notes, Use, noted

if TYPE_CHECKING:
    from placement_lint.flow.events.schema import AttributeRebound


@dataclass
class Accesses(Notes):
    """Reads and writes of attributes."""

    # by class (or object) and attribute: the reads of a value written earlier, with the module that it belongs to (0 if
    # it may be any of the class); True for a read that is only part of an update
    reads: dict[tuple[int, str], dict[tuple[cst.CSTNode, int], bool]] = noted(dict, Use.AT_END | Use.INCIDENTAL)
    # attributes and items that were read or assigned at least once on an object that is not a wrapper
    read_of_others: set[cst.CSTNode] = noted(set, Use.AT_END | Use.INCIDENTAL)
    # each with the class (or object) and the module, as above, and the code whose reads see the value that was built
    rebinds: list[tuple[AttributeRebound, int, int, frozenset[cst.CSTNode]]] = noted(list, Use.AT_END)
    # the attributes written since the outermost forward began
    written: set[tuple[int, str]] = noted(set)
    # by class (or object): the attributes that a forward assigns or changes
    changed: set[tuple[int, str]] = noted(set)
