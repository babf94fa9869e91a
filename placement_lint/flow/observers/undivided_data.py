"""Loaders that give each process of DistributedDataParallel all of the data, where each should have a share."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from placement_lint.flow.domain.values import (
    NONE,
    TRUE,
    Class,
    External,
    Function,
    Kind,
    Object,
    Sequence,
    Symbol,
    Tensor,
    Value,
    alternatives,
)
from placement_lint.flow.events.schema import SamplerMisused
from placement_lint.flow.models import loaders, ranks, torchvision
from placement_lint.flow.state.classes import find, foreign_bases
from placement_lint.flow.state.machine import Machine
from placement_lint.flow.state.notes import Notes, noted
from placement_lint.flow.state.signals import Signals
from placement_lint.rule import Note
from placement_lint.source.querying import as_expression, words_in
from placement_lint.source.walking import nodes_in


@dataclass
class UndividedData(Notes):
    """Loaders that the program goes through, by the expression that its loop names."""

    iterated: dict[cst.CSTNode, dict[int, Object]] = noted(dict)


def iterated(machine: Machine, loader: Object, node: cst.CSTNode) -> None:
    machine.notes[UndividedData].iterated.setdefault(node, {})[loader.id] = loader


def backward(machine: Machine, loss: Tensor, wrapper: Object, note: Note) -> None:
    """A step of the training in a loop over a loader: do the processes share its data?"""
    if ranks.joined(machine) is None or ranks.is_one_of_them(machine):
        return
    noted = machine.notes[UndividedData].iterated
    wrapped = Note(wrapper.node, "wrapped in DistributedDataParallel here")
    for loop in machine.loops_around():
        nodes = nodes_in(loop.iter) if isinstance(loop, cst.For) else ()
        found = [loader for node in nodes for loader in noted.get(node, {}).values()]
        if found and all(_is_undivided(machine, loader) for loader in found):
            for loader in found:
                trace = (wrapped, Note(loop, "each process goes through all of the data here"))
                machine.emit(SamplerMisused(loader.node, machine.scene, "no share", trace))


def _is_undivided(machine: Machine, loader: Object) -> bool:
    """Whether a loader shuffles a data set that is known to be the same in each process."""
    dataset = machine.restrict(machine.read(loader.id, "dataset") or NONE)
    return (
        machine.read(loader.id, loaders.SHUFFLES) == TRUE
        and not _divides(loader.node)
        and all(_is_whole(machine, option) for _, option in alternatives(dataset))
    )


def _is_whole(machine: Machine, dataset: Value) -> bool:
    """Whether nothing in a data set, its class and what it is made from speaks of one of several processes."""
    if isinstance(dataset, Symbol):
        return torchvision.is_dataset(machine, dataset) and not _divides(as_expression(dataset.source))
    if not isinstance(dataset, Object) or dataset.id in machine.notes[loaders.Loaders].divided:
        return False
    if dataset.kind is not Kind.DATASET or _divides(dataset.node):
        return False
    return not any(map(_divides, _sources(machine, dataset))) and _is_map(machine, dataset)


def _sources(machine: Machine, dataset: Object) -> Iterator[cst.CSTNode]:
    """Code that decides what is in a data set: what its attributes are made from, and its class."""
    held = [machine.read(dataset.id, name) for name in machine.store.names(dataset.id)]
    tensors = loaders.stored(machine, dataset)
    held += tensors.items if isinstance(tensors, Sequence) else ()
    for value in held:
        for _, option in alternatives(value) if value is not None else ():
            if isinstance(option, Symbol):
                yield as_expression(option.source)
            elif isinstance(option, Tensor) and option.created is not None:
                yield option.created
    if isinstance(dataset.cls, Class):
        yield machine.definition(dataset.cls)


def _is_map(machine: Machine, dataset: Object) -> bool:
    """Whether a data set has a sample for each index, and is no stream."""
    if not isinstance(dataset.cls, Class):
        return True
    bases = foreign_bases(dataset.cls)
    return all(base == _DATASET for base in bases) and isinstance(find(machine, dataset.cls, "__getitem__"), Function)


_DATASET = External("torch.utils.data.Dataset")
# Words of code that knows of other processes, or of other workers of a loader.
_PROCESSES = re.compile(r".*(?:rank|world|replica|shard|worker_info|num_process|process_(?:id|index)).*", re.IGNORECASE)


def _divides(node: cst.CSTNode) -> bool:
    return any(map(_PROCESSES.fullmatch, words_in(node)))


# --- signals ----------------------------------------------------------------------------------------------------------


def listen(signals: Signals) -> None:
    signals.training.loader_iterated.connect(iterated)
    signals.training.backward_through_ddp.connect(backward)
