"""Iteration: the values that loops yield, including a loader's batches."""

from __future__ import annotations

from functools import partial

import libcst as cst

from placement_lint.flow.domain.arguments import Arguments
from placement_lint.flow.domain.record import replace
from placement_lint.flow.domain.values import (
    CPU,
    Backward,
    Bound,
    Choice,
    Class,
    Const,
    Device,
    External,
    Function,
    Kind,
    Loaded,
    Mapping,
    Object,
    Parameters,
    Role,
    Sequence,
    Source,
    StateDict,
    Symbol,
    Tensor,
    Value,
    alternatives,
    describe,
    is_option,
)
from placement_lint.flow.interpreter import calls
from placement_lint.flow.models import (
    graphs,
    loaders,
    modules,
    operations,
    schedulers,
    shapes,
    state_dicts,
    state_keys,
    torchvision,
    wrappers,
)
from placement_lint.flow.models.loaders import COLLATE, ROWS, TENSORS, Rows
from placement_lint.flow.state.classes import find, foreign_bases
from placement_lint.flow.state.containers import content
from placement_lint.flow.state.heap import MAPPING
from placement_lint.flow.state.machine import Machine
from placement_lint.rule import Note


def element(machine: Machine, iterable: Value, node: cst.CSTNode, single: bool = False) -> Value:
    """The value that one step of ``for x in iterable`` yields; ``single`` if there is only one step."""
    return machine.lift(lambda option: _element(machine, option, node, single), iterable)


def _element(machine: Machine, iterable: Value, node: cst.CSTNode, single: bool) -> Value:
    if isinstance(iterable, Object) and iterable.kind is Kind.LOADER:
        if not single:
            loaders.note_epoch(machine, iterable, node)
        with loaders.in_worker(machine, iterable):
            batch = _batch(machine, iterable, node)
        return loaders.delivered(machine, iterable, batch, node)
    if isinstance(iterable, Object) and wrappers.lacks_operation(machine, iterable, "__iter__", node, node):
        return machine.fresh()
    if isinstance(iterable, Object) and isinstance(iterable.cls, Class):
        return _element_of_instance(machine, iterable, iterable.cls, node)
    if isinstance(iterable, Parameters):
        return a_parameter(machine, iterable)
    if isinstance(iterable, Bound):
        return schedulers.group(machine, iterable)
    if isinstance(iterable, (Loaded, StateDict)):
        state_dicts.keys_used(machine, iterable)
        return state_keys.key_of(iterable)
    if isinstance(iterable, Tensor):
        row = shapes.row(iterable, operations.derive(iterable, "indexing", node))
        return replace(row, loaded=iterable.loaded)
    items = items_of(machine, iterable)
    if items is not None and items.items and (items.exact or not isinstance(items.items[0], Const)):
        return step(machine, items.items[0])
    if isinstance(iterable, Object) and iterable.kind is Kind.DATASET:
        return _sample(machine, iterable, node)
    if isinstance(iterable, Symbol) and is_option(iterable):
        return replace(machine.fresh(), parent=iterable)
    return machine.fresh()


def a_parameter(machine: Machine, parameters: Parameters) -> Value:
    """One of a module's parameters, on the module's device; a pair with its name for ``named_parameters()``."""

    anywhere_below = frozenset(modules.reachable(machine, parameters.module))

    def make(place: Value) -> Value:
        if not isinstance(place, (Device, Symbol)):
            return machine.fresh()
        scalar = False if modules.has_only_layers(machine, parameters.module) else None
        return Tensor(place, scalar, Role.PARAMETER, modules=anywhere_below)

    tensor = machine.lift(make, modules.place_of(machine, parameters.module))
    return Sequence((machine.fresh("name"), tensor)) if parameters.named else tensor


def _module_items(machine: Machine, value: Value) -> Sequence | None:
    if isinstance(value, Object) and value.kind is Kind.MODULE:
        items = modules.items_of(machine, value)
        return items if isinstance(items, Sequence) else None
    return None


def each(machine: Machine, iterable: Value) -> tuple[Value, ...] | None:
    """All values that an iterable yields, in order; None if its content is unknown."""
    items = items_of(machine, iterable)
    if items is not None and items.items and (items.exact or len(items.items) > 1):
        return tuple(step(machine, item) for item in items.items)
    return None


def items_of(machine: Machine, iterable: Value) -> Sequence | None:
    if isinstance(iterable, Choice):
        # Dicts with the same keys, such as the results of a forward on one GPU and of DataParallel on two.
        first, *others = [items_of(machine, option) for _, option in alternatives(machine.restrict(iterable))]
        if first is not None and all(other == first for other in others):
            return first
    if isinstance(iterable, Object) and iterable.kind is Kind.DICT:
        mapping = machine.read(iterable.id, MAPPING)
        if isinstance(mapping, Mapping):
            return Sequence(tuple(Const(key) for key, _ in mapping.items), mapping.rest is None)
    return content(machine, iterable) or _module_items(machine, iterable)


def step(machine: Machine, item: Value) -> Value:
    """The value that an item of a list yields: the item itself, or a parameter if it stands for each of several."""
    return a_parameter(machine, item) if isinstance(item, Parameters) and not item.uid else item


