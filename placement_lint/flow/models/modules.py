"""Modules: their contents, where they are, and how they move.

A module is an Object (built in sight) or a Symbol that the program treats as a module. Its own parameters and
buffers are in its place cell; those of a class of this program are attribute cells as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from collections.abc import Sequence as Many
from dataclasses import dataclass, field
from functools import partial

import libcst as cst

from placement_lint.flow.api.torch_names import (
    CONTAINERS,
    LIBRARY_CRITERIA,
    LOSS_MODULES,
    MODULE_MOVES,
    PARAMETER_CONTAINERS,
    PARAMETRIC_LAYERS,
)
from placement_lint.flow.domain.aliasing import inside, within
from placement_lint.flow.domain.arguments import Arguments
from placement_lint.flow.domain.record import replace
from placement_lint.flow.domain.values import (
    CPU,
    FALSE,
    NONE,
    REPLICA,
    TRUE,
    Backward,
    Choice,
    Class,
    Comparison,
    Device,
    External,
    Function,
    Holder,
    Kind,
    Mapping,
    Object,
    Place,
    Placed,
    Role,
    Sequence,
    Source,
    StateDict,
    Symbol,
    Tensor,
    Value,
    alternatives,
    compare,
    describe,
)
from placement_lint.flow.events.schema import Operand
from placement_lint.flow.models.arrivals import arrive
from placement_lint.flow.state.allocations import InForward
from placement_lint.flow.state.classes import find, foreign_bases, has_unknown_base, module_base, resolution_order
from placement_lint.flow.state.devices import as_place, default_place, target_place
from placement_lint.flow.state.heap import ITEMS, Key, Slot
from placement_lint.flow.state.machine import Machine
from placement_lint.flow.state.module_notes import ModuleNotes
from placement_lint.flow.state.moment import Calls, Replica
from placement_lint.flow.state.notes import Notes, Use, noted
from placement_lint.rule import Note
from placement_lint.source.querying import last_name
from placement_lint.source.walking import nodes_of


@dataclass
class Children:
    """The contents of a module, and its registered children, cached per path condition if it ``hangs`` on any."""

    held: Many[tuple[Key, Value]]
    hangs: bool
    found: dict[object, Many[tuple[str, Value]]] = field(default_factory=dict)


@dataclass
class Below:
    """The modules that were found below one, with the ``ids`` of their Parameters and buffers once they were asked for.

    It stands as long as each of them holds what it ``held``, if that is said, and what it hangs on is ``given``.
    """

    found: dict[int, Object | Symbol]
    held: Many[tuple[int, Many[tuple[Key, Value]]]] = ()
    given: object = None
    ids: frozenset[int] | None = None


@dataclass
class Structure(Notes):
    """Structure of modules, cached until they change."""

    # by the id of a module
    children: dict[int, Children] = noted(dict, Use.DERIVED)
    below: dict[int, Below] = noted(dict, Use.DERIVED)


PLACE = Slot("place")
INNER = Slot("inner")
# How a loss reduces what it computes.
REDUCTION = Slot("reduction")
# Of a name that was registered for a buffer, whatever is there: ``self.register_buffer("mean", None)``.
BUFFER = Slot("buffer")
OUTLINE = Slot("outline")


def is_module(machine: Machine, value: Value) -> bool:
    if isinstance(value, Object):
        return value.kind in (Kind.MODULE, Kind.WRAPPER)
    return isinstance(value, Symbol) and value.id in machine.notes[ModuleNotes].modules_by_use


def treat_as_module(machine: Machine, value: Value, surely: bool = False) -> None:
    """The program uses an unknown value as only a module can be used, or it is ``surely`` one."""
    if isinstance(value, Symbol):
        machine.notes[ModuleNotes].modules_by_use.add(value.id)
        if surely:
            machine.notes[ModuleNotes].modules_by_name.add(value.id)


def new_module(machine: Machine, cls: Class | External, node: cst.CSTNode, device: Value | None = None) -> Object:
    """A module that has just been built: on the default device, or where ``device=`` says."""
    module = machine.new_object(Kind.MODULE, cls, node)
    name = cls.name.rpartition(".")[2]

    def put(target: Value) -> Value:
        place = as_place(target)
        place = machine.fresh() if place is None else arrive(machine, place, node)
        return Placed(place, Note(node, f"`{name}` is built on {describe(place)} here"))

    target = device if device is not None and device != NONE else default_place(machine)
    machine.write(module.id, PLACE, machine.lift(put, target))
    machine.signals.modules.built(machine, module)
    return module


def new_opaque_module(machine: Machine, factory: str, node: cst.CSTNode) -> Object:
    """A module of a class that is not analysed, as a library's factory returns it: on the CPU."""
    return new_module(machine, External(factory), node)


