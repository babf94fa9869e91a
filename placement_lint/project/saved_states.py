"""State dicts that one program of a project saves in a file, and that another one loads."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePath

from placement_lint.finding import Range, Step

# Stands for an unknown part of the name of a file.
HOLE = "\0"


@dataclass(frozen=True)
class StateFile:
    """Where a state dict is: in a file with such a name, under these keys of the dict that the file holds.

    Its own keys have the ``prefix``, None if that is unknown, on one of these ``machines``, None for any.
    """

    file: str
    entries: tuple[str, ...]
    prefix: str | None
    machines: int | None


@dataclass(frozen=True)
class SavedState:
    """A state dict that the program at a path saves; ``steps`` show where, and ``standalone`` code has no caller.

    It has only tensors that are ``on_cpu``, if that is set.
    """

    program: str
    state: StateFile
    steps: tuple[Step, ...]
    standalone: bool
    on_cpu: bool

    @property
    def place(self) -> tuple[str, Range]:
        return (self.steps[-1].path, self.steps[-1].range)


def source_of(wanted: StateFile, loader: str, saved: Iterable[SavedState]) -> SavedState | None:
    """A state that a program at the path ``loader`` finds in a file, if each one that is saved there is ``wanted``.

    States for one kind of machine are wanted only if they are others elsewhere.
    """
    alike = _known([one for one in saved if _may_be_in(one.state, wanted)])
    here = [one for one in alike if _share_machine(one.state, wanted)]
    if any(one.state.prefix != wanted.prefix for one in here):
        return None
    if wanted.machines is not None and all(one.state.prefix == wanted.prefix for one in alike):
        return None
    return next((one for one in here if _are_together(one.program, loader)), None)


def are_on_cpu(name: str, loader: str, saved: Iterable[SavedState]) -> bool:
    """Whether the programs around the one at the path ``loader`` save each state on the CPU that a file may hold."""
    near = [one for one in saved if _are_together(one.program, loader)]
    alike = _known([one for one in near if not name.strip(HOLE) or are_alike(one.state.file, name)])
    return bool(alike) and all(one.on_cpu for one in alike)


def _known(saved: Iterable[SavedState]) -> list[SavedState]:
    """Without the unknown ones of definitions that nothing calls, if another program shows what is saved there."""
    all_ = [*saved]
    shown = {one.place for one in all_ if one.state.prefix is not None}
    return [one for one in all_ if one.state.prefix is not None or not one.standalone or one.place not in shown]


def _may_be_in(saved: StateFile, wanted: StateFile) -> bool:
    entries = wanted.entries[: len(saved.entries)] if saved.prefix is None else wanted.entries
    return saved.entries == entries and are_alike(saved.file, wanted.file)


def _share_machine(one: StateFile, other: StateFile) -> bool:
    return one.machines is None or other.machines is None or bool(one.machines & other.machines)


def are_alike(one: str, other: str) -> bool:
    """Whether two names of files may mean the same: they end in the same known parts."""
    ends = [[*reversed(posixpath.normpath(name).split("/"))] for name in (one, other)]
    known = [next((place for place, part in enumerate(end) if HOLE in part), len(end)) for end in ends]
    if all(count == len(end) for count, end in zip(known, ends, strict=True)):
        return ends[0] == ends[1]
    shared = min(known)
    return shared > 0 and ends[0][:shared] == ends[1][:shared]


def _are_together(one: str, other: str) -> bool:
    """Whether two programs are in the same folder, or one is in a folder below that of the other."""
    folders = [PurePath(path).parent for path in (one, other)]
    return folders[0].is_relative_to(folders[1]) or folders[1].is_relative_to(folders[0])
