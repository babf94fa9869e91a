"""Where the batch is: in the arguments of a DataParallel call, in what layers of its replicas get, in what they return.

DataParallel splits every tensor that it is given along one dimension and gathers every tensor that comes back along
the same (torch/nn/parallel/scatter_gather.py), whatever that dimension is to the model.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import libcst as cst

from placement_lint.flow.api.torch_names import NUMBER_TYPES, RECURRENT_LAYERS, SEQUENCE_LAYERS
from placement_lint.flow.domain.arguments import Arguments
from placement_lint.flow.domain.path_condition import ALWAYS, MANY_GPUS, ONE_GPU, Condition, answered, any_of, machines
from placement_lint.flow.domain.values import (
    FALSE,
    NONE,
    REST,
    TRUE,
    Class,
    Const,
    Device,
    Function,
    Kind,
    Mapping,
    Object,
    Sequence,
    Symbol,
    Tensor,
    Value,
    alternatives,
    is_option,
)
from placement_lint.flow.events.schema import BatchMisplaced, KeywordAlone, NotBatched, Operand
from placement_lint.flow.models import packed_sequences, shapes
from placement_lint.flow.state.classes import find
from placement_lint.flow.state.containers import content
from placement_lint.flow.state.heap import MAPPING, Slot
from placement_lint.flow.state.machine import Machine
from placement_lint.flow.state.moment import Replica
from placement_lint.rule import Note

_BATCH_FIRST = Slot("batch first")


# --- layers ------------------------------------------------------------------------------------------------------


def built(machine: Machine, module: Object, name: str, arguments: Arguments) -> None:
    """``nn.LSTM(…, batch_first=True)``; a stack of layers has it from the layer that it is made of."""
    position = SEQUENCE_LAYERS[name][1]
    given = arguments.get(position, "batch_first") or (machine.fresh() if arguments.spread else FALSE)
    if position < 0:
        layer = arguments.get(0, "encoder_layer") or arguments.get(0, "decoder_layer")
        known = machine.read(layer.id, _BATCH_FIRST) if isinstance(layer, Object) else None
        given = known if known is not None else machine.fresh()
    machine.write(module.id, _BATCH_FIRST, given)


def after_layer(
    machine: Machine, module: Object, name: str, inputs: list[Operand], result: Value, node: cst.Call
) -> Value:
    """The output of a recurrent layer, an attention or a transformer, with its batch dimension if that is known."""
    if not isinstance(result, Tensor):
        return result
    batch_first = machine.read(module.id, _BATCH_FIRST)
    if batch_first not in (TRUE, FALSE):
        return shapes.split_along(result, None)
    count = SEQUENCE_LAYERS[name][0]
    sequences, states = inputs[:count], inputs[count:] if name in RECURRENT_LAYERS else []
    dim = 0 if batch_first == TRUE else 1
    misplaced = [given for given in sequences if not shapes.agrees(given.tensor.replica.split, dim)]
    crossed = [given for given in states if not shapes.agrees(given.tensor.replica.split, 1)]
    if misplaced:
        _report(machine, "input", misplaced[0], module, dim, node)
    elif crossed:
        _report(machine, "state", crossed[0], module, 1, node)
    split = None if misplaced or crossed or not sequences else sequences[0].tensor.replica.split
    output = shapes.split_along(result, split)
    if name == "torch.nn.MultiheadAttention":
        return Sequence((output, shapes.split_along(output, None if split is None else 0)))
    return output


def _report(machine: Machine, what: str, given: Operand, module: Object, dim: int, node: cst.Call) -> None:
    wrapped, called = machine.now[Replica].notes
    machine.now[Replica].batch_misplaced = True
    layer = module.cls.name.rpartition(".")[2]
    trace = (Note(module.node, f"`{layer}` is built here"), wrapped, called, Note(node, "called here, in a replica"))
    at = wrapped.node if what == "input" else called.node
    split = given.tensor.replica.split or 0
    machine.emit(BatchMisplaced(at, machine.scene, what, machine.text(node.func), layer, split, dim, trace))


def packed(machine: Machine, padded: Value, arguments: Arguments) -> Value:
    """``pack_padded_sequence(x, lengths, batch_first=True)``: it moves as a tensor does, wherever that is."""
    if isinstance(padded, Symbol):
        return Tensor(machine.fresh(), scalar=False, uid=machine.new_id(), scattered=padded.scattered)
    if not isinstance(padded, Tensor) or padded.replica.split is None:
        return padded
    dim = 0 if arguments.get(2, "batch_first") == TRUE else 1
    return shapes.split_along(padded, shapes.PACKED if shapes.agrees(padded.replica.split, dim) else None)


def unpacked(sequence: Value, arguments: Arguments) -> Value:
    """``pad_packed_sequence(p, batch_first=True)``"""
    if not isinstance(sequence, Tensor) or sequence.replica.split != shapes.PACKED:
        return sequence
    return shapes.split_along(sequence, 0 if arguments.get(1, "batch_first") == TRUE else 1)


# --- outputs -----------------------------------------------------------------------------------------------------


def check_returned(machine: Machine, value: Value, node: cst.BaseExpression) -> None:
    """Report a returned tensor that is not gathered along the dimension along which the inputs were split."""
    dim = machine.now[Replica].dim
    if dim is not None:
        machine.lift(lambda option: _check_returned(machine, option, dim, node), value)


def _check_returned(machine: Machine, value: Value, dim: int, node: cst.BaseExpression) -> Value:
    if isinstance(value, Object) and value.kind is Kind.DICT:
        value = machine.read(value.id, MAPPING) or value
    parts = [item for _, item in value.items] if isinstance(value, Mapping) else []
    items = content(machine, value)
    elements = node.elements if isinstance(node, (cst.Tuple, cst.List)) else ()
    for place, part in enumerate(items.items if items is not None else parts):
        spelt_out = items is not None and len(elements) == len(items.items)
        check_returned(machine, part, elements[place].value if spelt_out else node)
    if isinstance(value, Tensor):
        packed_sequences.check_returned(machine, value, machine.text(node), node)
    if isinstance(value, Tensor) and not shapes.agrees(value.replica.split, dim):
        label, batch = machine.text(node), value.replica.split or 0
        machine.emit(BatchMisplaced(node, machine.scene, "output", label, "", dim, batch, machine.now[Replica].notes))
    return NONE


# --- arguments -----------------------------------------------------------------------------------------------------


def check_dimensions(machine: Machine, arguments: Arguments, node: cst.Call) -> None:
    """A 0-dim tensor cannot be split at all, not even for one device."""
    for value, source, keyword in _given(arguments, node):
        machine.lift(lambda option, at=source, keyword=keyword: _no_rows(machine, option, at, keyword, node), value)


def check_packed(machine: Machine, arguments: Arguments, node: cst.Call) -> None:
    """A PackedSequence cannot be put on a GPU so, whether there is one or more."""
    on_gpu = machines(ONE_GPU | MANY_GPUS)
    if not machine.path.excludes(on_gpu):
        with machine.assuming(on_gpu):
            for value, source, _ in _given(arguments, node):
                packed_sequences.check_argument(machine, value, source, node)


def _no_rows(machine: Machine, value: Value, source: cst.BaseExpression, keyword: bool, call: cst.Call) -> Value:
    if isinstance(value, Tensor) and value.scalar is True:
        label = machine.text(source)
        machine.emit(NotBatched(source, machine.scene, call, label, None, None, keyword, value.history))
    return NONE


def check_arguments(machine: Machine, arguments: Arguments, dim: int | None, node: cst.Call) -> None:
    """Report arguments whose first dimension is certainly not that of the batch."""
    check_dimensions(machine, arguments, node)
    if dim != 0 or machine.now[Replica].batch_misplaced:
        return
    given = [(machine.restrict(value), source, keyword) for value, source, keyword in _given(arguments, node)]
    tensors = [value for value, _, _ in given if isinstance(value, Tensor)]
    for value, source, keyword in given:
        others = [other for other in tensors if other is not value]
        if isinstance(value, Tensor) and len(_counted(value)) == 1 and _is_no_batch(value, others):
            (rows,) = _counted(value)
            batch = max((max(_counted(other)) for other in others if _counted(other)), default=None)
            label = machine.text(source)
            machine.emit(NotBatched(source, machine.scene, node, label, rows, batch, keyword, value.history))


def _is_no_batch(tensor: Tensor, others: list[Tensor]) -> bool:
    """Whether another argument has the batch's rows, and this one certainly has fewer, or always the same."""
    (rows,) = _counted(tensor)
    if tensor.loaded:
        return False
    counts = [(_counted(other), other.loaded) for other in others]
    if any(rows not in known if known else rows == 1 or tensor.literal for known, loaded in counts if loaded):
        return True
    return any(known and rows < min(known) for known, _ in counts)


