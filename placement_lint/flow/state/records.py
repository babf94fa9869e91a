"""What the analysis notes of a program while it runs, to come back to it at its end."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from placement_lint.flow.domain.path_condition import Condition
from placement_lint.flow.domain.values import Symbol
from placement_lint.flow.events.schema import Scene
from placement_lint.rule import Note

# What a forward is given: a parameter of its function, or an unknown value.
Input = cst.Param | Symbol


@dataclass(frozen=True)
class Tie:
    """A statement that gives a module, under some name, a Parameter of another one; the ids of both."""

    node: cst.CSTNode
    owner: int
    name: str
    uid: int
    layers: frozenset[int]


@dataclass(frozen=True)
class Chosen:
    """``on_cpu`` is the condition under which the choice falls on the CPU, ``surely_not`` the one under which every
    single flag that it depends on speaks against CUDA."""

    on_cpu: Condition
    surely_not: Condition
    note: Note
    text: str
    # the command-line option that names the device, where there is one
    option: Symbol | None = None
    # another file's code made it, from the machine alone: it would do on any, which says nothing of the program
    helpful: bool = False
    # it is made for a module, by which all that it computes is there as well
    of_module: bool = False


@dataclass(frozen=True)
class Request:
    node: cst.CSTNode
    scene: Scene
    how: str | cst.CSTNode
    # where the literal stands that names CUDA, if that is not at the request itself
    written: cst.BaseExpression | None
    # the current device was set to one that is itself chosen: index-less CUDA follows it
    follows: bool
    # what the program could name its device by, there
    names: frozenset[str]
    # the program's own file asks
    at_home: bool


@dataclass(frozen=True)
class Unmapped:
    """A load without ``map_location``; ``written`` where this very run wrote a file of that ``name`` before.

    ``at_home`` where the program's own file loads it; ``joined`` where each rank of a process group does.
    """

    node: cst.Call
    scene: Scene
    file: str
    name: str
    written: bool
    at_home: bool
    joined: Note | None


@dataclass(frozen=True)
class Parallel:
    """A DataParallel over more than one device is built."""

    node: cst.Call
    scene: Scene
    process: object
    label: str
    ddp: str
    rank: str


@dataclass(frozen=True)
class Group:
    """A process group of several processes, and which of them set it up."""

    scene: Scene
    note: Note
    process: object


@dataclass(frozen=True)
class DeviceUse:
    """The current device is used, without anybody having said which one that is."""

    scene: Scene
    note: Note
    process: object
