"""What the rooms remember of the whole program, whatever the path: none of it is ever taken back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import libcst as cst

if TYPE_CHECKING:
    from placement_lint.flow.domain.path_condition import Condition
    from placement_lint.flow.domain.values import Class, Function, Holder, Loaded, Object, StateKey, Value
    from placement_lint.flow.events.schema import (
        AttributeRebound,
        Event,
        GradientLost,
        GradientsOfCopyClipped,
        LayerRepeated,
        OptimizerMisses,
        OptimizerStateStranded,
        ParameterShared,
        ReplicaLossReduced,
        ReplicaLossUsed,
        Revealed,
        Scene,
        SchedulerOutlived,
        SharedTensorChanged,
        TrainedOutsideDdp,
        VisibleDevicesLate,
        WrapperAttributeWritten,
    )
    from placement_lint.flow.state.records import Chosen, Group, Input, Parallel, Request, Tie, Unmapped, Use
    from placement_lint.rule import Note


class Registries:
    """Each is a list, a set, a dict or a plain value; the rooms note in them what they, or others, ask for later."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        # by the id of an object: how the program names it
        self.labels: dict[int, str | cst.CSTNode] = {}
        # by the id of an unknown part of a module: the id of that module
        self.outer: dict[int, int] = {}
        self.functions: dict[cst.CSTNode, Function] = {}
        self.classes: list[Class] = []
        # the definitions of all classes that are modules, those of other files included
        self.module_classes: set[cst.CSTNode] = set()
        self.called: set[cst.CSTNode] = set()
        # the parameters of each function that the program calls, with the kinds of machine on which it does
        self.called_on: set[tuple[cst.CSTNode, int]] = set()
        # there are calls that were not looked into although they may matter
        self.overlooks = False
        # calls in plain functions of other files: the calls that led there
        self.sites: dict[cst.CSTNode, dict[cst.CSTNode, None]] = {}
        # plain functions of other files, by file, class and name: the calls of them, or that led to those
        self.uses: dict[tuple[str, str, str], set[cst.CSTNode]] = {}
        # attributes of modules, by the files and names of their classes, that code outside the class looks after
        self.tended: set[tuple[str, str, str]] = set()
        self.optimizers: list[Object] = []
        # by the id of a flag of another file, which any file may have turned: what is written there
        self.flags: dict[int, object] = {}
        # unknown values that are used as only modules can be
        self.modules_by_use: set[int] = set()
        # parts of a library's model that are modules by how they are come by, and arguments by their annotation
        self.modules_by_name: set[int] = set()
        # unknown values that the program asks whether they are of a class, or one of several, of modules
        self.modules_by_test: dict[int, set[Value]] = {}
        # by the id of a module or class: where one was first moved to CUDA or wrapped
        self.moved: dict[int, Note] = {}
        self.wraps: dict[int, list[Note]] = {}
        # by the id of a module: the frames that were running when it was wrapped
        self.wrapped_in: dict[int, set[int]] = {}
        # modules and Parameters that some optimizer held at some time, and whose parameters were asked for otherwise
        self.ever_held: set[int] = set()
        self.asked_for: set[int] = set()
        self.given_away: set[int] = set()
        self.ever_frozen: set[int] = set()
        # modules outside of others that make losses of what modules give, and Parameters that no module has
        self.criteria: dict[int, Object] = {}
        # by the id of a tensor that may be a number: the module that gave it, a criterion if it is one
        self.perhaps_losses: dict[int, Object] = {}
        self.loose: dict[int, cst.CSTNode] = {}
        self.misses: list[tuple[OptimizerMisses, frozenset[int]]] = []
        # the modules and Parameters that some backward may reach, or that were trained before; those before a cut,
        # and what an optimizer holds that steps after it
        self.learned: set[int] = set()
        self.cut_off: list[tuple[GradientLost, frozenset[int], frozenset[int]]] = []
        # the same without what was trained before; copies of modules, each beside what it was copied from; what is
        # clipped of one of the two, with the ids of all that it has, and of all that the other has
        self.given_gradients: set[int] = set()
        self.twins: list[tuple[Object, Object, Note]] = []
        self.clipped: list[tuple[GradientsOfCopyClipped, frozenset[int], frozenset[int]]] = []
        # by the id of a module that took a variable's place: itself, the one before, and what is stale by that
        self.successors: dict[int, tuple[Object, int, object]] = {}
        # schedulers that go on with an optimizer, by its id, whose place another took, by the id of that
        self.outlived: list[tuple[SchedulerOutlived, int, int]] = []
        # the ids of optimizers that have schedulers, and of those that others may get hold of, or of their groups, with
        # where that is; where the groups were only read
        self.scheduled: set[int] = set()
        self.optimizers_out: set[tuple[int, cst.CSTNode]] = set()
        self.groups_read: set[cst.CSTNode] = set()
        # optimizers whose state stayed behind, until the end of the program or a load_state_dict says otherwise
        self.pending: list[tuple[int, OptimizerStateStranded]] = []
        # the program assigns to ``.grad`` itself: gradients may come from anywhere
        self.gradients_by_hand = False
        # by the id of a module or container: the attribute of a plain list or dict that holds it
        self.unregistered: dict[int, Holder] = {}
        self.holders: dict[int, Holder] = {}
        # by the id of a module, an attribute and a value there that may lead to a module: the statement that put it
        self.kept: dict[tuple[int, str, Value], cst.CSTNode] = {}
        # all modules and Parameters that some forward made, whether it has ended or not
        self.made_in_forward: set[int] = set()
        # by class (or object) and attribute: who reads a value written earlier; True where it only updates it
        self.reads: dict[tuple[int, str], dict[cst.CSTNode, bool]] = {}
        self.rebinds: list[tuple[AttributeRebound, int]] = []
        self.discarded: set[object] = set()
        # tensors that were reported to be on another device than what they meet, by the same
        self.strays: set[object] = set()
        # what is assigned on a wrapper (its id) around a module that has another of that name; the attributes of
        # wrappers that are read, and those of modules in one that are assigned
        self.wrapper_writes: list[tuple[WrapperAttributeWritten, int, Object]] = []
        self.wrapper_fields: set[tuple[int, str, Condition]] = set()
        # the ids of tensors of which Parameters were made, and attributes that change with a Parameter, by their class
        self.storages: set[int] = set()
        self.shared_parameters: list[tuple[ParameterShared, int]] = []
        # ties of weights, by the id of a module, a name there and the id of the Parameter; of those that were broken
        # the ids of the Parameters
        self.ties: dict[tuple[int, str, int], Tie] = {}
        self.parted: set[int] = set()
        # by the id of a layer or Parameter that a list repeats; the ids of those that containers of torch.nn keep, and
        # of those whose places others take
        self.repeated: dict[int, LayerRepeated] = {}
        self.kept_repeated: set[int] = set()
        self.refilled: set[int] = set()
        # reductions of per-replica losses, and those whose result is divided afterwards
        self.reduced: list[ReplicaLossReduced] = []
        # outputs of DataParallel models that are used as numbers; by what made them, those that the program averages,
        # and those of which it asks how many elements they have
        self.used_as_numbers: list[ReplicaLossUsed] = []
        self.averaged: set[cst.CSTNode] = set()
        self.measured: set[cst.CSTNode] = set()
        self.divided: set[cst.CSTNode] = set()
        # the calls of reveal_placement
        self.revealed: list[Revealed] = []
        self.chosen: list[Chosen] = []
        self.requests: list[Request] = []
        # how tensors are reached that are taken from a GPU to the host
        self.fetched: list[Condition] = []
        # by the node that makes or moves a tensor in a forward: the arguments around it that are tensors as well
        self.inputs: dict[cst.CSTNode, tuple[str, ...]] = {}
        # the wrappers of DistributedDataParallel
        self.in_ddp: list[Object] = []
        # modules beside them, by id, each with its first call; what is trained there, with the ids of what it learns;
        # the program averages something of the kind over the ranks itself
        self.beside_ddp: dict[int, tuple[Object, cst.Call]] = {}
        self.outsiders: list[tuple[TrainedOutsideDdp, frozenset[int]]] = []
        self.reduces_by_hand = False
        # the samplers that ask a process group for the rank, and the DataParallels that believe to be alone
        self.sharing: list[Group] = []
        self.parallels: list[Parallel] = []
        # by class (or object): the attributes that a forward assigns or changes
        self.changed: set[tuple[int, str]] = set()
        # tests of a tensor's device under which it is moved to that very device, and nothing else
        self.moving_tests: set[cst.BaseExpression] = set()
        # the global ranks by whose number something was put on a GPU
        self.ranks_at_work: set[int] = set()
        # plain tensors that replicas add to: as buffers they would be no better
        self.accumulating: set[tuple[int, str]] = set()
        self.shared_changes: list[tuple[SharedTensorChanged, int, frozenset[str]]] = []
        # attributes and items that were read or assigned, at least once, of something else than a wrapper
        self.read_of_others: set[cst.CSTNode] = set()
        self.files: dict[str, list[tuple[Condition, Value, Note]]] = {}
        # by the name of a file, in whichever folder: whether all that the program saves there is on the CPU
        self.saved_on_cpu: dict[str, bool] = {}
        # files and state dicts that went through a call that cannot be looked into, or whose keys the program uses
        self.handled: set[object] = set()
        self.loads: list[tuple[cst.Call, Scene, str, Loaded, bool, bool, StateKey | None]] = []
        # assignments of CUDA_VISIBLE_DEVICES that nothing reads any more, unless another process does
        self.late_restrictions: list[VisibleDevicesLate] = []
        # GPUs named by numbers that are not visible, and where that was first
        self.invisible: dict[int, cst.CSTNode] = {}
        # process groups of several processes, and what uses the current device although nobody set it
        self.groups: list[Group] = []
        self.uses_of_current: list[Use] = []
        # what uses the current device after somebody set it
        self.uses_of_own: set[cst.CSTNode] = set()
        # all processes are given GPUs of their own, by a framework or from outside; those that choose theirs
        self.pinned = False
        self.pinned_processes: set[object] = set()
        # the program leaves it at forking the workers of its loaders; it uses CUDA outside of them
        self.forks = True
        self.uses_cuda = False
        # loads without map_location, those that restore a model or optimizer, and those whose value is kept as it is
        self.unmapped: list[Unmapped] = []
        self.state_loads: set[cst.Call] = set()
        self.kept_loads: set[cst.Call] = set()
        # the program is made for several nodes; the ids of ranks that it computes from the node's number; what uses
        # the rank among all processes as the number of a GPU
        self.several_nodes = False
        self.computed_ranks: set[int] = set()
        # the names of the options by which a launcher tells a process its number on this node
        self.local_ranks: set[str] = set()
        self.global_ranks: dict[int, list[Use]] = {}
        # iterations over what a DistributedSampler shuffles, by the loop around them and the id of the sampler,
        # with the scene where the loader may have another sampler
        self.sampled: dict[cst.For | cst.While, dict[int, tuple[tuple[Note, ...], Scene | None]]] = {}
        # the ids of the samplers whose epoch is set, the loops in which one is, and whether it may be any sampler's
        self.samplers_set: set[int] = set()
        self.loops_setting: set[cst.For | cst.While] = set()
        self.sets_any_epoch = False
        # where ``.device`` of a tensor is read, and moves of leaves whose copies were told to keep their gradients
        self.devices_read: set[cst.CSTNode] = set()
        self.retained: set[cst.CSTNode] = set()
        # by the copy to the host that does not wait: what reads it first
        self.unfinished_reads: dict[cst.CSTNode, cst.CSTNode] = {}
        # how often functions did nothing that has to do with tensors; -1 of those that did, or may
        self.idle: dict[cst.CSTNode, int] = {}
        # the ids of modules that have hooks
        self.hooked: set[int] = set()
        # the ids of packed sequences
        self.packed: set[int] = set()
        # inputs of forwards that some forward packs by, and by parameter of a forward what else is handed there
        self.lengths: set[Input] = set()
        self.handed_on: dict[Input, set[Input]] = {}
        # a Trainer of Lightning wants a GPU
        self.trains_on_gpu = False
        # by statement: what in it first uses CUDA in a worker
        self.in_workers: dict[cst.CSTNode, cst.CSTNode] = {}


def empty_registries() -> dict[str, Any]:
    """Registries in which nothing is noted yet, by name."""
    return vars(Registries())


REGISTRIES = tuple(empty_registries())


def copied(registry: Any) -> Any:
    """What a registry has now."""
    return registry.copy() if isinstance(registry, (dict, list, set)) else registry


def added(before: Any, after: Any) -> Any:
    """What a registry has that it had not; nothing is ever taken out of one that it has had for long."""
    if isinstance(after, list):
        return after[len(before) :]
    if isinstance(after, set):
        return after - before
    if isinstance(after, dict):
        return {key: entry for key, entry in after.items() if key not in before}
    return after if after != before else None


def with_entries(registry: Any, entries: Any) -> Any:
    """The same registry, with what is to be noted in it as well."""
    if isinstance(registry, list):
        registry.extend(entries)
    elif isinstance(registry, set):
        registry.update(entries)
    elif isinstance(registry, dict):
        for key, entry in entries.items():
            if isinstance(entry, (list, set, dict)):
                with_entries(registry.setdefault(key, type(entry)()), entry)
            else:
                registry.setdefault(key, entry)
    else:
        return entries
    return registry
