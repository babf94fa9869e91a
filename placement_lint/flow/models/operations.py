"""Operations on tensors: they need their tensors on one device, and say where the result is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import libcst as cst

from placement_lint.flow.api.torch_names import REJECT_NUMBERS, SEVERING, VIEWS
from placement_lint.flow.domain.path_condition import MANY_GPUS, ONE_GPU, answered, machines
from placement_lint.flow.domain.record import replace
from placement_lint.flow.domain.values import (
    CPU,
    OWN,
    REPLICA,
    Backward,
    Comparison,
    Device,
    InReplica,
    Leaf,
    Loss,
    Lost,
    Mixed,
    Place,
    Role,
    Source,
    Symbol,
    Tensor,
    alternatives,
    compare,
)
from placement_lint.flow.events.mismatch_cause import Cause, cause_of
from placement_lint.flow.events.schema import DevicesMixed, Operand
from placement_lint.flow.models import (
    async_copy,
    device_choice,
    gradient_paths,
    gradients,
    modules,
    shapes,
    unregistered,
)
from placement_lint.flow.models.arrivals import meet
from placement_lint.flow.state.allocations import Allocations
from placement_lint.flow.state.devices import as_place, machines_with, resolve
from placement_lint.flow.state.machine import Machine
from placement_lint.flow.state.module_notes import ModuleNotes
from placement_lint.flow.state.moment import Calls
from placement_lint.flow.state.names import value_of
from placement_lint.flow.state.notes import Notes, Use, noted
from placement_lint.source.querying import attributes_read, last_name
from placement_lint.source.wording import source_text


@dataclass
class Tensors(Notes):
    """What happens to tensors."""

    discarded: set[object] = noted(set)
    # tensors that were reported to be on another device than what they meet, by the same
    strays: set[object] = noted(set)
    # by the node that makes or moves a tensor in a forward: the arguments around it that are tensors as well
    inputs: dict[cst.CSTNode, tuple[str, ...]] = noted(dict, Use.INCIDENTAL)
    # where ``.device`` of a tensor is read, and moves of leaves whose copies were told to keep their gradients
    devices_read: set[cst.CSTNode] = noted(set, Use.AT_END | Use.INCIDENTAL)
    # comparisons with a text beside which the program asks the same thing in another way
    asked_again: set[cst.CSTNode] = noted(set, Use.AT_END | Use.INCIDENTAL)
    retained: set[cst.CSTNode] = noted(set)


def operate(
    machine: Machine,
    operation: str | cst.CSTNode,
    operands: Iterable[Operand],
    node: cst.CSTNode,
    scalar: bool | None = None,
) -> Tensor | None:
    """An operation that requires its tensors on one device; its result, None without any tensor."""
    tensors = [operand for operand in operands if not _ignored(operand.tensor)]
    if not tensors:
        return None
    for operand in tensors:
        unregistered.used(machine, operand.tensor.uid, node)
        machine.signals.tensors.used(machine, operand.tensor, node)
    home = tensors[0]
    for operand in tensors:
        meet(machine, operand.tensor, node)
        async_copy.read(machine, operand.tensor, operand.source, node)
    for other in tensors[1:]:
        home = _meet(machine, operation, home, other, node)
    result = _computed(home.tensor, [operand.tensor for operand in tensors], scalar)
    written = next((operand.tensor for operand in tensors if operand.output), None)
    if written is not None:
        place = result.place if result.mixed is not Mixed.NO else written.place
        result = replace(result, place=place, scalar=written.scalar, dims=written.dims)
    leaves = [gradients.through(operand.tensor, "an operation", node).leaf.computed for operand in tensors]
    result = replace(result, leaf=Leaf(computed=next((leaf for leaf in leaves if leaf), None)))
    # If the move of an operand was discarded, that operand is to blame for the place of the result.
    blamed = [
        operand.tensor.created for operand in tensors if operand.tensor.created in machine.notes[Tensors].discarded
    ]
    return replace(result, created=blamed[0]) if blamed else result


def with_dimensions(name: str, operands: list[Operand]) -> list[Operand]:
    """The operands of an operation: if none of them may be 0-dim, those of unknown dimension are taken to have some."""
    if name not in REJECT_NUMBERS:
        return operands
    return [replace(one, tensor=replace(one.tensor, scalar=bool(one.tensor.scalar))) for one in operands]


def _ignored(tensor: Tensor) -> bool:
    return isinstance(tensor.place, Device) and tensor.place.kind == "meta"


def _meet(machine: Machine, operation: str | cst.CSTNode, one: Operand, other: Operand, node: cst.CSTNode) -> Operand:
    """Two operands of one operation; the one that says where the result is."""
    verdict = _compared(one.tensor.place, other.tensor.place)
    if verdict is Comparison.SAME:
        return other if one.tensor.assumed else one
    surely = (
        verdict is not Comparison.UNKNOWN
        or _made_here_for_a_moved_module(one.tensor, other.tensor)
        or (other.tensor.place == OWN and _is_kept_where_an_argument_was(machine, one.tensor))
        or (one.tensor.place == OWN and _is_kept_where_an_argument_was(machine, other.tensor))
    )
    if not surely:
        stray, home = (one, other) if one.tensor.place == CPU else (other, one)
        if stray.tensor.place == CPU and stray.tensor.scalar is False:
            _meet_an_option(machine, operation, stray, home, node)
        return Operand(one.source, replace(one.tensor, place=machine.fresh()))
    if machine.path.excludes(machines_with(one.tensor.place) & machines_with(other.tensor.place)):
        return one
    stray, home = (one, other) if _is_stray(one.tensor, other.tensor) else (other, one)
    if stray.tensor.place == CPU:
        if stray.tensor.scalar is not False and not stray.output:
            # A 0-dim CPU tensor mixes with anything; of unknown dimension it may be one.
            return home
        if stray.tensor.assumed:
            return home
        on_gpu = answered(machine.own_on_gpu, True) & machines(ONE_GPU | MANY_GPUS)
        if home.tensor.place == OWN and machine.path.excludes(on_gpu):
            return home
    elif home.tensor.place == CPU and home.tensor.scalar is not False and not home.output:
        return home
    if not _blamed_elsewhere(machine, stray.tensor) and Mixed.ADRIFT not in (stray.tensor.mixed, home.tensor.mixed):
        event = mismatch(machine, operation, stray, home, node)
        machine.emit(event)
        machine.notes[Tensors].strays.add(stray.tensor.created or stray.tensor.uid)
        by_itself = not (machine.now[Calls].in_forward or stray.whole or home.whole)
        mixed = Mixed.ADRIFT if _is_adrift(event) else Mixed.SETTLED if by_itself else Mixed.NO
        home = replace(home, tensor=replace(home.tensor, mixed=max(home.tensor.mixed, mixed)))
    if (stray.whole and not stray.unregistered) or _keeps_to_the_cpu(stray.tensor, home.tensor):
        # Once the module is where it belongs, its output may be elsewhere as well.
        return Operand(home.source, replace(home.tensor, place=machine.fresh()))
    return home


def meet_index(machine: Machine, indexed: Operand, index: Operand, node: cst.Subscript) -> None:
    """A CPU index may index a CUDA tensor, a CUDA index must not index a CPU tensor, unless it is a number."""
    tensor, key = indexed.tensor, index.tensor
    certain = not (tensor.assumed or key.assumed or Mixed.ADRIFT in (tensor.mixed, key.mixed))
    if not certain or tensor.lost is not None or tensor.place != CPU or key.scalar is not False:
        return
    if compare(tensor.place, key.place) is Comparison.DIFFERENT:
        machine.emit(mismatch(machine, "indexing", indexed, index, node))
    else:
        _meet_an_option(machine, "indexing", indexed, index, node)


def _compared(one: Place, other: Place) -> Comparison:
    """Whether two operands are on one device: some replica is on another GPU than that of any fixed number."""
    fixed = other if one == REPLICA else one if other == REPLICA else None
    return Comparison.DIFFERENT if fixed is not None and device_choice.is_one_card(fixed) else compare(one, other)


def _is_adrift(event: DevicesMixed) -> bool:
    """Whether nothing says which of the two is out of place: neither is where a module is, nor to blame by itself."""
    home = event.home.tensor
    settled = event.stray.whole or event.home.whole or home.modules or home.place in (OWN, REPLICA)
    return cause_of(event) is Cause.NOT_MOVED and not settled


def _keeps_to_the_cpu(stray: Tensor, home: Tensor) -> bool:
    """A module that works with what it has itself moved to the CPU may well never leave it."""
    return home.place == OWN and stray.source is Source.MOVE


def _meet_an_option(
    machine: Machine, operation: str | cst.CSTNode, stray: Operand, home: Operand, node: cst.CSTNode
) -> None:
    """A tensor on the CPU meets one that is where an option of the command line says."""
    if stray.tensor.assumed or home.tensor.assumed or stray.tensor.mixed is Mixed.ADRIFT:
        return
    apart = device_choice.named_away(machine, home.tensor.place)
    if not machine.path.excludes(apart) and not _blamed_elsewhere(machine, stray.tensor):
        event = mismatch(machine, operation, stray, home, node)
        scene = replace(event.scene, when=event.scene.when & apart)
        machine.emit(replace(event, scene=scene, by_option=True))


def _blamed_elsewhere(machine: Machine, stray: Tensor) -> bool:
    """Whether a tensor is out of place as a move was thrown away, a Parameter is none, or a forward made a layer."""
    if (stray.created or stray.uid) in machine.notes[Tensors].discarded:
        return True
    if not machine.notes[Allocations].ids.isdisjoint({*stray.modules, stray.uid}):
        return True
    if stray.lost is None or stray.modules:
        return False
    return stray.holder is not None or stray.lost.uid in machine.notes[ModuleNotes].unregistered


def _made_here_for_a_moved_module(one: Tensor, other: Tensor) -> bool:
    """A CPU tensor that a module makes or keeps by itself meets one that was moved to a device of the user's choice."""
    stray, home = (one, other) if one.place == CPU else (other, one)
    kept = stray.source is Source.FACTORY_IN_FORWARD or stray.holder is not None
    chosen = isinstance(home.place, Symbol) and bool(home.place.text) and not home.assumed
    return stray.place == CPU and kept and chosen and bool(home.modules)


