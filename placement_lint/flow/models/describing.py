"""Abstract values and conditions in words, for users who ask what the analysis knows."""

from __future__ import annotations

from collections.abc import Iterable

from placement_lint.flow.domain.path_condition import ALWAYS, ANY_MACHINE, MACHINES, NEVER, Condition, Cube
from placement_lint.flow.domain.values import (
    MISSING,
    Class,
    Const,
    Device,
    External,
    Function,
    Kind,
    Mapping,
    Object,
    Parameters,
    Placed,
    Role,
    Sequence,
    Symbol,
    Tensor,
    Value,
    alternatives,
    describe,
)
from placement_lint.flow.models import modules, wrappers
from placement_lint.flow.state.containers import content
from placement_lint.flow.state.machine import Machine

# Texts of constants are cut to this many characters.
_LONGEST = 40
_NOUNS = {Role.PLAIN: "tensor", Role.PARAMETER: "Parameter", Role.BUFFER: "buffer", Role.BATCH: "batch"}
_UNKNOWN = "unknown"


def described(machine: Machine, value: Value) -> str:
    """A value, and where it is: each alternative with the condition under which the name holds it."""
    return _listed(machine, ((guard, _described(machine, option)) for guard, option in _options(machine, value)), "; ")


def _options(machine: Machine, value: Value) -> Iterable[tuple[Condition, Value]]:
    return alternatives(machine.restrict(value))


def _listed(machine: Machine, texts: Iterable[tuple[Condition, str]], separator: str) -> str:
    """Each text with its condition, if there are several."""
    found: dict[str, Condition] = {}
    for guard, text in texts:
        found[text] = found.get(text, NEVER) | guard
    if len(found) == 1:
        return next(iter(found))
    guarded = ((text, words(guard, machine.path)) for text, guard in found.items())
    return separator.join(f"{text} ({condition})" if condition else text for text, condition in guarded)


def words(condition: Condition, known: Condition = ALWAYS) -> str:
    """A condition as a reader would say it, without what holds anyway; empty if nothing is left."""
    if not condition.possible:
        return "never"
    cases = {_case(cube, known.machines) for cube in condition.given(known).cubes}
    return "" if "" in cases else "; or ".join(sorted(cases))


def _case(cube: Cube, machines: int) -> str:
    met = cube.machines & machines
    where = [] if met in (machines, ANY_MACHINE) else [MACHINES[met]] if met else []
    answers = sorted(cube.answers, key=lambda answer: answer.question.number)
    asked = [
        answer.words if answer.question.text else f"an unknown test is {'true' if answer.given else 'false'}"
        for answer in answers
    ]
    return ", ".join([*where, *([f"when {' and '.join(dict.fromkeys(asked))}"] if asked else [])])


def _described(machine: Machine, value: Value) -> str:
    if isinstance(value, Tensor):
        return _of_tensor(value)
    if isinstance(value, Object):
        return _of_object(machine, value)
    if isinstance(value, Device):
        return f"device {value}"
    if isinstance(value, Const):
        text = repr(value.value)
        return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
    if isinstance(value, Sequence):
        return f"{len(value.items) if value.exact else 'several'} items"
    if isinstance(value, Mapping):
        return f"a dict with {len(value.items)} known keys"
    if isinstance(value, (Class, Function)):
        return f"{'class' if isinstance(value, Class) else 'function'} {value.name}"
    if isinstance(value, External):
        return value.name
    if isinstance(value, Parameters):
        return f"the parameters of {_described(machine, value.module)}"
    if isinstance(value, Symbol):
        return _of_symbol(machine, value)
    return _UNKNOWN


def _of_tensor(tensor: Tensor) -> str:
    noun = _NOUNS.get(tensor.role, "tensor")
    kind = f"0-dim {noun}" if tensor.scalar else noun
    return f"{kind} on {describe(tensor.place)}{', by assumption' if tensor.assumed else ''}"


def _of_object(machine: Machine, value: Object) -> str:
    name = value.cls.name.rpartition(".")[2]
    if value.kind is Kind.WRAPPER:
        ids = wrappers.literal_ids(machine, value)
        inner = machine.read(value.id, modules.INNER)
        around = f" around {described(machine, inner)}" if inner is not None else ""
        return f"{name}{list(ids) if ids else ''}{around}"
    if value.kind is Kind.MODULE:
        return f"module {name}, {_places_of_module(machine, value)}"
    if value.kind is Kind.LIST:
        items = content(machine, value)
        return f"list of {_described(machine, items)}" if items is not None else "list"
    return f"{value.kind.value if value.kind is not Kind.OTHER else 'object'} {name}"


def _places_of_module(machine: Machine, module: Object) -> str:
    """Where the parameters and buffers of a module are."""
    places = _places(machine, *(value for _, value in modules.placements(machine, module)))
    if places:
        return f"its parameters on {places}"
    return "its parameters unknown" if modules.has_parameters(machine, module) is None else "without parameters"


def _places(machine: Machine, *values: Value) -> str:
    places = ((guard, _place(option)) for value in values for guard, option in _options(machine, value))
    return _listed(machine, places, " or ")


def _place(value: Value) -> str:
    place = value.place if isinstance(value, Placed) else value
    return describe(place) if isinstance(place, (Device, Symbol)) else "an unknown device"


def _of_symbol(machine: Machine, value: Symbol) -> str:
    if modules.is_module(machine, value):
        return f"module of unknown class on {_places(machine, modules.place_of(machine, value))}"
    return f"{_UNKNOWN}{f', of type {value.type}' if value.type not in ('', MISSING) else ''}"
