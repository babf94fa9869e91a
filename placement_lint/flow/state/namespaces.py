"""The frames and classes of a program, and the objects that come up while it runs."""

from __future__ import annotations

from collections.abc import Mapping as Table
from typing import Any

import libcst as cst


class Namespaces:
    def __init__(self) -> None:
        self.parents: dict[int, int | None] = {}
        # the frames and classes: through the names there, and only so, code gets hold of what there is already
        self.ids: set[int] = set()
        # by frame: the one of the module whose code runs there
        self.roots: dict[int, int] = {}
        # frames whose variables functions inside them, classes and lambdas may still ask for when they have returned
        self.enclosing: set[int] = set()
        # frames and objects that came up while the program ran: of the branches of a fork, one at most has each
        self.own: set[int] = set()
        # by the id of a class, those of other files included
        self.definitions: dict[int, cst.ClassDef] = {}

    def add_frame(self, frame: int, parent: int | None) -> None:
        self.ids.add(frame)
        self.parents[frame] = parent
        self.roots[frame] = frame if parent is None else self.roots[parent]
        if parent is not None:
            self.own.add(frame)

    def known_of(self, identities: set[int]) -> dict[str, Any]:
        """What there is to know of some frames, classes and objects."""
        known = vars(self).items()
        return {
            name: entries & identities
            if isinstance(entries, set)
            else {identity: entries[identity] for identity in entries.keys() & identities}
            for name, entries in known
        }

    def know(self, known: Table[str, Any]) -> None:
        """Know that again."""
        for name, entries in known.items():
            vars(self)[name].update(entries)
