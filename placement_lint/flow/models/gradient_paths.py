"""Cuts: where backpropagation ends, and the parameters that it therefore never reaches.

A parameter is known to be untrained only if all of a loss is known: ``Backward.reached`` is None wherever something
unknown takes part in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import libcst as cst

from placement_lint.flow.api.torch_names import HOST_VALUE_TYPES, NUMBER_TYPES
from placement_lint.flow.domain.arguments import Arguments
from placement_lint.flow.domain.record import replace
from placement_lint.flow.domain.values import (
    NONE,
    AtLeast,
    Choice,
    Const,
    Cut,
    Device,
    External,
    Fact,
    Kind,
    Object,
    Role,
    Sequence,
    Symbol,
    Tensor,
    Value,
    alternatives,
)
from placement_lint.flow.models import modules
from placement_lint.flow.models.gradients import NoGrad
from placement_lint.flow.state.containers import content
from placement_lint.flow.state.heap import Slot
from placement_lint.flow.state.machine import Machine
from placement_lint.flow.state.moment import Calls

# Of the program: the cuts behind the last loss that went backward, and where that was.
CUTS = Slot("cuts")
# Of an array: the cuts behind it.
_CUTS = Slot("cuts of an array")
# Networks with these names are meant to stay as they are, or to follow another network.
_KEPT = re.compile(r"target|teacher|frozen|fixed|random|momentum|ema|prior|reference", re.IGNORECASE)
# Values of these types carry no gradient.
_PLAIN_TYPES = NUMBER_TYPES | {"str", "torch.Size", "torch.dtype", "list", "numpy.ndarray"}


# --- what a backward reaches ---------------------------------------------------------------------------------------


def reached(tensor: Tensor) -> frozenset[int] | None:
    """The modules and Parameters that a backward from a tensor reaches; None where that is not known."""
    if tensor.role is Role.PARAMETER and tensor.uid:
        return tensor.modules | {tensor.uid}
    return tensor.backward.reached


def joined(tensors: Iterable[Tensor]) -> frozenset[int] | None:
    """The same of what is computed from all of them."""
    known = [reached(tensor) for tensor in tensors]
    return frozenset().union(*(one for one in known if one is not None)) if None not in known else None


def after(machine: Machine, result: Value, *given: Value) -> Value:
    """The result of a call that was given these values; a result that is not a tensor may contain any of them."""
    if isinstance(result, Tensor):
        return accompanied(machine, result, *given)
    if isinstance(result, Sequence):
        return replace(result, items=tuple(after(machine, item, *given) for item in result.items))
    machine.signals.tensors.lost(machine, given)
    return result


def accompanied(machine: Machine, result: Tensor, *others: Value) -> Tensor:
    """What came of an operation that other values took part in as well, if only perhaps."""
    if result.backward.reached is None:
        return result
    given = [option for value in others for option in flat(machine, value)]
    tensors = [option for option in given if isinstance(option, Tensor)]
    plain = all(_is_plain(option) for option in given if not isinstance(option, Tensor))
    cuts = result.backward.cuts.union(*(tensor.backward.cuts for tensor in tensors))
    return _reaching(result, joined((result, *tensors)) if plain else None, cuts)


def _reaching(tensor: Tensor, parts: frozenset[int] | None, cuts: frozenset[Cut]) -> Tensor:
    return replace(tensor, backward=replace(tensor.backward, reached=parts, cuts=cuts))


def flat(machine: Machine, value: Value) -> list[Value]:
    """The alternatives of a value, and what is in lists; an unknown value besides where there may be more in them."""
    if not isinstance(value, (Choice, Sequence, Object)):
        return [value]
    found: list[Value] = []
    for _, option in alternatives(value):
        items = content(machine, option)
        if items is None:
            found.append(option)
            continue
        found.extend(inner for item in items.items for inner in flat(machine, item))
        if not items.exact:
            found.append(Symbol(0))
    return found


def _is_plain(value: Value) -> bool:
    return isinstance(value, (Const, AtLeast, Device, External)) or (
        isinstance(value, Symbol) and value.type in _PLAIN_TYPES
    )


# --- cuts ----------------------------------------------------------------------------------------------------------


def cut(machine: Machine, result: Tensor, cut_off: Value, how: str, node: cst.CSTNode) -> Tensor:
    """``cut_off.detach()``: no backward from the result comes back past here."""
    tensors = [option for option in flat(machine, cut_off) if isinstance(option, Tensor)]
    cuts = frozenset().union(*(tensor.backward.cuts for tensor in tensors))
    behind = (joined(tensors) or frozenset()) & _own(machine)
    return _reaching(result, frozenset(), cuts | {Cut(node, how, behind)} if behind else cuts)


def _own(machine: Machine) -> frozenset[int]:
    """The parts of the module whose code cuts; none where it does so on purpose, under a test of its own."""
    module, function = machine.frame.receiver, machine.frame.function
    if not isinstance(module, Object) or module.kind is not Kind.MODULE or function is None:
        return frozenset()
    if not machine.now[Calls].in_forward or machine.now[NoGrad].count:
        return frozenset()
    if machine.chooses:
        return frozenset()
    children = [child for name, child in modules.children(machine, module) if not _KEPT.search(name)]
    return frozenset(part for child in children for part in _parts(machine, child))


def _parts(machine: Machine, child: Value) -> Iterator[int]:
    """A Parameter, or the layers of a module that begin with random weights: a library's model is trained already."""
    if isinstance(child, Tensor):
        yield child.uid
    elif isinstance(child, Object):
        parts = modules.reachable(machine, child)
        opaque = {identity for identity, part in parts.items() if not isinstance(part, Object) or _is_opaque(part)}
        yield from (modules.registered_below(machine, child) | {child.id}) - opaque


def _is_opaque(module: Object) -> bool:
    return isinstance(module.cls, External) and not module.cls.name.startswith("torch.nn.")


def of_data(machine: Machine, name: str, made: Tensor, arguments: Arguments, node: cst.Call) -> Tensor:
    """``torch.tensor(data)`` takes the values and no gradient; its kind may be the very tensor that they are given."""
    data = arguments.get(0, "data") or NONE
    given = flat(machine, data)
    if name == "torch.tensor":
        made = cut(machine, made, data, "torch.tensor", node)
    elif not all(map(_is_plain, given)):
        made = _reaching(made, None, made.backward.cuts)
    cuts = made.backward.cuts.union(*(_cuts_of_array(machine, option) for option in given))
    return _reaching(made, made.backward.reached, cuts)


def _cuts_of_array(machine: Machine, value: Value) -> frozenset[Cut]:
    held = machine.read(value.id, _CUTS) if isinstance(value, Symbol) else None
    return held.details if isinstance(held, Fact) and isinstance(held.details, frozenset) else frozenset()


def as_array(machine: Machine, tensor: Tensor) -> Symbol:
    """``tensor.detach().numpy()``: a tensor of the array comes after the same cuts."""
    array = machine.fresh("ndarray", HOST_VALUE_TYPES["numpy"])
    if tensor.backward.cuts:
        machine.write(array.id, _CUTS, Fact("cuts", tensor.backward.cuts))
    return array
