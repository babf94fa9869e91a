"""State dicts that are loaded into modules: whether their keys, with the prefix of a wrapper or without, fit."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from placement_lint.flow.api.torch_names import WRAPPER_PREFIX, WRAPPERS
from placement_lint.flow.domain import partial_text
from placement_lint.flow.domain.arguments import Arguments
from placement_lint.flow.domain.path_condition import (
    ALWAYS,
    ANY_MACHINE,
    MANY_GPUS,
    NEVER,
    Answer,
    Condition,
    Question,
    answered,
    any_of,
    machines,
)
from placement_lint.flow.domain.record import replace
from placement_lint.flow.domain.values import (
    Class,
    Const,
    Kind,
    Loaded,
    Mapping,
    Object,
    StateDict,
    StateKey,
    Symbol,
    Value,
    alternatives,
)
from placement_lint.flow.events.schema import SavedThere, Scene, StateLoaded, WrappedTwice
from placement_lint.flow.models import checkpoints, modules, ranks, state_keys
from placement_lint.flow.models.checkpoints import Checkpoints, Restored, Saved, is_on_cpu
from placement_lint.flow.models.file_names import FileNames
from placement_lint.flow.state.classes import wrapper_base
from placement_lint.flow.state.heap import MAPPING
from placement_lint.flow.state.machine import Machine
from placement_lint.flow.state.moment import Calls
from placement_lint.flow.state.options import switches
from placement_lint.flow.state.program import Program
from placement_lint.project.saved_states import StateFile, are_alike
from placement_lint.rule import Note

# Dicts in dicts of a saved value are told apart to this depth.
_DEPTH = 4


def load_state(machine: Machine, module: Object | Symbol, arguments: Arguments, node: cst.Call, label: str) -> None:
    """``module.load_state_dict(state)``: keys saved with a wrapper's prefix fit a wrapper only.

    An unknown value may be a wrapper or a bare module.
    """
    state = arguments.get(0, "state_dict")
    checkpoints.restored(machine, state, module)
    if isinstance(module, Symbol):
        return
    strict = arguments.get(1, "strict") != Const(False)
    for guard, prefix in state_keys.prefixes(machine, module):
        scene = replace(machine.scene, when=machine.scene.when & guard)
        if state is not None and scene.when.possible:
            _load_state(machine, scene, state, module, prefix, strict, node, label)


def _load_state(
    machine: Machine, scene: Scene, state: Value, module: Object, into: str, strict: bool, node: cst.Call, label: str
) -> None:
    """The same where the keys of the module have the prefix ``into``."""
    for guard, option in alternatives(state):
        here = replace(scene, when=scene.when & guard)
        key = state_keys.renamed(machine, option)
        if key is not None and not (strict and machine.expects("RuntimeError")):
            option = key.state
        elif isinstance(option, (Loaded, StateDict)) and _adapted(machine, option, strict):
            continue
        if isinstance(option, Loaded):
            cls = _class_of(machine, module)
            machine.notes[Checkpoints].loads.append(Restored(node, here, label, option, into, strict, key, cls))
        elif isinstance(option, StateDict) and here.when.possible and not state_keys.fits(machine, option, key, into):
            trace = (Note(option.node, "the state dict is taken here"),)
            machine.emit(StateLoaded(node, here, label, option, into, strict, trace, state_keys.shortened(option, key)))


def _class_of(machine: Machine, module: Value | None) -> tuple[str, ...]:
    """The class of the program whose instance a module is, or a wrapper around it; empty if that is not known."""
    while isinstance(module, Object) and module.kind is Kind.WRAPPER:
        module = machine.read(module.id, modules.INNER)
    cls = module.cls if isinstance(module, Object) else None
    return (cls.file, cls.name, "") if isinstance(cls, Class) else ()


def _adapted(machine: Machine, state: Loaded | StateDict, strict: bool) -> bool:
    """Whether the program may have read the keys and changed them, or handles keys that do not fit."""
    return _keys_of(state) in machine.notes[Checkpoints].handled or (strict and machine.expects("RuntimeError"))


def _keys_of(state: Loaded | StateDict) -> object:
    return (state.node, state.entries) if isinstance(state, Loaded) else state.node


def keys_used(machine: Machine, state: Loaded | StateDict) -> None:
    """The program looks at the keys of a state dict, or changes them: what it does next depends on a prefix."""
    machine.notes[Checkpoints].handled.add(_keys_of(state))


def may_change(machine: Machine, value: Value) -> None:
    """A state dict is given away: its keys may be others afterwards."""
    if isinstance(value, (Loaded, StateDict)):
        machine.notes[Checkpoints].handled.add(value.file if isinstance(value, Loaded) else _keys_of(value))


def wrap(machine: Machine, loaded: Loaded, wrapper: str, node: cst.Call) -> None:
    """``DataParallel(torch.load(file))``, unless the program asks first what it has loaded."""
    asked = (answer.question.subject for cube in machine.path.cubes for answer in cube.answers)
    if not any(isinstance(subject, tuple) and loaded in subject for subject in asked):
        label = machine.text(node.args[0].value) if node.args else "the module"
        machine.notes[Checkpoints].wraps.append((node, machine.scene, loaded, wrapper, label))


def _wrapped_again(machine: Machine) -> None:
    """Report wrappings of modules that the program saves with their wrapper."""
    for node, scene, loaded, wrapper, label in machine.notes[Checkpoints].wraps:
        held = [
            (guard, value)
            for guard, value, _ in _states_saved_there(machine, loaded)
            # What a run saves that wraps it again is unknown.
            if not scene.when.excludes(machines(guard.machines))
            and (isinstance(value, Object) or not guard.implies(scene.when))
        ]
        for guard, value in held if all(map(_is_wrapper, [value for _, value in held])) else ():
            if isinstance(value, Object):
                # Another run has saved it, with options of its own.
                here = replace(scene, when=scene.when & machines(guard.machines))
                first = Note(value.node, "wrapped here, before it is saved")
                machine.emit(WrappedTwice(node, here, label, wrapper, WRAPPERS[wrapper_base(value.cls)], first, False))


def _is_wrapper(value: Value | None) -> bool:
    return isinstance(value, Object) and value.kind is Kind.WRAPPER


def finish(machine: Machine) -> None:
    """Once all that the program saves is known: does what it loads from the same file fit?"""
    _wrapped_again(machine)
    for load in machine.notes[Checkpoints].loads:
        loaded, key, into, scene = load.state, load.key, load.into, load.scene
        if loaded.file in machine.notes[Checkpoints].handled:
            continue
        saves = _states_saved_there(machine, loaded)
        if not saves:
            _load_of_others(machine, load)
        if saves and all(scene.when.excludes(guard) for guard, _, _ in saves):
            saves = _of_another_run(scene.when, loaded, saves)
        fitting = any_of(
            guard
            for guard, state, _ in saves
            if not isinstance(state, StateDict) or not _misfits(machine, state, key, into)
        )
        for guard, state, note in saves:
            if isinstance(state, StateDict) and _misfits(machine, state, key, into) and fitting.excludes(guard):
                trace = (Note(state.node, "the state dict is taken here"), note)
                here = replace(scene, when=scene.when & guard)
                if here.when.possible:
                    _emit_loaded(machine, load, here, state, trace)


def _load_of_others(machine: Machine, load: Restored) -> None:
    """What this program loads, another one may have saved: with a wrapper's prefix or without, on these machines."""
    if machine.notes[Program].overlooks:
        # the program itself may save it, in code that was not analysed
        return
    for prefix in ("", WRAPPER_PREFIX):
        if state_keys.fits_with_prefix(prefix, load.key, load.into):
            continue
        state = StateDict(machine.fresh(), prefix, load.node)
        for kinds in (None, MANY_GPUS):
            here = replace(load.scene, when=load.scene.when & machines(kinds or ANY_MACHINE))
            name, entries = load.state.name, tuple(map(str, load.state.entries))
            file = StateFile(name, entries, prefix, kinds, load.cls, load.state.by_default)
            if here.when.possible:
                _emit_loaded(machine, load, here, state, (), file)


