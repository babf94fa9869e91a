"""The attributes, methods, items and moves of a tensor."""

from __future__ import annotations

import libcst as cst

from placement_lint.flow.api.torch_names import (
    DEVICE_FLAGS,
    ELEMENTWISE,
    HOST_VALUE_ATTRIBUTES,
    HOST_VALUE_METHODS,
    HOST_VALUE_TYPES,
    NEW_METHODS,
    NUMBER_FIRST,
    REDUCTIONS,
    SAME_DEVICE,
    SIZE,
    VIEWS,
    WAITING_READS,
)
from placement_lint.flow.domain.arguments import Arguments
from placement_lint.flow.domain.path_condition import ALWAYS, MANY_GPUS, ONE_GPU, Answer, answered, machines
from placement_lint.flow.domain.record import replace
from placement_lint.flow.domain.values import (
    ACCELERATORS,
    CPU,
    FALSE,
    NONE,
    OWN,
    REPLICA,
    TRUE,
    Bound,
    Choice,
    Comparison,
    Const,
    Device,
    External,
    Lost,
    Mixed,
    Place,
    Placed,
    Role,
    Sequence,
    Slice,
    Source,
    Symbol,
    Tensor,
    Value,
    compare,
    describe,
    guard_of,
)
from placement_lint.flow.events.schema import (
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
    factories,
    gradient_paths,
    gradients,
    hooks,
    modules,
    operations,
    replica_losses,
    shapes,
    tensor_hooks,
    trainable,
    unregistered,
    visible_devices,
)
from placement_lint.flow.models.arrivals import arrive
from placement_lint.flow.models.replica_losses import ReplicaLosses
from placement_lint.flow.state.containers import depends
from placement_lint.flow.state.devices import as_place, target_place
from placement_lint.flow.state.machine import Machine
from placement_lint.flow.state.module_notes import ModuleNotes
from placement_lint.flow.state.moment import Around
from placement_lint.flow.state.names import is_bound_here, value_of
from placement_lint.rule import Note
from placement_lint.source.querying import names_after, names_in
from placement_lint.source.wording import source_text


def index(machine: Machine, tensor: Tensor, key: Value, node: cst.Subscript) -> Value:
    """``t[key]``: a CPU index may index a CUDA tensor, a CUDA index must not index a CPU tensor."""
    if tensor.replica.chunk is not None:
        hooks.used(machine, tensor.replica.chunk, node.value, node)
    unregistered.used(machine, tensor.uid, node)
    if _is_number(tensor, key, node):
        # This raises IndexError; in old versions of PyTorch it was a number of Python's.
        return machine.fresh(node)
    if tensor.role is Role.BATCH and isinstance(key, Sequence) and any(isinstance(item, Slice) for item in key.items):
        # No tuple, list or dict has an item under ``[:, 1:5]``.
        tensor = replace(tensor, role=Role.PLAIN)
    if tensor.role is Role.BATCH:
        if isinstance(key, Const) and isinstance(key.value, str):
            return replace(tensor, uid=0)
        # An item of a tuple, or a row; where the number is computed, perhaps a number of a vector.
        loss = replace(tensor.loss, gathered=node if tensor.loss.gathered is not None else None)
        scalar = None if isinstance(key, Symbol) else tensor.scalar
        return shapes.after_index(tensor, replace(tensor, loss=loss, scalar=scalar, dims=0, uid=0), key)
    if tensor.assumed and tensor.role is Role.INPUT and isinstance(key, Const):
        # It may also be a tuple of anything: tensors on unknown devices.
        part = machine.fresh(node)
        machine.write(part.id, modules.PLACE, Placed(machine.fresh()))
        return part
    for item in key.items if isinstance(key, Sequence) else (key,):
        if isinstance(item, Tensor):
            operations.meet_index(machine, Operand(node.value, tensor), Operand(node.slice[0], item), node)
    indexed = shapes.after_index(tensor, operations.derive(tensor, "indexing", node), key)
    return shapes.with_at_least(indexed, shapes.least_after_index(tensor, key))


def _is_number(tensor: Tensor, key: Value, node: cst.Subscript) -> bool:
    """``loss.data[0]``, or the item of another tensor that has no dimension."""
    of_data = isinstance(node.value, cst.Attribute) and node.value.attr.value == "data" and tensor.scalar is None
    return isinstance(key, Const) and type(key.value) is int and (tensor.scalar is True or of_data)


# --- attributes and methods ----------------------------------------------------------------------------------


_MEASURES = {"dim", "ndim", "ndimension", "numel", "nelement", "shape", "size"}


def _as_read(place: Place) -> Place:
    """A tensor's device has an index, which the literal that put it there may lack."""
    return replace(place, written=None, found=True) if isinstance(place, Device) else place


