"""Notes of observers and models, each in a class of its own; a machine has one instance of each.

A subclass of :class:`Notes` is about the whole program: no entry is ever removed. A subclass of :class:`Moment` is
about the current position. The ``Use`` of a field says how it is read, so that results can be kept; a field without
one is compared strictly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field, fields
from enum import Flag, auto
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

T = TypeVar("T")


class Use(Flag):
    """How a field is read; the entries of a list, set or dict count one by one."""

    # While the program runs.
    ASKED = 0
    # By the node that noted it, or only at the end of the program.
    AT_END = auto()
    # For each thing by itself, with ``Machine.noted``.
    WATCHED = auto()
    # An entry matters only beside those of others, or only if it is the first.
    WEIGHED = auto()
    # The analysis of an entry point reads the notes of others only through this.
    SHARED = auto()
    # A second call of a forward reads the notes made before it.
    REPEATED = auto()
    # Of nodes, or of all that occurs: an entry has no effect.
    INCIDENTAL = auto()
    # About things that exist independently of the analysis that reads them.
    LASTING = auto()
    # Computed from the heap, and the same when computed again.
    DERIVED = auto()
    # Of a moment: the analysis there does not depend on it.
    PASSING = auto()
    # Of a moment: restored otherwise, or read only by the statement that set it.
    LOCAL = auto()


def noted(kind: Callable[[], T], use: Use = Use.ASKED) -> T:
    """A field of notes that is empty at first."""
    made: T = field(default_factory=kind, metadata={"use": use})
    return made


class Notes:
    """Base of the dataclasses with notes about the whole program."""


class Moment:
    """Base of the dataclasses about the current position."""


class Registry(NamedTuple):
    """A field of some notes."""

    notes: type[Any]
    name: str


class ByClass(dict[type[Any], Any]):
    """An instance of each class."""

    if TYPE_CHECKING:

        def __getitem__(self, kind: type[T], /) -> T: ...

    def get_registry(self, registry: Registry) -> Any:
        return getattr(self[registry.notes], registry.name)

    def set_registry(self, registry: Registry, value: Any) -> None:
        setattr(self[registry.notes], registry.name, value)

    @contextmanager
    def replaced(self, registries: dict[Registry, Any]) -> Iterator[None]:
        """Use these values of the registries while the body runs, instead of its own."""
        before = {registry: self.get_registry(registry) for registry in registries}
        self.update_registries(registries)
        try:
            yield
        finally:
            registries.update({registry: self.get_registry(registry) for registry in registries})
            self.update_registries(before)

    def update_registries(self, registries: Mapping[Registry, Any]) -> None:
        for registry, value in registries.items():
            self.set_registry(registry, value)


def all_notes() -> ByClass:
    """Empty notes."""
    return ByClass((kind, kind()) for kind in Notes.__subclasses__())


def beginning() -> ByClass:
    """The position at which a program begins."""
    return ByClass((kind, kind()) for kind in Moment.__subclasses__())


def _uses(kind: type[Any]) -> Mapping[str, Use]:
    """The fields of some notes, with how each is read."""
    return {each.name: each.metadata["use"] for each in fields(kind)}


def moments(without: Use) -> Mapping[type[Any], tuple[str, ...]]:
    """The fields of the current position, without those of such a use."""
    return _chosen(tuple(Moment.__subclasses__()), without)


@cache
def _chosen(kinds: tuple[type[Moment], ...], without: Use) -> Mapping[type[Any], tuple[str, ...]]:
    return {kind: tuple(name for name, use in _uses(kind).items() if not use & without) for kind in kinds}


# --- registries ----------------------------------------------------------------------------------------------------


class Registries(NamedTuple):
    """The fields of all notes, sorted by their use; lists, and other fields that are read at the end, apart."""

    asked: tuple[Registry, ...]
    listed: tuple[Registry, ...]
    collected: tuple[Registry, ...]
    # the notes made by the analysis of an entry point, and those it reads; those that a second call of a forward reads
    own: tuple[Registry, ...]
    shared: tuple[Registry, ...]
    repeated: tuple[Registry, ...]
    weighed: frozenset[Registry]
    # the notes that show whether a method had an effect
    effects: tuple[Registry, ...]


def registries() -> Registries:
    return _sorted(tuple(Notes.__subclasses__()))


@cache
def _sorted(kinds: tuple[type[Notes], ...]) -> Registries:
    every = {Registry(kind, name): use for kind in kinds for name, use in _uses(kind).items()}
    lists = {each for each in every if isinstance(getattr(each.notes(), each.name), list)}

    def those(use: Use, without: Use = Use.ASKED) -> tuple[Registry, ...]:
        return tuple(each for each, its in every.items() if use in its and not its & without)

    at_end = those(Use.AT_END)
    return Registries(
        asked=those(Use.ASKED, Use.AT_END | Use.WATCHED | Use.DERIVED),
        listed=tuple(each for each in at_end if each in lists),
        collected=tuple(each for each in at_end if each not in lists),
        own=those(Use.ASKED, Use.LASTING | Use.DERIVED),
        shared=those(Use.SHARED),
        repeated=those(Use.REPEATED),
        weighed=frozenset(those(Use.WEIGHED)),
        effects=those(Use.ASKED, Use.INCIDENTAL | Use.LASTING | Use.DERIVED),
    )


def empty(kept: tuple[Registry, ...]) -> dict[Registry, Any]:
    """Empty registries."""
    made = {each.notes: each.notes() for each in kept}
    return {each: getattr(made[each.notes], each.name) for each in kept}


def copied(registry: Any) -> Any:
    """A copy of the current entries of a registry."""
    return registry.copy() if isinstance(registry, (dict, list, set)) else registry


def added(before: Any, after: Any) -> Any:
    """The entries that a registry gained; old entries are never removed."""
    if isinstance(after, list):
        return after[len(before) :]
    if isinstance(after, set):
        return after - before
    if isinstance(after, dict):
        return {key: entry for key, entry in after.items() if key not in before}
    return after if after != before else None


def with_entries(registry: Any, entries: Any) -> Any:
    """The same registry, with these entries added."""
    if isinstance(registry, list):
        registry.extend(entries)
    elif isinstance(registry, set):
        registry.update(entries)
    elif isinstance(registry, dict):
        for key, entry in entries.items():
            if isinstance(entry, (list, set, dict)):
                with_entries(registry.setdefault(key, type(entry)()), entry)
            else:
                registry.setdefault(key, entry)
    else:
        return entries
    return registry