def _emit_loaded(
    machine: Machine,
    load: Restored,
    scene: Scene,
    state: StateDict,
    trace: tuple[Note, ...],
    elsewhere: StateFile | None = None,
) -> None:
    shortened = state_keys.shortened(state, load.key)
    machine.emit(StateLoaded(load.node, scene, load.label, state, load.into, load.strict, trace, shortened, elsewhere))


def _misfits(machine: Machine, state: StateDict, key: StateKey | None, into: str) -> bool:
    handled = _keys_of(state) in machine.notes[Checkpoints].handled
    return not handled and not state_keys.fits(machine, state, key, into)


def _states_saved_there(machine: Machine, loaded: Loaded) -> list[tuple[Condition, Value | None, Note]]:
    """What the program saved where a loaded value is read: in the entries of a file, under each path condition."""
    return [
        (guard & inner, state, note)
        for guard, value, note in _saved_there(machine, loaded)
        for inner, state in _entry(value, loaded.entries)
        if (guard & inner).possible
    ]


def _of_another_run(
    when: Condition, loaded: Loaded, saves: list[tuple[Condition, Value | None, Note]]
) -> list[tuple[Condition, Value | None, Note]]:
    """The same as an earlier run saved it, if a single decision keeps the program from saving before it loads.

    That run may have decided everything in another way, so that only the kind of machine is left of its path.
    """
    written = loaded.node.args[0].value if loaded.node is not None and loaded.node.args else None
    if isinstance(written, cst.Name) and written.value == loaded.file:
        # The same variable in two functions need not hold the same name of a file.
        return saves
    shared = frozenset[Answer].intersection(*(cube.answers for guard, _, _ in saves for cube in guard.cubes))
    modes = [made for answer in shared if when.excludes(made := answered(answer.question, answer.given))]
    if len(modes) != 1 or any(when.excludes(guard.given(modes[0])) for guard, _, _ in saves):
        return saves
    return [
        (machines(guard.machines), state, Note(note.node, "another run saves it here")) for guard, state, note in saves
    ]


