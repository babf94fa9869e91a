"""Data loaders: how they are built, and what happens in their worker processes.

Workers are forked unless the program asks for another start method; CUDA, once initialised, does not survive a fork
(torch/cuda/__init__.py, `_lazy_init`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import libcst as cst

from placement_lint.flow.api.torch_names import SAMPLERS
from placement_lint.flow.domain.arguments import Arguments
from placement_lint.flow.domain.path_condition import ALWAYS, NEVER, Condition
from placement_lint.flow.domain.record import replace
from placement_lint.flow.domain.values import (
    CPU,
    FALSE,
    NONE,
    REST,
    TRUE,
    Class,
    Comparison,
    Const,
    Device,
    External,
    Kind,
    Mapping,
    Object,
    Place,
    Sequence,
    Symbol,
    Tensor,
    Value,
    alternatives,
    compare,
    describe,
)
from placement_lint.flow.events.schema import CudaInWorker, LoaderMisplaced, SamplerMisused, Scene
from placement_lint.flow.models import device_choice, graphs, torchvision, wrappers
from placement_lint.flow.models.gradients import NoGrad
from placement_lint.flow.models.handlers import Handlers
from placement_lint.flow.state.containers import content
from placement_lint.flow.state.devices import Context, as_place, default_place, resolve
from placement_lint.flow.state.heap import MAPPING, Slot
from placement_lint.flow.state.machine import Machine
from placement_lint.flow.state.notes import Notes, noted
from placement_lint.flow.state.program import Program
from placement_lint.rule import Note
from placement_lint.source.querying import ends_at_once, is_literal, last_name, names_in


@dataclass
class Loaders(Notes):
    """Iterations over loaders, and their workers."""

    # iterations over what a DistributedSampler shuffles, by the loop around them and the id of the sampler, with the
    # scene where the loader may have another sampler
    sampled: dict[cst.For | cst.While, dict[int, tuple[tuple[Note, ...], Scene | None]]] = noted(dict)
    # the ids of the samplers whose epoch is set, the loops in which one is, and whether it may be any sampler's
    samplers_set: set[int] = noted(set)
    loops_setting: set[cst.For | cst.While] = noted(set)
    sets_any_epoch: bool = noted(bool)
    # the ids of data sets of which the program takes parts
    divided: set[int] = noted(set)
    # the program leaves it at forking the workers
    forks: bool = noted(lambda: True)


DISTRIBUTED_SAMPLER = "torch.utils.data.DistributedSampler"
TENSORS = Slot("tensors")
COLLATE = Slot("collate")
ROWS = Slot("rows")
WORKERS = Slot("workers")
# Of a loader: it draws from all of its data set, in an order of its own.
SHUFFLES = Slot("shuffles by itself")
_TARGET = Slot("moves to")


def build(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``DataLoader(dataset, batch_size=…, num_workers=…)``"""
    loader = machine.new_object(Kind.LOADER, External("torch.utils.data.DataLoader"), node)
    machine.write(loader.id, "dataset", arguments.get(0, "dataset") or machine.fresh())
    machine.write(loader.id, ROWS, Const(_batch_sizes(machine, arguments)))
    collate = arguments.get(6, "collate_fn")
    if arguments.spread and collate is None:
        collate = machine.fresh()
    if collate is not None and collate != NONE:
        machine.write(loader.id, COLLATE, collate)
    given = arguments.get(3, "sampler") or NONE
    batches = arguments.get(4, "batch_sampler")
    if isinstance(batches, Object):
        machine.write(loader.id, "batch_sampler", batches)
    in_batches = machine.read(batches.id, "sampler") if isinstance(batches, Object) else None
    machine.write(loader.id, "sampler", given if in_batches is None else in_batches)
    by_itself = name and given == NONE and batches in (None, NONE) and not arguments.spread
    machine.write(loader.id, SHUFFLES, arguments.get(2, "shuffle") or NONE if by_itself else NONE)
    machine.lift(lambda order, one: _check_order(machine, order, one, node), arguments.get(2, "shuffle") or NONE, given)
    _check_generator(machine, arguments, node)
    _try_out(machine, loader, arguments, node)
    return loader