def _counted(tensor: Tensor) -> frozenset[int]:
    return tensor.rows - {REST} if not isinstance(tensor.loaded, Symbol) else frozenset()


def check_keywords(
    machine: Machine,
    module: Object | Symbol,
    arguments: Arguments,
    dim: int | None,
    ids: tuple[object, ...],
    node: cst.Call,
) -> None:
    """Keyword arguments that are not tensors go to all replicas, also to those that get no rows."""
    names, copied = _needed(machine, module, arguments), _only_copied(machine, arguments)
    if dim != 0 or not names or machine.path.excludes(copied) or machine.expects("TypeError"):
        return
    keyword = next(iter(arguments.keywords))

    def check(value: Value, source: cst.BaseExpression) -> Value:
        held = content(machine, value)
        for item in held.items[:1] if held is not None else ():
            machine.lift(partial(check, source=source), item)
        if isinstance(value, Tensor) and (few := [rows for rows in value.rows if _leaves_out(rows, ids)]):
            label, rows = machine.text(source), max(few)
            at_last = rows == REST or len(value.rows) > 1
            with machine.assuming(_as_by_default(machine, value)):
                machine.emit(KeywordAlone(node, machine.scene, label, rows, at_last, keyword, names, ids))
        return NONE

    with machine.assuming(copied):
        for value, source, by_name in _given(arguments, node):
            if not by_name:
                machine.lift(partial(check, source=source), value)


