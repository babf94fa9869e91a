"""Records that the analysis makes while a program runs, and evaluates at its end."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from placement_lint.flow.domain.path_condition import Condition
from placement_lint.flow.domain.values import Symbol, Value
from placement_lint.flow.events.schema import Scene
from placement_lint.rule import Note

# An input of a forward: a parameter of its function, or an unknown value.
Input = cst.Param | Symbol


@dataclass(frozen=True)
class Tie:
    """A statement that assigns a Parameter of one module to another, under some name; the ids of both."""

    node: cst.CSTNode
    owner: int
    name: str
    uid: int
    layers: frozenset[int]


@dataclass(frozen=True)
class Chosen:
    """A choice of a device.

    ``on_cpu`` is its condition for the CPU, ``surely_not`` the condition under which every single flag that it depends
    on excludes CUDA.
    """

    on_cpu: Condition
    surely_not: Condition
    note: Note
    text: str
    # the command-line option that names the device, if there is one
    option: Symbol | None = None
    # another file's code makes it, from the machine alone: it would work on any, so it shows nothing about the program
    helpful: bool = False
    # it is made for a module, and so applies to all that the module computes
    of_module: bool = False
    # the option is the number of a GPU
    by_index: bool = False
    # the parameters of the function that makes it
    function: cst.CSTNode | None = None
    # the statements under ``if __name__ == "__main__"`` make it, which other programs do not run
    by_script: bool = False
    # the names of the class and method, or of the function, that makes it, if that was analysed by itself
    entry: tuple[cst.CSTNode, ...] = ()

    def covers(self, scene: Scene) -> bool:
        """Whether it is made in a program that gets there: the methods of a class need not run in one program."""
        return bool(self.entry) == bool(scene.entry) and scene.entry[: len(self.entry)] == self.entry


@dataclass(frozen=True)
class Request:
    node: cst.CSTNode
    scene: Scene
    how: str | cst.CSTNode
    # the position of the literal that names CUDA, if it is not at the request itself
    written: cst.BaseExpression | None
    # the current device was set to a chosen one: CUDA without an index follows it
    follows: bool
    # the names that the program could use for its device there
    names: frozenset[str]
    # the request is in the program's own file
    at_home: bool
    # it names no device that could be replaced by the chosen one
    fixed: bool = False
    # the number of the GPU that becomes the current one: nothing is moved, so it is harmless where there is one
    current: Value | None = None
    # the option that gives the number of the GPU
    number: Symbol | None = None
    # it is in a branch that is taken where a tensor is on a GPU
    beside: bool = False


@dataclass(frozen=True)
class Unmapped:
    """A load without ``map_location``; ``written`` if the same run wrote a file of that ``name`` before, or the file
    ``itself``. ``unwritten`` is the rest of the ways that lead there, by the options of the program.

    ``given`` is its path, as a value; ``at_home`` if the program's own file loads it; ``joined`` if each rank of a
    process group does.
    """

    node: cst.Call
    scene: Scene
    file: str
    name: str
    given: Value | None
    written: bool
    itself: bool
    unwritten: Condition
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
    # the call that started this process and others
    started: Note | None = None


@dataclass(frozen=True)
class Group:
    """A process group of several processes, and the process that sets it up."""

    scene: Scene
    note: Note
    process: object


@dataclass(frozen=True)
class DeviceUse:
    """A use of the current device, without any code having set it."""

    scene: Scene
    note: Note
    process: object