def _is_kept_where_an_argument_was(machine: Machine, tensor: Tensor) -> bool:
    """Whether an ``__init__`` put a plain attribute on the device of a tensor that it was given.

    There it stays when the module moves.
    """
    place = tensor.place
    if tensor.holder is None or tensor.left or not isinstance(place, Symbol) or not isinstance(place.parent, Symbol):
        return False
    return place.parent.parent is None and machine.known_part(place.parent.id, "device") == place


def mismatch(
    machine: Machine, operation: str | cst.CSTNode, stray: Operand, home: Operand, node: cst.CSTNode
) -> DevicesMixed:
    unregistered = stray.unregistered or stray.tensor.uid in machine.notes[ModuleNotes].unregistered
    put = stray.tensor.history[-1].node if stray.tensor.history else None
    scene = machine.scene
    return DevicesMixed(
        node,
        replace(scene, when=scene.when & machines_with(stray.tensor.place) & machines_with(home.tensor.place)),
        operation if isinstance(operation, str) else f"`{source_text(operation)}`",
        replace(stray, unregistered=unregistered),
        home,
        bool(machine.now[Calls].in_forward),
        modules.moved_on_the_way(machine),
        _name_of_place(machine, home.tensor),
        machine.notes[Tensors].inputs.get(put, ()) if put is not None else (),
        brought=put not in machine.notes[Tensors].inputs,
        else_registered=modules.registers_otherwise(machine, stray.tensor.holder),
    )


