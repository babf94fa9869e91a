"""Checkpoints: where ``torch.load`` puts what it reads.

Without ``map_location`` every tensor goes back to the device that it was saved from (torch/serialization.py,
`default_restore_location`); a machine without that device refuses.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass
from enum import Enum, auto
from typing import TypeAlias

import libcst as cst

from placement_lint.flow.api.torch_names import NUMBER_TYPES
from placement_lint.flow.domain import partial_text
from placement_lint.flow.domain.arguments import Arguments
from placement_lint.flow.domain.path_condition import (
    ANY_MACHINE,
    NEVER,
    NO_GPU,
    Condition,
    Cube,
    Question,
    machines,
    of,
)
from placement_lint.flow.domain.record import record, replace
from placement_lint.flow.domain.values import (
    ACCELERATORS,
    CPU,
    NONE,
    Bound,
    Class,
    Const,
    Device,
    Kind,
    Loaded,
    Mapping,
    Object,
    Placed,
    Sequence,
    StateDict,
    StateKey,
    Symbol,
    Tensor,
    Value,
    alternatives,
    is_option,
)
from placement_lint.flow.events.schema import LoadedWhereSaved, Scene
from placement_lint.flow.models import device_choice, modules, ranks
from placement_lint.flow.state import texts
from placement_lint.flow.state.classes import methods
from placement_lint.flow.state.containers import content
from placement_lint.flow.state.heap import MAPPING, Slot
from placement_lint.flow.state.machine import Machine
from placement_lint.flow.state.moment import Calls
from placement_lint.flow.state.names import names_of, value_of
from placement_lint.flow.state.notes import Notes, Use, noted
from placement_lint.flow.state.options import switches
from placement_lint.flow.state.program import Program
from placement_lint.flow.state.records import Unmapped
from placement_lint.rule import Note
from placement_lint.source.abstract import meaning
from placement_lint.source.querying import saves_to_attribute
from placement_lint.source.walking import nodes_in

Entry: TypeAlias = "tuple[cst.CSTNode, ...]"


class Content(Enum):
    """The tensors that a saved value has in it, as far as they matter to who loads it."""

    NONE = auto()
    ON_CPU = auto()
    # a dict with known keys and unknown entries
    ENTRIES = auto()
    UNKNOWN = auto()
    ELSEWHERE = auto()


@record(frozen=True)
class Saved:
    """A value that the program saves in a file, which has a name with these letters."""

    name: str
    guard: Condition
    value: Value
    node: cst.Call
    standalone: bool
    # those of its state dicts whose tensors are all on the CPU
    on_cpu: frozenset[StateDict]
    # the classes of the program whose instances they belong to
    classes: tuple[tuple[StateDict, tuple[str, ...]], ...]


@record(frozen=True)
class Restored:
    """A call of load_state_dict with what a file holds, for a module of a class whose keys have the prefix ``into``.

    ``key`` is one of the keys that the program made of those in the file.
    """

    node: cst.Call
    scene: Scene
    label: str
    state: Loaded
    into: str
    strict: bool
    key: StateKey | None
    cls: tuple[str, ...]


@dataclass
class Checkpoints(Notes):
    """Files that the program saves and loads."""

    files: dict[str, list[tuple[Condition, Value, Note]]] = noted(dict, Use.WEIGHED)
    saves: list[Saved] = noted(list, Use.AT_END | Use.WEIGHED)
    # by what a file is given by, by its path, and by its name, in whichever folder, and by the call that saves it:
    # what the values have in them
    saved_in: dict[tuple[object, cst.Call], frozenset[Content]] = noted(dict)
    # by the entry point that saves, and by the same or the form of the name: the options under which it may be saved
    saved_when: dict[tuple[Entry, object], Condition] = noted(dict)
    # names of files and folders where code that cannot be looked into may have saved a model
    may_be_saved: set[Symbol] = noted(set)
    # files and state dicts that went through a call that cannot be looked into, or whose keys the program uses
    handled: set[object] = noted(set, Use.WEIGHED)
    loads: list[Restored] = noted(list, Use.AT_END | Use.WEIGHED)
    # wrappings of what a file holds
    wraps: list[tuple[cst.Call, Scene, Loaded, str, str]] = noted(list, Use.AT_END | Use.WEIGHED)
    # loads without map_location, those that restore a model or optimizer or are named as if they did, those that
    # restore one or go somewhere as a whole, and those of which some part may be used on the device where it is
    unmapped: list[Unmapped] = noted(list, Use.WEIGHED)
    state_loads: set[cst.Call] = noted(set)
    used_loads: set[cst.Call] = noted(set)
    kept_loads: set[cst.Call] = noted(set)
    # loads that restore a module that is on the GPU only where there is one
    chosen_loads: set[cst.Call] = noted(set)
    # files of lists in which nothing is known to be of a model
    lists: set[Value] = noted(set, Use.AT_END)
    # loads of what the program itself saves without a tensor on a GPU
    harmless: set[cst.Call] = noted(set, Use.AT_END)
    # loads of the states of schedulers, in which there are no tensors
    number_loads: set[cst.Call] = noted(set)


# The path of a file that the program opens.
_PATH = Slot("path")

# What a file has to do with a model, by its name or by what is taken from it.
_CHECKPOINT = re.compile(
    r"ckpt|checkpoint|weight|model|resume|pretrain|state_?dict|snapshot|\.pth\b|\bnet\b|optim|epoch|best", re.IGNORECASE
)


def load(machine: Machine, arguments: Arguments, file: str, node: cst.Call) -> Value:
    """``torch.load(file)``"""
    noted = machine.notes[Checkpoints]
    given = _path(machine, arguments.get(0, "f"))
    name = _name(machine, arguments.get(0, "f"), node.args[0].value)
    letters = partial_text.letters(given)
    mapped = arguments.get(1, "map_location")
    device_choice.request_literal(machine, mapped, device_choice.argument(node, 1, "map_location"), node, node)
    if (mapped is None or mapped == NONE) and not arguments.spread:
        reach, entry = machine.tested & machine.decided, machine.now[Calls].entry
        scene = replace(machine.scene, reach=reach, when=reach & ranks.joined_when(machine))
        source = node.args[0].value
        to_path, to_name, to_form = (
            reach.but_not(noted.saved_when.get((entry, key), NEVER)) if key is not None else reach
            for key in (given, None if _is_parameter(machine, given, name) else name, _form(machine, source))
        )
        written = not (to_name & to_form).possible or _saves_there_itself(machine, source)
        # In a folder that is named after the time there is only what this run has written.
        itself, unwritten = (
            not to_path.possible or partial_text.is_of_this_run(letters) or _may_be_saved(machine, given),
            to_path & to_name & to_form,
        )
        joined = None if ranks.is_one_of_them(machine) else ranks.joined(machine)
        at_home = machine.at_home
        noted.unmapped.append(Unmapped(node, scene, file, name, given, written, itself, unwritten, at_home, joined))
        option = given.text if isinstance(given, Symbol) and is_option(given) else ""
        if any(map(_CHECKPOINT.search, (file, letters, name, option))):
            noted.state_loads.add(node)
    resumed = _resumes(machine, given, file)
    by_default = isinstance(given, Symbol) and is_option(given) and partial_text.is_text(given)
    return Loaded(file, node=node, path=machine.path, resumed=resumed, name=letters, by_default=by_default)


def given_with_model(machine: Machine, values: Iterable[Value]) -> None:
    """Code that cannot be looked into gets a model, and what may be the name of a file: it may save the model there."""
    names = {value for value in values if isinstance(value, Symbol)}
    options = [option for value in values for _, option in alternatives(value)]
    if names and any(isinstance(option, Object) and option.kind in (Kind.MODULE, Kind.WRAPPER) for option in options):
        machine.notes[Checkpoints].may_be_saved |= names


def _may_be_saved(machine: Machine, file: Value | None) -> bool:
    folders = machine.notes[Checkpoints].may_be_saved
    return isinstance(file, Symbol) and any(texts.begins_with(machine, file, folder) for folder in folders)


def _resumes(machine: Machine, file: Value | None, written: str) -> bool:
    """Whether the program calls a file, here or where it comes from, one to resume from."""
    names = [written]
    if isinstance(file, Symbol):
        names += [file.text, *(name for frame in machine.frames for name in names_of(machine, frame.id, file))]
    return any("resume" in name.lower() for name in names)


def saved(machine: Machine, value: Value, arguments: Arguments, node: cst.Call) -> None:
    """``torch.save(value, file)``: whether all that is saved under a name goes back to the CPU."""
    given, noted = _path(machine, arguments.get(1, "f")), machine.notes[Checkpoints]
    when, entry = _options_of(machine.path), machine.now[Calls].entry
    name, kind = _name(machine, arguments.get(1, "f"), node.args[1].value), _content_of(machine, value, machine.path)
    for key in (given, name, partial_text.letters(given)):
        noted.saved_in[key, node] = noted.saved_in.get((key, node), frozenset()) | {kind}
    for written in (given, name, _form(machine, node.args[1].value)):
        noted.saved_when[entry, written] = noted.saved_when.get((entry, written), NEVER) | when
    if given is not None and _is_list_of_unknown(machine, value):
        noted.lists.add(given)


def _options_of(path: Condition) -> Condition:
    """What the command line says on a path: other tests, as of an accuracy in a loop, may pass in any run."""
    return of(
        Cube(ANY_MACHINE, frozenset(answer for answer in cube.answers if _is_switch(answer.question)))
        for cube in path.cubes
    )


def _is_switch(question: Question) -> bool:
    """Whether options that are no numbers decide it: a program trains for at least one epoch."""
    return bool(deciding := switches(question)) and not any(
        isinstance(one, Symbol) and one.preferred is not None and type(one.preferred.value) in (int, float)
        for one in deciding
    )


def _form(machine: Machine, source: cst.BaseExpression) -> tuple[object, ...] | None:
    """An expression for a name, without the variables of the run in it: ``f"model_{epoch}.pth"`` and ``{best}``."""
    form = tuple(None if _is_of_this_run(machine, node) else _kind(node) for node in nodes_in(source))
    return form if None in form and any(isinstance(node, _TEXTS) for node in nodes_in(source)) else None


_TEXTS = (cst.SimpleString, cst.FormattedStringText)


def _kind(node: cst.CSTNode) -> object:
    return node.value if isinstance(node, (cst.Name, *_TEXTS)) else type(node)


def _is_of_this_run(machine: Machine, node: cst.CSTNode) -> bool:
    """Whether a node is a variable with a value that does not come from the command line."""
    known = value_of(machine, node) if isinstance(node, cst.Name) else None
    return known is not None and all(
        isinstance(option, Const) or (isinstance(option, Symbol) and not is_option(option))
        for _, option in alternatives(known)
    )


def _is_list_of_unknown(machine: Machine, value: Value) -> bool:
    items = content(machine, value) if isinstance(value, Object) and value.kind is Kind.LIST else None
    return items is not None and all(
        isinstance(option, (Const, Symbol)) for item in items.items for _, option in alternatives(item)
    )


def opened(machine: Machine, file: Symbol, path: Value | None) -> None:
    """``file = open(path)``"""
    if path is not None:
        machine.write(file.id, _PATH, path)


def _path(machine: Machine, file: Value | None) -> Value | None:
    """The path of a file, however it is given."""
    path = machine.read(file.id, _PATH) if isinstance(file, Symbol) else None
    return file if path is None else path


def _is_parameter(machine: Machine, file: Value | None, name: str) -> bool:
    """Whether a file is named by a function's own parameter, which is another file in each function and each call."""
    function = machine.frame.function
    return (
        isinstance(file, Symbol)
        and function is not None
        and any(parameter.name.value == name for parameter in function.parameters)
    )


