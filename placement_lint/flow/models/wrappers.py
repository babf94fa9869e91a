"""DataParallel and DistributedDataParallel: wrapping, calling, replicas, and what comes back.

The behaviour is that of torch/nn/parallel/{data_parallel,replicate,scatter_gather}.py: the constructor moves the
module only where there is a single device, a call needs the module on the first device, replicas run on scattered
inputs, and their outputs are gathered by concatenation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain
from typing import TypeGuard

import libcst as cst

from placement_lint.flow.api.torch_names import (
    MODULE_ATTRIBUTES,
    MODULE_ATTRIBUTES_OF_DATA_PARALLEL,
    PRIVATE_NAMES_OF_WRAPPERS,
    WRAPPERS,
)
from placement_lint.flow.domain.arguments import Arguments
from placement_lint.flow.domain.path_condition import (
    MANY_GPUS,
    NO_GPU,
    ONE_GPU,
    answered,
    any_of,
    machines,
)
from placement_lint.flow.domain.record import replace
from placement_lint.flow.domain.values import (
    CPU,
    NONE,
    REPLICA,
    TRUE,
    Class,
    Comparison,
    Const,
    Device,
    External,
    InReplica,
    Kind,
    Loaded,
    Mapping,
    Object,
    Place,
    Placed,
    Role,
    Sequence,
    Symbol,
    Tensor,
    Value,
    alternatives,
    compare,
    is_option,
)
from placement_lint.flow.events.schema import FirstDeviceMissed, WrappedTwice, WrapperAttributeRead
from placement_lint.flow.models import (
    ddp,
    device_arguments,
    device_choice,
    hooks,
    modules,
    scatter,
    shapes,
    state_dicts,
    visible_devices,
)
from placement_lint.flow.models.handlers import Handlers
from placement_lint.flow.state.classes import find, foreign_bases, wrapper_base
from placement_lint.flow.state.containers import content
from placement_lint.flow.state.devices import as_place, current
from placement_lint.flow.state.heap import MAPPING, Slot
from placement_lint.flow.state.machine import Machine
from placement_lint.flow.state.module_notes import ModuleNotes
from placement_lint.flow.state.moment import Around, Replica
from placement_lint.rule import Note

_IDS = Slot("device ids")
_OUTPUT = Slot("output device")
_DIM = Slot("dim")
# Of an unknown value: the wrappers that the code which returned it was given.
_TELLS_OF = Slot("tells of wrappers")
# Of a wrapper whose ids are an option: Const of the nodes that had moved the module by then
_MOVES = Slot("moved before it was wrapped")
DATA_PARALLEL = "torch.nn.DataParallel"
_DATA_PARALLEL = External(DATA_PARALLEL)


def wrap(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``nn.DataParallel(module, device_ids=…)``"""
    module = arguments.get(0, "module")
    if module is None:
        return machine.fresh()
    return machine.lift(
        lambda inner, ids: _wrap(machine, External(name), inner, ids, arguments, node), module, _ids(arguments)
    )


def construct(machine: Machine, wrapper: Object, arguments: Arguments, node: cst.Call) -> None:
    """The constructor of DataParallel or DistributedDataParallel runs for an instance of a subclass."""
    module = arguments.get(0, "module") or machine.fresh()
    machine.lift(lambda inner, ids: _wrap(machine, wrapper, inner, ids, arguments, node), module, _ids(arguments))


def kind_of(wrapper: Object) -> str:
    """``DataParallel`` or ``DistributedDataParallel``, also for an instance of a subclass."""
    return WRAPPERS[wrapper_base(wrapper.cls)]


def _ids(arguments: Arguments) -> Value:
    return arguments.get(1, "device_ids") or NONE


