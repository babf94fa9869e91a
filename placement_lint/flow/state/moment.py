"""The current position: the running code, the syntax around it, and the replica that runs it."""

from __future__ import annotations

from collections.abc import Collection
from collections.abc import Sequence as Many
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import libcst as cst

from placement_lint.flow.domain.path_condition import Condition
from placement_lint.flow.state.notes import Moment, Use, noted

if TYPE_CHECKING:
    from placement_lint.flow.domain.values import Object, Symbol
    from placement_lint.rule import Note


@dataclass
class Calls(Moment):
    """The functions and modules that are running."""

    # for each running function: the node that called it
    nodes: list[cst.CSTNode] = noted(list)
    running: list[cst.CSTNode] = noted(list, Use.PASSING | Use.LOCAL)
    # the running modules and other objects, outermost first
    objects: list[Object] = noted(list, Use.PASSING)
    # and how the program reaches that call
    entered: list[Condition] = noted(list)
    # the number of these functions from other files
    foreign: int = noted(int, Use.PASSING)
    # the running code is an entry point analysed by itself
    standalone: bool = noted(bool)
    # the name of that function or class, and that of its method
    entry: tuple[cst.CSTNode, ...] = noted(tuple)
    # the modules whose forward is running, and those whose forward has a hook before it
    in_forward: list[Object] = noted(list, Use.PASSING)
    prepared: list[Object | Symbol] = noted(list, Use.PASSING)


@dataclass
class Around(Moment):
    """The syntax around the running code."""

    # the block of the simple statement that is running, and its index there
    block: tuple[Many[cst.CSTNode], int] = noted(lambda: ((), 0), Use.PASSING | Use.LOCAL)
    # the tests of the running branches, outermost first
    guards: list[cst.BaseExpression] = noted(list)
    # the running loops, outermost first
    loops: list[cst.For | cst.While] = noted(list, Use.PASSING | Use.LOCAL)
    # the effort spent when the outermost one began
    effort: int = noted(int, Use.PASSING | Use.LOCAL)
    # for each of them the last id before it began: values with a later one may change in each iteration
    rounds: list[int] = noted(list, Use.PASSING)
    # one of them is in a later iteration
    again: bool = noted(bool, Use.PASSING)
    tried: list[Tried] = noted(list)
    # inside a try whose handler is for a missing attribute
    expecting_attribute_errors: int = noted(int)
    updating: bool = noted(bool, Use.PASSING)
    # the value that is read here is only compared with None
    testing: bool = noted(bool, Use.PASSING)
    # the call that is a statement of its own: its result is dropped
    statement: cst.CSTNode | None = noted(lambda: None, Use.PASSING | Use.LOCAL)


@dataclass
class Replica(Moment):
    """The replica that is running."""

    notes: tuple[Note, ...] = noted(tuple)
    # the same if DataParallel has a single GPU, and runs the module itself
    on_only_gpu: tuple[Note, ...] = noted(tuple)
    ids: tuple[object, ...] = noted(tuple)
    # the frames that were running when it began
    depth: int = noted(int, Use.PASSING)
    # the dimension along which its inputs were split, and whether a layer expected another one
    dim: int | None = noted(lambda: None)
    batch_misplaced: bool = noted(bool, Use.PASSING)
    modules: frozenset[int] = noted(frozenset, Use.PASSING)


class Tried(NamedTuple):
    """A running try: the number of functions running when it began, and the exceptions that its handlers catch.

    It ``resumes`` if no handler for one of them leaves the loop or function, or raises another exception. It
    ``falls_back`` if a handler then returns a value, or assigns what the body should have assigned.
    """

    depth: int
    names: frozenset[str]
    resumes: bool
    falls_back: bool

    def deals_with(self, errors: Collection[str], is_near: bool) -> bool:
        """Whether a handler catches one of these, by name; or all exceptions, if it ``is_near``."""
        return not self.names.isdisjoint((*errors, *(("Exception", "BaseException") if is_near else ())))