def _name(machine: Machine, file: Value | None, source: cst.BaseExpression) -> str:
    """What a file is called, in whichever folder: ``os.path.join(out, "model.pth")``; else how it is written."""
    if isinstance(file, Symbol) and isinstance(file.source, cst.Call):
        source = file.source
    if isinstance(source, cst.Call) and source.args:
        function = machine.text(source.func)
        if function == "open" or function.endswith("join"):
            source = source.args[0 if function == "open" else -1].value
    if isinstance(source, cst.SimpleString):
        return str(meaning(source)).rpartition("/")[2]
    path = _path(machine, file)
    return str(path.value).rpartition("/")[2] if isinstance(path, Const) else machine.text(source)


def _saves_there_itself(machine: Machine, file: cst.BaseExpression) -> bool:
    """Whether ``owner.path`` is where the owner's class saves: ``torch.load(trainer.path)`` follows its training."""
    owner = value_of(machine, file.value) if isinstance(file, cst.Attribute) else None
    return isinstance(file, cst.Attribute) and any(
        saves_to_attribute(method.node, file.attr.value)
        for _, option in (alternatives(owner) if owner is not None else ())
        if isinstance(option, Object) and option.kind is Kind.INSTANCE and isinstance(option.cls, Class)
        for method in methods(machine, option.cls)
    )


