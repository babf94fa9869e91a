"""The keys of state dicts, and what programs make of them to add or remove the prefix of a wrapper.

Samples of keys go through the same operations as the keys of the program.
"""

from __future__ import annotations

from collections.abc import Callable

from placement_lint.flow.domain import folding
from placement_lint.flow.domain.record import replace
from placement_lint.flow.domain.values import (
    Const,
    Kind,
    Loaded,
    Mapping,
    Object,
    StateDict,
    StateKey,
    Symbol,
    Value,
)
from placement_lint.flow.models import modules
from placement_lint.flow.state.heap import MAPPING
from placement_lint.flow.state.machine import Machine

PREFIX = "module."
_BARE = ("weight", "features.0.weight")
# Only of these is it sure what replacing or splitting by them does to all other keys.
_PARTS_OF_PREFIX = ("", ".", "module", PREFIX)


def key_of(machine: Machine, state: Loaded | StateDict) -> StateKey:
    """One of the keys of a state dict."""
    return StateKey(state, tuple((key, PREFIX + key) for key in _BARE))


def _computed(machine: Machine, key: StateKey, compute: Callable[[object], Const | None]) -> Value:
    """What the program computes from a key: the same for each, or another text."""
    results = [tuple(compute(sample) for sample in pair) for pair in key.samples]
    values = {result.value for pair in results for result in pair if result is not None}
    if any(result is None for pair in results for result in pair):
        return machine.fresh("key")
    if len(values) == 1:
        return Const(values.pop())
    if not all(isinstance(value, (str, tuple)) for value in values):
        return machine.fresh("key")
    return replace(key, samples=tuple((bare.value, prefixed.value) for bare, prefixed in results if bare and prefixed))


def call_method(machine: Machine, key: StateKey, name: str, given: tuple[Value, ...]) -> Value:
    """``key.replace("module.", "")``, ``key.split(".", 1)``"""
    values = [value.value for value in given if isinstance(value, Const)]
    texts = [value for value in values if isinstance(value, str)]
    if len(values) < len(given) or not set(texts) <= set(_PARTS_OF_PREFIX):
        return machine.fresh("key")

    def called(sample: object) -> Const | None:
        if not isinstance(sample, str):
            return None
        return folding.text_method(sample, name, values) or folding.split_by_method(sample, name, values)

    return _computed(machine, key, called)


def join(machine: Machine, separator: object, key: StateKey) -> Value:
    """``".".join(key.split(".")[1:])``"""

    def joined(sample: object) -> Const | None:
        if not isinstance(separator, str) or not isinstance(sample, tuple):
            return None
        parts = [text for part in sample for text in (separator, str(part))]
        return folding.joined(parts[1:])

    return _computed(machine, key, joined)


def item(machine: Machine, key: StateKey, place: int | slice | None) -> Value:
    """``key[7:]``, ``key.split(".")[-1]``"""
    return _computed(machine, key, lambda sample: folding.item(sample, place))


def prefixed(machine: Machine, prefix: str, key: StateKey) -> Value:
    """``"module." + key``, ``f"module.{key}"``"""
    return _computed(machine, key, lambda sample: folding.arithmetic(prefix, "+", sample))


# --- dicts ---------------------------------------------------------------------------------------------------------


def put(machine: Machine, mapping: Mapping, key: Value, value: Value) -> Mapping | None:
    """A dict with an entry of a state dict under a key computed from its key; None where that is no such."""
    new = not mapping.items and mapping.rest is None
    if not isinstance(key, StateKey) or not is_for_all(machine, key) or not (new or mapping.renamed == key):
        return None
    return Mapping((), value, key)


def is_for_all(machine: Machine, key: StateKey) -> bool:
    """Whether no test since the state dict was taken decides for which keys the running code is."""
    return key.state.path == machine.path


def renamed(machine: Machine, state: Value) -> StateKey | None:
    """The keys of a dict that a program made of a state dict."""
    if isinstance(state, Object) and state.kind is Kind.DICT:
        state = machine.read(state.id, MAPPING) or state
    return state.renamed if isinstance(state, Mapping) else None


def fits(machine: Machine, state: StateDict, key: StateKey | None, into_wrapper: bool) -> bool:
    """Whether some key may be one of a wrapper's, or of a bare module's, as it is loaded."""
    if key is None:
        return state.prefixed == into_wrapper
    if not _is_known(machine, state.owner):
        return True
    samples = [pair[state.prefixed] for pair in key.samples]
    return any(sample == (PREFIX + bare if into_wrapper else bare) for sample, bare in zip(samples, _BARE, strict=True))


def shortened(state: StateDict, key: StateKey | None) -> int | None:
    """By how many characters the keys of a state dict are shorter than they were; None where they are the same."""
    if key is None:
        return None
    before = len(_BARE[-1]) + len(PREFIX) * state.prefixed
    return before - len(str(key.samples[-1][state.prefixed]))


def _is_known(machine: Machine, owner: Object | Symbol) -> bool:
    """Whether no part of a module is called like the one that a wrapper holds."""
    if isinstance(owner, Object) and owner.kind is Kind.WRAPPER:
        return True
    return isinstance(owner, Object) and all(name != "module" for name, _ in modules.children(machine, owner))
