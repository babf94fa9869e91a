"""The keys of state dicts, and what programs make of them to add or remove the prefix of a wrapper.

Samples of keys go through the same operations as the keys of the program.
"""

from __future__ import annotations

from collections.abc import Callable

from placement_lint.flow.api.torch_names import COMPILED_PREFIX, WRAPPER_PREFIX
from placement_lint.flow.domain import folding
from placement_lint.flow.domain.path_condition import ALWAYS, Condition
from placement_lint.flow.domain.record import replace
from placement_lint.flow.domain.values import (
    NONE,
    Const,
    Kind,
    Loaded,
    Mapping,
    Object,
    Slice,
    StateDict,
    StateKey,
    Symbol,
    Value,
    alternatives,
    is_compiled,
)
from placement_lint.flow.models import averaged, modules
from placement_lint.flow.state.heap import MAPPING
from placement_lint.flow.state.machine import Machine

_PREFIXES = ("", WRAPPER_PREFIX, COMPILED_PREFIX, WRAPPER_PREFIX + COMPILED_PREFIX, COMPILED_PREFIX + WRAPPER_PREFIX)
_BARE = ("weight", "features.0.weight")
# Only of these is it sure what replacing or splitting by them does to all other keys.
_PARTS_OF_PREFIX = ("", ".", "module", WRAPPER_PREFIX, "_orig_mod", COMPILED_PREFIX)


# Sample keys, each with the prefix of every kind of wrapper.
_SAMPLES = tuple(tuple(prefix + key for prefix in _PREFIXES) for key in _BARE)


def key_of(state: Loaded | StateDict) -> StateKey:
    """One of the keys of a state dict."""
    return StateKey(state, _SAMPLES)


def prefixes(machine: Machine, module: Value | None) -> list[tuple[Condition, str]]:
    """The prefixes of the keys in the state dict of a module, each with its condition."""
    if not isinstance(module, Object):
        return [(ALWAYS, "")]
    found = [(ALWAYS, "")]
    if module.kind is Kind.WRAPPER or averaged.is_averaged(module):
        inner = machine.read(module.id, modules.INNER if module.kind is Kind.WRAPPER else averaged.COPY)
        options = alternatives(inner) if inner is not None else ((ALWAYS, NONE),)
        found = [
            (guard & inside, WRAPPER_PREFIX + prefix)
            for guard, option in options
            for inside, prefix in prefixes(machine, option)
        ]
    if is_compiled(module):
        bare = module.compiled.negation
        found = [
            *((guard & module.compiled, COMPILED_PREFIX + prefix) for guard, prefix in found),
            *((guard & bare, prefix) for guard, prefix in found),
        ]
    return [(guard, prefix) for guard, prefix in found if guard.possible]


def _computed(machine: Machine, key: StateKey, compute: Callable[[object], Const | None]) -> Value:
    """What the program computes from a key: the same for each, or another text."""
    results = [tuple(compute(sample) for sample in row) for row in key.samples]
    values = {result.value for row in results for result in row if result is not None}
    if any(result is None for row in results for result in row):
        return machine.fresh("key")
    if len(values) == 1:
        return Const(values.pop())
    if not all(isinstance(value, (str, tuple)) for value in values):
        return machine.fresh("key")
    return replace(key, samples=tuple(tuple(one.value for one in row if one is not None) for row in results))


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


def item(machine: Machine, key: StateKey, index: Value) -> Value:
    """``key[7:]``, ``key.split(".")[-1]``"""
    if isinstance(index, Slice) and index.bounds is not None:
        place: object = slice(*index.bounds)
    else:
        place = index.value if isinstance(index, Const) else None
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


def fits(machine: Machine, state: StateDict, key: StateKey | None, into: str) -> bool:
    """Whether some key may be one of a module whose keys have the prefix ``into``, as it is loaded."""
    if key is None:
        return state.prefix == into
    if not is_known(machine, state.owner) or state.prefix not in _PREFIXES:
        return True
    return fits_with_prefix(state.prefix, key, into)


def fits_with_prefix(prefix: str, key: StateKey | None, into: str) -> bool:
    """The same for a state dict whose keys have one of the known prefixes, and no part is called like that."""
    if key is None:
        return prefix == into
    samples = [row[_PREFIXES.index(prefix)] for row in key.samples]
    return any(sample == into + bare for sample, bare in zip(samples, _BARE, strict=True))


def shortened(state: StateDict, key: StateKey | None) -> int | None:
    """By how many characters the keys of a state dict are shorter than they were; None where they are the same."""
    if key is None:
        return None
    if state.prefix not in _PREFIXES:
        return None
    before = len(_BARE[-1]) + len(state.prefix)
    return before - len(str(key.samples[-1][_PREFIXES.index(state.prefix)]))


def is_known(machine: Machine, owner: Object | Symbol) -> bool:
    """Whether no part of a module is called like the one that a wrapper holds."""
    if isinstance(owner, Object) and owner.kind is Kind.WRAPPER:
        return True
    return isinstance(owner, Object) and all(name != "module" for name, _ in modules.children(machine, owner))
