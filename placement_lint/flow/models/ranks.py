"""Process groups and their ranks: which GPU belongs to which process."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

import libcst as cst

from placement_lint.flow.api.torch_names import COLLECTIVES_ON_THE_CURRENT_DEVICE
from placement_lint.flow.domain.arguments import Arguments
from placement_lint.flow.domain.path_condition import (
    MANY_GPUS,
    ONE_GPU,
    SEVERAL_PROCESSES,
    Answer,
    Condition,
    Question,
    answered,
    any_of,
    machines,
)
from placement_lint.flow.domain.record import replace
from placement_lint.flow.domain.values import (
    ABSENT,
    FALSE,
    NONE,
    TRUE,
    Const,
    Device,
    Fact,
    Place,
    Symbol,
    Value,
    alternatives,
)
from placement_lint.flow.events.schema import CurrentDeviceUnset, GlobalRankUsed
from placement_lint.flow.models.handlers import Handlers
from placement_lint.flow.state.devices import current
from placement_lint.flow.state.heap import Slot
from placement_lint.flow.state.machine import Machine
from placement_lint.flow.state.moment import Calls, Replica
from placement_lint.flow.state.names import spelled
from placement_lint.flow.state.notes import Moment, Notes, Use, noted
from placement_lint.flow.state.records import DeviceUse, Group
from placement_lint.rule import Note
from placement_lint.source.querying import as_expression, last_name, operators_in, words_in


@dataclass
class Spawned(Moment):
    """Where the running function was started in several processes."""

    notes: list[Note] = noted(list, Use.PASSING)


@dataclass
class Ranks(Notes):
    """Process groups, and the GPUs of their ranks."""

    # the global ranks by whose number something was put on a GPU
    at_work: set[int] = noted(set)
    # process groups of several processes, and uses of the current device although nothing set it
    groups: list[Group] = noted(list, Use.WEIGHED)
    uses_of_current: list[DeviceUse] = noted(list, Use.AT_END | Use.WEIGHED)
    # uses of the current device after the program set it
    uses_of_own: set[cst.CSTNode] = noted(set, Use.AT_END)
    # all processes are given GPUs of their own, by a framework or from outside; those that choose theirs
    pinned: bool = noted(bool)
    pinned_processes: set[object] = noted(set)
    # the program is made for several nodes; the ids of ranks that it computes from the node's number; what uses the
    # rank among all processes as the number of a GPU
    several_nodes: bool = noted(bool)
    computed: set[int] = noted(set)
    as_numbers: dict[int, list[DeviceUse]] = noted(dict, Use.WEIGHED)
    # the names of the options by which a launcher tells a process its number on this node
    local_names: set[str] = noted(set)


# A cell of the module frame: the process group of this process.
_GROUP = Slot("process group")
# The same where it is the only process of its group.
_ALONE = Slot("alone")
# The rank that the process gave when it joined its group; None where it gave none.
_RANK_GIVEN = Slot("rank given")
# Whether the process has a group at all.
_INITIALISED = Slot("initialised")
_WORLD_SIZE = Slot("world size")


def join(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``dist.init_process_group("nccl", rank=rank, world_size=n)``"""
    if arguments.keyword("device_id") is not None:
        pin(machine)
    rank = arguments.get(4, "rank") or NONE
    _note_computed(machine, rank)
    machine.write(machine.module_frame, _RANK_GIVEN, rank)
    alone = Const(1) in (arguments.keyword("world_size"), arguments.get(3, "world_size"))
    if alone:
        machine.write(machine.module_frame, _ALONE, TRUE)
    backend = arguments.get(0, "backend") or NONE
    needs_group(machine)

    def start(chosen: Value) -> Value:
        if chosen == Const("nccl"):
            machine.survive(machines(ONE_GPU | MANY_GPUS))
        note = Note(node, "each rank joins the process group here")
        if not alone and not machine.dead:
            machine.write(machine.module_frame, _GROUP, Fact(str(getattr(chosen, "value", "")), note))
            machine.notes[Ranks].groups.append(Group(machine.scene, note, process(machine)))
        return NONE

    return machine.lift(start, backend)


def needs_group(machine: Machine) -> None:
    """Past this point the process has a process group: what runs here makes it, or raises without one."""
    machine.write(machine.module_frame, _INITIALISED, TRUE)


