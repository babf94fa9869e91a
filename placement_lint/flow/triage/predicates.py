"""Predicates on the texts of used definitions: whether a finding may begin there."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import TypeAlias

from placement_lint.flow.triage.definition_facts import Said, read
from placement_lint.project.relevance import Wanted

Sought: TypeAlias = Callable[[Said, bool], bool]
"""A predicate on a definition, by its text, and by whether it is a module.

Statements are queried thousands of times with the same predicates, and queries are kept with results: equal predicates
are one object, and can be pickled.
"""

# Size of the caches of predicates, in sets of attributes and the like.
_REMEMBERED = 256


def begins(said: Said, is_module: bool) -> bool:
    """Whether its use may begin a finding: a module itself is analysed with all its possible arguments."""
    return said.packs or said.hides or said.goes_to_cuda if is_module else said.begins


def begins_beside_tensors(said: Said, is_module: bool) -> bool:
    """The same with tensors on the CPU: it may combine them with others."""
    return begins(said, is_module) or (said.places and not is_module)


def begins_in_module(said: Said, is_module: bool) -> bool:
    """The same in a module, which may be on a GPU: it may return tensors that are on the CPU."""
    return begins(said, is_module) or (said.gives_tensors if is_module else said.is_of_cpu)


@lru_cache(_REMEMBERED)
def may_be_tended(names: tuple[str, ...]) -> Sought:
    """Whether it may have a finding that other code refutes by setting these attributes."""
    return partial(_may_be_tended, names)


def _may_be_tended(names: tuple[str, ...], said: Said, is_module: bool) -> bool:
    return is_module and said.runs and said.may_be_tended(names) and (said.begins or said.is_of_cpu)


# --- uncalled users --------------------------------------------------------------------------------------------------


def uncalled(said: Said, is_module: bool) -> bool:
    """Whether a finding may begin in an entry point that uses it and passes it nothing that is known."""
    return begins(said, is_module) if is_module else said.alone.begins


def beside_tensors(said: Said, is_module: bool) -> bool:
    """The same with tensors on the CPU: it may return others that are on a GPU."""
    return uncalled(said, is_module) or (not is_module and said.alone.tells_own_places)


def told_device(said: Said, is_module: bool) -> bool:
    """The same if it may get a GPU by a name or number."""
    return uncalled(said, is_module) or (not is_module and said.is_of_cpu and said.alone.tells_places)


def told_device_beside_tensors(said: Said, is_module: bool) -> bool:
    """The same with both: tensors on the CPU, and a device by a name or number."""
    return uncalled(said, is_module) or (not is_module and said.alone.tells_places)


def in_forward(said: Said, is_module: bool) -> bool:
    """The same in a module that runs others in its forward only: their code is not analysed."""
    return uncalled(said, is_module) or (bool(said.givers) if is_module else said.alone.gives_or_meets)


def in_module(said: Said, is_module: bool) -> bool:
    """The same in a module, which may be on a GPU."""
    return uncalled(said, is_module) or (said.gives_tensors if is_module else said.alone.gives_or_meets)


@lru_cache(_REMEMBERED)
def tended(names: tuple[str, ...]) -> Sought:
    """Whether it may have a finding that other code refutes by setting these attributes."""
    return partial(_tended, names)


def _tended(names: tuple[str, ...], said: Said, is_module: bool) -> bool:
    if not (is_module and said.runs and said.may_be_tended(names)):
        return False
    return said.alone.begins or said.alone.meets_on_gpu(is_module)


# --- in other files --------------------------------------------------------------------------------------------------


@lru_cache(_REMEMBERED)
def in_statement(sought: Sought) -> Wanted:
    """The same for a statement of another file, where any class may be a module.

    A function that makes tensors on the CPU may meet them with others in one that it calls.
    """
    return partial(_in_statement, sought)


def _in_statement(sought: Sought, statement: str) -> bool | None:
    said = read(statement)
    return sought(said, said.is_class) or (None if said.is_of_cpu and not said.is_class else False)


def while_it_runs(statement: str) -> bool | None:
    """Whether a running statement of another file may begin a finding; None if only definitions that it uses may."""
    said = read(statement)
    return begins_in_module(said, said.is_class) or said.is_of_cpu or None