def _wrap(
    machine: Machine, made: Object | External, inner: Value, ids: Value, arguments: Arguments, node: cst.Call
) -> Value:
    """A wrapper of the class ``made``, or the instance ``made`` of a subclass, around a module."""
    name = wrapper_base(made.cls if isinstance(made, Object) else made)
    noted = machine.notes[ModuleNotes]
    if isinstance(inner, Loaded):
        state_dicts.wrap(machine, inner, WRAPPERS[name], node)
    modules.treat_as_module(machine, inner)
    inner = _once(machine, name, inner, node)
    if not isinstance(inner, (Object, Symbol)):
        return machine.fresh()
    output = arguments.get(2, "output_device") or NONE
    machine.lift(lambda option: _checked(machine, name, inner, ids, option, node), output)
    wrapper = around(machine, inner, ids, output, node, made, arguments.get(3, "dim"))
    label = machine.label(inner)
    note = Note(node, f"{f'`{label}`' if label else 'the module'} is wrapped in {WRAPPERS[name]} here")
    noted.wraps.setdefault(inner.id, []).append(note)
    noted.wrapped_in.setdefault(inner.id, set()).update(frame.id for frame in machine.frames)
    machine.signals.modules.wrapped(machine, inner, name, node)
    for part in modules.reachable(machine, inner).values():
        noted.moved.setdefault(part.id, note)
        if isinstance(part, Object) and not isinstance(part.cls, External):
            noted.moved.setdefault(part.cls.id, note)
    if name == DATA_PARALLEL:
        if ids == NONE or (content(machine, ids) is not None and not is_single(machine, ids)):
            machine.signals.modules.data_parallel_built(machine, inner, node)
        _move_to_only_device(machine, inner, ids, node)
    else:
        ddp.wrapped(machine, wrapper, inner, arguments)
    return wrapper


def _once(machine: Machine, name: str, inner: Value, node: cst.Call) -> Value:
    """The module to wrap; for a wrapper, the module inside, so that follow-up problems are not reported."""
    if not isinstance(inner, Object) or inner.kind is not Kind.WRAPPER:
        return inner
    repeated = inner.node is node
    kind, already = WRAPPERS[name], kind_of(inner)
    if kind != already and not (machine.reach & machines(machine.path.machines)).implies(machine.path):
        # A program that decides for one kind here and for another kind there hardly ever decides for both.
        return machine.fresh()
    if not repeated or machine.same_each_round(inner.id):
        first = Note(inner.node, f"wrapped in {already} here, in an earlier round" if repeated else "wrapped here")
        label = machine.text(node.args[0].value) if node.args else machine.label(inner)
        machine.emit(WrappedTwice(node, machine.scene, label, kind, already, first, repeated))
    return machine.read(inner.id, modules.INNER, unset=machine.fresh)


def _checked(machine: Machine, name: str, inner: Object | Symbol, ids: Value, output: Value, node: cst.Call) -> Value:
    if name == DATA_PARALLEL:
        device_arguments.check_data_parallel(machine, ids, output, node)
    else:
        device_arguments.check_distributed(machine, inner, ids, output, node)
    return NONE


def around(
    machine: Machine,
    inner: Object | Symbol,
    ids: Value,
    output: Value,
    node: cst.Call,
    made: Object | External = _DATA_PARALLEL,
    dim: Value | None = None,
) -> Object:
    """The bare wrapper object, before its constructor does anything."""
    _require_devices(machine, ids)
    if wrapper_base(made.cls if isinstance(made, Object) else made) == DATA_PARALLEL:
        _require_ids(machine, ids)
    wrapper = made if isinstance(made, Object) else machine.new_object(Kind.WRAPPER, made, node)
    machine.write(wrapper.id, modules.INNER, inner)
    machine.write(wrapper.id, _IDS, ids)
    machine.write(wrapper.id, _OUTPUT, output)
    machine.write(wrapper.id, _DIM, dim or Const(0))
    if any(_is_of_option(first) for _, first in alternatives(_first_id(machine, ids))):
        machine.write(wrapper.id, _MOVES, Const(frozenset({node, *_moves(machine, inner)})))
    return wrapper


def _move_to_only_device(machine: Machine, inner: Object | Symbol, ids: Value, node: cst.Call) -> None:
    """With a single device the constructor itself moves the module there (data_parallel.py, ``__init__``)."""
    # Of unknown ids, those that are valid with one GPU name that one.
    first = first_device(machine, ids) or Device("cuda", 0)
    alone = machines(ONE_GPU | MANY_GPUS) if is_single(machine, ids) else machines(ONE_GPU)
    machine.fork(((alone, lambda: _moved(machine, inner, first, node)), (alone.negation, lambda: NONE)))


def _moved(machine: Machine, inner: Object | Symbol, device: Place, node: cst.Call) -> Value:
    modules.move(machine, inner, device, node)
    return NONE


def _require_devices(machine: Machine, ids: Value) -> None:
    """Without any GPU the ids are ignored; with too few of them the constructor raises."""
    items = content(machine, ids)
    numbers = [item.value for item in items.items if isinstance(item, Const)] if items is not None else []
    if any(isinstance(number, int) and number > 0 for number in numbers):
        machine.survive(machines(NO_GPU | MANY_GPUS))


