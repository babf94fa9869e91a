"""Checkpoints: where ``torch.load`` puts what it reads.

Without ``map_location`` every tensor goes back to the device that it was saved from (torch/serialization.py,
`default_restore_location`); a machine without that device refuses.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import libcst as cst

from placement_lint.flow import choices, ranks
from placement_lint.flow.arguments import Arguments
from placement_lint.flow.copying import replace
from placement_lint.flow.events import LoadedWhereSaved, Scene
from placement_lint.flow.machine import Machine
from placement_lint.flow.values import NONE, Kind, Loaded, Mapping, Object, Sequence, StateDict, Value, alternatives
from placement_lint.rule import Note


@dataclass(frozen=True)
class Unmapped:
    """A load without ``map_location``; ``written`` where this very run wrote the file before.

    ``at_home`` where the program's own file loads it.
    """

    node: cst.Call
    scene: Scene
    file: str
    written: bool
    at_home: bool
    joined: Note | None


# What a file has to do with a model, by its name or by what is taken from it.
_CHECKPOINT = re.compile(
    r"ckpt|checkpoint|weight|model|resume|pretrain|state_?dict|snapshot|\.pth\b|\bnet\b|optim|epoch|best", re.IGNORECASE
)


def load(machine: Machine, arguments: Arguments, file: str, node: cst.Call) -> Value:
    """``torch.load(file)``"""
    mapped = arguments.get(1, "map_location")
    if (mapped is None or mapped == NONE) and not arguments.spread and not machine.default_was_set:
        scene = replace(machine.scene, reach=machine.tested & machine.decided)
        written = file in machine.files
        machine.unmapped.append(Unmapped(node, scene, file, written, machine.at_home, ranks.joined(machine)))
        if _CHECKPOINT.search(file):
            machine.state_loads.add(node)
    return Loaded(file, node=node)


def taken(machine: Machine, loaded: Loaded) -> None:
    """An entry of a loaded value is read."""
    if any(isinstance(entry, str) and _CHECKPOINT.search(entry) for entry in loaded.entries) and loaded.node:
        machine.state_loads.add(loaded.node)


def restored(machine: Machine, value: Value | None) -> None:
    """``load_state_dict(value)``: the tensors are copied to where the parameters are."""
    for loaded in _within(machine, value):
        if loaded.node is not None:
            machine.state_loads.add(loaded.node)


def kept(machine: Machine, value: Value) -> None:
    """Something else is done with a loaded value than to restore a state from it."""
    for loaded in _within(machine, value):
        if loaded.node is not None:
            machine.kept_loads.add(loaded.node)


def used_as_model(machine: Machine, loaded: Loaded) -> None:
    if loaded.node is not None:
        machine.state_loads.add(loaded.node)
        machine.kept_loads.add(loaded.node)


def _within(machine: Machine, value: Value | None) -> list[Loaded]:
    """The loaded values that a value is, or that a dict made of one holds."""
    found: list[Loaded] = []
    for _, option in alternatives(value) if value is not None else ():
        if isinstance(option, Loaded):
            found.append(option)
        elif isinstance(option, Object) and option.kind is Kind.DICT:
            mapping = machine.read(option.id, "#map")
            held = [item for _, item in mapping.items] if isinstance(mapping, Mapping) else []
            rest = mapping.rest if isinstance(mapping, Mapping) else None
            found.extend(item for item in (*held, rest) if isinstance(item, Loaded))
        elif isinstance(option, Sequence):
            found.extend(item for item in option.items if isinstance(item, Loaded))
    return found


def resolve(machine: Machine) -> None:
    """Report each checkpoint that may be loaded where its devices are not, or by every rank at once."""
    by_node: dict[cst.Call, list[Unmapped]] = {}
    for unmapped in machine.unmapped:
        if unmapped.node in machine.state_loads or _saves_state(machine, unmapped.file):
            by_node.setdefault(unmapped.node, []).append(unmapped)
    for node, visits in by_node.items():
        _report(machine, node, visits)


def _saves_state(machine: Machine, file: str) -> bool:
    """Whether the program saves the state of something in a file of this name."""
    saved = [option for _, value, _ in machine.files.get(file, ()) for _, option in alternatives(value)]
    held = [item for value in saved if isinstance(value, Mapping) for _, item in value.items]
    return any(isinstance(option, StateDict) for item in (*saved, *held) for _, option in alternatives(item))


def _report(machine: Machine, node: cst.Call, visits: list[Unmapped]) -> None:
    first, only_state = visits[0], node not in machine.kept_loads
    joined = next((visit.joined for visit in visits if visit.joined is not None), None)
    if joined is not None:
        machine.emit(LoadedWhereSaved(node, first.scene, first.file, "ranks", joined, "", only_state))
        return
    if any(visit.written for visit in visits):
        # What this very run wrote goes back to where it was.
        return
    if machine.overlooks and not visits[0].at_home:
        # A helper for loading is often used beside one for saving.
        return
    if any(choices.asks_about_devices(visit.scene.reach) for visit in visits):
        return
    chosen = choices.open_to_others(machine, [visit.scene for visit in visits])
    if chosen is not None:
        scene = replace(first.scene, when=first.scene.reach & chosen.on_cpu)
        machine.emit(LoadedWhereSaved(node, scene, first.file, "choice", chosen.note, chosen.text, only_state))