def own_rank(machine: Machine, asked: Symbol) -> Value:
    """``dist.get_rank()``: the number that the process joined its group with, or the ``asked`` value if it gave none.

    A process that gave its number on this node belongs to a group of one node: its rank is the local one.
    """
    given = machine.restrict(machine.read(machine.module_frame, _RANK_GIVEN) or NONE)

    def known(option: Value) -> Value:
        if not isinstance(option, Symbol):
            return asked
        return option if _is_local(machine, option) else replace(option, source=asked.source)

    return machine.either([(guard, known(option)) for guard, option in alternatives(given)])


def world_size(machine: Machine, node: str | cst.CSTNode = "world_size") -> Symbol:
    """The number of processes: the same whoever tells it."""
    return machine.part(machine.module_frame, _WORLD_SIZE, node, type="int")


def several_run(machine: Machine) -> Question:
    """Whether there are several processes."""
    size = world_size(machine)
    question = machine.question((cst.GreaterThan.__name__, size, Const(1)), text="world_size > 1")
    question.measure(size, (1, 1))
    question.say(predicate=SEVERAL_PROCESSES)
    return question


def started_outside(machine: Machine) -> None:
    """A launcher tells a library how many processes there are; if there are several, it makes them a group."""
    group = machine.read(machine.module_frame, _INITIALISED, unset=machine.ask(several_run(machine)))
    machine.write(machine.module_frame, _INITIALISED, group)