def _name_of_place(machine: Machine, tensor: Tensor) -> str:
    """What the program calls the device of a tensor: the argument of its move, where that still means the same."""
    for note in reversed(tensor.history):
        if isinstance(note.node, cst.Call):
            method = isinstance(note.node.func, cst.Attribute) and note.node.func.attr.value in ("to", "cuda")
            source = device_choice.argument(note.node, 0 if method else len(note.node.args), "device")
            value = value_of(machine, source) if source is not None else None
            place = as_place(value) if value is not None else None
            if source is not None and place is not None and resolve(machine, place) == tensor.place:
                return source_text(source)
    return ""


def note_inputs(machine: Machine, node: cst.Call) -> None:
    """A forward makes or moves a tensor: which arguments of the running function are tensors as well?"""
    if machine.now[Calls].in_forward and node not in machine.notes[Tensors].inputs:
        machine.notes[Tensors].inputs[node] = sure_tensors(machine)


def sure_tensors(machine: Machine) -> tuple[str, ...]:
    """The required arguments of the running function that are surely tensors."""
    function = machine.frame.function
    if function is None:
        return ()
    parameters = function.node.params
    required = [param for param in (*parameters.posonly_params, *parameters.params) if param.default is None]
    return tuple(param.name.value for param in required if _is_surely_tensor(machine, function.node, param))