def _require_ids(machine: Machine, ids: Value) -> None:
    """An empty list of ids has no first one, which the constructor of DataParallel reads if there is a GPU."""
    size = machine.known_part(ids.id, ("len", content(machine, ids))) if isinstance(ids, (Object, Symbol)) else None
    is_tested = machine.known_question(size) if size is not None else None
    if is_tested is not None and not machine.does_without("IndexError"):
        machine.survive(any_of((answered(is_tested, True), machines(NO_GPU))))


def first_device(machine: Machine, ids: Value) -> Place | None:
    """``device_ids[0]``, on which the module has to be."""
    if ids == NONE:
        return Device("cuda", 0)
    items = content(machine, ids)
    if items is None or not items.items:
        return None
    place = as_place(items.items[0])
    return Device("cuda", place) if isinstance(place, Symbol) else place


def is_single(machine: Machine, ids: Value) -> bool:
    items = content(machine, ids)
    return items is not None and items.exact and len(items.items) == 1


def literal_ids(machine: Machine, wrapper: Object) -> tuple[object, ...]:
    """The ``device_ids`` of a wrapper, empty where they are not given or not known."""
    return _literal_ids(machine, machine.read(wrapper.id, _IDS, unset=NONE))


def _literal_ids(machine: Machine, ids: Value) -> tuple[object, ...]:
    items = content(machine, ids)
    if items is None or not all(isinstance(item, Const) for item in items.items):
        return ()
    return tuple(item.value for item in items.items if isinstance(item, Const))


# --- calling -----------------------------------------------------------------------------------------------

Forward = Callable[[Object | Symbol, Arguments], Value]


def call(machine: Machine, wrapper: Object, arguments: Arguments, node: cst.Call, forward: Forward) -> Value:
    """``wrapper(x)``; ``forward`` calls a bare module."""
    inner = machine.read(wrapper.id, modules.INNER)
    if inner is None:
        return machine.fresh()
    return machine.lift(lambda module: _call(machine, wrapper, module, arguments, node, forward), inner)


def _call(
    machine: Machine, wrapper: Object, inner: Value, arguments: Arguments, node: cst.Call, forward: Forward
) -> Value:
    if not isinstance(inner, (Object, Symbol)):
        return machine.fresh()
    ids = machine.read(wrapper.id, _IDS, unset=NONE)
    first = first_device(machine, ids)
    if wrapper_base(wrapper.cls) != DATA_PARALLEL:
        with ddp.through(machine):
            result = _call_distributed(machine, inner, ids, first, arguments, forward)
        return ddp.came_through(machine, wrapper, result)
    machine.signals.modules.wrapper_called(machine, arguments, node)
    scatter.check_packed(machine, arguments, node)
    if is_single(machine, ids):
        only = first or machine.fresh()
        return machine.fork(
            (
                (machines(NO_GPU), lambda: forward(inner, arguments)),
                (
                    machines(ONE_GPU | MANY_GPUS),
                    lambda: _on_one_device(machine, wrapper, inner, ids, only, arguments, node, forward),
                ),
            )
        )
    return machine.fork(
        (
            (machines(NO_GPU), lambda: forward(inner, arguments)),
            (
                machines(ONE_GPU),
                lambda: _on_one_device(machine, wrapper, inner, ids, Device("cuda", 0), arguments, node, forward),
            ),
            (
                machines(MANY_GPUS),
                lambda: _in_replicas(machine, wrapper, inner, ids, arguments, node, forward),
            ),
        )
    )


def check_placement(machine: Machine, wrapper: Object, node: cst.Call) -> None:
    """What the inherited forward of a DataParallel with its own ``scatter`` or ``gather`` checks before these run."""
    ids = machine.read(wrapper.id, _IDS, unset=NONE)
    first, inner = first_device(machine, ids), machine.read(wrapper.id, modules.INNER)

    def check(module: Value) -> Value:
        if isinstance(module, (Object, Symbol)) and first is not None:
            _check_first_device(machine, wrapper, module, ids, first, node)
        return NONE

    with_gpu = machines(ONE_GPU | MANY_GPUS)
    if inner is not None and wrapper_base(wrapper.cls) == DATA_PARALLEL:
        machine.fork(((with_gpu, lambda: machine.lift(check, inner)), (with_gpu.negation, lambda: NONE)))


