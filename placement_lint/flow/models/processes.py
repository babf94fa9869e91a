"""Programs of several processes: where a process joins the others, and what in it believes to be alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import libcst as cst

from placement_lint.flow.domain.arguments import Arguments
from placement_lint.flow.domain.record import replace
from placement_lint.flow.domain.values import NONE, TRUE, Const, Device, Object, Sequence, Symbol, Value
from placement_lint.flow.events.schema import ParallelInGroup, Scene
from placement_lint.flow.models import loaders, modules, ranks, visible_devices
from placement_lint.flow.models.handlers import Handlers
from placement_lint.flow.models.ranks import Ranks, Spawned
from placement_lint.flow.state.containers import content
from placement_lint.flow.state.machine import Machine
from placement_lint.flow.state.names import name_of, spelled
from placement_lint.flow.state.notes import Notes, Use, noted
from placement_lint.flow.state.program import Program
from placement_lint.flow.state.records import Group, Parallel
from placement_lint.flow.state.signals import Signals
from placement_lint.rule import Note


@dataclass
class Processes(Notes):
    """What the processes of a program share."""

    # the samplers that ask a process group for the rank, and the DataParallels that believe to be alone
    sharing: list[Group] = noted(list, Use.WEIGHED)
    parallels: list[Parallel] = noted(list, Use.WEIGHED)
    # where the program trains something: it computes gradients, or builds an optimizer
    trainings: set[cst.CSTNode] = noted(set, Use.AT_END)


def is_initialised(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    return ranks.has_group(machine, machine.part(machine.module_frame, ("call", name), node))


def asked(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``get_rank()``: the same each time; in a ``group`` of some of the processes it is another number."""
    group = arguments.get(0, "group") or NONE
    if group == NONE:
        return ranks.own_rank(machine, machine.part(machine.module_frame, ("call", name), node, type="int"))
    return machine.part(machine.module_frame, ("call", name, group), node, type="int")


def size(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``get_world_size()``"""
    return ranks.world_size(machine, node)


def sampler(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``DistributedSampler(dataset)`` asks the process group for the rank, unless it is told."""
    if not arguments.has(1, "num_replicas"):
        note = Note(node, "DistributedSampler gives this process its share of the data here")
        machine.notes[Processes].sharing.append(Group(machine.scene, note, ranks.process(machine)))
    return loaders.distributed_sampler(machine, name, arguments, node)


@contextmanager
def spawned(machine: Machine, arguments: Arguments, node: cst.Call) -> Iterator[None]:
    """While the function runs that ``mp.spawn`` starts in each process: nothing of what it leaves there comes back."""
    several = arguments.get(2, "nprocs") not in (None, Const(1))
    if several:
        machine.now[Spawned].notes.append(Note(node, "started in several processes here"))
    machine.store.begin()
    try:
        yield
    finally:
        machine.store.roll_back()
        if several:
            machine.now[Spawned].notes.pop()


def parallel_built(machine: Machine, module: Object | Symbol, node: cst.Call) -> None:
    """``DataParallel(module)`` over all GPUs, or over several: is this process the only one?"""
    ddp = spelled(machine, "torch.nn.parallel.DistributedDataParallel")
    what = Parallel(
        node, machine.scene, ranks.process(machine), machine.label(module, "the model"), ddp, _rank(machine, module)
    )
    if ranks.is_one_of_them(machine):
        return
    started = machine.now[Spawned].notes
    machine.notes[Processes].parallels.append(replace(what, started=started[-1] if started else None))


def trained(machine: Machine, what: Value | None, node: cst.CSTNode) -> None:
    machine.notes[Processes].trainings.add(node)


def _rank(machine: Machine, module: Object | Symbol) -> str:
    """The variable that holds the index of the GPU that the module is on."""
    place = modules.place_of(machine, module)
    index = place.index if isinstance(place, Device) else None
    return name_of(machine, index) if isinstance(index, Symbol) else ""


def resolve(machine: Machine) -> set[cst.CSTNode]:
    """Once the whole program is known: the wrappings that happen in one process of several.

    In a program that only evaluates, there are no gradients to exchange.
    """
    noted = machine.notes[Processes]
    for parallel in noted.parallels if noted.trainings else ():
        if parallel.started is not None:
            machine.emit(_in_group(parallel, parallel.started, parallel.scene))
            continue
        for group in (*machine.notes[Ranks].groups, *noted.sharing):
            when = parallel.scene.when & group.scene.when
            if when.possible and _belong_together(parallel, group):
                machine.emit(_in_group(parallel, group.note, replace(parallel.scene, when=when)))
    return {event.node for event in machine.notes[Program].events if isinstance(event, ParallelInGroup)}


def _belong_together(parallel: Parallel, group: Group) -> bool:
    """Whether the two happen in one run, and neither under a condition that has nothing to do with the other's."""
    plain = group.process == parallel.process and not any(cube.answers for cube in parallel.scene.reach.cubes)
    same_run = group.process is None or group.process == parallel.process
    return same_run and (plain or parallel.scene.when.implies(group.scene.reach))


def _in_group(what: Parallel, note: Note, scene: Scene) -> ParallelInGroup:
    return ParallelInGroup(what.node, scene, what.label, note, what.ddp, what.rank)


def _spawn(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``mp.spawn(run, args=(…))`` calls ``run(rank, …)`` in each process."""
    function = arguments.get(0, "fn")
    given = content(machine, arguments.get(1, "args") or Sequence(()))
    if function is not None:
        rank = machine.fresh("rank", "int")
        visible_devices.hand_down(machine)
        visible_devices.forget(machine)
        with spawned(machine, arguments, node):
            machine.evaluator.call(machine, function, Arguments((rank, *(given.items if given else ()))), node)
        machine.dead = False
    return NONE


def available(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``dist.is_available()``: the published builds of PyTorch are made with it (torch/distributed/__init__.py)."""
    return TRUE


CALLS: Handlers = {
    "torch.distributed.is_available": available,
    "torch.distributed.is_initialized": is_initialised,
    "torch.distributed.get_rank": asked,
    "torch.distributed.get_world_size": size,
    "torch.utils.data.DistributedSampler": sampler,
    "torch.multiprocessing.spawn": _spawn,
}


def listen(signals: Signals) -> None:
    signals.modules.data_parallel_built.connect(parallel_built)
    signals.training.backward.connect(trained)
    signals.training.optimizer_built.connect(trained)