def _is_surely_tensor(machine: Machine, function: cst.CSTNode, param: cst.Param) -> bool:
    """Whether an argument is not a list, dict or None: by its origin, by its annotation, or by its use."""
    name = param.name.value
    value = machine.read(machine.frame.id, name)
    options = [option for _, option in alternatives(value)] if value is not None else []
    tensors = [
        option for option in options if isinstance(option, Tensor) and option.source is not Source.FACTORY_IN_FORWARD
    ]
    if not tensors or len(tensors) < len(options):
        return False
    if param.annotation is not None:
        return last_name(param.annotation.annotation) == "Tensor"
    if all(not tensor.assumed and tensor.role is not Role.BATCH for tensor in tensors):
        return True
    return not _TELL_A_TENSOR.isdisjoint(attributes_read(function, name))


_TELL_A_TENSOR = frozenset(
    [
        "device",
        "dtype",
        "shape",
        "size",
        "dim",
        "view",
        "reshape",
        "permute",
        "transpose",
        "unsqueeze",
        "squeeze",
        "flatten",
    ]
)


def _is_stray(one: Tensor, other: Tensor) -> bool:
    """Whether the first is the misplaced one: an earlier call left it, or it is on the CPU, names a card, or is new."""
    if one.left != other.left:
        return one.left
    if (one.place == CPU) != (other.place == CPU):
        return one.place == CPU
    if isinstance(one.place, Device) and one.place.kind in ("replica", "own"):
        return False
    if isinstance(other.place, Device) and other.place.kind in ("replica", "own"):
        return True
    return bool(other.modules) and not one.modules


def _entry(operands: list[Tensor]) -> cst.CSTNode | None:
    """The call through which all of them came that are from outside; None once a module's own parameters take part."""
    own = any(tensor.modules and tensor.entered is None for tensor in operands)
    return None if own else next((tensor.entered for tensor in operands if tensor.entered), None)


def _computed(home: Tensor, operands: list[Tensor], scalar: bool | None) -> Tensor:
    modules = frozenset().union(*(tensor.modules for tensor in operands))
    reductions = {tensor.loss.reduction for tensor in operands if tensor.loss.reduction}
    given = scalar is not None
    if not given:
        known = {tensor.scalar for tensor in operands}
        scalar = known.pop() if len(known) == 1 else (False if False in known else None)
    return Tensor(
        home.place,
        scalar,
        dims=max(shapes.least(tensor) for tensor in operands) if scalar is False and not given else 0,
        loss=Loss(
            reduction=reductions.pop() if len(reductions) == 1 else None,
            per_replica=any(tensor.loss.per_replica for tensor in operands),
            output=max(tensor.loss.output for tensor in operands),
        ),
        source=home.source,
        created=home.created,
        modules=modules,
        history=home.history,
        holder=home.holder,
        left=home.left,
        entered=_entry(operands),
        replica=InReplica(split=shapes.joined(operands)),
        assumed=all(tensor.assumed for tensor in operands),
        mixed=max(tensor.mixed for tensor in (home, *operands)),
        scattered=any(tensor.scattered for tensor in operands),
        backward=Backward(
            parameters=frozenset().union(*(gradients.parameters(tensor) for tensor in operands)),
            reached=gradient_paths.joined(operands),
            cuts=frozenset().union(*(tensor.backward.cuts for tensor in operands)),
            synced=frozenset().union(*(tensor.backward.synced for tensor in operands)),
            unsynced=frozenset().union(*(tensor.backward.unsynced for tensor in operands)),
        ),
    )


def derive(tensor: Tensor, how: str, node: cst.CSTNode, scalar: bool | None = None) -> Tensor:
    """What a tensor becomes by an operation of its own: same place, no longer the same tensor."""
    lost = Lost(how, node, tensor.place, tensor.uid) if tensor.role is Role.PARAMETER else tensor.lost
    role = tensor.role if tensor.role is Role.BATCH else Role.PLAIN
    operation = how.strip(".()")
    severs = operation in SEVERING
    parameters = frozenset() if severs else gradients.parameters(tensor)
    tensor = gradients.severed(tensor) if severs else gradients.through(tensor, how, node)
    return replace(
        tensor,
        scalar=scalar,
        dims=0,
        role=role,
        lost=lost,
        loss=replace(tensor.loss, gathered=None),
        leaf=replace(tensor.leaf, copied=None),
        backward=replace(tensor.backward, parameters=parameters, reached=gradient_paths.reached(tensor)),
        rows=frozenset(),
        literal=False,
        loaded=False,
        replica=InReplica(memory=tensor.replica.memory if operation in VIEWS else None),
        unfinished=None,
        uid=0,
    )
