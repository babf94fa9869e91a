"""Tensors: where they are made, what operations need of them, and what comes out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import libcst as cst

from placement_lint.flow.api.torch_names import (
    DEVICE_FLAGS,
    ELEMENTWISE,
    FACTORIES_OF_DATA,
    HOST_FACTORIES,
    HOST_VALUE_ATTRIBUTES,
    HOST_VALUE_METHODS,
    HOST_VALUE_TYPES,
    NEW_METHODS,
    NUMBER_TYPES,
    REDUCTIONS,
    REJECT_NUMBERS,
    SAME_DEVICE,
    SEVERING,
    SIZE,
    VIEWS,
    Shape,
)
from placement_lint.flow.domain.arguments import Arguments
from placement_lint.flow.domain.path_condition import ALWAYS, MANY_GPUS, ONE_GPU, Answer, answered, machines
from placement_lint.flow.domain.record import replace
from placement_lint.flow.domain.values import (
    ACCELERATORS,
    ARRAY,
    CPU,
    FALSE,
    NONE,
    OWN,
    REPLICA,
    TRUE,
    Backward,
    Bound,
    Choice,
    Comparison,
    Const,
    Device,
    External,
    InReplica,
    Leaf,
    Loss,
    Lost,
    Mixed,
    Place,
    Placed,
    Role,
    Sequence,
    Source,
    Symbol,
    Tensor,
    Value,
    alternatives,
    compare,
    describe,
    guard_of,
)
from placement_lint.flow.events.mismatch_cause import Cause, cause_of
from placement_lint.flow.events.schema import (
    DevicesMixed,
    GradientOfCopyRead,
    HostRead,
    MoveDiscarded,
    Operand,
    ParametersRead,
    ReplicaLossReduced,
)
from placement_lint.flow.models import (
    async_copy,
    backward,
    ddp,
    device_choice,
    gradient_paths,
    gradients,
    hooks,
    modules,
    replica_losses,
    shapes,
    trainable,
    visible_devices,
)
from placement_lint.flow.models.arrivals import arrive, meet
from placement_lint.flow.models.replica_losses import ReplicaLosses
from placement_lint.flow.state.allocations import Allocations
from placement_lint.flow.state.containers import content, depends
from placement_lint.flow.state.devices import as_place, default_place, place_of_default_type, resolve, target_place
from placement_lint.flow.state.machine import Machine
from placement_lint.flow.state.module_notes import ModuleNotes
from placement_lint.flow.state.moment import Around, Calls
from placement_lint.flow.state.names import is_bound_here, value_of
from placement_lint.flow.state.notes import Notes, Use, noted
from placement_lint.rule import Note
from placement_lint.source.querying import attributes_read, last_name, names_after, names_in
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


# --- making tensors ----------------------------------------------------------------------------------------


def build(machine: Machine, name: str, shape: Shape, arguments: Arguments, node: cst.Call) -> Value:
    """A factory's result: ``torch.zeros(3, device=d)``."""
    given, filled = arguments.keyword("device"), arguments.keyword("out")
    _note_inputs(machine, node)
    if filled is not None and filled != NONE:
        # ``torch.arange(n, out=t)`` is ``t``, where that is.
        return filled
    if given is None or given == NONE:
        data = arguments.get(0, "data")
        if name in FACTORIES_OF_DATA and data is not None and _has_place(machine, data):
            return machine.lift(lambda option: _from_data(machine, name, option, node), data)
        source = Source.FACTORY_IN_FORWARD if machine.now[Calls].in_forward else Source.FACTORY
        scalar = _scalar(machine, shape, arguments)

        def make(place: Value) -> Value:
            assert isinstance(place, (Device, Symbol))
            built = _built(machine, name, place, source, scalar, node)
            literal, leaf = shape is Shape.DATA, arguments.keyword("requires_grad") == TRUE
            built = replace(built, rows=_rows(machine, shape, arguments), literal=literal, leaf=Leaf(leaf))
            built = shapes.with_at_least(built, _dimensions(machine, shape, arguments))
            of_data = shape in (Shape.DATA, Shape.ARRAY, Shape.CONSTRUCTOR)
            return gradient_paths.of_data(machine, name, built, arguments, node) if of_data else built

        # A copy of something unknown, which may be a tensor, is where that is.
        unknown = name in FACTORIES_OF_DATA and isinstance(data, Symbol) and not data.type
        return machine.lift(make, machine.fresh() if unknown else _default_place(machine, name))
    written = device_choice.argument(node, len(node.args), "device")
    how = node if written is None else f"device={source_text(written)}"
    given = device_choice.without_cpu(machine, given, written, node)
    device_choice.request_literal(machine, given, written, how, node)
    rows, literal = _rows(machine, shape, arguments), shape is Shape.DATA
    dims = _dimensions(machine, shape, arguments)
    leaf = arguments.keyword("requires_grad") == TRUE

    def make_on(device: Value) -> Value:
        built = _built_on(machine, name, device, _scalar(machine, shape, arguments), node, leaf)
        if not isinstance(built, Tensor):
            return built
        built = shapes.with_at_least(replace(built, rows=rows, literal=literal), dims)
        return gradient_paths.of_data(machine, name, built, arguments, node) if literal else built

    return machine.lift(make_on, given)