def is_on_cpu(machine: Machine, value: Value, when: Condition) -> bool:
    """Whether the tensors of a value that is saved ``when`` are surely there, and there are some."""
    return _content_of(machine, value, when) is Content.ON_CPU


def _content_of(machine: Machine, value: Value, when: Condition) -> Content:
    if _has_no_tensor(machine, value):
        return Content.NONE
    places = set(_places(machine, value, when, set()))
    if places == {CPU}:
        return Content.ON_CPU
    if places != {None}:
        return Content.ELSEWHERE
    is_written_out = all(_is_dict(machine, option) for _, option in alternatives(machine.restrict(value)))
    return Content.ENTRIES if is_written_out else Content.UNKNOWN


def _is_dict(machine: Machine, value: Value) -> bool:
    """Whether a value is a dict whose keys are all known."""
    if isinstance(value, Object) and value.kind is Kind.DICT:
        value = machine.read(value.id, MAPPING) or value
    return isinstance(value, Mapping) and value.rest is None


def _has_no_tensor(machine: Machine, value: Value) -> bool:
    """Whether a value is made of numbers and texts only."""

    def plain(option: Value) -> bool:
        items = content(machine, option)
        if isinstance(option, Object) and option.kind is Kind.DICT:
            option = machine.read(option.id, MAPPING) or option
        if isinstance(option, Mapping):
            return option.rest is None and all(_has_no_tensor(machine, item) for _, item in option.items)
        if items is not None:
            return (items.exact or bool(items.items)) and all(_has_no_tensor(machine, item) for item in items.items)
        if isinstance(option, Symbol):
            return option.type in NUMBER_TYPES or option.type == "str"
        return isinstance(option, Const)

    return all(plain(option) for _, option in alternatives(machine.restrict(value)))


