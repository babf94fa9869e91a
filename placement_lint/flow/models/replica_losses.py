"""What DataParallel gathers of its replicas, used as if it were one number.

A 0-dim loss becomes a vector with one element a replica. An output of which the shape is not known has at least as
many elements, and what only has one element can be a number: ``backward()`` of it is right with a single GPU alone.
"""

from __future__ import annotations

import libcst as cst

from placement_lint.flow.domain.values import Tensor
from placement_lint.flow.events.schema import ReplicaLossUsed
from placement_lint.flow.state.machine import Machine

# With a single row there is a single replica: only these tell that the batch has more, or that it is a loss.
_WANT_NUMBER = ("item", "float", "int", "format", "__float__", "__int__")


def used_as_number(
    machine: Machine, tensor: Tensor, use: str, how: str, source: cst.CSTNode, node: cst.CSTNode
) -> None:
    """``loss.backward()``, ``float(loss)`` and their kind; ``how`` words it, and ``source`` is the tensor's."""
    if not tensor.per_replica and tensor.gathered is None:
        return
    event = ReplicaLossUsed(node, machine.scene, source, how, use, tensor)
    if tensor.per_replica:
        machine.emit(event)
    elif use == "backward" or (use in _WANT_NUMBER and not machine.without_grad):
        machine.used_as_numbers.append(event)


def averaged(machine: Machine, tensor: Tensor) -> None:
    """The program makes one number of an output itself: it is a loss."""
    if tensor.gathered is not None:
        machine.averaged.add(tensor.gathered)


def measured(machine: Machine, tensor: Tensor) -> None:
    """The program asks how many elements an output has: it knows what to do with several."""
    if tensor.gathered is not None:
        machine.measured.add(tensor.gathered)


def resolve(machine: Machine) -> None:
    """Report each backward from an output, and the other uses of those that the program averages elsewhere."""
    for use in machine.used_as_numbers:
        made = use.tensor.gathered
        if made not in machine.measured and (use.use == "backward" or made in machine.averaged):
            machine.events.append(use)
