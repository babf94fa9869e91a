"""What ``named_parameters()`` yields of a module that is known in full, and what a program picks from it by name."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Sequence as Many
from dataclasses import dataclass

from placement_lint.flow.api.torch_names import CONTAINERS, NAMES_OF_PARAMETERS, PARAMETER_CONTAINERS
from placement_lint.flow.domain import partial_text
from placement_lint.flow.domain.record import record, replace
from placement_lint.flow.domain.values import (
    MISSING,
    Class,
    Const,
    Device,
    Kind,
    Object,
    Parameters,
    Role,
    Sequence,
    Symbol,
    Tensor,
    Value,
    alternatives,
    is_option,
)
from placement_lint.flow.models import gradients, modules, trainable
from placement_lint.flow.state.containers import content
from placement_lint.flow.state.machine import Machine
from placement_lint.flow.state.module_notes import ModuleNotes
from placement_lint.flow.state.notes import Notes, noted

# A module with more Parameters is not known in full.
_MOST = 64


@dataclass
class NamedParameters(Notes):
    """The modules whose parameters a program picks by name."""

    asked: list[Object] = noted(list)


@record(frozen=True)
class _Part:
    """A Parameter with its name, or what a part that is not known holds: it has all Parameters under that name."""

    name: str
    tensor: Tensor
    known: bool = True


def of(machine: Machine, module: Object | Symbol) -> Many[_Part] | None:
    """The Parameters of a module; None if there are very many, or it may have others than those of its parts."""
    found: list[_Part] = []
    for part in _below(machine, module, ""):
        if part is None or len(found) == _MOST:
            return None
        found.append(part)
    names = [part.name for part in found]
    return found if any(part.known for part in found) and len(set(names)) == len(names) else None


def _below(machine: Machine, module: Value, prefix: str) -> Iterator[_Part | None]:
    """The Parameters of a module; None among them if their names are not known."""
    if not isinstance(module, Object) or module.kind is not Kind.MODULE:
        yield _unknown(machine, module, prefix)
    elif isinstance(module.cls, Class) or module.cls.name in CONTAINERS | PARAMETER_CONTAINERS:
        if not modules.registers_only_what_is_seen(machine, module):
            yield None
        for name, child in modules.children(machine, module):
            if name == modules.UNNAMED:
                yield None
            elif not isinstance(child, Tensor):
                yield from _below(machine, child, f"{prefix}{name}.")
            elif child.role is Role.PARAMETER:
                yield _Part(f"{prefix}{name}", child)
        for name in machine.store.variables(module.id):
            value = machine.read(module.id, name)
            if isinstance(value, Symbol) and not value.type and not is_option(value):
                yield _unknown(machine, value, f"{prefix}{name}.")
    elif modules.has_parameters(machine, module) is not False:
        names, place = NAMES_OF_PARAMETERS.get(module.cls.name), modules.place_of(machine, module)
        if names is None or not isinstance(place, (Device, Symbol)):
            yield _unknown(machine, module, prefix)
            return
        known = Tensor(place, False, Role.PARAMETER, modules=frozenset({module.id}))
        yield from (_Part(f"{prefix}{name}", known) for name in names)


def _unknown(machine: Machine, module: Value, prefix: str) -> _Part | None:
    """A part with Parameters of unknown names, which all begin with the name of the part."""
    if not prefix or not isinstance(module, (Object, Symbol)):
        return None
    tensor = Tensor(machine.fresh(), None, Role.PARAMETER, modules=frozenset({module.id}))
    return _Part(prefix + partial_text.HOLE, tensor, known=False)


def pairs(machine: Machine, parameters: Value) -> tuple[Value, ...] | None:
    """What a loop over ``named_parameters()`` that asks for names goes through, where that is known."""
    if not isinstance(parameters, Parameters) or not parameters.named or not isinstance(parameters.module, Object):
        return None
    known = of(machine, parameters.module)
    if known is None:
        return None
    machine.notes[NamedParameters].asked.append(parameters.module)
    return tuple(Sequence((_name(machine, part), part.tensor)) for part in known)


def _name(machine: Machine, part: _Part) -> Value:
    return Const(part.name) if part.known else replace(machine.fresh("name", "str"), letters=part.name)


def left_out(machine: Machine, groups: Value, reached: frozenset[int], held: frozenset[int]) -> list[str]:
    """The parts of a module that train and are in none of the groups, if names pick two groups or more and most of it.

    ``reached`` is what a backward reached, ``held`` what optimizers hold.
    """
    grouped = trainable.grouped
    lists = [item for group in grouped(machine, groups) for item in grouped(machine, group)]
    picked = [_ids(content(machine, one)) for one in lists]
    known = _picked_from(machine, [ids for ids in picked if ids]) or ()
    found: dict[str, bool] = {}
    for part in known:
        ids = _ids(Sequence((part.tensor,)))
        frozen = any(gradients.is_frozen(machine, one) or one in machine.notes[ModuleNotes].ever_frozen for one in ids)
        if (part.known and not ids & reached) or frozen:
            continue
        name = part.name.rpartition(".")[0] or part.name
        found[name] = found.get(name, False) or not part.known or bool(ids & held)
    missed = [name for name, is_held in found.items() if not is_held]
    return missed if 2 * len(missed) < len(found) else []


def _ids(items: Sequence | None) -> frozenset[int]:
    """The ids of Parameters or of what they are in; none if there is anything else."""
    held = [option for item in items.items for _, option in alternatives(item)] if items is not None else []
    held = [option for option in held if not (isinstance(option, Symbol) and option.type == MISSING)]
    tensors = [option for option in held if isinstance(option, Tensor)]
    known = len(tensors) == len(held)
    return frozenset(one for item in tensors for one in (*item.modules, item.uid) if one) if known else frozenset()


def _picked_from(machine: Machine, groups: Many[frozenset[int]]) -> Many[_Part] | None:
    """The Parameters of the module from which the program picks all groups by name."""
    for module in machine.notes[NamedParameters].asked if len(groups) > 1 else ():
        known = of(machine, module) or ()
        ids = _ids(Sequence(tuple(part.tensor for part in known)))
        if all(group <= ids for group in groups):
            return known
    return None