def _places(machine: Machine, value: Value | None, when: Condition, seen: set[int]) -> Iterator[Value | None]:
    """Where the tensors in a value are; None for what is not known, unless it is among the fields of an object.

    Objects that were ``seen`` may be held again, by what they hold themselves.
    """
    for guard, option in alternatives(machine.restrict(value)) if value is not None else ():
        # Where a value is one of several modules, only that one is where the program has just put it.
        inside = when & guard
        if isinstance(option, Tensor):
            yield option.place
        elif isinstance(option, StateDict):
            yield from _places_of_module(machine, option.owner, inside)
        elif isinstance(option, Object) and modules.is_module(machine, option):
            yield from _places_of_module(machine, option, inside)
        elif isinstance(option, Object) and option.id not in seen:
            seen.add(option.id)
            fields = (machine.read(option.id, name) for name in machine.store.names(option.id))
            places = (place for one in fields for place in _places(machine, one, inside, seen))
            yield from (place for place in places if option.kind is not Kind.INSTANCE or place is not None)
        elif isinstance(option, (Mapping, Sequence)):
            items = [item for _, item in option.items] if isinstance(option, Mapping) else option.items
            yield from (place for item in items for place in _places(machine, item, inside, seen))
        elif isinstance(option, Symbol):
            yield None


def _places_of_module(machine: Machine, module: Object | Symbol, when: Condition) -> Iterator[Value]:
    # Of a module of unknown parts, its own place is known once it was moved.
    known = [placed for _, placed in modules.placements(machine, module)] or [modules.placed(machine, module)]
    for placed in known:
        for guard, option in alternatives(machine.restrict(placed)):
            if (when & guard).possible:
                yield option.place if isinstance(option, Placed) else option


def taken(machine: Machine, loaded: Loaded) -> None:
    """An entry of a loaded value is read."""
    if any(isinstance(entry, str) and _CHECKPOINT.search(entry) for entry in loaded.entries) and loaded.node:
        machine.notes[Checkpoints].state_loads.add(loaded.node)