def _saved_there(machine: Machine, loaded: Loaded) -> list[tuple[Condition, Value, Note]]:
    """The values that the program saved in a file; a resumed run loads those of an earlier run, under any file name."""
    saves = machine.notes[Checkpoints].files.get(loaded.file)
    if saves is None and loaded.resumed:
        every = [save for saved in machine.notes[Checkpoints].files.values() for save in saved]
        saves = [save for save in every if any(state is not None for _, state in _entry(save[1], loaded.entries))]
    return saves or []


def _entry(value: Value, entries: tuple[object, ...]) -> list[tuple[Condition, Value | None]]:
    """An entry of a saved value, in each of its alternatives; None where it is unknown."""
    if not entries:
        return [*alternatives(value)]
    found: list[tuple[Condition, Value | None]] = []
    for guard, option in alternatives(value):
        held = option.get(entries[0]) if isinstance(option, Mapping) else None
        deeper = _entry(held, entries[1:]) if held is not None else [(ALWAYS, None)]
        found.extend((guard & inner, state) for inner, state in deeper)
    return found


def save(machine: Machine, value: Value, file: str, given: Value, node: cst.Call) -> None:
    """``torch.save(value, given)``"""
    note = Note(node, "saved here")
    noted, standalone = machine.notes[Checkpoints], machine.now[Calls].standalone
    for guard, saved in alternatives(_written(machine, value)):
        noted.files.setdefault(file, []).append((machine.path & guard, saved, note))
        states = [(guard & inner, state) for inner, _, state in _states_in(saved) if state is not None]
        elsewhere = {state for when, state in states if not is_on_cpu(machine, state, machine.path & when)}
        on_cpu = frozenset(state for _, state in states) - elsewhere
        classes = tuple((state, _class_of(machine, state.owner)) for _, state in states)
        for named, name in alternatives(machine.restrict(given)):
            here = machine.path & guard & named
            letters = partial_text.letters(name)
            noted.saves.append(Saved(letters, here, saved, node, standalone, on_cpu, classes))


