"""A cache of objects made from texts, of bounded size."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Thing = TypeVar("Thing")


class Shelf(Generic[Key, Thing]):
    """A cache with room for this many characters, measured by ``letters``: the least recently used entry goes first."""

    def __init__(self, room: int, letters: Callable[[Thing], int]) -> None:
        self._room = room
        self._letters = letters
        self._things: OrderedDict[Key, tuple[Thing, int]] = OrderedDict()

    def get(self, key: Key, make: Callable[[], Thing]) -> Thing:
        """The entry of that key; made if it is missing."""
        if key in self._things:
            self._things.move_to_end(key)
            return self._things[key][0]
        thing = make()
        letters = self._letters(thing)
        self._things[key] = (thing, letters)
        self._room -= letters
        while self._room < 0 and len(self._things) > 1:
            _, (_, given_back) = self._things.popitem(last=False)
            self._room += given_back
        return thing

    def clear(self) -> None:
        self._room += sum(letters for _, letters in self._things.values())
        self._things.clear()
