"""PyTorch Geometric: the batches of its loaders, which hold tensors and move them in place.

Read in torch_geometric 2.6.1: `data/data.py` (`BaseData.to` applies a function to all stores and returns itself).
"""

from __future__ import annotations

import libcst as cst

from placement_lint.flow.domain.arguments import Arguments
from placement_lint.flow.domain.values import External, Kind, Object, Role, Source, Tensor, Value
from placement_lint.flow.models import tensors
from placement_lint.flow.state.machine import Machine

BATCH = External("torch_geometric.data.Batch")
METHODS = {"to", "cuda", "cpu"}
# What most batches have; others are unknown.
_TENSORS = ("x", "edge_index", "edge_attr", "edge_weight", "y", "pos", "batch", "ptr")


def collated(machine: Machine, node: cst.CSTNode) -> Object:
    """A batch from a loader, on the device of its data set, which a transform or the program may have moved."""
    made, place = machine.new_object(Kind.OTHER, BATCH, node), machine.fresh()
    for name in _TENSORS:
        machine.write(made.id, name, Tensor(place, False, Role.BATCH, source=Source.LOADER, uid=machine.new_id()))
    return made


def move(machine: Machine, batch: Object, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``data.to(device)`` moves what the batch holds, also what the program has put there, and returns the batch."""
    target = tensors.move_target(machine, name, arguments, node)

    def moved(option: Value, place: Value) -> Value:
        return tensors.move(machine, option, place, node, f".{name}(…)") if isinstance(option, Tensor) else option

    for attribute in [*machine.store.variables(batch.id)]:
        value = machine.read(batch.id, attribute)
        if value is not None:
            machine.write(batch.id, attribute, machine.lift(moved, value, target))
    return batch