def _on_one_device(
    machine: Machine,
    wrapper: Object,
    inner: Object | Symbol,
    ids: Value,
    device: Place,
    arguments: Arguments,
    node: cst.Call,
    forward: Forward,
) -> Value:
    """With one device there are no replicas, but the place of the module is checked as with several."""
    replica = machine.now[Replica]
    missed = _check_first_device(machine, wrapper, inner, ids, device, node)
    scatter.check_dimensions(machine, arguments, node)

    def called(raises: Value) -> Value:
        return machine.fresh() if raises == TRUE else forward(inner, _scattered(machine, arguments, device))

    outside = replica.on_only_gpu
    replica.on_only_gpu = _notes(machine, wrapper, inner, node, "DataParallel puts the inputs on its only GPU")
    try:
        return machine.lift(called, missed)
    finally:
        replica.on_only_gpu = outside


def _notes(machine: Machine, wrapper: Object, inner: Object | Symbol, node: cst.Call, how: str) -> tuple[Note, Note]:
    """On the wrapper and on its call."""
    label = machine.label(inner)
    built = Note(wrapper.node, f"{f'`{label}`' if label else 'the module'} is wrapped in DataParallel here")
    return built, Note(node, f"called here: {how}")


def _call_distributed(
    machine: Machine, inner: Object | Symbol, ids: Value, first: Place | None, arguments: Arguments, forward: Forward
) -> Value:
    """DDP moves its inputs exactly where ``device_ids`` is given (distributed.py, ``_pre_forward``)."""
    if ids == NONE:
        return forward(inner, arguments)
    place = modules.place_of(machine, inner)
    if place == CPU and not ddp.is_on_cpu(machine, inner):
        # Its parts were moved, and not the module itself.
        place = first or machine.fresh()
    return machine.lift(
        lambda device: forward(inner, _scattered(machine, arguments, device)),
        place,
    )


def _in_replicas(
    machine: Machine,
    wrapper: Object,
    inner: Object | Symbol,
    ids: Value,
    arguments: Arguments,
    node: cst.Call,
    forward: Forward,
) -> Value:
    replica = machine.now[Replica]
    first = first_device(machine, ids)
    missed = _check_first_device(machine, wrapper, inner, ids, first, node) if first is not None else NONE
    _check_chosen_device(machine, wrapper, inner, ids, node)
    output = _output_device(machine, wrapper, first)
    if replica.notes:
        return machine.fresh()
    replica.notes = _notes(machine, wrapper, inner, node, "each replica runs the forward on its own GPU")
    replica.ids = _literal_ids(machine, ids)
    replica.depth = len(machine.frames)
    given = machine.read(wrapper.id, _DIM)
    dim = given.value if isinstance(given, Const) and isinstance(given.value, int) else None
    replica.dim, replica.batch_misplaced = dim, False
    members = (module for _, module in machine.notes[ModuleNotes].members.get(inner.id, ()))
    replica.modules = frozenset(chain.from_iterable(modules.reachable(machine, one) for one in (inner, *members)))
    machine.store.begin()
    try:
        result = forward(inner, _scattered(machine, arguments, REPLICA, dim))
        gathered = _gathered(machine, result, output, _splits_unevenly(machine, arguments, ids), node)
        kept = hooks.run(machine)
    finally:
        # What a replica assigns to its attributes goes with the replica.
        machine.store.roll_back()
        replica.notes, replica.ids, replica.modules = (), (), frozenset()
        replica.depth = 0
    for cell, value in kept.items():
        machine.write(*cell, value)
    scatter.check_arguments(machine, arguments, dim, node)
    scatter.check_keywords(machine, inner, arguments, dim, _literal_ids(machine, ids), node)
    return machine.lift(partial(_unless_missed, machine), missed, thawed(machine, gathered, node))