# --- content -----------------------------------------------------------------------------------------------


def children(machine: Machine, module: Object) -> Many[tuple[str, Value]]:
    """The registered submodules and parameters, by attribute name; of a choice, every alternative."""
    if module.kind is Kind.WRAPPER:
        inner = machine.read(module.id, INNER)
        return [("module", inner)] if inner is not None else []
    held = machine.store.held(module.id)
    known = machine.notes[Structure].children.get(module.id)
    if known is None or known.held is not held:
        hangs = any(_hangs(value) for name, value in held if name != PLACE)
        known = machine.notes[Structure].children[module.id] = Children(held, hangs)
    given = _given(machine) if known.hangs else None
    found = known.found.get(given)
    if found is None:
        found = known.found[given] = list(_registered(machine, held))
    return found


def _registered(machine: Machine, held: Many[tuple[Key, Value]]) -> Iterator[tuple[str, Value]]:
    for name, value in held:
        if name == PLACE:
            continue
        for _, option in alternatives(machine.restrict(value)):
            if name == ITEMS and isinstance(option, (Sequence, Mapping)):
                yield from _contained(machine, option)
            elif isinstance(name, str) and (
                is_module(machine, option) or (isinstance(option, Tensor) and option.role in _REGISTERED)
            ):
                yield name, option


_REGISTERED = (Role.PARAMETER, Role.BUFFER)


def _hangs(value: Value) -> bool:
    """Whether what of a value is registered hangs on the path, or on what else becomes known of it."""
    if isinstance(value, Sequence):
        return any(_hangs(item) for item in value.items)
    if isinstance(value, Mapping):
        return any(_hangs(item) for _, item in value.items)
    return isinstance(value, (Choice, Symbol))


# What stands for the names under which a container holds the rest of its parts.
UNNAMED = "…"


def _contained(machine: Machine, content: Sequence | Mapping) -> Iterator[tuple[str, Value]]:
    pairs: list[tuple[object, Value]]
    if isinstance(content, Sequence):
        pairs = list(enumerate(content.items))
    else:
        pairs = [*content.items, *([(UNNAMED, content.rest)] if content.rest is not None else [])]
    for key, item in pairs:
        for _, option in alternatives(item):
            if is_module(machine, option) or isinstance(option, Tensor):
                yield str(key), option


def reachable(machine: Machine, root: Value) -> dict[int, Object | Symbol]:
    """The module itself and every registered module below it."""
    return _below(machine, root).found


def _below(machine: Machine, root: Value) -> Below:
    """The modules below a module, cached while none of them changes."""
    noted = machine.notes[Structure]
    if not isinstance(root, Object):
        return Below(_found_below(machine, root))
    known = noted.below.get(root.id)
    if known is None or not _stands(machine, known):
        known = noted.below[root.id] = Below(_found_below(machine, root))
        parts = list(known.found.values())
        if all(isinstance(part, Object) and part.kind is not Kind.WRAPPER for part in parts):
            known.held = [(part.id, machine.store.held(part.id)) for part in parts]
            hangs = any(noted.children[part.id].hangs for part in parts)
            known.given = _given(machine) if hangs else None
    return known


def _stands(machine: Machine, known: Below) -> bool:
    if known.given is not None and known.given != _given(machine):
        return False
    return bool(known.held) and all(
        machine.store.held(identity) is held and not machine.parts(identity) for identity, held in known.held
    )


def _given(machine: Machine) -> object:
    """What a choice of children hangs on."""
    return machine.path, len(machine.notes[ModuleNotes].modules_by_use)


def _found_below(machine: Machine, root: Value) -> dict[int, Object | Symbol]:
    found: dict[int, Object | Symbol] = {}
    waiting: list[Value] = [root]
    while waiting:
        value = waiting.pop()
        for _, option in alternatives(value):
            if not isinstance(option, (Object, Symbol)) or option.id in found:
                continue
            found[option.id] = option
            held = children(machine, option) if isinstance(option, Object) else _put_into(machine, option)
            waiting.extend(child for _, child in held if not isinstance(child, Tensor))
            waiting.extend(machine.parts(option.id))
    return found


def _put_into(machine: Machine, module: Object | Symbol) -> Iterator[tuple[str, Value]]:
    """What the program put into an unknown module: ``resnet.fc = nn.Linear(512, 10)``."""
    return _registered(machine, machine.store.held(module.id))


