"""``CUDA_VISIBLE_DEVICES``: which GPUs a program sees, and under which numbers.

The driver reads the variable once, when something first touches CUDA (``torch.cuda.is_available()`` asks the runtime
how many devices there are), and numbers what is visible from 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from placement_lint.flow.domain.path_condition import MANY_GPUS, ONE_GPU, Condition, answered, machines
from placement_lint.flow.domain.record import replace
from placement_lint.flow.domain.values import (
    ABSENT,
    NONE,
    Choice,
    Const,
    Device,
    Fact,
    Object,
    Symbol,
    Value,
    alternatives,
)
from placement_lint.flow.events.schema import InvisibleDevice, Scene, VisibleDevicesLate
from placement_lint.flow.models.ranks import Ranks
from placement_lint.flow.state import imports
from placement_lint.flow.state.containers import content
from placement_lint.flow.state.devices import Context, current_is_chosen
from placement_lint.flow.state.heap import Slot
from placement_lint.flow.state.machine import Machine
from placement_lint.flow.state.names import wanted
from placement_lint.flow.state.notes import Notes, Use, noted
from placement_lint.flow.state.program import Program
from placement_lint.rule import Note
from placement_lint.source.walking import children
from placement_lint.source.wording import source_text


@dataclass
class VisibleDevices(Notes):
    """What the program does before and after it restricts the GPUs that it sees."""

    # assignments of CUDA_VISIBLE_DEVICES that nothing reads any more, unless another process does
    late: list[VisibleDevicesLate] = noted(list, Use.WEIGHED)
    # those before which the program's own file did nothing with CUDA, and the calls or statements that led there
    in_time: list[tuple[cst.CSTNode, Scene, cst.CSTNode | None]] = noted(list, Use.WEIGHED)
    # GPUs named by numbers that are not visible, and where that was first
    invisible: dict[int, cst.CSTNode] = noted(dict, Use.WEIGHED)
    # where a number that is unknown first named a GPU after the program had made that number the only visible one
    again: dict[Symbol, cst.CSTNode] = noted(dict, Use.WEIGHED)
    # it uses CUDA outside of the workers of its loaders
    uses_cuda: bool = noted(bool)


# Cells of the module frame: the literal list of visible GPUs, and what first touched CUDA.
_VISIBLE = Slot("visible devices")
_TOUCHED = Slot("cuda touched")
# Where a list that is not a literal was set.
_SET = Slot("visible devices set")
# The code that touched CUDA runs only when the file is run as a script.
_AS_SCRIPT = "touched by the script"


def touch(machine: Machine, node: cst.CSTNode) -> None:
    """CUDA is initialised, unless it is already."""
    if machine.now[Context].worker is not None:
        return
    machine.notes[VisibleDevices].uses_cuda = True
    note = Note(node, f"`{machine.text(node)}` initialises CUDA here")
    first = Fact(_AS_SCRIPT if machine.is_script else "touched", note)
    machine.write(machine.module_frame, _TOUCHED, machine.read(machine.module_frame, _TOUCHED, unset=first))


def restrict(machine: Machine, value: Value, node: cst.CSTNode) -> None:
    """The variable is assigned: in time, or when the driver has read it already.

    Where the process has chosen its GPU by then, it is for those that it starts.
    """
    in_vain = not current_is_chosen(machine) and not _is_set_again(machine, node)
    touched = machine.read(machine.module_frame, _TOUCHED) if in_vain else None
    if (
        in_vain
        and touched is None
        and not machine.is_abroad
        and not machine.path.excludes(machines(ONE_GPU | MANY_GPUS))
    ):
        calls = machine.scene.calls
        begin = calls[0] if calls else node if machine.frame.function is None else None
        machine.notes[VisibleDevices].in_time.append((node, machine.scene, begin))
    for guard, fact in alternatives(touched) if touched is not None else ():
        if isinstance(fact, Fact) and isinstance(fact.details, Note):
            with machine.assuming(guard):
                # Without a GPU, hiding GPUs too late has no effect.
                if not machine.path.excludes(machines(ONE_GPU | MANY_GPUS)):
                    machine.notes[VisibleDevices].late.append(VisibleDevicesLate(node, machine.scene, fact.details))
    if touched is not None and all(isinstance(fact, Fact) for _, fact in alternatives(machine.restrict(touched))):
        # It has no effect on how GPUs are numbered either.
        machine.notes[Ranks].pinned = True
        return
    if isinstance(value, Const) and isinstance(value.value, str):
        machine.write(machine.module_frame, _VISIBLE, Fact(value.value, Note(node, "set here")))
    else:
        machine.write(machine.module_frame, _VISIBLE, _with_default(machine, value, node))
        machine.write(machine.module_frame, _SET, Fact("set", Note(node, "set here")))
        machine.notes[Ranks].pinned = True


def _with_default(machine: Machine, value: Value, node: cst.CSTNode) -> Value:
    """The value of an option: known where the option has its default."""
    if not isinstance(value, Symbol) or value.preferred is None or not isinstance(value.preferred.value, str):
        return value
    is_default = machine.equality(value, value.preferred, f'{value.text} == "{value.preferred.value}"')
    listed = Fact(value.preferred.value, Note(node, "set here"))
    return Choice(((answered(is_default, True), listed), (answered(is_default, False), value)))


def _is_set_again(machine: Machine, node: cst.CSTNode) -> bool:
    """Whether a function is called once more that has set it before, and in time."""
    known = machine.read(machine.module_frame, _SET, unset=NONE)
    notes = (option.details for _, option in alternatives(known) if isinstance(option, Fact))
    return machine.frame.function is not None and any(isinstance(note, Note) and note.node is node for note in notes)


def hand_down(machine: Machine) -> None:
    """The program starts another one, which reads the variable again: for that one it was set in time."""
    machine.notes[VisibleDevices].late.clear()
    machine.notes[VisibleDevices].in_time.clear()


def restricted(machine: Machine) -> bool:
    """Whether the program says itself which GPUs it sees."""
    return machine.read(machine.module_frame, _VISIBLE) is not None


def forget(machine: Machine) -> None:
    """A new process, in which nothing has touched CUDA."""
    machine.write(machine.module_frame, _TOUCHED, ABSENT)


def forget_script(machine: Machine) -> None:
    """Uncalled definitions run in programs that import the file: the effects of its ``__main__`` code are undone."""
    touched = machine.read(machine.module_frame, _TOUCHED, unset=ABSENT)
    before = machine.lift(lambda fact: ABSENT if fact == Fact(_AS_SCRIPT) else fact, touched)
    machine.write(machine.module_frame, _TOUCHED, before)


def visible(machine: Machine) -> tuple[tuple[str, ...], Note, Condition] | None:
    """The entries of a list, the statement that set it, and when it did; None if another list may hold here.

    That is nothing, or the value of an option whose default is the list.
    """
    set_to = [
        (guard, value)
        for guard, value in alternatives(machine.read(machine.module_frame, _VISIBLE, unset=ABSENT))
        if value is not ABSENT
    ]
    lists = [
        (guard, value.name, value.details)
        for guard, value in set_to
        if isinstance(value, Fact) and isinstance(value.details, Note)
    ]
    others = [value for _, value in set_to if not isinstance(value, Fact)]
    if len(lists) != 1 or not all(isinstance(value, Symbol) and value.preferred is not None for value in others):
        return None
    guard, name, note = lists[0]
    entries = tuple(entry.strip() for entry in name.split(","))
    return (entries, note, guard) if all(entry.isdigit() for entry in entries) else None


def name_device(
    machine: Machine, device: Value, how: str | cst.CSTNode, node: cst.CSTNode, literal: bool = True
) -> None:
    """A GPU is named by its number: report it if no visible GPU has that number.

    If the number is not a literal, only the first use is reported because it raises.
    """
    if not isinstance(device, Device) or device.kind != "cuda":
        return
    if isinstance(device.index, Symbol):
        _name_again(machine, device.index, how, node)
    known = visible(machine)
    if known is None or not isinstance(device.index, int):
        return
    entries, note, guard = known
    if device.index >= len(entries) and (
        literal or machine.notes[VisibleDevices].invisible.get(device.index, node) is node
    ):
        machine.notes[VisibleDevices].invisible.setdefault(device.index, node)
        scene = machine.scene
        scene = replace(scene, when=scene.when & guard)
        machine.emit(InvisibleDevice(node, scene, source_text(how), (device.index,), entries, note))


def name_listed(machine: Machine, ids: Value, node: cst.Call) -> None:
    """``DataParallel(model, device_ids=[int(number) for number in args.gpus.split(",")])``"""
    items = content(machine, ids)
    for item in items.items if items is not None else ():
        if isinstance(item, Symbol):
            _name_again(machine, item, node, node)


def _name_again(machine: Machine, number: Symbol, how: str | cst.CSTNode, node: cst.CSTNode) -> None:
    """The number of a GPU is in the text that lists the visible ones, which are numbered from 0. The first use raises.

    Where it is the whole text, it is 0, whatever the text is.
    """
    where = machine.read(machine.module_frame, _SET)
    note = where.details if isinstance(where, Fact) else None
    set_to = machine.read(machine.module_frame, _VISIBLE, unset=NONE)
    listed = next((one for one in _sources(number) if any(one == option for _, option in alternatives(set_to))), None)
    if not isinstance(note, Note) or listed is None:
        return
    if machine.notes[VisibleDevices].again.setdefault(listed, node) is node:
        text, several = listed.text or "the number", listed != number
        machine.emit(InvisibleDevice(node, machine.scene, source_text(how), (1,), ("1",), note, text, several))


def _sources(number: Symbol) -> Iterator[Symbol]:
    """A number, and what it is a part of: the text that was split."""
    part: Symbol | Object | None = number
    while isinstance(part, Symbol):
        yield part
        part = part.parent


def look_at_imports(machine: Machine, module: cst.Module) -> None:
    """Find the assignments before which a file that the program imports asked for GPUs."""
    noted = machine.notes[VisibleDevices]
    for node, scene, begin in noted.in_time:
        cause = _asking_import(machine, module, begin)
        if cause is not None:
            noted.late.append(VisibleDevicesLate(node, scene, Note(cause, f"`{source_text(cause)}` initialises CUDA")))


def _asking_import(machine: Machine, module: cst.Module, begin: cst.CSTNode | None) -> cst.CSTNode | None:
    """The first import that runs ``torch.cuda.is_available()`` in another file, before a node is reached."""
    for statement in module.body:
        if begin is not None and _holds(statement, begin):
            return None
        for part in statement.body if isinstance(statement, cst.SimpleStatementLine) else ():
            if isinstance(part, (cst.Import, cst.ImportFrom)) and imports.asks_for_gpus(machine, wanted(part)):
                return part
    return None


def _holds(statement: cst.CSTNode, part: cst.CSTNode) -> bool:
    """Whether a node is a statement or inside it."""
    waiting = [statement]
    while waiting:
        node = waiting.pop()
        if node is part:
            return True
        waiting.extend(children(node))
    return False


def finish(machine: Machine) -> None:
    machine.notes[Program].events.extend(machine.notes[VisibleDevices].late)