def leave(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``dist.destroy_process_group()``"""
    machine.write(machine.module_frame, _INITIALISED, FALSE)
    return NONE


def has_group(machine: Machine, asked: Symbol) -> Value:
    """``dist.is_initialized()``: the ``asked`` value as long as the answer is unknown.

    A program that joins a group on some paths has none on the others, unless it joins where it finds none.
    """
    seen = machine.store.read(machine.module_frame, _INITIALISED)
    if seen is None:
        return asked

    def known(guard: Condition, option: Value) -> Value:
        if option is not ABSENT:
            return option
        return asked if machine.now[Calls].standalone or _hangs_on(guard, asked) else FALSE

    return machine.either([(guard, known(guard, option)) for guard, option in alternatives(seen)])


def _hangs_on(condition: Condition, asked: Symbol) -> bool:
    return any(answer.question.subject == asked for cube in condition.cubes for answer in cube.answers)


def is_alone(machine: Machine) -> bool:
    """Whether this process joined a group that has no other process."""
    return machine.read(machine.module_frame, _ALONE) is not None


def joined(machine: Machine) -> Note | None:
    """Where this process joined a group of several, if it did on some path."""
    groups = alternatives(machine.read(machine.module_frame, _GROUP, unset=NONE))
    notes = (option.details for _, option in groups if isinstance(option, Fact))
    return next((note for note in notes if isinstance(note, Note)), None)


def joined_when(machine: Machine) -> Condition:
    """When this process joined a group of several, on one of the paths that lead here."""
    groups = alternatives(machine.read(machine.module_frame, _GROUP, unset=NONE))
    return any_of(guard for guard, option in groups if isinstance(option, Fact))


def may_share_machine(when: Condition) -> bool:
    """Whether several ranks may use the GPUs of one machine: of one that has one GPU, a rank has it for itself."""
    return (when & machines(MANY_GPUS)).possible


def may_lack_gpus(machine: Machine) -> bool:
    """Whether the process group was joined with a backend other than NCCL, which works without a GPU."""
    groups = alternatives(machine.restrict(machine.read(machine.module_frame, _GROUP, unset=NONE)))
    return any(isinstance(option, Fact) and option.name not in ("", "None", "nccl") for _, option in groups)


def process(machine: Machine) -> object:
    """The origin of the running process: the call that spawned it, or the frame of the entry point that is analysed.

    None for the module's own statements.
    """
    if machine.now[Spawned].notes:
        return machine.now[Spawned].notes[-1].node
    return machine.frames[1].id if machine.now[Calls].standalone and machine.now[Calls].running else None


_RANK = re.compile(r".*rank.*|gpu", re.IGNORECASE)


def is_rank(value: object) -> bool:
    """Whether an unknown number is another one in each process: the program calls it a rank."""
    return isinstance(value, Symbol) and any(map(_RANK.fullmatch, words_in(as_expression(value.source))))


def is_one_of_them(machine: Machine) -> bool:
    """Whether a test on the way here singles one process out: ``rank == 0``, ``world_size == 1``."""
    return any(_single_out(cube.answers) for cube in machine.reach.cubes)


def _single_out(answers: Iterable[Answer]) -> bool:
    subjects = [answer.question.subject for answer in answers if answer.given]
    return any(
        isinstance(subject, tuple)
        and subject[0] in ("Equal", "Is")
        and subject[2] in (Const(0), Const(1))
        and not _is_nameless(subject[1])
        for subject in subjects
    )


def _is_nameless(value: object) -> bool:
    """Whether a number is the result of an operation, as in ``batch_size % world_size``: it is not a process's."""
    return isinstance(value, Symbol) and (
        not value.source or isinstance(as_expression(value.source), cst.BinaryOperation)
    )


# The rank of a process among all of them, as programs get it; what shows that there may be several nodes.
_ENVIRONMENT = frozenset({"environ", "getenv"})
_OPTIONS = frozenset({"arg", "args", "opt", "opts", "options", "config", "cfg", "hparams"})
_SEVERAL_NODES = re.compile(
    r"(?:--)?(?:LOCAL[_-]?RANK|NODE[_-]?RANK|GROUP_RANK|NNODES|NUM[_-]?NODES|LOCAL_WORLD_SIZE)|--nodes", re.I
)


def _is_global(value: object) -> bool:
    if not isinstance(value, Symbol):
        return False
    node = as_expression(value.source)
    if isinstance(node, cst.Call):
        # With an argument it is the rank in a group of some of the processes, most often in that of one node.
        return (last_name(node.func) == "get_rank" and not node.args) or _asks_environment(node)
    if isinstance(node, cst.Attribute):
        return node.attr.value == "rank" and last_name(node.value) in _OPTIONS
    return isinstance(node, cst.Subscript) and _asks_environment(node)


def _asks_environment(node: cst.CSTNode) -> bool:
    """Whether ``os.environ["RANK"]`` or its like stands in a node."""
    words = words_in(node)
    return "RANK" in words and not words.isdisjoint(_ENVIRONMENT)


def _is_local(machine: Machine, value: object) -> bool:
    """Whether a value is that of an option which a launcher gives the number on this node."""
    return isinstance(value, Symbol) and last_name(as_expression(value.source)) in machine.notes[Ranks].local_names


# ``node_rank * gpus + gpu``: who counts the processes of all nodes multiplies, and adds the number on this one.
_COMPUTED = frozenset({cst.Multiply, cst.Add})


def _note_computed(machine: Machine, rank: Value) -> None:
    """The rank that a process joins its group with."""
    for _, option in alternatives(rank):
        if isinstance(option, Symbol) and operators_in(as_expression(option.source)) >= _COMPUTED:
            machine.notes[Ranks].computed.add(option.id)
            machine.notes[Ranks].several_nodes = True


def notice_attribute(machine: Machine, name: str, value: Value) -> None:
    """``args.local_rank`` is read; where that is the rank among all, or 0, nothing tells of several nodes."""
    if _SEVERAL_NODES.fullmatch(name):
        told = any(isinstance(option, Const) or _is_global(option) for _, option in alternatives(value))
        machine.notes[Ranks].several_nodes = machine.notes[Ranks].several_nodes or not told


def notice_name(machine: Machine, name: object) -> None:
    """An option, attribute or variable that only programs for several nodes have."""
    if isinstance(name, str) and _SEVERAL_NODES.fullmatch(name):
        machine.notes[Ranks].several_nodes = True


def notice_option(machine: Machine, arguments: Arguments) -> None:
    """``parser.add_argument("--node_rank")``; ``"--rank", "--local_rank"`` is the number on this node too."""
    flags = [option.value for option in arguments.positional if isinstance(option, Const)]
    texts = [flag for flag in flags if isinstance(flag, str)]
    is_local = any(_LOCAL_RANK.fullmatch(text) for text in texts)
    # A launcher gives ``--local_rank`` on one node too: only who reads it may count on several.
    for text in texts if not is_local else ():
        notice_name(machine, text)
    if is_local:
        named = arguments.keyword("dest")
        machine.notes[Ranks].local_names.add(str(named.value) if isinstance(named, Const) else texts[0].lstrip("-"))


_LOCAL_RANK = re.compile(r"--local[_-]rank")


def name_gpu(machine: Machine, index: object, node: cst.CSTNode, works: bool = True) -> None:
    """An unknown number names a GPU; ``works`` unless it only names it, and puts nothing there."""
    noted = machine.notes[Ranks]
    counts_all = _is_global(index) and not _is_local(machine, index)
    if isinstance(index, Symbol) and (counts_all or index.id in noted.computed) and not _is_first(machine, index):
        if works:
            noted.at_work.add(index.id)
        note = Note(node, f"`{machine.text(node)}` uses the global rank")
        noted.as_numbers.setdefault(index.id, []).append(DeviceUse(machine.scene, note, process(machine)))


def _is_first(machine: Machine, rank: Symbol) -> bool:
    """Whether only the first process comes here: the GPU of its number is there on its node."""
    asked = machine.known_question((cst.Equal.__name__, rank, Const(0)))
    return asked is not None and machine.path.implies(answered(asked, True))


def _report_global_ranks(machine: Machine) -> None:
    noted = machine.notes[Ranks]
    for rank, uses in noted.as_numbers.items() if noted.several_nodes else ():
        if rank not in noted.at_work:
            continue
        first, *others = {used.note.node: used for used in uses}.values()
        trace = tuple(used.note for used in others)
        label, environ = machine.text(first.note.node), spelled(machine, "os.environ")
        computed = rank in noted.computed
        machine.emit(GlobalRankUsed(first.note.node, first.scene, label, environ, trace, computed))


def pin(machine: Machine) -> None:
    """The process that runs is given a GPU of its own."""
    machine.notes[Ranks].pinned_processes.add(process(machine))


def use(machine: Machine, asked: Place, node: cst.CSTNode) -> None:
    """Something is put on a GPU: on the one that the program says, or on the current one."""
    name_gpu(machine, asked.index if isinstance(asked, Device) else asked, node)
    if machine.now[Replica].notes or is_one_of_them(machine):
        return
    if isinstance(asked, Symbol) or isinstance(asked.index, Symbol):
        pin(machine)
    elif asked == Device("cuda") and current(machine) is not None:
        machine.notes[Ranks].uses_of_own.add(node)
    elif asked == Device("cuda"):
        note = Note(node, f"`{machine.text(node)}` uses the current device, which is cuda:0 in every process")
        machine.notes[Ranks].uses_of_current.append(DeviceUse(machine.scene, note, process(machine)))


def collective(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``dist.barrier()`` and the collectives on objects: with NCCL they run on the current device."""
    if "device_ids" in arguments.keywords or "device" in arguments.keywords:
        pin(machine)

    def communicate(group: Value) -> Value:
        if isinstance(group, Fact) and group.name == "nccl":
            use(machine, Device("cuda"), node)
        return NONE

    machine.lift(communicate, machine.read(machine.module_frame, _GROUP, unset=NONE))
    return machine.fresh(node)


def finish(machine: Machine) -> None:
    """Once the whole program is known: does any rank choose its GPU?"""
    noted = machine.notes[Ranks]
    _report_global_ranks(machine)
    if noted.pinned:
        return
    # A process joins its group once: code that joins one itself is not called from another process that does.
    if noted.pinned_processes - {group.process for group in noted.groups}:
        return
    chosen = {used.note.node for used in noted.uses_of_current if used.process in noted.pinned_processes}
    for group in {(group.note.node, group.process): group for group in noted.groups}.values():
        uses = {
            used.note.node: used
            for used in noted.uses_of_current
            if used.note.node not in chosen | noted.uses_of_own
            and used.process == group.process
            and not used.scene.reach.excludes(group.scene.reach)
            # where the program may as well choose the CPU it is not made for several GPUs
            and used.scene.reach.implies(used.scene.when)
            and may_share_machine(used.scene.reach & group.scene.reach)
        }
        if uses:
            first, *others = uses.values()
            notes = (group.note, *(used.note for used in others))
            machine.emit(CurrentDeviceUnset(first.note.node, first.scene, machine.text(first.note.node), notes))


CALLS: Handlers = {
    "torch.distributed.init_process_group": join,
    "torch.distributed.destroy_process_group": leave,
    **dict.fromkeys(COLLECTIVES_ON_THE_CURRENT_DEVICE, collective),
}