def _default_place(machine: Machine, name: str) -> Value:
    if name in HOST_FACTORIES:
        return CPU
    return place_of_default_type(machine) if name == "torch.Tensor" else default_place(machine)


def _has_place(machine: Machine, data: Value) -> bool:
    """Whether data is a tensor already, or may be one: an unknown value that has been moved."""
    return any(
        isinstance(option, Tensor)
        or (isinstance(option, Symbol) and machine.read(option.id, modules.PLACE) is not None)
        for _, option in alternatives(data)
    )


def _from_data(machine: Machine, name: str, data: Value, node: cst.Call) -> Value:
    """``torch.as_tensor(t)`` is ``t``, ``torch.tensor(t)`` a copy of it in the same place."""
    if not isinstance(data, Tensor):
        return machine.fresh(node)
    if name == "torch.as_tensor":
        return data
    return gradient_paths.cut(machine, derive(data, "torch.tensor", node, data.scalar), data, "torch.tensor", node)


def _built_on(
    machine: Machine, name: str, device: Value, scalar: bool | None, node: cst.Call, leaf: bool = False
) -> Value:
    place = as_place(device)
    resolved = machine.fresh() if place is None else arrive(machine, place, node)
    return _built(machine, name, resolved, Source.FACTORY_ON_DEVICE, scalar, node)


def _built(machine: Machine, name: str, place: Place, source: Source, scalar: bool | None, node: cst.Call) -> Tensor:
    short = name.rpartition("torch.")[2]
    note = Note(node, f"`{short}` makes a tensor on {describe(place)} here")
    uid, nothing = machine.new_id(), frozenset[int]()
    return Tensor(
        place, scalar, source=source, created=node, history=(note,), uid=uid, backward=Backward(reached=nothing)
    )


def build_on_cuda(machine: Machine, name: str, node: cst.Call) -> Value:
    """``torch.cuda.FloatTensor(3)``"""
    return _built(machine, name, arrive(machine, Device("cuda"), node), Source.FACTORY_ON_DEVICE, False, node)


def build_like(machine: Machine, arguments: Arguments, node: cst.Call, same_shape: bool = False) -> Value:
    """``torch.zeros_like(t)``, ``t.new_zeros(3)``: where ``t`` is, unless ``device=`` says otherwise."""
    model, given = arguments.get(0, "input"), arguments.keyword("device")

    def shaped(made: Value, like: Value) -> Value:
        if same_shape and isinstance(made, Tensor) and isinstance(like, Tensor):
            return replace(made, scalar=like.scalar, dims=like.dims)
        return made

    if given is not None and given != NONE:
        return machine.lift(
            lambda device, like: shaped(_built_on(machine, "like", device, None, node), like), given, model or NONE
        )

    def like(tensor: Value) -> Value:
        if not isinstance(tensor, Tensor):
            return machine.fresh()
        note = Note(node, f"made on {describe(tensor.place)} here, like its model")
        nothing = frozenset[int]()
        made = Tensor(
            tensor.place,
            None,
            created=node,
            history=(note,),
            assumed=tensor.assumed,
            backward=Backward(reached=nothing),
        )
        return shaped(made, tensor)

    return machine.lift(like, model) if model is not None else machine.fresh()


