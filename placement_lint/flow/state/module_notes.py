"""Notes about modules, Parameters and their containers that several models and observers share."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from placement_lint.flow.state.notes import Notes, Use, noted

if TYPE_CHECKING:
    from placement_lint.flow.domain.path_condition import Condition
    from placement_lint.flow.domain.values import Holder, Object, Value
    from placement_lint.rule import Note


@dataclass
class ModuleNotes(Notes):
    """Facts about modules, Parameters and their containers that several models and observers need."""

    # attributes of modules, by the files and names of their classes, that code outside the class handles
    tended: set[tuple[str, str, str]] = noted(set, Use.AT_END)
    # unknown values that are used in ways that only modules support
    modules_by_use: set[int] = noted(set, Use.REPEATED)
    # parts of a library's model that are modules by how they are accessed, and arguments by their annotation
    modules_by_name: set[int] = noted(set, Use.REPEATED)
    # unknown values that the program tests for a class, or one of several, of modules
    modules_by_test: dict[int, set[Value]] = noted(dict)
    # by the id of a module or class: where one was first moved to CUDA or wrapped
    moved: dict[int, Note] = noted(dict, Use.SHARED | Use.REPEATED)
    wraps: dict[int, list[Note]] = noted(dict)
    # by the id of a module that stands for one of many: these, each in the case in which it is the one
    members: dict[int, list[tuple[Condition, Object]]] = noted(dict)
    # the circumstances in which calls looked into these
    looked_into: set[Hashable] = noted(set)
    # by the id of a module: the frames that were running when it was wrapped
    wrapped_in: dict[int, set[int]] = noted(dict)
    # modules and Parameters that some optimizer held at some time, and those whose parameters were read otherwise
    ever_held: set[int] = noted(set)
    asked_for: set[int] = noted(set)
    given_away: set[int] = noted(set)
    ever_frozen: set[int] = noted(set)
    # by the id of a module or container: the attribute of a plain list or dict that holds it
    unregistered: dict[int, Holder] = noted(dict, Use.REPEATED)
    holders: dict[int, Holder] = noted(dict, Use.REPEATED)