def is_of_program(module: Object) -> bool:
    """Whether a module's forward is analysed."""
    return isinstance(module.cls, Class)


def has_parameters(machine: Machine, module: Object | Symbol) -> bool | None:
    """Whether a module has parameters or buffers of its own or below it; None where that is not known."""
    if isinstance(module, Symbol):
        return None
    if isinstance(module.cls, External) and module.kind is Kind.MODULE:
        name = module.cls.name
        if name in PARAMETRIC_LAYERS:
            return True
        if name.startswith("torch.nn.") and name not in CONTAINERS and name not in PARAMETER_CONTAINERS:
            return name in LOSS_MODULES and machine.read(module.id, "weight") is not None
        if not name.startswith("torch.nn."):
            return True
    if isinstance(module.cls, Class) and extends_layer(module.cls):
        return True
    if machine.read(module.id, OUTLINE) is not None:
        return None
    answers = [
        True if isinstance(child, Tensor) else has_parameters(machine, child)
        for _, child in children(machine, module)
        if isinstance(child, (Tensor, Object, Symbol))
    ]
    if True in answers:
        return True
    if None in answers:
        return None
    if isinstance(module.cls, Class) and not _fully_known(module.cls):
        return None
    return False


def builds_nothing(machine: Machine, module: Object | Symbol) -> bool:
    """Whether a module is an outline whose ``__init__`` calls nothing but that of its base: no layer is made there."""
    if not isinstance(module, Object) or machine.read(module.id, OUTLINE) is None:
        return False
    cls = module.cls
    initialiser = find(machine, cls, "__init__") if isinstance(cls, Class) and not extends_layer(cls) else None
    if not isinstance(initialiser, Function):
        return False
    return all(last_name(call.func) in ("super", "__init__") for call in nodes_of(cst.Call, initialiser.node.body))


# Of a layer that was asked for none of the parameters that it might have.
PLAIN = Slot("plain")


def learns(machine: Machine, root: Object) -> bool:
    """Whether there are, in sight, layers or Parameters with something to learn."""
    return any(learns_itself(machine, part) for part in reachable(machine, root).values() if isinstance(part, Object))


def learns_itself(machine: Machine, part: Object) -> bool:
    """Whether a module has something to learn besides what its parts have."""
    if any(isinstance(child, Tensor) and child.role is Role.PARAMETER for _, child in children(machine, part)):
        return True
    if isinstance(part.cls, Class):
        return extends_layer(part.cls)
    learning = part.cls.name in PARAMETRIC_LAYERS or part.cls.name in LIBRARY_CRITERIA
    return learning and machine.read(part.id, PLAIN) is None


def extends(module: Object, base: str) -> bool:
    """Whether a module is of this class of torch, or of a subclass of it in the program."""
    bases = foreign_bases(module.cls) if isinstance(module.cls, Class) else (module.cls,)
    return any(module_base(one) == base for one in bases)


def extends_layer(cls: Class) -> bool:
    """``class Scaled(nn.Linear)`` has the parameters of the layer."""
    return any(module_base(base) in PARAMETRIC_LAYERS for base in foreign_bases(cls))


def has_only_layers(machine: Machine, root: Object | Symbol) -> bool:
    """Whether all parameters below belong to torch's own layers, and none is 0-dim."""
    return all(
        isinstance(part, Object)
        and (not isinstance(part.cls, External) or part.cls.name.startswith("torch.nn."))
        and all(child.scalar is False for _, child in children(machine, part) if isinstance(child, Tensor))
        for part in reachable(machine, root).values()
    )


def _fully_known(cls: Class) -> bool:
    """Whether all that a class registers was seen: its bases are this program's, or nn.Module itself."""
    return all(
        _fully_known(base)
        if isinstance(base, Class)
        else module_base(base) == "torch.nn.Module" or base == External("builtins.object")
        for base in cls.bases
    )


def registers_only_what_is_seen(machine: Machine, module: Object) -> bool:
    """Whether a module of the program, or a container, has no Parameters beyond its children."""
    cls = module.cls
    known = _fully_known(cls) and not extends_layer(cls) if isinstance(cls, Class) else True
    return known and machine.read(module.id, OUTLINE) is None


