"""Attributes that are replaced for a while, and put back in the opposite order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_ABSENT = object()


class Patches:
    """Replacements of attributes of modules and classes; inherited ones reappear when theirs are removed."""

    def __init__(self) -> None:
        self._before: list[tuple[Any, str, Any]] = []

    def set(self, owner: Any, name: str, value: Any) -> None:
        self._before.append((owner, name, vars(owner).get(name, _ABSENT)))
        setattr(owner, name, value)

    def set_all(self, owner: Any, values: dict[str, Any]) -> None:
        for name, value in values.items():
            self.set(owner, name, value)

    def set_existing(self, owner: Any, values: dict[str, Any]) -> None:
        """Replace what this version of PyTorch has, and skip what it lacks."""
        self.set_all(owner, {name: value for name, value in values.items() if hasattr(owner, name)})

    def remove_all(self, owner: Any, names: Iterable[str]) -> None:
        """Leave out what the simulated build of PyTorch lacks."""
        for name in names:
            if name in vars(owner):
                self._before.append((owner, name, vars(owner)[name]))
                delattr(owner, name)

    def replaced_in(self, kind: type) -> Iterator[tuple[Any, Any]]:
        """What was there before, and what is there now, in owners of one kind."""
        for owner, name, before in self._before:
            if isinstance(owner, kind) and before is not _ABSENT and name in vars(owner):
                yield before, vars(owner)[name]

    def undo(self) -> None:
        while self._before:
            owner, name, value = self._before.pop()
            if value is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, value)
