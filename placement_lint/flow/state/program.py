"""The definitions of the program, and its calls and effects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from placement_lint.flow.state.notes import Notes, Use, noted

if TYPE_CHECKING:
    from placement_lint.flow.domain.path_condition import Condition
    from placement_lint.flow.domain.values import Class, Function, Symbol
    from placement_lint.flow.events.schema import Event
    from placement_lint.flow.state.heap import Cell


@dataclass
class Program(Notes):
    """The definitions of the program, and its calls and effects."""

    events: list[Event] = noted(list, Use.AT_END)
    functions: dict[cst.CSTNode, Function] = noted(dict, Use.AT_END | Use.WEIGHED)
    classes: list[Class] = noted(list, Use.AT_END | Use.WEIGHED)
    # the definitions of all classes that are modules, including those of other files
    module_classes: set[cst.CSTNode] = noted(set, Use.AT_END)
    called: set[cst.CSTNode] = noted(set, Use.AT_END | Use.INCIDENTAL)
    # those of them that are called only if the file runs as a script
    called_by_script: set[cst.CSTNode] = noted(set, Use.AT_END | Use.INCIDENTAL)
    # the parameters of each function that the program calls, with how it reaches the call
    called_on: set[tuple[cst.CSTNode, Condition]] = noted(set, Use.AT_END | Use.INCIDENTAL)
    # there are calls that were not analysed although they may matter
    overlooks: bool = noted(bool)
    # of those of the program itself, some are of a function that no earlier call had analysed
    skips_code: bool = noted(bool)
    # calls in plain functions of other files: the calls that led there
    sites: dict[cst.CSTNode, dict[cst.CSTNode, None]] = noted(dict, Use.AT_END)
    # plain functions of other files, by file, class and name: the calls of them, or those that led there
    uses: dict[tuple[str, str, str], set[cst.CSTNode]] = noted(dict, Use.AT_END)
    # by the id of an object: the program's name for it
    labels: dict[int, str | cst.CSTNode] = noted(dict, Use.WATCHED | Use.INCIDENTAL | Use.REPEATED)
    # by the id of an unknown part of a module: the id of that module
    outer: dict[int, int] = noted(dict, Use.WATCHED | Use.INCIDENTAL)
    # the names of the program's own file that are None unless its users edit it
    left_unset: frozenset[str] = noted(frozenset)
    # the program's own file
    module: cst.Module = noted(lambda: cst.Module(()), Use.DERIVED)
    # by its cell: the value of a setting once something may have overridden it
    overridden: dict[Cell, Symbol] = noted(dict, Use.DERIVED)