def _scalar(machine: Machine, shape: Shape, arguments: Arguments) -> bool | None:
    """Whether a factory's result is 0-dim, as far as its arguments tell."""
    if shape in (Shape.ALWAYS_DIMENSIONS, Shape.CONSTRUCTOR):
        return False
    if shape in (Shape.DATA, Shape.ARRAY):
        return _scalar_of_data(machine, arguments.get(0, "data"))
    position = {Shape.SIZES: 0, Shape.SIZE: 0, Shape.LAST_SIZE: len(arguments.positional) - 1}[shape]
    size = arguments.get(position, "size")
    items = content(machine, size) if size is not None else None
    if items is not None:
        return not items.items if items.exact else None
    # A size that is not a literal: a computed ``()`` is assumed not to occur.
    return size is None and not arguments.spread


def _dimensions(machine: Machine, shape: Shape, arguments: Arguments) -> int:
    """A lower bound of the number of dimensions of a factory's result."""
    if shape in (Shape.DATA, Shape.CONSTRUCTOR):
        return _depth(machine, arguments.get(0, "data"))
    if shape not in (Shape.SIZES, Shape.SIZE, Shape.LAST_SIZE) or arguments.spread or not arguments.positional:
        return 0
    items = content(machine, arguments.positional[-1 if shape is Shape.LAST_SIZE else 0])
    if items is not None:
        return len(items.items) if items.exact else 0
    return len(arguments.positional) if shape is Shape.SIZES else 0


def _depth(machine: Machine, data: Value | None) -> int:
    """How deep a list of numbers is, at least."""
    if isinstance(data, Tensor):
        return shapes.least(data)
    items = content(machine, data) if data is not None else None
    if items is None or (items.items and isinstance(items.items[0], Tensor)):
        return int(items is not None or data == ARRAY)
    return 1 + (_depth(machine, items.items[0]) if items.items else 0)


def _rows(machine: Machine, shape: Shape, arguments: Arguments) -> frozenset[int]:
    """The first size of ``torch.randn(27, 4)``, ``torch.randint(0, 9, (27,))`` or ``torch.tensor([1, 2])``."""
    if shape is Shape.DATA:
        data = arguments.get(0, "data")
        listed = content(machine, data) if data is not None else None
        return frozenset({len(listed.items)}) if listed is not None and listed.exact else frozenset()
    if shape not in (Shape.SIZES, Shape.SIZE, Shape.LAST_SIZE) or not arguments.positional:
        return frozenset()
    size = arguments.positional[-1 if shape is Shape.LAST_SIZE else 0]
    items = content(machine, size)
    first = items.items[0] if items is not None and items.items and items.has_in_place(0) else size
    if isinstance(first, Const) and isinstance(first.value, int):
        return frozenset({first.value})
    return frozenset()


def _scalar_of_data(machine: Machine, data: Value | None) -> bool | None:
    if isinstance(data, Const):
        return isinstance(data.value, (int, float, bool))
    if isinstance(data, Tensor):
        return data.scalar
    if isinstance(data, Symbol) and data.type:
        return data.type in NUMBER_TYPES
    if data is not None and content(machine, data) is not None:
        return False
    if data == ARRAY:
        return False
    return None


