"""Which parameters of a module are trained: those that are frozen, and those that an optimizer's argument excludes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import libcst as cst

from placement_lint.flow.api.torch_names import LIBRARY_CRITERIA
from placement_lint.flow.domain.values import (
    NONE,
    TRUE,
    Class,
    Fact,
    Kind,
    Mapping,
    Object,
    Parameters,
    Symbol,
    Tensor,
    Value,
    alternatives,
)
from placement_lint.flow.models import gradients, modules
from placement_lint.flow.state.containers import content
from placement_lint.flow.state.heap import MAPPING
from placement_lint.flow.state.machine import Machine
from placement_lint.flow.state.module_notes import ModuleNotes
from placement_lint.flow.state.program import Program


def flagged(machine: Machine, parts: frozenset[int], flag: Value, node: cst.CSTNode) -> None:
    """``requires_grad`` is set on the parameters of these modules, or on a Parameter."""
    if flag != TRUE:
        machine.notes[ModuleNotes].ever_frozen |= parts
    machine.signals.modules.requires_grad_set(machine, parts, flag, node)


def present_flag(machine: Machine, module: Object | Symbol) -> bool | None:
    """``requires_grad`` of all parameters of a module; None if that is unknown, or if they differ."""
    below, noted = frozenset(modules.reachable(machine, module)), machine.notes[ModuleNotes]
    parts = modules.registered_below(machine, module) if isinstance(module, Object) else below
    frozen = {part for part in parts if _is_surely_frozen(machine, part)}
    if below <= frozen:
        return False if all(gradients.flag_of(machine, part) is None for part in parts - frozen) else None
    trains = isinstance(module, Object) and has_own_parameters(machine, module)
    return True if trains and parts.isdisjoint(noted.ever_frozen | noted.given_away) else None


def _is_surely_frozen(machine: Machine, part: int) -> bool:
    flags = alternatives(machine.restrict(machine.read(part, gradients.ASKED, unset=NONE)))
    return all(isinstance(flag, Fact) and flag.name == "frozen" for _, flag in flags)


def flags(machine: Machine, value: Value | None) -> list[Value]:
    """The flags that decide which parameters an optimizer's argument excludes, without duplicates."""
    said = (gradients.flag_of(machine, part) for part in _candidates(machine, value))
    # A parameter that stands for those of a loop may be frozen by its name: that is no decision of the program.
    found = dict.fromkeys(machine.restrict(flag) for flag in said if flag is not None)
    return list(found)[:_MOST_FLAGS]


_MOST_FLAGS = 3


def left_out(machine: Machine, value: Value | None) -> frozenset[int]:
    """The frozen parameters that an optimizer's argument excludes, or does not name."""
    return frozenset(part for part in _candidates(machine, value) if gradients.is_frozen(machine, part))


def _candidates(machine: Machine, value: Value | None) -> Iterable[int]:
    filtered = [part for parameters in _filtered(machine, value) for part in _ids(machine, parameters)]
    return filtered or sorted(machine.notes[ModuleNotes].ever_frozen)


def is_filtered(machine: Machine, value: Value | None) -> bool:
    """Whether an optimizer's argument takes only what asks for gradients."""
    return any(True for _ in _filtered(machine, value))


def _filtered(machine: Machine, value: Value | None) -> Iterator[Parameters]:
    for _, option in alternatives(value) if value is not None else ():
        if isinstance(option, Parameters) and option.trainable:
            yield option
        for item in grouped(machine, option):
            yield from _filtered(machine, item)


def grouped(machine: Machine, value: Value) -> Iterator[Value]:
    """What a list of tensors or a param group holds."""
    if isinstance(value, Object) and value.kind is Kind.DICT:
        value = machine.read(value.id, MAPPING) or value
    if isinstance(value, Mapping):
        given = value.get("params")
        yield from (given,) if given is not None else ()
    elif (items := content(machine, value)) is not None:
        yield from items.items


def modules_given(machine: Machine, value: Value | None) -> frozenset[int]:
    """The ids of the modules whose parameters an argument names, one by one; none if it may name others as well."""
    found = [*_modules_given(machine, value)] if value is not None else []
    return frozenset(one for one in found if one is not None) if None not in found else frozenset()


def _modules_given(machine: Machine, value: Value) -> Iterator[int | None]:
    for _, option in alternatives(value):
        if isinstance(option, Parameters):
            yield option.module.id if isinstance(option.module, Object) else None
        elif not isinstance(option, Tensor):
            items = [*grouped(machine, option)]
            yield from (one for item in items for one in _modules_given(machine, item)) if items else (None,)


def _ids(machine: Machine, parameters: Parameters) -> Iterable[int]:
    return modules.reachable(machine, parameters.module)


def around(machine: Machine, part: int) -> Iterator[int]:
    """A part of a module and the modules that it is known to be a part of."""
    current: int | None = part
    while current is not None:
        yield current
        current = machine.notes[Program].outer.get(current)


def has_own_parameters(machine: Machine, module: Object) -> bool:
    """Whether it has trainable parameters, all created here: a module trained elsewhere is not part of a criterion."""
    parts = [part for part in modules.reachable(machine, module).values() if modules.is_module(machine, part)]
    ours = all(
        isinstance(part, Object)
        and (isinstance(part.cls, Class) or part.cls.name.startswith("torch.nn.") or part.cls.name in LIBRARY_CRITERIA)
        for part in parts
    )
    return ours and modules.learns(machine, module)