def as_content(machine: Machine, container: Object, value: Value) -> Value:
    """What a container keeps of a value, or of each in a sequence: a ParameterList makes Parameters of its tensors."""
    if not isinstance(container.cls, External) or container.cls.name not in PARAMETER_CONTAINERS:
        return value
    if isinstance(value, (Sequence, Mapping)):
        return _each(value, lambda item: as_content(machine, container, item))

    def keep(option: Value) -> Value:
        plain = isinstance(option, Tensor) and option.role is not Role.PARAMETER
        return parameter(option, machine, container.node) if plain else option

    return machine.lift(keep, value)


def stored_items(machine: Machine, module: Object) -> Value | None:
    """What a container was given, whichever copy of it is asked; of a Sequential without names."""
    items = machine.read(module.id, ITEMS)
    if isinstance(items, Mapping) and extends(module, "torch.nn.Sequential"):
        return Sequence(tuple(item for _, item in items.items), items.rest is None)
    return items


def items_of(machine: Machine, module: Object) -> Value | None:
    """What a container holds; in a replica, where the replica has it."""
    items = stored_items(machine, module)
    if not isinstance(items, (Sequence, Mapping)):
        return items
    if machine.now[Replica].notes and module.id in machine.now[Replica].modules:
        items = _each(items, lambda item: machine.lift(_in_replica, item))
    return inside(items, module.alias) if isinstance(items, Sequence) else within(items, module.alias)


def _each(held: Sequence | Mapping, change: Callable[[Value], Value]) -> Sequence | Mapping:
    """The content of a container with each item changed."""
    if isinstance(held, Sequence):
        return replace(held, items=tuple(change(item) for item in held.items))
    rest = change(held.rest) if held.rest is not None else None
    return replace(held, items=tuple((key, change(item)) for key, item in held.items), rest=rest)


def own_tensor(machine: Machine, module: Object, name: str) -> Value | None:
    """A Parameter or buffer of a library's module; in a replica, where the replica has it."""
    value = machine.read(module.id, name)
    if value is not None and machine.now[Replica].notes and module.id in machine.now[Replica].modules:
        return machine.lift(_in_replica, value)
    return value


def _in_replica(value: Value) -> Value:
    if isinstance(value, Tensor) and value.role in _REGISTERED:
        return replace(value, place=REPLICA, assumed=False)
    return value


# --- place -------------------------------------------------------------------------------------------------


def placed(machine: Machine, module: Object | Symbol) -> Value:
    """Where a module's own parameters are: a Placed, or a choice of them."""
    replica = machine.now[Replica]
    if replica.notes and module.id in replica.modules:
        return Placed(REPLICA, replica.notes[-1])
    return machine.read(module.id, PLACE, unset=lambda: _placed_before(machine, module))


def may_be_moved(machine: Machine, value: Symbol) -> bool:
    """Whether the program moved an unknown value, or one that it is a part of, to another device than the CPU."""
    root: Symbol | Object | None = value
    while isinstance(root, Symbol):
        moved = machine.read(root.id, PLACE, unset=Placed(CPU))
        if any(not isinstance(option, Placed) or option.place != CPU for _, option in alternatives(moved)):
            return True
        root = root.parent
    return False


def _placed_before(machine: Machine, module: Object | Symbol) -> Value:
    """The place of a module that was never moved by itself: that of what contains it."""
    if isinstance(module, Object) and module.kind is Kind.WRAPPER:
        inner = machine.read(module.id, INNER)
        if isinstance(inner, (Object, Symbol)):
            return placed(machine, inner)
    if isinstance(module, Symbol) and module.parent is not None and is_module(machine, module.parent):
        return placed(machine, module.parent)
    return Placed(machine.part(module.id, PLACE, ""))


def place_of(machine: Machine, module: Object | Symbol) -> Value:
    """The same without the note: a place or a choice of places."""
    return _place_in(machine, placed(machine, module))


def _place_in(machine: Machine, value: Value) -> Value:
    if isinstance(value, Choice):
        return machine.either([(g, v.place) for g, v in value.alternatives if isinstance(v, Placed)])
    return value.place if isinstance(value, Placed) else machine.fresh()


def common_place(machine: Machine, module: Object | Symbol) -> Value:
    """Where everything below a module is; unknown if its parts are in different places."""
    if module.id in machine.now[Replica].modules:
        return place_of(machine, module)
    # A module without known tensors that has parts is not where it was built, but where these are.
    places = {place for _, place in placements(machine, module)} or {
        placed(machine, part) for part in reachable(machine, module).values() if not _has_parts(machine, part)
    }
    return _place_in(machine, places.pop()) if len(places) == 1 and NONE not in places else machine.fresh()


def _has_parts(machine: Machine, module: Object | Symbol) -> bool:
    return isinstance(module, Object) and any(is_module(machine, child) for _, child in children(machine, module))