# --- operations --------------------------------------------------------------------------------------------


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
        modules.report_unregistered(machine, operand.tensor.uid, node)
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
        _meet_an_option(machine, operation, one, other, node)
        return Operand(one.source, replace(one.tensor, place=machine.fresh()))
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
        event = _mixed(machine, operation, stray, home, node)
        machine.emit(event)
        machine.notes[Tensors].strays.add(stray.tensor.created or stray.tensor.uid)
        by_itself = not (machine.now[Calls].in_forward or stray.whole or home.whole)
        mixed = Mixed.ADRIFT if _is_adrift(event) else Mixed.SETTLED if by_itself else Mixed.NO
        home = replace(home, tensor=replace(home.tensor, mixed=max(home.tensor.mixed, mixed)))
    if (stray.whole and not stray.unregistered) or _keeps_to_the_cpu(stray.tensor, home.tensor):
        # Once the module is where it belongs, its output may be elsewhere as well.
        return Operand(home.source, replace(home.tensor, place=machine.fresh()))
    return home


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
    machine: Machine, operation: str | cst.CSTNode, one: Operand, other: Operand, node: cst.CSTNode
) -> None:
    """A tensor on the CPU meets one that is where an option of the command line says."""
    stray, home = (one, other) if one.tensor.place == CPU else (other, one)
    if stray.tensor.place != CPU or stray.tensor.scalar is not False or stray.tensor.assumed or home.tensor.assumed:
        return
    if stray.tensor.mixed is Mixed.ADRIFT:
        return
    apart = device_choice.named_away(machine, home.tensor.place)
    if not machine.path.excludes(apart) and not _blamed_elsewhere(machine, stray.tensor):
        event = _mixed(machine, operation, stray, home, node)
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