def _check_first_device(
    machine: Machine, wrapper: Object, inner: Object | Symbol, ids: Value, first: Place, node: cst.Call
) -> Value:
    """True where some part of the module is known to be on the CPU: the call raises there."""
    if modules.has_parameters(machine, inner) is False:
        return NONE
    missed: Value = NONE
    parts: dict[Value, set[int]] = {}
    for part, placed in modules.placements(machine, inner):
        parts.setdefault(placed, set()).add(part.id)

    def check(belong: set[int], where: Value) -> Value:
        if not isinstance(where, Placed) or not modules.provably_off(where.place, first):
            return NONE
        # What stayed where it was may be no part of the module on these paths.
        if belong.isdisjoint(modules.reachable(machine, inner)):
            return NONE
        return _first_device_missed(machine, wrapper, ids, first, where, node)

    for placed, belong in parts.items():
        here = machine.lift(partial(check, belong), placed)
        missed = machine.lift(lambda before, now: now if before == NONE else before, missed, here)
    return missed


def _check_chosen_device(machine: Machine, wrapper: Object, inner: Object | Symbol, ids: Value, node: cst.Call) -> None:
    """The module is on the first GPU, and an option names the ids: these need not begin with 0.

    A single id moves the module in the constructor, so only a later move is wrong for all other ids.
    """
    known = machine.read(wrapper.id, _MOVES)
    moves = known.value if isinstance(known, Const) else None
    if not isinstance(moves, frozenset) or current(machine) is not None or visible_devices.restricted(machine):
        return
    machine.lift(
        lambda first: _check_chosen_id(machine, wrapper, inner, ids, first, moves, node), _first_id(machine, ids)
    )


def _check_chosen_id(
    machine: Machine,
    wrapper: Object,
    inner: Object | Symbol,
    ids: Value,
    first: Value,
    moves: frozenset[object],
    node: cst.Call,
) -> Value:
    if not _is_of_option(first):
        return NONE
    chosen = replace(first, source=f"{ids.text if isinstance(ids, Symbol) else machine.label(ids)}[0]")
    is_zero = machine.equality(first, Const(0), f"{chosen.text} == 0")

    def report(placed: Value) -> Value:
        if not isinstance(placed, Placed) or placed.note is None or placed.note.node in moves:
            return NONE
        if compare(placed.place, Device("cuda", 0)) is Comparison.SAME:
            _emit_missed(machine, wrapper, ids, Device("cuda", chosen), placed, node)
        return NONE

    def report_all() -> Value:
        for placed in dict.fromkeys(placed for _, placed in modules.placements(machine, inner)):
            machine.lift(report, placed)
        return NONE

    return machine.fork(((answered(is_zero, False), report_all), (answered(is_zero, True), lambda: NONE)))


def _first_id(machine: Machine, ids: Value) -> Value:
    """The first id where their number is unknown; else None."""
    if isinstance(ids, Symbol):
        return machine.part(ids.id, ("item", 0), f"{ids.text}[0]", ids) if is_option(ids) else NONE
    items = content(machine, ids)
    return items.items[0] if items is not None and items.items and not items.exact else NONE


def _is_of_option(index: Value) -> TypeGuard[Symbol]:
    return isinstance(index, Symbol) and is_option(index)


def _moves(machine: Machine, module: Object | Symbol) -> Iterator[cst.CSTNode]:
    """The statements that moved parts of a module."""
    for _, placed in modules.placements(machine, module):
        for _, option in alternatives(placed):
            if isinstance(option, Placed) and option.note is not None:
                yield option.note.node


def _unless_missed(machine: Machine, missed: Value, output: Value) -> Value:
    """The output of a call, on an unknown device if the module was left on the CPU.

    Without the wrapper, tensors on the CPU would fit the module. A module on another GPU may meet misplaced ones too.
    """
    if missed == NONE:
        return output
    somewhere = machine.fresh()
    return map_tensors(machine, output, lambda tensor: replace(tensor, place=somewhere), lambda symbol: symbol)


def _first_device_missed(
    machine: Machine,
    wrapper: Object,
    ids: Value,
    first: Place,
    placed: Placed,
    node: cst.Call,
) -> Value:
    if placed.place != CPU or not device_choice.finds_tensor_on_gpu(machine.path):
        _emit_missed(machine, wrapper, ids, first, placed, node)
        return TRUE if placed.place == CPU else NONE
    return NONE


def _emit_missed(machine: Machine, wrapper: Object, ids: Value, first: Place, placed: Placed, node: cst.Call) -> None:
    inner = machine.read(wrapper.id, modules.INNER)
    name = machine.label(inner) if inner is not None else ""
    label = f"`{name}`" if name else "the module"
    machine.emit(
        FirstDeviceMissed(
            wrapper.node,
            machine.scene,
            label,
            machine.label(wrapper, name or "model"),
            _literal_ids(machine, ids),
            first,
            placed.place,
            placed.note,
            Note(node, "called here"),
        )
    )