def restored(machine: Machine, value: Value | None, module: Object | Symbol | None = None) -> None:
    """``module.load_state_dict(value)``: the tensors are copied to where the parameters are."""
    nodes = {loaded.node for loaded in _within(machine, value) if loaded.node is not None}
    machine.notes[Checkpoints].state_loads |= nodes
    machine.notes[Checkpoints].used_loads |= nodes
    if module is not None and _is_on_gpu_if_there_is_one(machine, module):
        machine.notes[Checkpoints].chosen_loads |= nodes


def _is_on_gpu_if_there_is_one(machine: Machine, module: Object | Symbol) -> bool:
    places = [*_places_of_module(machine, module, machine.path)]
    return CPU in places and any(isinstance(place, Device) and place.kind in ACCELERATORS for place in places)


def restored_to_scheduler(machine: Machine, value: Value | None) -> None:
    """``scheduler.load_state_dict(value)``: only numbers are taken from it."""
    machine.notes[Checkpoints].number_loads.update(
        loaded.node for loaded in _within(machine, value) if loaded.node is not None and not loaded.entries
    )


# The usual names of entries that are numbers, texts or settings.
_NO_TENSORS = frozenset(
    {"epoch", "epochs", "start_epoch", "iter", "iters", "iteration", "iterations", "step", "steps", "global_step"}
    | {"arch", "model_name", "args", "opt", "config", "cfg", "hparams", "hyper_parameters", "version"}
)
# Functions and methods that use a value as they do wherever its tensors are, or only if it is a number or a text.
_ANYWHERE = frozenset(
    {"load_state_dict", "copy_", "save", "print", "len", "str", "repr", "format", "isinstance", "type"}
    | {"hasattr", "items", "keys", "values", "get", "pop", "int", "float", "bool", "range"}
    | {"info", "debug", "warning", "join", "split", "startswith", "endswith"}
    | {"cpu", "numpy", "item", "tolist", "size", "shape", "dim", "ndim", "numel", "dtype"}
)


def kept(machine: Machine, value: Value) -> None:
    """Something else is done with a loaded value than to restore a state from it."""
    used(machine, value)
    for loaded in _within(machine, value):
        if loaded.node is not None and not loaded.entries:
            machine.notes[Checkpoints].used_loads.add(loaded.node)


def used(machine: Machine, *values: Value) -> None:
    """Values are used in a way that may depend on the device of the tensors that have been loaded with them."""
    if not machine.notes[Checkpoints].unmapped:
        return
    found = [loaded for value in values for loaded in _within(machine, value)]
    attributes = [option for value in values for _, option in alternatives(value) if isinstance(option, Bound)]
    owners = [one.receiver for one in attributes if one.name not in _ANYWHERE]
    for loaded in (*found, *(owner for owner in owners if isinstance(owner, Loaded))):
        if loaded.node is not None and _NO_TENSORS.isdisjoint(loaded.entries):
            machine.notes[Checkpoints].kept_loads.add(loaded.node)


def given(machine: Machine, function: str, arguments: Arguments) -> None:
    """A function that is not interpreted gets these arguments."""
    if function not in _ANYWHERE:
        used(machine, *arguments.values())


def computed(machine: Machine, one: Value, other: Value) -> None:
    """``one + other`` or ``one > other``: with a literal, as in ``loaded["round"] + 1``, both are numbers or texts."""
    if not isinstance(one, Const) and not isinstance(other, Const):
        used(machine, one, other)


def used_as_model(machine: Machine, loaded: Loaded) -> None:
    if loaded.node is not None:
        machine.notes[Checkpoints].state_loads.add(loaded.node)
        machine.notes[Checkpoints].used_loads.add(loaded.node)
        machine.notes[Checkpoints].kept_loads.add(loaded.node)


def _within(machine: Machine, value: Value | None) -> list[Loaded]:
    """The loaded values that a value is, or that a list or dict made of one holds."""
    found: list[Loaded] = []
    for _, option in alternatives(value) if value is not None else ():
        if isinstance(option, Loaded):
            found.append(option)
        elif isinstance(option, Object) and option.kind is Kind.DICT:
            mapping = machine.read(option.id, MAPPING)
            held = [item for _, item in mapping.items] if isinstance(mapping, Mapping) else []
            rest = mapping.rest if isinstance(mapping, Mapping) else None
            found.extend(item for item in (*held, rest) if isinstance(item, Loaded))
        elif (items := content(machine, option)) is not None:
            found.extend(item for item in items.items if isinstance(item, Loaded))
    return found


