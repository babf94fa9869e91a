"""What ``named_parameters()`` yields of a module that is known in full, and what a program picks from it by name."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Sequence as Many

from placement_lint.flow.api.torch_names import CONTAINERS, NAMES_OF_PARAMETERS, PARAMETER_CONTAINERS
from placement_lint.flow.domain.values import (
    Class,
    Const,
    Device,
    Fact,
    Kind,
    Object,
    Parameters,
    Role,
    Sequence,
    Symbol,
    Tensor,
    Value,
)
from placement_lint.flow.models import gradients, modules, trainable
from placement_lint.flow.state.heap import Slot
from placement_lint.flow.state.machine import Machine
from placement_lint.flow.state.module_notes import ModuleNotes

# A module with more Parameters is not known in full.
_MOST = 64
# Of a list: the module from whose parameters it was picked by name.
_PICKED = Slot("picked by name")


def of(machine: Machine, module: Object | Symbol) -> Many[tuple[str, Tensor]] | None:
    """The names with the Parameters; None where not all are known, or there are very many."""
    found: list[tuple[str, Tensor]] = []
    for name, tensor in _below(machine, module, ""):
        if tensor is None or len(found) == _MOST:
            return None
        found.append((name, tensor))
    names = [name for name, _ in found]
    return found if found and len(set(names)) == len(names) else None


def _below(machine: Machine, module: Value, prefix: str) -> Iterator[tuple[str, Tensor | None]]:
    """The Parameters of a module; None among them for what is not known."""
    if not isinstance(module, Object) or module.kind is not Kind.MODULE:
        yield prefix, None
    elif isinstance(module.cls, Class) or module.cls.name in CONTAINERS | PARAMETER_CONTAINERS:
        if not modules.registers_only_what_is_seen(machine, module):
            yield prefix, None
        for name, child in modules.children(machine, module):
            if name == modules.UNNAMED:
                yield prefix, None
            elif not isinstance(child, Tensor):
                yield from _below(machine, child, f"{prefix}{name}.")
            elif child.role is Role.PARAMETER:
                yield f"{prefix}{name}", child
    elif modules.has_parameters(machine, module) is not False:
        names, place = NAMES_OF_PARAMETERS.get(module.cls.name), modules.place_of(machine, module)
        if names is None or not isinstance(place, (Device, Symbol)):
            yield prefix, None
            return
        known = Tensor(place, False, Role.PARAMETER, modules=frozenset({module.id}))
        yield from ((f"{prefix}{name}", known) for name in names)


def pairs(machine: Machine, parameters: Value) -> tuple[Value, ...] | None:
    """What a loop over ``named_parameters()`` goes through, where that is known."""
    known = of(machine, parameters.module) if isinstance(parameters, Parameters) and parameters.named else None
    return tuple(Sequence((Const(name), tensor)) for name, tensor in known) if known is not None else None


def note_picked(machine: Machine, picked: Object, parameters: Parameters) -> None:
    """A list holds those of a module's parameters whose names a program asked for."""
    machine.write(picked.id, _PICKED, Fact("picked", parameters.module))


def left_out(machine: Machine, groups: Value, reached: frozenset[int], held: frozenset[int]) -> list[str]:
    """The parts of a module that train and are in none of the groups, if names pick two groups or more and most of it.

    ``reached`` is what a backward reached, ``held`` what optimizers hold.
    """
    grouped = trainable.grouped
    given = [_picked_from(machine, item) for group in grouped(machine, groups) for item in grouped(machine, group)]
    picked = [module for module in given if module is not None]
    known = of(machine, picked[0]) if len(picked) > 1 and len({module.id for module in picked}) == 1 else None
    found: dict[str, bool] = {}
    for name, tensor in known or ():
        ids = tensor.modules | {tensor.uid}
        frozen = any(gradients.is_frozen(machine, one) or one in machine.notes[ModuleNotes].ever_frozen for one in ids)
        if not ids & reached or frozen:
            continue
        part = name.rpartition(".")[0] or name
        found[part] = found.get(part, False) or bool(ids & held)
    missed = [part for part, is_held in found.items() if not is_held]
    return missed if 2 * len(missed) < len(found) else []


def _picked_from(machine: Machine, value: Value) -> Object | Symbol | None:
    fact = machine.read(value.id, _PICKED) if isinstance(value, Object) else None
    return fact.details if isinstance(fact, Fact) and isinstance(fact.details, (Object, Symbol)) else None