def _output_device(machine: Machine, wrapper: Object, first: Place | None) -> Place:
    given = machine.read(wrapper.id, _OUTPUT)
    if given == Const(-1):
        # An old way to name the CPU (torch/nn/parallel/comm.py, `gather`).
        return CPU
    if given is not None and given != NONE:
        return as_place(given) or machine.fresh()
    return first or machine.fresh()


def _scattered(machine: Machine, arguments: Arguments, device: Place, dim: int | None = None) -> Arguments:
    def scattered(value: Value) -> Value:
        return machine.lift(lambda option: map_tensors(machine, option, to_device, unknown), value)

    in_replica = device == REPLICA
    batch = arguments.positional[0] if arguments.positional else None

    def to_device(tensor: Tensor) -> Value:
        role, there = _scattered_role(tensor), replace(tensor, assumed=False, holder=None, uid=0)
        there = replace(there, place=device, role=role, scattered=in_replica)
        return replace(shapes.split_along(there, dim), rows=frozenset(), literal=False)

    def unknown(symbol: Symbol) -> Value:
        # Other arguments than the first may not be tensors at all.
        of_rows = symbol == batch
        if not in_replica:
            return symbol
        return Tensor(device, None, Role.INPUT, assumed=True, scattered=of_rows, replica=InReplica(split=dim))

    return replace(
        arguments,
        positional=tuple(scattered(value) for value in arguments.positional),
        keywords={name: scattered(value) for name, value in arguments.keywords.items()},
    )


def _scattered_role(tensor: Tensor) -> Role:
    return Role.BATCH if tensor.role is Role.BATCH else Role.PLAIN


def map_tensors(
    machine: Machine, value: Value, change: Callable[[Tensor], Value], unknown: Callable[[Symbol], Value]
) -> Value:
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, Symbol):
        return unknown(value)
    if isinstance(value, Object) and value.kind is Kind.DICT:
        value = machine.read(value.id, MAPPING) or value
    if isinstance(value, Mapping):
        items = tuple((key, map_tensors(machine, item, change, unknown)) for key, item in value.items)
        return replace(value, items=items)
    items_of = content(machine, value)
    if items_of is not None:
        mapped = tuple(
            machine.lift(lambda item: map_tensors(machine, item, change, unknown), item) for item in items_of.items
        )
        changed = replace(items_of, items=mapped)
        return machine.new_list(changed, value.node) if isinstance(value, Object) else changed
    return value


def _splits_unevenly(machine: Machine, arguments: Arguments, ids: Value) -> bool:
    """Whether some batch is known not to divide by the number of devices."""
    items = content(machine, ids)
    devices = len(items.items) if items is not None and items.exact else 0
    given = [machine.restrict(value) for value in arguments.values()]
    sized = (value for value in given if isinstance(value, Tensor) and not isinstance(value.loaded, Symbol))
    rows = {count for value in sized for count in value.rows}
    return devices > 1 and any(count % devices for count in rows)


def _gathered(machine: Machine, result: Value, output: Place, uneven: bool, node: cst.Call) -> Value:
    """The replicas' outputs, concatenated on the output device; 0-dim ones become a vector."""
    identity = machine.new_id()

    def gather(tensor: Tensor) -> Value:
        return replace(
            tensor,
            place=output,
            role=_scattered_role(tensor),
            scalar=False if tensor.scalar else tensor.scalar,
            loss=replace(
                tensor.loss,
                per_replica=tensor.loss.per_replica or tensor.scalar is True,
                output=identity,
                gathered=node if tensor.scalar is None or tensor.role is Role.BATCH else None,
                uneven=uneven and tensor.scalar is True,
            ),
            assumed=tensor.assumed,
            replica=InReplica(chunk=tensor.replica.chunk),
            lost=None,
            holder=None,
            entered=None,
            scattered=False,
            uid=0,
        )

    return machine.lift(lambda option: map_tensors(machine, option, gather, lambda symbol: symbol), result)


def thawed(machine: Machine, value: Value, node: cst.CSTNode) -> Value:
    """Dicts that forward built, built again outside it, also where they are parts of a tuple."""

    def thaw(option: Value) -> Value:
        if isinstance(option, Mapping):
            return machine.new_dict(option, node)
        if isinstance(option, Sequence):
            return replace(option, items=tuple(thawed(machine, item, node) for item in option.items))
        return option

    return machine.lift(thaw, value)