def finish(machine: Machine) -> None:
    """Report each checkpoint that may be loaded where its devices are not, or by every rank at once."""
    by_node: dict[cst.Call, list[Unmapped]] = {}
    for unmapped in machine.notes[Checkpoints].unmapped:
        if unmapped.given in machine.notes[Checkpoints].lists:
            continue
        if unmapped.node in machine.notes[Checkpoints].state_loads or _saves_state(machine, unmapped.file):
            by_node.setdefault(unmapped.node, []).append(unmapped)
    for node, visits in by_node.items():
        if node not in machine.notes[Checkpoints].number_loads:
            _report(machine, node, visits)


def _saves_state(machine: Machine, file: str) -> bool:
    """Whether the program saves the state of something in a file of this name."""
    saved = [
        option for _, value, _ in machine.notes[Checkpoints].files.get(file, ()) for _, option in alternatives(value)
    ]
    held = [item for value in saved if isinstance(value, Mapping) for _, item in value.items]
    return any(isinstance(option, StateDict) for item in (*saved, *held) for _, option in alternatives(item))


def _saved_as(machine: Machine, key: object) -> list[frozenset[Content]]:
    """What each call that saves a file of this name puts there."""
    return [held for (name, _), held in machine.notes[Checkpoints].saved_in.items() if name == key]


def _goes_back_to_cpu(held: Set[Content], is_used: bool) -> bool:
    """Whether nothing of what a call saves is anywhere else; what is a number once is one in each round.

    Unknown entries are no tensors either, unless what is loaded ``is_used`` as if it had some.
    """
    known = held - {Content.ENTRIES} if not is_used else held
    unknown = known & {Content.ENTRIES, Content.UNKNOWN}
    return bool(held) and Content.ELSEWHERE not in known and (not unknown or Content.NONE in known)


def _report(machine: Machine, node: cst.Call, visits: list[Unmapped]) -> None:
    # What a caller does with what is loaded says more than the function by itself.
    visits = [visit for visit in visits if not visit.scene.is_entry] or visits
    first, only_state = visits[0], node not in machine.notes[Checkpoints].kept_loads
    name = partial_text.letters(first.given)
    # Another file may have the same name in another function.
    path = [name] if partial_text.HOLE not in name.rpartition("/")[2] else []
    saved = (_saved_as(machine, key) for key in (first.given, first.name, *path))
    is_used = node in machine.notes[Checkpoints].used_loads
    if all(_goes_back_to_cpu(held, is_used) for held in next(filter(None, saved), [frozenset[Content]()])):
        # What the program itself saves from the CPU goes back there.
        machine.notes[Checkpoints].harmless.add(node)
        return
    joined = next((one for one in visits if one.joined is not None and ranks.may_share_machine(one.scene.when)), None)
    if joined is not None and joined.joined is not None:
        # There are ranks, on a machine with GPUs for them, or this is not reached.
        machine.emit(LoadedWhereSaved(node, joined.scene, joined.file, "ranks", joined.joined, "", only_state, name))
        return
    written = {visit.given for visit in visits if visit.itself}
    visits = [visit for visit in visits if visit.given not in written and visit.unwritten.possible]
    if not visits or any(visit.written for visit in visits):
        # What this very run wrote goes back to where it was.
        return
    if machine.notes[Program].skips_code and not visits[0].at_home:
        # A helper for loading is often used beside one for saving.
        return
    if any(device_choice.asks_about_devices(visit.scene.reach) for visit in visits):
        return
    at_home = all(visit.at_home for visit in visits)
    if node in machine.notes[Checkpoints].chosen_loads and not device_choice.needs_gpu(machine):
        # What a helper chooses for itself says little about a script, but much about the model that it moves.
        at_home = False
    chosen = device_choice.open_to_others(machine, [visit.scene for visit in visits], at_home)
    if chosen is not None:
        # A checkpoint of a GPU is loaded where there is one, even if the program chooses the CPU.
        first = visits[0]
        scene = replace(first.scene, when=first.unwritten & machines(NO_GPU))
        machine.emit(LoadedWhereSaved(node, scene, first.file, "choice", chosen.note, chosen.text, only_state, name))
