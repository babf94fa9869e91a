"""The frames and classes of a program, and the objects that are made while it runs."""

from __future__ import annotations

from collections.abc import Mapping as Table
from typing import Any

import libcst as cst


class Namespaces:
    def __init__(self) -> None:
        self.parents: dict[int, int | None] = {}
        # the frames and classes: code reaches existing values only through the names there
        self.ids: set[int] = set()
        # by frame: the frame of the module whose code runs there
        self.roots: dict[int, int] = {}
        # frames whose variables inner functions, classes and lambdas may still read after they have returned
        self.enclosing: set[int] = set()
        # frames and objects that were made while the program ran: at most one branch of a fork has each
        self.own: set[int] = set()
        # by the id of a class, including those of other files
        self.definitions: dict[int, cst.ClassDef] = {}

    def add_frame(self, frame: int, parent: int | None) -> None:
        self.ids.add(frame)
        self.parents[frame] = parent
        self.roots[frame] = frame if parent is None else self.roots[parent]
        if parent is not None:
            self.own.add(frame)

    def known_of(self, identities: set[int]) -> dict[str, Any]:
        """The facts about some frames, classes and objects."""
        known = vars(self).items()
        return {
            name: entries & identities
            if isinstance(entries, set)
            else {identity: entries[identity] for identity in entries.keys() & identities}
            for name, entries in known
        }

    def know(self, known: Table[str, Any]) -> None:
        """Add these facts."""
        for name, entries in known.items():
            vars(self)[name].update(entries)