def move(machine: Machine, module: Object | Symbol, target: Value, note_node: cst.CSTNode) -> None:
    """``module.to(target)``: everything registered below it goes along."""
    machine.lift(lambda place: _move(machine, module, place, note_node), target)


def _move(machine: Machine, module: Object | Symbol, target: Value, node: cst.CSTNode) -> Value:
    noted = machine.notes[ModuleNotes]
    place = target_place(machine, target)
    if place is None:
        return NONE
    place = arrive(machine, place, node)
    note = Note(node, f"moved to {describe(place)} here")
    machine.signals.modules.moving(machine, module, place, note)
    if module.id in noted.unregistered:
        tended(
            machine,
            noted.unregistered[module.id].owner,
            noted.unregistered[module.id].name,
        )
    _put(machine, module, place, note)
    return NONE


def settle(machine: Machine, module: Object | Symbol, target: Value, node: cst.CSTNode) -> None:
    """A framework puts a module there, with all that belongs to it, the state of its optimizers included."""

    def put(place: Value) -> Value:
        if isinstance(place, (Device, Symbol)):
            _put(machine, module, place, Note(node, f"put on {describe(place)} here"))
        return NONE

    machine.lift(put, target)


def follow(machine: Machine, member: Object, common: Symbol) -> None:
    """One of many modules goes where the module went that stands for all of them."""

    def put(where: Value) -> Value:
        if isinstance(where, Placed) and where.note is not None:
            _put(machine, member, where.place, where.note)
        return NONE

    machine.lift(put, machine.read(common.id, PLACE, unset=NONE))


def _put(machine: Machine, module: Object | Symbol, place: Place, note: Note) -> None:
    for part in reachable(machine, module).values():
        if place != Device("cpu"):
            machine.notes[ModuleNotes].moved.setdefault(part.id, note)
            if isinstance(part, Object) and isinstance(part.cls, Class):
                machine.notes[ModuleNotes].moved.setdefault(part.cls.id, note)
        machine.write(part.id, PLACE, Placed(place, note))
        if machine.log is not None:
            machine.log.moved(part.id, note)
        if isinstance(part, Object):
            _move_tensors(machine, part, place, note)
            _leave_open(machine, part)
            _run_own_apply(machine, part, note.node)


def take_over(machine: Machine, module: Object | Symbol, state: Value, node: cst.CSTNode) -> None:
    """``load_state_dict(state, assign=True)``: the tensors of the state become those of the module, where they are."""
    if isinstance(state, StateDict):
        settle(machine, module, place_of(machine, state.owner), node)
    else:
        settle(machine, module, machine.fresh(), node)


def with_data(machine: Machine, tensor: Tensor, data: Value, node: cst.CSTNode) -> Tensor:
    """A tensor that was given other data."""
    if isinstance(data, Tensor) and compare(data.place, tensor.place) is Comparison.SAME:
        return tensor
    place = data.place if isinstance(data, Tensor) else machine.fresh()
    return replace(tensor, place=place, history=(*tensor.history, Note(node, f"put on {describe(place)} here")))


def filled(machine: Machine, parameter: Tensor, data: Value, node: cst.CSTNode) -> Value:
    """``parameter.data = data``, which moves all parameters of a module if a loop does it for each of them.

    If only one parameter of a layer moves, the layer's place becomes unknown; so does that of its buffers.
    """
    moved = with_data(machine, parameter, data, node)
    if moved is parameter:
        return NONE
    for part in parameter.modules:
        each = Placed(machine.fresh() if parameter.uid else moved.place, moved.history[-1])
        machine.write(part, PLACE, each)
        for name, value in machine.store.held(part):
            if any(isinstance(option, Tensor) and option.role in _REGISTERED for _, option in alternatives(value)):
                machine.write(part, name, machine.lift(partial(_filled_with_others, machine, moved, node), value))
    return NONE


def _filled_with_others(machine: Machine, moved: Tensor, node: cst.CSTNode, held: Value) -> Value:
    if not isinstance(held, Tensor) or held.role not in _REGISTERED:
        return held
    known = held.role is Role.PARAMETER and not moved.uid
    return with_data(machine, held, moved if known else NONE, node)