# Loaders of other libraries, with the names of the arguments that each takes by position before those of its base.
LOADERS_OF_LIBRARIES = {
    **dict.fromkeys(
        ("torch_geometric.loader.DataLoader", "torch_geometric.data.DataLoader"), ("dataset", "batch_size", "shuffle")
    ),
    "dgl.dataloading.GraphDataLoader": ("dataset", "collate_fn"),
    "monai.data.DataLoader": ("dataset", "num_workers"),
}


def build_like(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``torch_geometric.loader.DataLoader(dataset, batch_size=…)``, which collates in a way of its own."""
    given = zip(LOADERS_OF_LIBRARIES[name], arguments.positional, strict=False)
    collate = graphs.BATCH if name.startswith("torch_geometric.") else machine.fresh()
    keywords = {**dict(given), "collate_fn": collate, **arguments.keywords}
    return build(machine, "", Arguments((), keywords, arguments.spread), node)


class Rows(NamedTuple):
    """How many rows a loader's batches have; ``option`` is the option that tells by its default."""

    counts: frozenset[int] = frozenset()
    option: Symbol | None = None


def _batch_sizes(machine: Machine, arguments: Arguments) -> Rows:
    """The rows of a loader's batches, where its arguments and the size of its data tell."""
    size, dataset = arguments.get(1, "batch_size"), arguments.get(0, "dataset")
    option = size if isinstance(size, Symbol) and size.preferred is not None else None
    size = option.preferred if option is not None else size
    stored = machine.read(dataset.id, TENSORS) if isinstance(dataset, Object) else None
    first = stored.items[0] if isinstance(stored, Sequence) and stored.items else None
    drops = arguments.get(8, "drop_last") or FALSE
    if isinstance(first, Tensor) and first.rows - {REST}:
        if not isinstance(size, Const) or type(size.value) is not int or size.value < 1:
            return Rows()
        last = {rows % size.value for rows in first.rows} - {0}
        return Rows(frozenset({size.value}) | (frozenset() if drops == TRUE else last), option)
    by_itself = arguments.spread or arguments.get(4, "batch_sampler") not in (None, NONE)
    if size == Const(1) and not by_itself and not arguments.has(6, "collate_fn"):
        return Rows(frozenset({1}), option)
    return Rows() if by_itself or drops != FALSE or torchvision.has_fixed_size(dataset) else Rows(frozenset({REST}))


def tensor_dataset(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    dataset = machine.new_object(Kind.DATASET, External(name), node)
    machine.write(dataset.id, TENSORS, Sequence(arguments.positional, not arguments.spread))
    return dataset


def stored(machine: Machine, dataset: Object) -> Value | None:
    """The tensors of a TensorDataset."""
    return machine.read(dataset.id, TENSORS)


def refill(machine: Machine, dataset: Object, tensors: Value) -> None:
    """``dataset.tensors = …``"""
    held = machine.lift(lambda given: content(machine, given) or machine.fresh(), tensors)
    machine.write(dataset.id, TENSORS, held)


def subset(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``Subset(d, indices)`` yields what ``d`` yields."""
    dataset = arguments.get(0, "dataset") or machine.fresh()
    machine.notes[Loaders].divided |= {option.id for _, option in alternatives(dataset) if isinstance(option, Object)}
    return dataset


def random_split(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    dataset = arguments.get(0, "dataset") or machine.fresh()
    lengths = content(machine, arguments.get(1, "lengths") or NONE)
    if lengths is None or not lengths.exact:
        subset(machine, name, arguments, node)
    _check_shuffle(machine, arguments.get(2, "generator") or NONE, node)
    return Sequence((dataset,) * (len(lengths.items) if lengths else 2), exact=lengths is not None)


def moving(machine: Machine, loader: Object, device: Value, node: cst.Call) -> Object:
    """The same loader, which moves its batches to a device."""
    twin = machine.new_object(Kind.LOADER, loader.cls, node)
    for name in machine.store.names(loader.id):
        machine.write(twin.id, name, machine.read(loader.id, name) or machine.fresh())
    machine.write(twin.id, _TARGET, device)
    return twin


def delivered(machine: Machine, loader: Object, batch: Value, node: cst.CSTNode) -> Value:
    """A batch as the loop gets it."""
    target = machine.read(loader.id, _TARGET)
    if target is None:
        return batch

    def put(place: Value, batch: Value) -> Value:
        def there(tensor: Tensor) -> Value:
            if not isinstance(place, (Device, Symbol)):
                return machine.fresh()
            return tensor.at(place, Note(node, f"the loader moves its batches to {describe(place)}"))

        return with_tensors(machine, batch, there, node)

    return machine.lift(put, target, batch)


def with_tensors(machine: Machine, batch: Value, change: Callable[[Tensor], Value], node: cst.CSTNode) -> Value:
    """A batch of the same class, which may have a `to` of its own, with other tensors."""
    changed = wrappers.map_tensors(machine, batch, change, lambda symbol: symbol)
    if isinstance(batch, Object) and isinstance(changed, Mapping):
        made = machine.new_object(Kind.DICT, batch.cls, node)
        machine.write(made.id, MAPPING, changed)
        return made
    return wrappers.thawed(machine, changed, node)


# --- samplers ------------------------------------------------------------------------------------------------


def sampler(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``RandomSampler(dataset)``"""
    return machine.new_object(Kind.OTHER, External(name), node)


def batch_sampler(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``BatchSampler(sampler, 8, True)`` takes batches in the order of the sampler."""
    made = machine.new_object(Kind.OTHER, External(name), node)
    machine.write(made.id, "sampler", arguments.get(0, "sampler") or machine.fresh())
    return made


_LOOPS = Slot("loops")


def distributed_sampler(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``DistributedSampler(dataset)`` shuffles, from a seed and the number of the epoch."""
    made = machine.new_object(Kind.OTHER, External(name), node)
    if _is_class(arguments.get(0, "dataset")):
        machine.emit(SamplerMisused(node, machine.scene, "class"))
    shuffle, source = arguments.get(3, "shuffle"), device_choice.argument(node, 3, "shuffle")
    shuffles = ALWAYS
    if shuffle is not None and source is not None:
        shuffles = machine.evaluator.truth(machine, shuffle, source)
    elif arguments.spread:
        shuffles = NEVER
    loops = Const(frozenset(machine.loops_around()))
    machine.write(made.id, _LOOPS, machine.either([(shuffles, loops), (shuffles.negation, NONE)]))
    return made


def _is_class(value: Value | None) -> bool:
    """A class of the program, or of a library by its capital letter."""
    return isinstance(value, Class) or (isinstance(value, External) and value.name.rpartition(".")[2][:1].isupper())


def _check_order(machine: Machine, shuffle: Value, given: Value, node: cst.Call) -> Value:
    if shuffle == TRUE and isinstance(given, Object):
        trace = (Note(given.node, "the sampler is made here"),)
        machine.emit(SamplerMisused(node, machine.scene, "shuffled", trace))
    return NONE


def note_set_epoch(machine: Machine, owner: Value) -> None:
    """``owner.set_epoch``: of a sampler made in sight, or of what may lead to any."""
    noted = machine.notes[Loaders]
    noted.loops_setting.update(machine.loops_around())
    if isinstance(owner, Object) and owner.cls == External(DISTRIBUTED_SAMPLER):
        noted.samplers_set.add(owner.id)
    elif owner != NONE:
        noted.sets_any_epoch = True


def given_away(machine: Machine, given: Object) -> None:
    """A sampler, or a loader with one, is given to a call that cannot be analysed: that may set its epoch."""
    for _, option in alternatives(machine.read(given.id, "sampler") or given):
        if isinstance(option, Object):
            machine.notes[Loaders].samplers_set.add(option.id)


def note_epoch(machine: Machine, loader: Object, node: cst.CSTNode) -> None:
    """A loader is iterated: in another loop, after a DistributedSampler, and to train on it, that is an epoch."""
    machine.signals.training.loader_iterated(machine, loader, node)
    if machine.now[NoGrad].count or machine.read(loader.id, _TARGET) is not None:
        # Whoever only evaluates gets the same in any order.
        return
    for guard, made in alternatives(machine.read(loader.id, "sampler") or NONE):
        outside = machine.read(made.id, _LOOPS) if isinstance(made, Object) else None
        for shuffles, loops in alternatives(outside or NONE):
            if isinstance(made, Object) and isinstance(loops, Const) and isinstance(loops.value, frozenset):
                _note_epoch(machine, made, guard & shuffles, loops.value, node)


def _note_epoch(
    machine: Machine, sampler: Object, guard: Condition, outside: frozenset[object], node: cst.CSTNode
) -> None:
    """The same for a loader with a sampler that was made in the loops ``outside``, under a condition."""
    epoch = _epoch(machine, node)
    if epoch is not None and epoch not in outside:
        notes = (Note(sampler.node, "the sampler is made here"), Note(node, "each process goes through its share here"))
        scene = None if guard is ALWAYS else replace(machine.scene, when=machine.path & guard)
        machine.notes[Loaders].sampled.setdefault(epoch, {}).setdefault(sampler.id, (notes, scene))


def _epoch(machine: Machine, node: cst.CSTNode) -> cst.For | cst.While | None:
    """The loop around an iteration that counts the epochs: one with that name, or the innermost."""
    around = [loop for loop in machine.loops_around() if _goes_round(loop, node)]
    named = [
        loop for loop in around if isinstance(loop, cst.For) and any("epoch" in name for name in names_in(loop.target))
    ]
    return next(iter((*named, *around[-1:])), None)


def _is_once(iterated: cst.BaseExpression) -> bool:
    """``range(1)``"""
    if not isinstance(iterated, cst.Call) or len(iterated.args) != 1:
        return False
    return last_name(iterated.func) == "range" and is_literal(iterated.args[0].value, 1)


def _goes_round(loop: cst.For | cst.While, node: cst.CSTNode) -> bool:
    """Whether a loop iterates over something else than ``node``, and more than once."""
    if isinstance(loop, cst.While):
        return not ends_at_once(loop)
    return loop.iter is not node and not _is_once(loop.iter)


def finish(machine: Machine) -> None:
    """Report samplers whose epoch is never set; a loop that sets the epoch of one sampler omits others on purpose."""
    noted = machine.notes[Loaders]
    for loop, samplers in noted.sampled.items() if not noted.sets_any_epoch else ():
        left = [found for identity, found in samplers.items() if identity not in noted.samplers_set]
        if left and loop not in noted.loops_setting:
            notes, scene = left[0]
            machine.emit(SamplerMisused(loop, scene or machine.scene, "no epoch", notes))


# --- worker processes ----------------------------------------------------------------------------------------


def set_start_method(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``mp.set_start_method("spawn")``"""
    machine.notes[Loaders].forks = machine.notes[Loaders].forks and arguments.get(0, "method") == Const("fork")
    return NONE


@contextmanager
def in_worker(machine: Machine, loader: Object) -> Iterator[None]:
    """What a loader does while it makes a batch happens in a worker, where it has any."""
    context = machine.now[Context]
    before = context.worker
    if machine.read(loader.id, WORKERS) == TRUE:
        context.worker = Note(loader.node, "the DataLoader forks its workers here")
    try:
        yield
    finally:
        context.worker = before


def _try_out(machine: Machine, loader: Object, arguments: Arguments, node: cst.Call) -> None:
    """Have a batch made, here and now, to see what the workers do and where the batch is."""
    count = arguments.get(5, "num_workers") or Const(0)
    context = arguments.get(11, "multiprocessing_context") or NONE
    forked = machine.evaluator.truth(machine, count, node) if context in (NONE, Const("fork")) else ALWAYS.negation
    pinned = machine.evaluator.truth(machine, arguments.get(7, "pin_memory") or NONE, node)
    if forked.possible:
        with machine.aside(forked, goes_without_saying=False):
            machine.write(loader.id, WORKERS, TRUE)
            said = len(machine.notes[Program].events)
            batch = machine.evaluator.element(machine, loader, node)
            _initialise(machine, loader, arguments, node)
            if not any(isinstance(event, CudaInWorker) for event in machine.notes[Program].events[said:]):
                _each_tensor(machine, batch, lambda tensor: _report_resident(machine, tensor, node))
        # Where an option gives their number, what they do is known from this; it need not be so at each loop.
        machine.write(loader.id, WORKERS, TRUE if machine.path.implies(forked) else FALSE)
    elif pinned.possible:
        with machine.aside(pinned, goes_without_saying=False):
            batch = machine.evaluator.element(machine, loader, node)
            _each_tensor(machine, batch, lambda tensor: _report_pinned(machine, tensor, node))


def _initialise(machine: Machine, loader: Object, arguments: Arguments, node: cst.Call) -> None:
    function = arguments.get(10, "worker_init_fn")
    if function is not None and function != NONE:
        with in_worker(machine, loader):
            machine.evaluator.call(machine, function, Arguments((machine.fresh("worker"),)), node)


def _on_cuda(tensor: Tensor) -> bool:
    return isinstance(tensor.place, Device) and tensor.place.kind == "cuda" and not tensor.assumed


def _report_resident(machine: Machine, tensor: Tensor, node: cst.Call) -> None:
    if _on_cuda(tensor):
        loader = Note(node, "the DataLoader forks its workers here")
        machine.emit(CudaInWorker(node, machine.scene, "the dataset on the GPU", loader, trace=tensor.history[:1]))


def _report_pinned(machine: Machine, tensor: Tensor, node: cst.Call) -> None:
    if _on_cuda(tensor):
        machine.emit(LoaderMisplaced(node, machine.scene, "pinned", tensor.place, tensor.history[:1]))


def _each_tensor(machine: Machine, value: Value, visit: Callable[[Tensor], None]) -> None:
    machine.lift(lambda option: _look_into(machine, option, visit), value)


def _look_into(machine: Machine, option: Value, visit: Callable[[Tensor], None]) -> Value:
    if isinstance(option, Tensor):
        visit(option)
        return NONE
    if isinstance(option, Object) and option.kind is Kind.DICT:
        option = machine.read(option.id, MAPPING) or option
    items = content(machine, option)
    held = tuple(item for _, item in option.items) if isinstance(option, Mapping) else items.items if items else ()
    for item in held:
        _each_tensor(machine, item, visit)
    return NONE


# --- generators of random numbers ----------------------------------------------------------------------------


def generator(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``torch.Generator(device="cuda")``: on the CPU unless told otherwise, whatever the default device is."""
    made = machine.new_object(Kind.OTHER, External(name), node)
    machine.write(made.id, "device", arguments.get(0, "device") or CPU)
    return made


def _check_generator(machine: Machine, arguments: Arguments, node: cst.Call) -> None:
    """Shuffling permutes indices on the default device with a generator that has to be there as well."""
    if arguments.get(2, "shuffle") == TRUE and not arguments.spread:
        _check_shuffle(machine, arguments.get(12, "generator") or NONE, node)


def _check_shuffle(machine: Machine, given: Value, node: cst.Call) -> None:
    def check(made: Value, default: Value) -> Value:
        place = CPU if made == NONE else _place_of(machine, made)
        if place is not None and isinstance(default, Device) and compare(place, default) is Comparison.DIFFERENT:
            fault = "default device" if made == NONE else "generator"
            machine.emit(LoaderMisplaced(node, machine.scene, fault, default if made == NONE else place))
        return NONE

    if not machine.now[Context].in_default_context:
        machine.lift(check, given, default_place(machine))


def _place_of(machine: Machine, made: Value) -> Place | None:
    device = machine.read(made.id, "device") if isinstance(made, Object) and made.kind is Kind.OTHER else None
    place = as_place(device) if device is not None else None
    return None if place is None or isinstance(place, Symbol) else resolve(machine, place)


CALLS: Handlers = {
    "torch.utils.data.DataLoader": build,
    **dict.fromkeys(LOADERS_OF_LIBRARIES, build_like),
    "torch.utils.data.TensorDataset": tensor_dataset,
    "torch.utils.data.Subset": subset,
    "torch.utils.data.random_split": random_split,
    "torch.Generator": generator,
    "torch.multiprocessing.set_start_method": set_start_method,
    "multiprocessing.set_start_method": set_start_method,
    **dict.fromkeys(SAMPLERS, sampler),
    "torch.utils.data.BatchSampler": batch_sampler,
}
