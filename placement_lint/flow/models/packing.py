"""Calls that pack padded sequences, and pad packed ones."""

from __future__ import annotations

import libcst as cst

from placement_lint.flow.domain.arguments import Arguments
from placement_lint.flow.domain.values import CPU, Sequence, Tensor, Value
from placement_lint.flow.models import lengths, packed_sequences, scatter
from placement_lint.flow.models.handlers import Handlers
from placement_lint.flow.state.containers import content
from placement_lint.flow.state.machine import Machine


def _pack(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """A PackedSequence: its data is on the device of the padded tensor, or of the sequences."""
    given = arguments.get(0, "input") or arguments.keyword("sequences") or machine.fresh()
    items = content(machine, given)
    first = given if items is None else items.items[0] if items.items else machine.fresh(node)
    return machine.lift(
        lambda option: packed_sequences.packed(machine, scatter.packed(machine, option, arguments)), first
    )


def _packed(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``PackedSequence(data, batch_sizes)``"""
    return arguments.get(0, "data") or machine.fresh(node)


def _pack_padded(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    lengths.pack(machine, arguments)
    packed_sequences.check_lengths(machine, arguments, node)
    return _pack(machine, name, arguments, node)


def _unpack(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``pad_packed_sequence`` returns the padded tensor and its lengths, which are always on the CPU."""

    def unpack(sequence: Value) -> Value:
        return packed_sequences.padded(machine, scatter.unpacked(sequence, arguments), arguments, node)

    return Sequence((machine.lift(unpack, arguments.get(0, "sequence") or machine.fresh()), Tensor(CPU, False)))


def _pack_by_hand(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``torch._VF._pack_padded_sequence`` returns the data of a PackedSequence, and its sizes on the CPU."""
    return Sequence((_pack_padded(machine, name, arguments, node), Tensor(CPU, False)))


def _unpack_by_hand(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    return Sequence((arguments.get(0, "data") or machine.fresh(node), Tensor(CPU, False)))


CALLS: Handlers = {
    "torch.nn.utils.rnn.PackedSequence": _packed,
    "torch.nn.utils.rnn.pack_padded_sequence": _pack_padded,
    "torch.nn.utils.rnn.pack_sequence": _pack,
    "torch._pack_padded_sequence": _pack_by_hand,
    "torch._pad_packed_sequence": _unpack_by_hand,
    "torch.nn.utils.rnn.pad_packed_sequence": _unpack,
}