def attribute(machine: Machine, tensor: Tensor, name: str, node: cst.CSTNode) -> Value:
    """``t.name``, where it is not called."""
    noted = machine.notes[operations.Tensors]
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
    if name == "requires_grad" and tensor.role is Role.PLAIN and gradients.are_not_asked_for(machine, tensor):
        return FALSE
    if name in HOST_VALUE_ATTRIBUTES:
        if name in _MEASURES:
            replica_losses.measured(machine, tensor)
        if (known := shapes.answer(tensor, name)) is not None:
            return known
        return machine.fresh(name, HOST_VALUE_TYPES.get(name, ""), tensor.scattered and name == "shape")
    if name in ("data", "T", "mT", "H", "real", "imag"):
        derived = operations.derive(tensor, f".{name}", node, tensor.scalar)
        if name == "data":
            machine.signals.tensors.data_read(machine, tensor, node)
            derived = gradient_paths.cut(machine, derived, tensor, ".data", node)
        return shapes.after(tensor, derived, {"T": "t"}.get(name, name), Arguments())
    if name in _FIELDS and tensor.role is not Role.BATCH:
        return shapes.row(tensor, operations.derive(tensor, _FIELDS[name], node))
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
    unregistered.used(machine, tensor.uid, node)
    receiver = node.func.value if isinstance(node.func, cst.Attribute) else node
    if name not in _READS_NOTHING:
        async_copy.read(machine, tensor, receiver, node)
    if name in WAITING_READS:
        async_copy.fetched(machine, tensor)
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
    if name == "register_hook":
        tensor_hooks.register(machine, tensor, arguments, node)
    if name == "detach":
        detached = ddp.severed(shapes.same(tensor, operations.derive(tensor, ".detach()", node, tensor.scalar)))
        return gradient_paths.cut(machine, detached, tensor, ".detach()", node)
    machine.signals.tensors.method_called(machine, tensor, name, receiver, arguments, node)
    if name == "get_device":
        return device_choice.NO_DEVICE if tensor.place == CPU and not tensor.assumed else tensor.place
    if name == "retain_grad" and tensor.leaf.copied is not None:
        machine.notes[operations.Tensors].retained.add(tensor.leaf.copied)
    if name in HOST_VALUE_METHODS:
        if name in _MEASURES:
            replica_losses.measured(machine, tensor)
        if not arguments.values() and (known := shapes.answer(tensor, name)) is not None:
            return known
        of_rows = name != "size" or arguments.get(0, "dim") in (None, Const(0))
        type_ = SIZE if name == "size" and arguments.values() else HOST_VALUE_TYPES.get(name, "")
        return machine.fresh(node, type_, tensor.scattered and of_rows)
    if name in NEW_METHODS:
        return factories.build_like(machine, arguments.with_receiver(tensor), node)
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
    numbers = 1 if (plain, len(arguments.positional)) in NUMBER_FIRST else 0
    others = [
        Operand(argument.value, value)
        for argument, value in list(zip(node.args, arguments.positional, strict=False))[numbers:]
        if isinstance(value, Tensor)
    ]
    if plain != name:
        machine.signals.tensors.changed(machine, tensor, tuple(arguments.values()))
    if plain in SAME_DEVICE and others:
        given = operations.with_dimensions(plain, [Operand(receiver, tensor, output=plain != name), *others])
        result = operations.operate(machine, f"`{name}`", given, node)
        if result is not None:
            result = shapes.combined(
                plain, result, list(enumerate(one.tensor for one in given)), arguments.with_receiver(tensor)
            )
            if plain not in ELEMENTWISE:
                result = shapes.split_along(result, tensor.replica.split if plain == "matmul" else None)
            return tensor if plain != name else gradient_paths.accompanied(machine, result, *arguments.values())
    if plain != name:
        return shapes.after(tensor, tensor, plain, arguments) if plain in _RESHAPES else tensor
    derived = operations.derive(tensor, f".{name}()", node, shapes.scalar_after(name, tensor))
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
    operations.note_inputs(machine, node)

    def apply(place: Value) -> Value:
        moved = tensor if name == "pin_memory" else move(machine, tensor, place, node, f".{name}(…)")
        moved = async_copy.copied(machine, tensor, moved, arguments, node)
        named = as_place(place)
        is_dropped = machine.now[Around].statement is node and _could_be_assigned(machine, node)
        if is_dropped and named is not None and (named != tensor.place or name == "pin_memory"):
            machine.notes[operations.Tensors].discarded.add(tensor.created or tensor.uid)
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
        derived = shapes.same(tensor, operations.derive(tensor, ".type(…)", node, tensor.scalar))
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
    source = device_choice.argument(node, 0, "device")
    given = device_choice.without_cpu(machine, given or NONE, source, node)
    if name == "cuda" and isinstance(given, Symbol):
        device_choice.request(machine, node, node, fixed=True, number=given)
        visible_devices.name_device(machine, Device("cuda", given), node, node)
        return Device("cuda", given)
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
    derived = operations.derive(tensor, f".{name}()", node, True)
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
