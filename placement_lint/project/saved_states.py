"""State dicts that one program of a project saves in a file, and that another one loads."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import takewhile
from pathlib import PurePath

from placement_lint.finding import Range, Step

# Stands for an unknown part of the name of a file.
HOLE = "\0"


@dataclass(frozen=True)
class StateFile:
    """Where a state dict is: in a file with such a name, under these keys of the dict that the file holds.

    Its own keys have the ``prefix``, None if that is unknown, on one of these ``machines``, None for any. It belongs to
    a module of this class, named by its file, itself and no attribute; empty if that is unknown. If it is loaded, the
    name may be that of an option ``by_default``: the user may name another file.
    """

    file: str
    entries: tuple[str, ...]
    prefix: str | None
    machines: int | None
    cls: tuple[str, ...]
    by_default: bool = False


@dataclass(frozen=True)
class SavedState:
    """A state dict that the program at a path saves; ``steps`` show where, and ``standalone`` code has no caller.

    It has only tensors that are ``on_cpu``, if that is set. An ``option`` of the program, in words, decides between its
    prefix and another one; empty if none does.
    """

    program: str
    state: StateFile
    steps: tuple[Step, ...]
    standalone: bool
    on_cpu: bool
    option: str

    @property
    def place(self) -> tuple[str, Range]:
        return (self.steps[-1].path, self.steps[-1].range)


def source_of(wanted: StateFile, loader: str, saved: Iterable[SavedState], *, either: bool) -> SavedState | None:
    """A state that a program at the path ``loader`` finds in a file, if each one that is saved there is ``wanted``.

    States for one kind of machine are wanted only if they are others elsewhere. One that an option of the program that
    saves it decides is enough, unless the one that loads it takes ``either``: then its user chooses the one that fits.
    """
    saved = [one for one in saved if _has_entries(one.state, wanted)]
    alike = _known([one for one in saved if _may_be_in(one.state, wanted)])
    if not alike and wanted.by_default:
        # What the program itself loads and saves are different files, by their names.
        alike = _known([one for one in saved if one.program != loader and one.state.cls == wanted.cls != ()])
    here = [one for one in alike if _share_machine(one.state, wanted)]
    found = [one for one in here if one.state.prefix == wanted.prefix]
    others = [one for one in here if one.state.prefix != wanted.prefix]
    if others:
        found = [one for one in found if one.option and not either]
        chosen = {(one.program, one.place) for one in found}
        if any(one.state.prefix is None or (one.program, one.place) not in chosen for one in others):
            return None
    if wanted.machines is not None and (others or len(found) == len(alike)):
        return None
    return next((one for one in found if _are_together(one.program, loader)), None)


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


def _has_entries(saved: StateFile, wanted: StateFile) -> bool:
    return saved.entries == (wanted.entries[: len(saved.entries)] if saved.prefix is None else wanted.entries)


def _may_be_in(saved: StateFile, wanted: StateFile) -> bool:
    # What the user may name is any file in which the project saves such a module.
    return are_alike(saved.file, wanted.file) or (not _known_end(wanted.file) and saved.cls == wanted.cls != ())


def _share_machine(one: StateFile, other: StateFile) -> bool:
    return one.machines is None or other.machines is None or bool(one.machines & other.machines)


def are_alike(one: str, other: str) -> bool:
    """Whether two names of files may mean the same: they end in the same known parts."""
    known = [_known_end(name) for name in (one, other)]
    if HOLE not in one + other:
        return known[0] == known[1]
    shared = min(map(len, known))
    return shared > 0 and known[0][:shared] == known[1][:shared]


def _known_end(name: str) -> list[str]:
    """The last parts of the name of a file, from its end on, as far as they are known."""
    return [*takewhile(lambda part: HOLE not in part, reversed(posixpath.normpath(name).split("/")))]


def _are_together(one: str, other: str) -> bool:
    """Whether two programs are in the same folder, or one is in a folder below that of the other."""
    folders = [PurePath(path).parent for path in (one, other)]
    return folders[0].is_relative_to(folders[1]) or folders[1].is_relative_to(folders[0])