def _element_of_instance(machine: Machine, instance: Object, cls: Class, node: cst.CSTNode) -> Value:
    items = _module_items(machine, instance)
    if items is not None and items.items:
        return items.items[0]
    for name, arguments in (("__iter__", Arguments()), ("__getitem__", Arguments((machine.fresh("index"),)))):
        method = find(machine, cls, name)
        if isinstance(method, Function):
            result = calls.call_function(machine, method, arguments, node, instance)
            return element(machine, result, node) if name == "__iter__" and result != instance else result
    return machine.fresh()


def _batch(machine: Machine, loader: Object, node: cst.CSTNode) -> Value:
    """A DataLoader's batch: its dataset's samples, collated (torch/utils/data/_utils/collate.py)."""
    dataset = machine.read(loader.id, "dataset") or machine.fresh()
    collate = machine.read(loader.id, COLLATE)
    sample = machine.lift(lambda option: _sample(machine, option, node), dataset)
    rows = machine.read(loader.id, ROWS)
    sizes = rows.value if isinstance(rows, Const) and isinstance(rows.value, Rows) else Rows()
    if collate is not None:
        batch = _collated_by(machine, collate, sample, node)
        return machine.lift(lambda option: loaders.with_tensors(machine, option, partial(_counted, sizes), node), batch)
    return machine.lift(lambda option: _collated(machine, option, node, sizes), sample)


def _counted(sizes: Rows, tensor: Tensor) -> Tensor:
    """A tensor that ``collate_fn`` returns: it has a row for each sample, unless the number of its rows is known."""
    return tensor if tensor.rows else replace(tensor, rows=sizes.counts, loaded=sizes.option or tensor.loaded)


def _sample(machine: Machine, dataset: Value, node: cst.CSTNode) -> Value:
    if not isinstance(dataset, Object):
        return torchvision.sample(machine, dataset, node) if isinstance(dataset, Symbol) else machine.fresh("sample")
    stored = machine.read(dataset.id, TENSORS)
    if isinstance(stored, Sequence) and stored.items:
        return stored
    index = Arguments((machine.fresh("index"),))
    by_get = isinstance(dataset.cls, Class) and not _GRAPH_DATASETS.isdisjoint(foreign_bases(dataset.cls))
    for name, arguments in (("__getitem__", index), *((("get", index),) if by_get else ()), ("__iter__", Arguments())):
        method = find(machine, dataset.cls, name) if isinstance(dataset.cls, Class) else None
        if isinstance(method, Function):
            result = calls.call_function(machine, method, arguments, node, dataset)
            machine.dead = False
            return element(machine, result, node) if name == "__iter__" and result != dataset else result
    return machine.fresh("sample")


# Datasets whose ``__getitem__`` calls ``get``.
_GRAPH_DATASETS = {External("torch_geometric.data.Dataset"), External("torch_geometric.data.InMemoryDataset")}


def _collated_by(machine: Machine, collate: Value, sample: Value, node: cst.CSTNode) -> Value:
    if collate == graphs.BATCH:
        return graphs.collated(machine, node)
    if isinstance(collate, (Symbol, External)):
        return machine.fresh("batch")
    samples = machine.new_list(Sequence((sample,), exact=False), node)
    call = node if isinstance(node, cst.Call) else cst.Call(func=cst.Name("collate_fn"))
    result = calls.call(machine, collate, Arguments((samples,)), call)
    machine.dead = False
    return result


def _collated(machine: Machine, sample: Value, node: cst.CSTNode, rows: Rows) -> Value:
    """Collate samples: tensors stay on their device, numbers and arrays become CPU tensors, strings become lists."""
    if isinstance(sample, Tensor):
        note = Note(node, f"a batch comes out of the loader on {describe(sample.place)} here")
        return replace(
            sample,
            scalar=False,
            role=Role.PLAIN if sample.role is not Role.BATCH else Role.BATCH,
            source=Source.LOADER,
            rows=rows.counts,
            loaded=rows.option or True,
            history=(note,),
            uid=machine.new_id(),
            holder=None,
        )
    if isinstance(sample, Const) and isinstance(sample.value, str):
        return machine.fresh()
    if isinstance(sample, Object) and sample.kind is Kind.DICT:
        sample = machine.read(sample.id, MAPPING) or sample
    if isinstance(sample, Mapping):
        items = tuple((key, _collated(machine, item, node, rows)) for key, item in sample.items)
        return machine.new_dict(Mapping(items, sample.rest), node)
    items_of = content(machine, sample)
    if items_of is not None and items_of.items:
        parts = tuple(
            machine.lift(lambda option: _collated(machine, option, node, rows), item) for item in items_of.items
        )
        # of a tuple too
        return machine.new_list(Sequence(parts, items_of.exact), node)
    if isinstance(sample, Symbol) and modules.may_be_moved(machine, sample):
        return machine.fresh("batch")
    note = Note(node, "a batch comes out of the loader on the CPU here")
    uid = machine.new_id()
    nothing = Backward(reached=frozenset())
    batch = Tensor(CPU, False, Role.BATCH, backward=nothing, source=Source.LOADER, history=(note,), uid=uid)
    return replace(batch, rows=rows.counts, loaded=rows.option or True)