# --- attributes --------------------------------------------------------------------------------


def read_attribute(machine: Machine, wrapper: Object, name: str, node: cst.CSTNode, text: str) -> Value | None:
    """``wrapper.name`` for a name that is not a method of nn.Module; None where it raises AttributeError."""
    if name == "module":
        return machine.read(wrapper.id, modules.INNER)
    own = machine.read(wrapper.id, name)
    if own is not None:
        return own
    expected = machine.now[Around].expecting_attribute_errors or machine.runs_one_of_many
    if not has_attribute(machine, wrapper, name) and not expected and not _is_told(machine, wrapper):
        kind = kind_of(wrapper)
        wrapped = Note(wrapper.node, f"wrapped in {kind} here")
        machine.emit(WrapperAttributeRead(node, machine.scene, text, kind, name, wrapped))
    return None


def lacks_operation(machine: Machine, owner: Object, operation: str, node: cst.CSTNode, written: cst.CSTNode) -> bool:
    """Whether an object is a wrapper that raises TypeError where it is indexed, iterated over or asked for its length.

    This is reported. Python looks ``operation``, a special method, up in the class; ``__getitem__`` also iterates.
    """
    if owner.kind is not Kind.WRAPPER:
        return False
    cls = owner.cls
    if isinstance(cls, Class) and any(_adds(machine, cls, name) for name in (operation, "__getitem__")):
        return False
    if machine.does_without("TypeError") or machine.runs_one_of_many or _is_told(machine, owner):
        return True
    note = Note(owner.node, "wrapped here")
    machine.emit(WrapperAttributeRead(node, machine.scene, machine.text(written), kind_of(owner), operation, note))
    return True


def given_for(machine: Machine, answer: Symbol, arguments: Iterable[Value]) -> None:
    """Unknown code was given these arguments: its answer may tell which of them are wrappers."""
    options = {option for value in arguments for _, option in alternatives(value)}
    wrappers = tuple(option for option in options if isinstance(option, Object) and option.kind is Kind.WRAPPER)
    if wrappers:
        machine.write(answer.id, _TELLS_OF, Sequence(wrappers))


def _is_told(machine: Machine, wrapper: Object) -> bool:
    """Whether, on each way here, such an answer for the wrapper was tested: ``if is_wrapped(model)``."""

    def tells(subject: object) -> bool:
        known = machine.read(subject.id, _TELLS_OF) if isinstance(subject, Symbol) else None
        return isinstance(known, Sequence) and wrapper in known.items

    return all(any(tells(answer.question.subject) for answer in cube.answers) for cube in machine.path.cubes)


def has_attribute(machine: Machine, wrapper: Object, name: str) -> bool:
    """Whether a wrapper has an attribute of its own, or may pass the name on to the module inside."""
    of_data_parallel = wrapper_base(wrapper.cls) == DATA_PARALLEL
    known = MODULE_ATTRIBUTES_OF_DATA_PARALLEL if of_data_parallel else MODULE_ATTRIBUTES
    added = isinstance(wrapper.cls, Class) and _adds(machine, wrapper.cls, name)
    return added or name in known or (name.startswith("_") and not _is_of_inner(machine, wrapper, name))


def _is_of_inner(machine: Machine, wrapper: Object, name: str) -> bool:
    """Whether a private name is one of the class of the module inside, and none of the wrapper's own."""
    if name.startswith("__") or name in PRIVATE_NAMES_OF_WRAPPERS:
        return False
    inner = machine.read(wrapper.id, modules.INNER, unset=NONE)
    return all(
        isinstance(option, Object)
        and (
            machine.read(option.id, name) is not None
            or (isinstance(option.cls, Class) and find(machine, option.cls, name) is not None)
        )
        for _, option in alternatives(machine.restrict(inner))
    )


def _adds(machine: Machine, cls: Class, name: str) -> bool:
    """Whether a subclass may have an attribute: one that it defines, any by a hook or an unknown base."""
    plain = all(base == External("builtins.object") or wrapper_base(base) for base in foreign_bases(cls))
    return not plain or any(find(machine, cls, each) is not None for each in (name, *_HOOKS))


_HOOKS = ("__getattr__", "__getattribute__", "__setattr__")


CALLS: Handlers = dict.fromkeys(WRAPPERS, wrap)
