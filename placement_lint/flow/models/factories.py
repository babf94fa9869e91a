"""Functions that make tensors: where they build them, and of what shape."""

from __future__ import annotations

import libcst as cst

from placement_lint.flow.api.torch_names import FACTORIES_OF_DATA, HOST_FACTORIES, NUMBER_TYPES, Shape
from placement_lint.flow.domain.arguments import Arguments
from placement_lint.flow.domain.record import replace
from placement_lint.flow.domain.values import (
    ARRAY,
    CPU,
    NONE,
    TRUE,
    Backward,
    Const,
    Device,
    Leaf,
    Place,
    Source,
    Symbol,
    Tensor,
    Value,
    alternatives,
    describe,
)
from placement_lint.flow.models import device_choice, gradient_paths, modules, operations, shapes
from placement_lint.flow.models.arrivals import arrive
from placement_lint.flow.state.containers import content
from placement_lint.flow.state.devices import as_place, default_place, place_of_default_type, require
from placement_lint.flow.state.machine import Machine
from placement_lint.flow.state.moment import Calls
from placement_lint.rule import Note
from placement_lint.source.wording import source_text

_REACHES_NOTHING = Backward(reached=frozenset())


def build(machine: Machine, name: str, shape: Shape, arguments: Arguments, node: cst.Call) -> Value:
    """A factory's result: ``torch.zeros(3, device=d)``."""
    given, filled = arguments.keyword("device"), arguments.keyword("out")
    operations.note_inputs(machine, node)
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
            require(machine, place)
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
    device_choice.used(machine, given, node, written)
    rows, literal = _rows(machine, shape, arguments), shape is Shape.DATA
    dims = _dimensions(machine, shape, arguments)

    def make_on(device: Value) -> Value:
        built = _built_on(machine, name, device, _scalar(machine, shape, arguments), node)
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
    return gradient_paths.cut(
        machine, operations.derive(data, "torch.tensor", node, data.scalar), data, "torch.tensor", node
    )


def _built_on(machine: Machine, name: str, device: Value, scalar: bool | None, node: cst.Call) -> Tensor:
    place = as_place(device)
    resolved = machine.fresh() if place is None else arrive(machine, place, node)
    return _built(machine, name, resolved, Source.FACTORY_ON_DEVICE, scalar, node)


def _built(machine: Machine, name: str, place: Place, source: Source, scalar: bool | None, node: cst.Call) -> Tensor:
    short = name.rpartition("torch.")[2]
    return new(machine, place, scalar, source, node, f"`{short}` makes a tensor on {describe(place)} here")


def new(machine: Machine, place: Place, scalar: bool | None, source: Source, node: cst.CSTNode, said: str) -> Tensor:
    """A tensor that is computed from no other."""
    note, uid = Note(node, said), machine.new_id()
    return Tensor(place, scalar, source=source, created=node, history=(note,), uid=uid, backward=_REACHES_NOTHING)


def build_on_cuda(machine: Machine, name: str, node: cst.Call) -> Value:
    """``torch.cuda.FloatTensor(3)``"""
    return _built(machine, name, arrive(machine, Device("cuda"), node), Source.FACTORY_ON_DEVICE, False, node)


def build_like(machine: Machine, arguments: Arguments, node: cst.Call, same_shape: bool = False) -> Value:
    """``torch.zeros_like(t)``, ``t.new_zeros(3)``: where ``t`` is, unless ``device=`` says otherwise."""
    model, given = arguments.get(0, "input"), arguments.keyword("device")

    def shaped(made: Tensor, like: Value) -> Value:
        if same_shape and isinstance(like, Tensor):
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
        assumed, backward = tensor.assumed, _REACHES_NOTHING
        made = Tensor(tensor.place, None, created=node, history=(note,), assumed=assumed, backward=backward)
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