def given_weight(machine: Machine, layer: Object, value: Value, node: cst.CSTNode) -> None:
    """``layer.weight = parameter`` on a library layer: its place becomes unknown if the parameter is elsewhere."""
    if not isinstance(layer.cls, External) or layer.kind is not Kind.MODULE:
        return

    def give(option: Value, place: Value) -> Value:
        if not isinstance(option, Tensor) or option.role is not Role.PARAMETER:
            return NONE
        if not isinstance(place, (Device, Symbol)) or compare(option.place, place) is not Comparison.SAME:
            machine.write(layer.id, PLACE, Placed(machine.fresh(), Note(node, "given another weight here")))
        return NONE

    machine.lift(give, value, place_of(machine, layer))


def misplace_some_tensor(machine: Machine, owner: Object, value: Value) -> None:
    """Replace one unknown tensor attribute: each may be where ``value`` is now.

    This holds on every path, because a loop over attribute names tests each name before it assigns.
    """

    def elsewhere(held: Value) -> Value:
        same = isinstance(held, Tensor) and isinstance(value, Tensor) and value.place == held.place
        return replace(held, place=machine.fresh()) if isinstance(held, Tensor) and not same else held

    for name, held in machine.store.held(owner.id):
        if any(isinstance(option, Tensor) for _, option in alternatives(held)):
            machine.store.write_lasting(owner.id, name, machine.lift(elsewhere, held))
    if isinstance(owner.cls, External) and is_module(machine, owner):
        machine.store.write_lasting(owner.id, PLACE, Placed(machine.fresh()))


def forget_places(machine: Machine, module: Object | Symbol) -> None:
    """Code that is not analysed gets a module: it may have moved the module, in whole or in part."""
    for part in reachable(machine, module).values():
        place = machine.fresh()
        machine.write(part.id, PLACE, place)
        if isinstance(part, Object):
            _move_tensors(machine, part, place)


def _leave_open(machine: Machine, module: Object) -> None:
    """Forget where modules in a module's attributes are that may be modules: only then they moved with it."""
    for name, value in machine.store.held(module.id):
        for _, option in alternatives(value) if name != PLACE else ():
            if isinstance(option, (Object, Symbol)) and not is_module(machine, option) and _may_be_module(option):
                for _, inner in _put_into(machine, option):
                    if isinstance(inner, (Object, Symbol)):
                        forget_places(machine, inner)


def _may_be_module(value: Object | Symbol) -> bool:
    return isinstance(value, Symbol) or (isinstance(value.cls, Class) and has_unknown_base(value.cls))


def tended(machine: Machine, owner: Object, name: str) -> None:
    """Code outside a module's class, or its own ``cuda()``, handles an attribute: assigns, registers or moves it."""
    running = [frame.function for frame in machine.frames if frame.receiver == owner]
    moving = all(function is not None and function.name in MODULE_MOVES for function in running)
    if isinstance(owner.cls, Class) and moving:
        machine.notes[ModuleNotes].tended.update((cls.file, cls.name, name) for cls in resolution_order(owner.cls))


def _run_own_apply(machine: Machine, module: Object, node: cst.CSTNode) -> None:
    """A class may override ``_apply``, through which every move goes, to take plain tensors along."""
    method = find(machine, module.cls, "_apply") if isinstance(module.cls, Class) else None
    if isinstance(method, Function):
        machine.evaluator.call_function(machine, method, Arguments((machine.fresh("fn"),)), node, module)


def _move_tensors(machine: Machine, module: Object, place: Place, *notes: Note) -> None:
    def moved(option: Value) -> Value:
        if isinstance(option, Tensor) and option.role in _REGISTERED:
            return replace(option, place=place, history=(*option.history, *notes))
        return option

    for name in machine.store.names(module.id):
        value = machine.read(module.id, name)
        if value is None:
            continue
        if name == ITEMS and isinstance(value, (Sequence, Mapping)):
            machine.write(module.id, name, _each(value, partial(machine.lift, moved)))
        elif any(isinstance(option, Tensor) for _, option in alternatives(value)):
            machine.write(module.id, name, machine.lift(moved, value))


def registered_tensors(machine: Machine, part: int) -> list[Key]:
    """The attributes of a module that hold its own Parameters and buffers."""
    held = ((name, machine.store.read(part, name)) for name in machine.store.names(part))
    return [
        name
        for name, value in held
        if value is not None
        and any(isinstance(option, Tensor) and option.role in _REGISTERED for _, option in alternatives(value))
    ]


def placements(machine: Machine, module: Object | Symbol) -> Iterator[tuple[Object | Symbol, Value]]:
    """The modules below (or the module itself), each with the places of its own parameters and buffers."""
    for part in reachable(machine, module).values():
        if isinstance(part, Object) and part.kind is Kind.MODULE:
            yield from ((part, place) for place in _own_places(machine, part))
        elif isinstance(part, Symbol) and is_module(machine, part) and machine.read(part.id, PLACE) is not None:
            yield part, placed(machine, part)