def saved_states(machine: Machine) -> Iterator[SavedThere]:
    """The state dicts in the files that the program saves, also under the names of copies."""
    copied, saves = machine.notes[FileNames].copied, machine.notes[Checkpoints].saves
    found = [
        (saved, saved.guard & guard, entries, state)
        for saved in saves
        for guard, entries, state in _states_in(saved.value)
        if (saved.guard & guard).possible
    ]
    ways: dict[tuple[cst.Call, tuple[str, ...]], dict[str | None, Condition]] = {}
    for saved, when, entries, state in found:
        by_prefix = ways.setdefault((saved.node, entries), {})
        prefix = _prefix_of(machine, state)
        by_prefix[prefix] = by_prefix.get(prefix, NEVER) | when
    for saved, when, entries, state in found:
        prefix, by_prefix = _prefix_of(machine, state), ways[saved.node, entries]
        others = [condition for other, condition in by_prefix.items() if other != prefix]
        option = _deciding(machine, by_prefix[prefix], any_of(others)) if others else ""
        cls = next((cls for one, cls in saved.classes if one == state), ())
        nodes = (saved.node,) if state is None else (state.node, saved.node)
        for name in (saved.name, *(copy for name, copy in copied if are_alike(name, saved.name))):
            file = StateFile(name, entries, prefix, when.machines, cls)
            yield SavedThere(file, nodes, saved.standalone, state in saved.on_cpu, option)


def _prefix_of(machine: Machine, state: StateDict | None) -> str | None:
    return state.prefix if state is not None and state_keys.is_known(machine, state.owner) else None


def _deciding(machine: Machine, when: Condition, otherwise: Condition) -> str:
    """What the program's user decides, in words, that holds only under the first condition; empty if nothing does."""
    common = [answer for cube in when.common.cubes for answer in cube.answers]
    elsewhere = {answer for cube in otherwise.cubes for answer in cube.answers}
    decided = (answer for answer in common if answer not in elsewhere and _is_for_the_user(machine, answer.question))
    return next((answer.words for answer in decided), "")


def _is_for_the_user(machine: Machine, question: Question) -> bool:
    """Whether an option decides it, or the number of processes does."""
    subject = question.subject
    return bool(switches(question)) or (isinstance(subject, tuple) and ranks.world_size(machine) in subject)


def _states_in(
    value: Value, entries: tuple[str, ...] = ()
) -> Iterator[tuple[Condition, tuple[str, ...], StateDict | None]]:
    """The state dicts that a saved value holds, with their keys; None for what may be one."""
    for guard, option in alternatives(value):
        if isinstance(option, StateDict):
            yield guard, entries, option
        elif isinstance(option, Mapping) and len(entries) < _DEPTH:
            for key, item in option.items:
                for inner, keys, state in _states_in(item, (*entries, str(key))):
                    yield guard & inner, keys, state
            if option.rest is not None:
                yield guard, entries, None
        elif not isinstance(option, Const):
            yield guard, entries, None


def _written(machine: Machine, value: Value, depth: int = 0) -> Value:
    """A value as a file keeps it: what the program does to its dicts later changes nothing."""

    def write(option: Value) -> Value:
        if isinstance(option, Object) and option.kind is Kind.DICT:
            option = machine.read(option.id, MAPPING) or option
        if not isinstance(option, Mapping) or depth == _DEPTH:
            return option
        items = ((key, _written(machine, item, depth + 1)) for key, item in option.items)
        return replace(option, items=tuple(items))

    return machine.lift(write, machine.restrict(value))