def _as_by_default(machine: Machine, batch: Tensor) -> Condition:
    """When the option for the size of a batch has its default."""
    size = batch.loaded
    if not isinstance(size, Symbol) or size.preferred is None:
        return ALWAYS
    return answered(machine.equality(size, size.preferred, f"{size.text} == {size.preferred.value!r}"), True)


def _only_copied(machine: Machine, arguments: Arguments) -> Condition:
    """When no keyword argument is a tensor."""
    copied = ALWAYS
    for value in arguments.keywords.values():
        ways = alternatives(machine.restrict(value))
        copied = copied & any_of(guard for guard, option in ways if _is_no_tensor(option))
    return copied


def _needed(machine: Machine, module: Object | Symbol, arguments: Arguments) -> tuple[str, ...]:
    """The names of what is given by position, where forward cannot do without."""
    cls = module.cls if isinstance(module, Object) else None
    forward = find(machine, cls, "forward") if isinstance(cls, Class) else None
    if arguments.spread or not arguments.keywords or not isinstance(forward, Function) or forward.decorators:
        return ()
    parameters = forward.parameters[1 : len(arguments.positional) + 1]
    named = len(parameters) == len(arguments.positional) and not forward.node.params.posonly_params
    needed = any(parameter.default is None for parameter in parameters)
    return tuple(parameter.name.value for parameter in parameters) if needed and named else ()


def _is_no_tensor(value: Value) -> bool:
    return isinstance(value, (Const, Device, Function)) or (
        isinstance(value, Symbol) and (value.type in NUMBER_TYPES or is_option(value))
    )


def _leaves_out(rows: int, ids: tuple[object, ...]) -> bool:
    """Whether ``torch.chunk`` makes fewer chunks of this many rows than there are replicas: two of them, or more."""
    replicas = max(len(ids), 2)
    return rows == REST or -(-rows // -(-rows // replicas)) < replicas


def _given(arguments: Arguments, node: cst.Call) -> Iterator[tuple[Value, cst.BaseExpression, bool]]:
    """The arguments of a call, each with its expression."""
    by_position = [argument.value for argument in node.args if argument.keyword is None and not argument.star]
    by_name = {argument.keyword.value: argument.value for argument in node.args if argument.keyword is not None}
    for place, value in enumerate(arguments.positional):
        yield value, by_position[place] if place < len(by_position) else node, False
    for name, value in arguments.keywords.items():
        yield value, by_name.get(name, node), True