def has_own_tensors(machine: Machine, module: Object) -> bool:
    """Whether a module is a layer of a library, or extends one, with tensors that are where the layer is."""
    if isinstance(module.cls, External):
        return has_parameters(machine, module) is True and module.cls.name not in CONTAINERS
    return extends_layer(module.cls)


def _own_places(machine: Machine, module: Object) -> Iterator[Value]:
    """Where the tensors are that a module itself registers."""
    if has_own_tensors(machine, module):
        yield placed(machine, module)
    if isinstance(module.cls, External):
        return
    found: dict[str, list[Tensor]] = {}
    for name, child in children(machine, module):
        if isinstance(child, Tensor):
            found.setdefault(name, []).append(child)
    for name, tensors in found.items():
        held = machine.read(module.id, name) if len(tensors) > 1 else None
        # one tensor that is in one of several places is not several
        yield machine.lift(_placed_tensor, held if held is not None else tensors[0])


def _placed_tensor(option: Value) -> Value:
    return Placed(option.place, option.history[-1] if option.history else None) if isinstance(option, Tensor) else NONE


# --- attributes --------------------------------------------------------------------------------------------


# Set once the ``__init__`` of nn.Module itself has run: before it a module can register nothing.
INITIALISED = Slot("initialised")


def stored(
    machine: Machine, module: Object, name: str, value: Value, node: cst.CSTNode, registrable: bool = False
) -> Value:
    """What an attribute holds after ``module.name = value``: registered tensors stay what they are."""
    if not isinstance(value, Tensor):
        return value
    if value.role is not Role.PARAMETER and _is_buffer(machine, module, name):
        return as_buffer(value)
    if value.role is Role.PARAMETER or machine.now[Calls].in_forward:
        return value
    if value.role is Role.BUFFER and (machine.now[Calls].standalone or not _is_held_as_buffer(machine, module, value)):
        return value
    # A buffer under another name is a plain attribute there, as is what was computed from the parameters of a part.
    holder = Holder(module, name, node, registrable=registrable)
    return replace(value, role=Role.PLAIN, modules=frozenset(), holder=holder)


def registers_otherwise(machine: Machine, holder: Holder | None) -> bool:
    """Whether what a module keeps as a plain tensor is a Parameter or buffer of it under another condition."""
    value = machine.store.read(holder.owner.id, holder.name) if holder is not None else None
    options = alternatives(value) if value is not None else ()
    return any(isinstance(option, Tensor) and option.role in _REGISTERED for _, option in options)


def as_buffer(value: Value) -> Value:
    """``nn.Buffer(t)``, or a tensor under a name that is registered for a buffer."""
    return replace(value, role=Role.BUFFER, holder=None) if isinstance(value, Tensor) else value


def _is_held_as_buffer(machine: Machine, module: Object, value: Tensor) -> bool:
    """Whether a buffer is one of the module, or of a part of it, already; what ``nn.Buffer`` just made is not."""
    return any(
        isinstance(child, Tensor) and child.role is Role.BUFFER and child.uid == value.uid
        for part in reachable(machine, module).values()
        if isinstance(part, Object)
        for _, child in children(machine, part)
    )


def _is_buffer(machine: Machine, module: Object, name: str) -> bool:
    before = machine.read(module.id, name)
    known = isinstance(before, Tensor) and before.role is Role.BUFFER
    return known or machine.read(module.id, BUFFER.of(name)) is not None


def parameter(tensor: Value, machine: Machine, node: cst.CSTNode) -> Value:
    """``nn.Parameter(t)``"""
    if not isinstance(tensor, Tensor):
        made = Tensor(machine.fresh(), None, Role.PARAMETER, created=node, uid=machine.new_id())
        machine.signals.tensors.parameter_made(machine, made, tensor, node)
        return made
    note = Note(node, f"Parameter on {describe(tensor.place)} made here")
    made = Tensor(
        tensor.place,
        tensor.scalar,
        Role.PARAMETER,
        source=Source.MODULE,
        created=node,
        history=(*tensor.history, note),
        uid=machine.new_id(),
    )
    machine.signals.tensors.parameter_made(machine, made, tensor, node)
    return made


def provably_off(place: Place, device: Place) -> bool:
    return compare(place, device) is Comparison.DIFFERENT