def _mixed(
    machine: Machine, operation: str | cst.CSTNode, stray: Operand, home: Operand, node: cst.CSTNode
) -> DevicesMixed:
    unregistered = stray.unregistered or stray.tensor.uid in machine.notes[ModuleNotes].unregistered
    put = stray.tensor.history[-1].node if stray.tensor.history else None
    return DevicesMixed(
        node,
        machine.scene,
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


def _note_inputs(machine: Machine, node: cst.Call) -> None:
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


def index(machine: Machine, tensor: Tensor, key: Value, node: cst.Subscript) -> Value:
    """``t[key]``: a CPU index may index a CUDA tensor, a CUDA index must not index a CPU tensor."""
    if tensor.replica.chunk is not None:
        hooks.used(machine, tensor.replica.chunk, node.value, node)
    modules.report_unregistered(machine, tensor.uid, node)
    if tensor.role is Role.BATCH:
        if isinstance(key, Const) and isinstance(key.value, str):
            return replace(tensor, uid=0)
        # An item of a tuple, or a row.
        loss = replace(tensor.loss, gathered=node if tensor.loss.gathered is not None else None)
        return shapes.after_index(tensor, replace(tensor, loss=loss, dims=0, uid=0), key)
    if tensor.assumed and tensor.role is Role.INPUT and isinstance(key, Const):
        # It may also be a tuple of anything: tensors on unknown devices.
        part = machine.fresh(node)
        machine.write(part.id, modules.PLACE, Placed(machine.fresh()))
        return part
    if _is_number(tensor, key, node):
        # This raises IndexError; in old versions of PyTorch it was a number of Python's.
        return machine.fresh(node)
    for item in key.items if isinstance(key, Sequence) else (key,):
        if isinstance(item, Tensor) and _may_not_index(tensor, item):
            stray, home = Operand(node.value, tensor), Operand(node.slice[0], item)
            machine.emit(_mixed(machine, "indexing", stray, home, node))
    indexed = shapes.after_index(tensor, derive(tensor, "indexing", node), key)
    return shapes.with_at_least(indexed, shapes.least_after_index(tensor, key))


def _is_number(tensor: Tensor, key: Value, node: cst.Subscript) -> bool:
    """``loss.data[0]``, or the item of another tensor that has no dimension."""
    of_data = isinstance(node.value, cst.Attribute) and node.value.attr.value == "data" and tensor.scalar is None
    return isinstance(key, Const) and type(key.value) is int and (tensor.scalar is True or of_data)


def _may_not_index(tensor: Tensor, index: Tensor) -> bool:
    certain = not (tensor.assumed or index.assumed or Mixed.ADRIFT in (tensor.mixed, index.mixed))
    certain = certain and tensor.lost is None and index.scalar is False
    return certain and tensor.place == CPU and compare(tensor.place, index.place) is Comparison.DIFFERENT


_MEASURES = {"dim", "ndim", "ndimension", "numel", "nelement", "shape", "size"}

# --- attributes and methods ----------------------------------------------------------------------------------


def _as_read(place: Place) -> Place:
    """A tensor's device has an index, which the literal that put it there may lack."""
    return replace(place, written=None) if isinstance(place, Device) else place


def attribute(machine: Machine, tensor: Tensor, name: str, node: cst.CSTNode) -> Value:
    """``t.name``, where it is not called."""
    noted = machine.notes[Tensors]
    if name == "device":
        noted.devices_read.add(node)
        # A tensor that is put beside a misplaced tensor moves with it.
        astray = (tensor.created or tensor.uid or None) in noted.strays
        return machine.fresh(node) if astray else _as_read(tensor.place)
    if name == "grad" and tensor.leaf.copied is not None and tensor.leaf.copied not in noted.retained:
        label = machine.text(node.value) if isinstance(node, cst.Attribute) else "it"
        machine.emit(GradientOfCopyRead(node, machine.scene, label, tensor.place, tensor.leaf.copied, tensor.history))
    if name == "is_cuda" and (tensor.place == OWN or (isinstance(tensor.place, Symbol) and machine.looks_at_forward)):
        return machine.ask(machine.own_on_gpu)
    if name in DEVICE_FLAGS and isinstance(tensor.place, Device) and tensor.place.kind != OWN.kind:
        kind = "cuda" if tensor.place == REPLICA else tensor.place.kind
        return Const(kind == DEVICE_FLAGS[name])
    if name == "is_cuda" and (away := device_choice.named_away(machine, tensor.place)).possible:
        return machine.either(((away, TRUE), (away.negation, FALSE)))
    if name == "is_cuda" and isinstance(tensor.place, Symbol):
        # An unknown device is the same each time, and without a GPU it is not one.
        asked = machine.question(machine.part(tensor.place.id, name, name, type="bool"), text=node)
        on_gpu = answered(asked, True) & machines(ONE_GPU | MANY_GPUS)
        return machine.either(((on_gpu, TRUE), (on_gpu.negation, FALSE)))
    if name == "requires_grad" and tensor.role is Role.PLAIN and gradients.are_not_asked_for(tensor):
        return FALSE
    if name in HOST_VALUE_ATTRIBUTES:
        if name in _MEASURES:
            replica_losses.measured(machine, tensor)
        if (known := shapes.answer(tensor, name)) is not None:
            return known
        return machine.fresh(name, HOST_VALUE_TYPES.get(name, ""), tensor.scattered and name == "shape")
    if name in ("data", "T", "mT", "H", "real", "imag"):
        derived = derive(tensor, f".{name}", node, tensor.scalar)
        if name == "data":
            machine.signals.tensors.data_read(machine, tensor, node)
            derived = gradient_paths.cut(machine, derived, tensor, ".data", node)
        return shapes.after(tensor, derived, {"T": "t"}.get(name, name), Arguments())
    if name in _FIELDS and tensor.role is not Role.BATCH:
        return shapes.row(tensor, derive(tensor, _FIELDS[name], node))
    if name == "grad":
        machine.notes[ModuleNotes].asked_for.add(tensor.uid)
        return replace(tensor, role=Role.PLAIN, modules=frozenset(), uid=0)
    return Bound(tensor, name, node=node)


# The fields of what ``max``, ``sort``, ``topk`` and their kind return, each with a method that makes the like of it.
_FIELDS = {"values": "sort", "indices": "argmax"}


def move(machine: Machine, tensor: Tensor, target: Value, node: cst.CSTNode, how: str) -> Value:
    """The tensor on another device: itself where it is there already."""
    place = target_place(machine, target)
    if place is None:
        converted = Lost(".to(dtype)", node, tensor.place, tensor.uid)
        return replace(tensor, lost=converted) if _converts(tensor, target) else tensor
    place = arrive(machine, place, node)
    if compare(tensor.place, place) is Comparison.SAME and not tensor.assumed:
        if guard_of(place) is not None:
            tensor = replace(tensor, place=place)
        # A tensor that forward puts on a device that it was given is not on the CPU by default.
        return replace(tensor, source=Source.MOVE) if tensor.source is Source.FACTORY_IN_FORWARD else tensor
    moved = tensor.at(place, Note(node, f"moved to {describe(place)} here"))
    if compare(tensor.place, place) is Comparison.DIFFERENT:
        moved = gradients.through(moved, how, node)
        if _made_with_gradient(tensor):
            return replace(moved, leaf=replace(moved.leaf, copied=node))
    if tensor.role is Role.PARAMETER:
        return replace(moved, role=Role.PLAIN, lost=Lost(how, node, tensor.place, tensor.uid))
    return moved


def _made_with_gradient(tensor: Tensor) -> bool:
    """``torch.zeros(3, requires_grad=True)`` itself, not what is computed from it."""
    made = tensor.created
    written = device_choice.argument(made, len(made.args), "requires_grad") if isinstance(made, cst.Call) else None
    return bool(tensor.uid) and written is not None and isinstance(written, cst.Name) and written.value == "True"


def _converts(tensor: Tensor, target: Value) -> bool:
    """``param.to(torch.float64)`` is a new tensor; to the default type it is the Parameter itself."""
    return (
        tensor.role is Role.PARAMETER
        and isinstance(target, External)
        and target.name not in ("torch.float32", "torch.float", "torch.dtype")
        and target.name.startswith("torch.")
    )


# Methods that convert: without effect on a tensor that is so already, as a fresh Parameter is a float32.
_NO_OPS_ON_PARAMETERS = {"float", "contiguous", "requires_grad_", "share_memory_"}


# Methods that look at no element of a tensor.
_READS_NOTHING = {
    "size",
    "dim",
    "numel",
    "to",
    "cuda",
    "record_stream",
    "is_pinned",
    "stride",
    "data_ptr",
    "get_device",
}


def call_method(machine: Machine, tensor: Tensor, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``t.name(...)``"""
    plain = name[:-1] if name.endswith("_") and not name.startswith("__") else name
    if plain in SAME_DEVICE and any(isinstance(value, Choice) for value in arguments.positional):
        return machine.lift(
            lambda *given: call_method(machine, tensor, name, replace(arguments, positional=given), node),
            *arguments.positional,
        )
    modules.report_unregistered(machine, tensor.uid, node)
    receiver = node.func.value if isinstance(node.func, cst.Attribute) else node
    if name not in _READS_NOTHING:
        async_copy.read(machine, tensor, receiver, node)
    if name in ("to", "cuda", "cpu", "type_as", "pin_memory"):
        return _moved_by(machine, tensor, name, arguments, node)
    if name == "type":
        dtype = next(iter(arguments.values()), None)
        return _typed(machine, tensor, dtype, node) if dtype is not None else machine.fresh(node, "str")
    if name == "numpy":
        if arguments.keyword("force") != Const(True):
            read_on_host(machine, Operand(receiver, tensor), node)
        return gradient_paths.as_array(machine, tensor)
    as_number = name in ("item", "backward", "__float__", "__int__", "__bool__")
    if as_number and not (name == "backward" and arguments.has(0, "gradient")):
        replica_losses.used_as_number(machine, tensor, name, f"`{machine.text(receiver)}.{name}()`", receiver, node)
    if name == "backward":
        backward.ran(machine, tensor, node)
    if name == "detach":
        detached = ddp.severed(shapes.same(tensor, derive(tensor, ".detach()", node, tensor.scalar)))
        return gradient_paths.cut(machine, detached, tensor, ".detach()", node)
    machine.signals.tensors.method_called(machine, tensor, name, receiver, arguments, node)
    if name == "get_device":
        return device_choice.NO_DEVICE if tensor.place == CPU and not tensor.assumed else tensor.place
    if name == "retain_grad" and tensor.leaf.copied is not None:
        machine.notes[Tensors].retained.add(tensor.leaf.copied)
    if name in HOST_VALUE_METHODS:
        if name in _MEASURES:
            replica_losses.measured(machine, tensor)
        if not arguments.values() and (known := shapes.answer(tensor, name)) is not None:
            return known
        of_rows = name != "size" or arguments.get(0, "dim") in (None, Const(0))
        type_ = SIZE if name == "size" and arguments.values() else HOST_VALUE_TYPES.get(name, "")
        return machine.fresh(node, type_, tensor.scattered and of_rows)
    if name in NEW_METHODS:
        return build_like(machine, arguments.with_receiver(tensor), node)
    if name == "requires_grad_":
        gradients.ask(machine, tensor, arguments.get(0, "requires_grad") or TRUE)
        if tensor.role is not Role.PARAMETER:
            return replace(
                tensor, leaf=replace(tensor.leaf, requires_grad=arguments.get(0, "requires_grad") in (None, TRUE))
            )
    if name == "requires_grad_" and tensor.role is Role.PARAMETER and tensor.place == REPLICA:
        machine.emit(ParametersRead(node, machine.scene, machine.text(node), name))
    if name == "requires_grad_" and tensor.role is Role.PARAMETER:
        parts = tensor.modules or frozenset({tensor.uid})
        trainable.flagged(machine, parts, arguments.get(0, "requires_grad") or TRUE, node)
    if name in _NO_OPS_ON_PARAMETERS and (tensor.role is Role.PARAMETER or tensor.leaf.requires_grad):
        return tensor
    if name in REDUCTIONS and not arguments.has(0, "dim") and not arguments.keyword("axis"):
        return reduce(machine, tensor, name, receiver, node)
    others = [
        Operand(argument.value, value)
        for argument, value in zip(node.args, arguments.positional, strict=False)
        if isinstance(value, Tensor)
    ]
    if plain != name:
        machine.signals.tensors.changed(machine, tensor, tuple(arguments.values()))
    if plain in SAME_DEVICE and others:
        given = with_dimensions(plain, [Operand(receiver, tensor, output=plain != name), *others])
        result = operate(machine, f"`{name}`", given, node)
        if result is not None:
            result = shapes.combined(
                plain, result, list(enumerate(one.tensor for one in given)), arguments.with_receiver(tensor)
            )
            if plain not in ELEMENTWISE:
                result = shapes.split_along(result, tensor.replica.split if plain == "matmul" else None)
            return tensor if plain != name else gradient_paths.accompanied(machine, result, *arguments.values())
    if plain != name:
        return shapes.after(tensor, tensor, plain, arguments) if plain in _RESHAPES else tensor
    derived = derive(tensor, f".{name}()", node, shapes.scalar_after(name, tensor))
    derived = replace(derived, scattered=depends(machine, tensor, *arguments.values()))
    if name not in VIEWS:
        derived = gradient_paths.accompanied(machine, derived, *arguments.values())
    return shapes.after(tensor, derived, name, arguments)


# What moves dimensions also has a form that does so in place.
_RESHAPES = {"t", "transpose", "squeeze", "unsqueeze", "swapaxes", "swapdims"}


def _moved_by(machine: Machine, tensor: Tensor, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``t.to(d)`` and its kind; dropped as a statement it does nothing."""
    if name in ("cpu", "pin_memory"):
        device_choice.fetched(machine, tensor)
    target = move_target(machine, name, arguments, node)
    _note_inputs(machine, node)

    def apply(place: Value) -> Value:
        moved = tensor if name == "pin_memory" else move(machine, tensor, place, node, f".{name}(…)")
        moved = async_copy.copied(machine, tensor, moved, arguments, node)
        named = as_place(place)
        is_dropped = machine.now[Around].statement is node and _could_be_assigned(machine, node)
        if is_dropped and named is not None and (named != tensor.place or name == "pin_memory"):
            machine.notes[Tensors].discarded.add(tensor.created or tensor.uid)
            receiver = node.func.value if isinstance(node.func, cst.Attribute) else node
            assignable = not isinstance(receiver, cst.Name) or _would_be_seen(machine, receiver.value, node)
            label = machine.text(receiver)
            event = MoveDiscarded(node, machine.scene, label, name, tensor, named, assignable)
            machine.emit(replace(event, named=not isinstance(receiver, cst.Call)))
        return moved

    return machine.lift(apply, target)


def _would_be_seen(machine: Machine, name: str, node: cst.Call) -> bool:
    """Whether an assignment to a variable reaches those who read it: not where a loop only lends it an item."""
    around = [loop for loop in machine.loops_around() if isinstance(loop, cst.For)]
    loop = next((loop for loop in reversed(around) if name in names_in(loop.target)), None)
    after = names_after(loop.body, node) if loop is not None else None
    return is_bound_here(machine, name) and (after is None or name in after)


def _could_be_assigned(machine: Machine, node: cst.Call) -> bool:
    """Whether a statement ``x.to(d)`` was meant to change ``x``: warming a GPU up with a temporary is not."""
    method = node.func
    if not isinstance(method, cst.Attribute) or method.attr.value == "type_as":
        return False
    receiver: cst.BaseExpression = method.value
    while isinstance(receiver, cst.Call) and isinstance(receiver.func, cst.Attribute):
        receiver = receiver.func.value
    if receiver is method.value:
        return isinstance(receiver, (cst.Name, cst.Attribute, cst.Subscript))
    return isinstance(value_of(machine, receiver), Tensor)


def _typed(machine: Machine, tensor: Tensor, dtype: Value, node: cst.Call) -> Value:
    """``t.type(torch.cuda.FloatTensor)`` moves as well as converts; a dtype only converts."""

    def convert(place: Value) -> Value:
        derived = shapes.same(tensor, derive(tensor, ".type(…)", node, tensor.scalar))
        if isinstance(place, Symbol):
            return replace(derived, place=place)
        return move(machine, tensor, place, node, ".type(…)") if isinstance(place, Device) else derived

    return machine.lift(convert, device_choice.type_chosen(machine, dtype, node))


def move_target(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """Where ``t.to(d)`` and its kind move a tensor."""
    if name in ("cpu", "pin_memory"):
        return CPU
    given = arguments.get(0, "device") or arguments.keyword("device") or arguments.keyword("other")
    if name == "cuda" and (given is None or given == NONE):
        device_choice.request(machine, node, node)
        return Device("cuda")
    if name == "cuda" and isinstance(given, Symbol):
        visible_devices.name_device(machine, Device("cuda", given), node, node)
        return Device("cuda", given)
    source = device_choice.argument(node, 0, "device")
    given = device_choice.without_cpu(machine, given or NONE, source, node)
    device_choice.request_literal(machine, given, source, node, node)
    device_choice.used(machine, given, node)
    return given


def reduce(machine: Machine, tensor: Tensor, name: str, source: str | cst.CSTNode, node: cst.CSTNode) -> Value:
    """``t.mean()``, ``torch.sum(t)``: 0-dim."""
    if name in ("sum", "mean"):
        replica_losses.averaged(machine, tensor)
    if tensor.loss.per_replica:
        if name in ("sum", "mean"):
            machine.notes[ReplicaLosses].reduced.append(
                ReplicaLossReduced(node, machine.scene, source_text(source), name, tensor)
            )
        return replace(tensor, loss=replace(tensor.loss, per_replica=False, reduced=node), scalar=True, uid=0)
    derived = derive(tensor, f".{name}()", node, True)
    return replace(derived, loss=replace(derived.loss, reduction=name if name in ("sum", "mean") else None))


def _is_for_arrays(machine: Machine) -> bool:
    """Whether a statement is reached only where the program tested that something is not a tensor.

    Its other values are not tensors either, as ``scores`` in ``if isinstance(labels, torch.Tensor): … else: …``.
    """
    return all(any(_denies_tensor(answer) for answer in cube.answers) for cube in machine.path.cubes)


def _denies_tensor(answer: Answer) -> bool:
    subject = answer.question.subject
    return not answer.given and isinstance(subject, tuple) and External("torch.Tensor") in subject


def read_on_host(machine: Machine, operand: Operand, node: cst.CSTNode) -> None:
    """Something that needs host memory is given the tensor."""
    tensor = operand.tensor
    async_copy.read(machine, tensor, operand.source, node)
    away = ALWAYS if _on_gpu(tensor.place) else device_choice.named_away(machine, tensor.place)
    if (
        not tensor.assumed
        and tensor.mixed is Mixed.NO
        and not machine.path.excludes(away)
        and not _is_for_arrays(machine)
    ):
        scene = replace(machine.scene, when=machine.scene.when & away)
        machine.emit(HostRead(node, scene, operand.source, source_text(node), tensor, operand.inside))


def _on_gpu(place: Place) -> bool:
    return isinstance(place, Device) and (place.kind in ACCELERATORS or place == REPLICA)
