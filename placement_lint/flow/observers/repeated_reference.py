"""Lists that repeat their items: ``[nn.Linear(3, 3)] * 4`` has one layer, four times."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from placement_lint.flow.api.torch_names import SIZE
from placement_lint.flow.domain.values import (
    AtLeast,
    Choice,
    Const,
    Kind,
    Object,
    Role,
    Sequence,
    Symbol,
    Tensor,
    Value,
    alternatives,
)
from placement_lint.flow.events.schema import LayerRepeated
from placement_lint.flow.models import modules
from placement_lint.flow.state.containers import content
from placement_lint.flow.state.machine import Machine
from placement_lint.flow.state.notes import Notes, Use, noted
from placement_lint.flow.state.signals import Signals
from placement_lint.source.querying import names_in


@dataclass
class Repeated(Notes):
    """Layers and Parameters that a list repeats."""

    # events by the id of the item; the ids of items that containers of torch.nn keep, and of replaced items
    events: dict[int, LayerRepeated] = noted(dict)
    kept: set[int] = noted(set, Use.AT_END)
    refilled: set[int] = noted(set, Use.AT_END)


# Names that show that the repetition is intentional.
_ON_PURPOSE = re.compile(r"shar(?:e|ing)|tied|tying|recur|universal|same|reus|albert", re.IGNORECASE)
# Names of counts; a factor with another name may be a flag: ``[nn.LayerNorm(size)] * use_norm``.
_COUNT = re.compile(
    r"n|k|len|n_\w+|num\w*|\w*_num|\w*(?:depth|layers|blocks|heads|levels|stages|steps|experts|repeats|times|count|copies)",
    re.IGNORECASE,
)


def repeated(machine: Machine, node: cst.BinaryOperation, left: Value, right: Value, newest: int) -> None:
    """``[item] * times`` or ``times * [item]``; items with ids above ``newest`` were created in this expression."""
    if isinstance(node.left, (cst.List, cst.Tuple)):
        literal, counted, items, times = node.left, node.right, left, right
    elif isinstance(node.right, (cst.List, cst.Tuple)):
        literal, counted, items, times = node.right, node.left, right, left
    else:
        return
    known = content(machine, items)
    if known is None or not _is_several(times, counted) or _is_on_purpose(machine):
        return
    for item in known.items:
        for identity, kind in _made(machine, item, newest):
            machine.notes[Repeated].events[identity] = LayerRepeated(node, machine.scene, literal, counted, kind)


def _is_several(times: Value, written: cst.BaseExpression) -> bool:
    if isinstance(times, Choice):
        return all(_is_several(option, written) for _, option in times.alternatives)
    if isinstance(times, Const):
        return type(times.value) is int and times.value > 1
    if isinstance(times, Symbol):
        return times.type in ("int", SIZE) or any(map(_COUNT.fullmatch, names_in(written)))
    return isinstance(times, AtLeast)


def _is_on_purpose(machine: Machine) -> bool:
    """Whether names show that one shared layer is intended, or the path depends on a condition."""
    names = [frame.receiver.cls.name for frame in machine.frames if isinstance(frame.receiver, Object)]
    line = names_in(machine.frame.line) if machine.frame.line is not None else ()
    return machine.chooses or any(map(_ON_PURPOSE.search, (*names, *line)))


def _made(machine: Machine, item: Value, newest: int) -> Iterator[tuple[int, str]]:
    """The ids of the trainable layers and Parameters that were created for the list, each with its class."""
    for _, made in alternatives(item):
        if isinstance(made, Tensor) and made.role is Role.PARAMETER and made.uid > newest:
            yield made.uid, "Parameter"
        elif isinstance(made, Object) and made.id > newest and _learns(machine, made):
            yield made.id, made.cls.name.rpartition(".")[2]


def _learns(machine: Machine, made: Object) -> bool:
    return made.kind is Kind.MODULE and modules.learns(machine, made)


def kept(machine: Machine, value: Value) -> None:
    """A container of torch.nn gets a layer or Parameter, or a list of them."""
    if machine.notes[Repeated].events:
        machine.notes[Repeated].kept.update(_identities(machine, value))


def refilled(machine: Machine, items: Sequence) -> None:
    """``layers[i] = layer``: the items of the list are placeholders."""
    if machine.notes[Repeated].events:
        machine.notes[Repeated].refilled.update(
            identity for item in items.items for identity in _identities(machine, item)
        )


def _identities(machine: Machine, value: Value) -> Iterator[int]:
    for _, option in alternatives(value):
        items = content(machine, option)
        if items is not None:
            yield from (identity for item in items.items for identity in _identities(machine, item))
        elif isinstance(option, (Tensor, Object)):
            yield option.uid if isinstance(option, Tensor) else option.id


def finish(machine: Machine) -> None:
    """Report after the whole program, when it is known which repeated items containers keep."""
    noted = machine.notes[Repeated]
    for identity, event in noted.events.items():
        if identity in noted.kept and identity not in noted.refilled:
            machine.emit(event)


# --- signals ----------------------------------------------------------------------------------------------------------


def listen(signals: Signals) -> None:
    signals.program.sequence_repeated.connect(repeated)
    signals.program.container_filled.connect(kept)
    signals.program.items_replaced.connect(refilled)
