"""What the program defines, and what it is seen to call and do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from placement_lint.flow.state.notes import Notes, Use, noted

if TYPE_CHECKING:
    from placement_lint.flow.domain.values import Class, Function, Symbol
    from placement_lint.flow.events.schema import Event
    from placement_lint.flow.state.heap import Cell


@dataclass
class Program(Notes):
    """What the program defines, and what it is seen to call and do."""

    events: list[Event] = noted(list, Use.AT_END)
    functions: dict[cst.CSTNode, Function] = noted(dict, Use.AT_END | Use.WEIGHED)
    classes: list[Class] = noted(list, Use.AT_END | Use.WEIGHED)
    # the definitions of all classes that are modules, those of other files included
    module_classes: set[cst.CSTNode] = noted(set, Use.AT_END)
    called: set[cst.CSTNode] = noted(set, Use.AT_END | Use.INCIDENTAL)
    # of these the ones that are called only where the file is a script
    called_by_script: set[cst.CSTNode] = noted(set, Use.AT_END | Use.INCIDENTAL)
    # the parameters of each function that the program calls, with the kinds of machine on which it does
    called_on: set[tuple[cst.CSTNode, int]] = noted(set, Use.AT_END | Use.INCIDENTAL)
    # there are calls that were not looked into although they may matter
    overlooks: bool = noted(bool)
    # calls in plain functions of other files: the calls that led there
    sites: dict[cst.CSTNode, dict[cst.CSTNode, None]] = noted(dict, Use.AT_END)
    # plain functions of other files, by file, class and name: the calls of them, or that led to those
    uses: dict[tuple[str, str, str], set[cst.CSTNode]] = noted(dict, Use.AT_END)
    # by the id of an object: how the program names it
    labels: dict[int, str | cst.CSTNode] = noted(dict, Use.WATCHED | Use.INCIDENTAL | Use.REPEATED)
    # by the id of an unknown part of a module: the id of that module
    outer: dict[int, int] = noted(dict, Use.WATCHED | Use.INCIDENTAL)
    # by its cell: what a setting became when something may have overridden it
    overridden: dict[Cell, Symbol] = noted(dict, Use.DERIVED)