def set_mode(machine: Machine, module: Object | Symbol, training: bool, arguments: Arguments) -> None:
    """``module.train()``, ``module.train(mode)`` and ``module.eval()`` say what ``self.training`` is."""
    given = arguments.get(0, "mode") if training else None
    for part in reachable(machine, module).values():
        if isinstance(part, Object) and part.kind is Kind.MODULE:
            machine.write(part.id, "training", given or (TRUE if training else FALSE))


# --- use ---------------------------------------------------------------------------------------------------


def takes_inputs_as_they_are(module: Object | Symbol) -> bool:
    """Whether a module that is not analysed is known not to move its inputs: a library's model."""
    return isinstance(module, Object) and isinstance(module.cls, External)


def weights(machine: Machine, module: Object | Symbol, place: Place, callee: cst.CSTNode) -> Operand:
    """The parameters of a module as one side of an operation."""
    value = placed(machine, module)
    notes = {option.place: option.note for _, option in alternatives(value) if isinstance(option, Placed)}
    note = notes.get(place)
    tensor = Tensor(
        place,
        False,
        source=Source.MODULE,
        modules=frozenset({module.id}),
        backward=Backward(reached=frozenset({module.id})),
        history=(note,) if note else (),
    )
    layer = module.cls.name if isinstance(module, Object) and isinstance(module.cls, External) else ""
    return Operand(
        callee, tensor, whole=True, layer=layer, unregistered=module.id in machine.notes[ModuleNotes].unregistered
    )


def moved_on_the_way(machine: Machine) -> Note | None:
    """Where one of the modules whose forward is running was moved or wrapped."""
    for module in machine.now[Calls].in_forward:
        identity = module.cls.id if isinstance(module.cls, Class) else module.id
        note = machine.notes[ModuleNotes].moved.get(module.id) or machine.notes[ModuleNotes].moved.get(identity)
        if note is not None:
            return note
    return None


def registered_below(machine: Machine, root: Object) -> frozenset[int]:
    """The ids of all modules and parameters that are registered somewhere below ``root``."""
    below = _below(machine, root)
    if below.ids is None:
        parts = [part for part in below.found.values() if isinstance(part, Object)]
        tensors = (child for part in parts for _, child in children(machine, part) if isinstance(child, Tensor))
        below.ids = frozenset((*below.found, *(tensor.uid for tensor in tensors)))
    return below.ids


# --- copies ------------------------------------------------------------------------------------------------


def copied(machine: Machine, module: Object, node: cst.CSTNode, how: str = "copied") -> Object:
    """``copy.deepcopy(module)``: a module of its own, with parameters of its own."""
    twin = _copied(machine, module, node, {})
    machine.signals.modules.copied(machine, module, twin, how, node)
    return twin


def _copied(machine: Machine, module: Object, node: cst.CSTNode, done: dict[int, Object]) -> Object:
    if module.id in done:
        return done[module.id]
    twin = done[module.id] = machine.new_object(module.kind, module.cls, node)
    for name in machine.store.names(module.id):
        value = machine.read(module.id, name)
        if value is not None:
            machine.write(twin.id, name, machine.lift(lambda held: _copied_with_it(machine, held, node, done), value))
    return twin


def _copied_with_it(machine: Machine, value: Value, node: cst.CSTNode, done: dict[int, Object]) -> Value:
    """What the copy of a module holds where the module holds a value."""
    if isinstance(value, Object) and is_module(machine, value):
        return _copied(machine, value, node, done)
    if isinstance(value, Tensor):
        return replace(value, uid=machine.new_id())
    if isinstance(value, Sequence):
        return replace(value, items=tuple(_copied_with_it(machine, item, node, done) for item in value.items))
    return value


def settle_tensors(machine: Machine, module: Object, place: Place) -> None:
    """Everything that moves with a module is at ``place``, however it got there."""
    note = Note(module.node, "wherever the module is")
    for part in reachable(machine, module).values():
        if isinstance(part, Object):
            _move_tensors(machine, part, place, note)
            _run_own_apply(machine, part, note.node)


def made_here(machine: Machine, value: Value) -> cst.CSTNode | None:
    """Where the running forward made a module or Parameter; None where it did not."""
    nodes = [
        machine.now[InForward].made[identity].node
        for identity in made_of(machine, value)
        if identity in machine.now[InForward].made
    ]
    return nodes[0] if nodes else None


def made_of(machine: Machine, value: Value) -> tuple[int, ...]:
    """The ids of the modules and Parameters that a value is, with what is in it."""
    if isinstance(value, Tensor) and value.role is Role.PARAMETER:
        return (value.uid,)
    return tuple(reachable(machine, value)) if isinstance(value, Object) else ()
