"""The events of the flow analysis, input of the rules: they happen in the program, and carry the values concerned.

An event carries concrete values, never a choice: for a value with alternatives there is one event per alternative, with
the condition in its scene. Labels are the program's own names for values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import libcst as cst

from placement_lint.flow.domain.path_condition import ALWAYS, Condition
from placement_lint.flow.domain.record import record, replace
from placement_lint.flow.domain.values import Holder, Place, StateDict, Tensor, guard_of, is_other_accelerator
from placement_lint.project.saved_states import StateFile
from placement_lint.rule import Note
from placement_lint.source.wording import quoted, source_text


@record(frozen=True)
class Scene:
    """Where and when an event happens.

    ``reach`` is the condition under which the statement is executed at all, ``when`` the one under which it is
    executed with these very values. ``visit`` is the same for all alternatives of one execution.
    """

    reach: Condition
    when: Condition
    visit: int
    # for code of another file that is not a module class: the call, in such a class or in the program's file, that led
    # there
    site: cst.CSTNode | None = None
    # notes on the DataParallel wrapper in whose replica this runs, and on the call that started it
    replica: tuple[Note, ...] = ()
    # a class or function analysed by itself, without a caller
    standalone: bool = False
    # the literal ``device_ids`` of that wrapper, empty if they are not given or unknown
    replica_ids: tuple[object, ...] = ()
    # the calls that are running, outermost first
    calls: tuple[cst.CSTNode, ...] = ()
    # the parameters of the function that the innermost of them runs; a scene outlives an edit of the function's body,
    # which makes another node of the function
    function: cst.CSTNode | None = None
    # how the program reaches each of the calls
    entered: tuple[Condition, ...] = ()
    # the name of the class or function that is analysed by itself, and that of its method
    entry: tuple[cst.CSTNode, ...] = ()
    # the part of ``when`` that chooses these values, as far as it is known
    decided: Condition = ALWAYS

    @property
    def called_on(self) -> Condition:
        """How the program reaches the innermost call."""
        return self.entered[-1] if self.entered else ALWAYS

    @property
    def is_entry(self) -> bool:
        """Whether it is in a function that is analysed by itself, and not in one that this calls."""
        return self.standalone and len(self.calls) == 1

    def reach_of(self, node: cst.CSTNode) -> Condition:
        """How the program reaches one of the calls, or else the statement."""
        return self.entered[self.calls.index(node)] if node in self.calls else self.reach


@dataclass(frozen=True)
class Event:
    node: cst.CSTNode
    scene: Scene
    # each execution to which it applies has an event of its own, so that an execution without one is right
    each_time: ClassVar[bool] = False
    # the exceptions that the program raises there
    raises: ClassVar[tuple[str, ...]] = ()

    @property
    def holder(self) -> Holder | None:
        """The attribute of a module that the event is about, if any."""
        return None


@dataclass(frozen=True)
class MoveDiscarded(Event):
    """A statement moves a tensor and drops the moved copy."""

    label: str
    method: str
    tensor: Tensor
    target: Place
    # an assignment to the receiver, at this statement, would affect later reads
    assignable: bool
    # whether the moved value is more than the result of another call
    named: bool = True


@record(frozen=True)
class Operand:
    """One side of an operation: a tensor as the program names it, or the parameters of a module."""

    source: str | cst.CSTNode
    tensor: Tensor
    # the attribute of an unregistered list or dict through which the module was reached
    unregistered: bool = False
    # the parameters of the module that ``source`` names, rather than a tensor of that name
    whole: bool = False
    # the class of that module, if it is a library's
    layer: str = ""
    # an item of the list or tuple that ``source`` names
    inside: bool = False
    # the operation writes its result into this tensor: a 0-dim one on the CPU is no exception then
    output: bool = False

    @property
    def not_registrable(self) -> Operand:
        """The same operand, whose holder should not become a buffer, because that would be wrong as well."""
        holder = replace(self.tensor.holder, registrable=False) if self.tensor.holder else None
        return replace(self, tensor=replace(self.tensor, holder=holder))

    @property
    def named(self) -> str:
        """The operand in a sentence."""
        text = quoted(source_text(self.source))
        return f"the parameters of {text}" if self.whole else text

    @property
    def verb(self) -> str:
        return "are" if self.whole else "is"


@dataclass(frozen=True)
class DevicesMixed(Event):
    """An operation takes tensors of provably different devices: ``stray`` is the one out of place."""

    each_time = True
    raises = ("RuntimeError",)
    operation: str
    stray: Operand
    home: Operand
    # whether a module's forward is running, and where that module was moved or wrapped, if known
    in_forward: bool
    moved: Note | None
    # the program's own name, valid here, for the device of ``home``; empty if it has none
    home_name: str = ""
    # arguments that were surely tensors where ``stray`` was made or moved: those of that function
    inputs: tuple[str, ...] = ()
    # whether an option of the command line decides the device of ``home``
    by_option: bool = False
    # no forward made or moved ``stray``: it came from outside
    brought: bool = False
    # under another condition the module registers the value that it keeps as ``stray``: then it moves with the module
    else_registered: bool = False
    # such tensors meet in the operation where no test for CUDA left one of them
    anyway: bool = False

    @property
    def holder(self) -> Holder | None:
        return self.stray.tensor.holder

    @property
    def guarded(self) -> Operand | None:
        """The operand that a test for CUDA left where it is, because the accelerator is another one."""
        both = (self.stray, self.home)
        if self.anyway or not any(is_other_accelerator(one.tensor.place) for one in both):
            return None
        return next((one for one in both if guard_of(one.tensor.place) is not None), None)

    @property
    def moves(self) -> tuple[Note, ...]:
        return (self.moved,) if self.moved else ()

    @property
    def seen_moving(self) -> bool:
        """Whether the program runs this on a GPU, or moves the module there."""
        return not self.scene.standalone or self.moved is not None


@dataclass(frozen=True)
class FirstDeviceMissed(Event):
    """A DataParallel over several devices is called while its module is not on the first of them.

    ``node`` is the call that constructed the wrapper.
    """

    raises = ("RuntimeError",)
    label: str
    wrapper: str
    # the literal ``device_ids``, empty if they are not given or unknown
    ids: tuple[object, ...]
    first: Place
    place: Place
    placed: Note | None
    called: Note


@dataclass(frozen=True)
class WrapperAttributeRead(Event):
    """A name that the wrapper does not have is read from it.

    For ``model[0]``, ``for layer in model`` and ``len(model)`` it is the special method that Python looks up; for the
    last two the node is the wrapper itself.
    """

    each_time = True
    label: str
    wrapper: str
    name: str
    wrapped: Note
    # the read object is a wrapper in every read here
    always: bool = False


@dataclass(frozen=True)
class WrapperAttributeWritten(Event):
    """An attribute is assigned on a wrapper whose module reads another one, its own of that name.

    ``part`` if it is a layer or a Parameter, ``missing`` if the module has none; ``reads`` are the module's own.
    """

    label: str
    wrapper: str
    name: str
    wrapped: Note
    part: bool
    missing: bool
    reads: tuple[Note, ...] = ()
    # the assigned object is a wrapper in every assignment here
    always: bool = False

    @property
    def owner(self) -> str:
        return self.label.rpartition(".")[0]


@dataclass(frozen=True)
class WrappedTwice(Event):
    """The wrapped module is already a wrapper: ``node`` is the second wrapping, or the one that a loop repeats."""

    label: str
    wrapper: str
    already: str
    first: Note
    repeated: bool


@dataclass(frozen=True)
class DdpModuleChanged(Event):
    """A module in DDP trains after a change that DDP does not know of. ``node`` is the change.

    ``how`` is ``moved``, ``converted``, ``assigned`` (by ``load_state_dict``), ``replaced``, ``frozen``, ``trainable``,
    or the name of the operation; ``what`` are the source and target of the change, or its object.
    """

    label: str
    how: str
    what: str
    trace: tuple[Note, ...]


@dataclass(frozen=True)
class DdpBypassed(Event):
    """A training step calls a module that is in DDP, or a part of it, instead of the wrapper. ``node`` is the call.

    ``instead`` is the object to call, if the whole module was called.
    """

    label: str
    trace: tuple[Note, ...]
    instead: str


@dataclass(frozen=True)
class TrainedOutsideDdp(Event):
    """An optimizer trains a module outside of DDP that takes part in the backward of one. ``node`` calls the module.

    ``kind`` is its class; for a Parameter by itself ``label`` is empty, and ``node`` makes it.
    """

    label: str
    kind: str
    wrapper: str
    optimizer: str
    trace: tuple[Note, ...]


@dataclass(frozen=True)
class ParallelInGroup(Event):
    """A DataParallel over several GPUs is built in a process that is one of several.

    ``ddp`` is this file's name for DistributedDataParallel, ``rank`` the variable with the index of the GPU; each is
    empty if there is none.
    """

    each_time = True
    label: str
    started: Note
    ddp: str
    rank: str


@dataclass(frozen=True)
class BareModuleRead(Event):
    """``.module`` is read from a module that is not wrapped and has no such attribute."""

    each_time = True
    label: str
    cls: str
    wrapped: tuple[Note, ...]


@dataclass(frozen=True)
class StateLoaded(Event):
    """A state dict that this program saved or took, or that another program saves, is loaded into a module."""

    label: str
    state: StateDict
    # the prefix of the module's own keys
    into: str
    strict: bool
    trace: tuple[Note, ...]
    # the number of characters by which the program shortened the keys before; None if it did not rename them
    shortened: int | None = None
    # where the state dict is, if another program saves it
    elsewhere: StateFile | None = None


@record(frozen=True)
class SavedThere:
    """A state dict that the program saves: ``nodes`` take it, if that is known, and save it.

    The ``option``, in words, decides between it and others that are saved there; empty if none does.
    """

    state: StateFile
    nodes: tuple[cst.CSTNode, ...]
    standalone: bool
    on_cpu: bool
    option: str


@dataclass(frozen=True)
class ReplicaLossUsed(Event):
    """The vector of per-replica losses is used as if it were one number.

    ``use`` is the method or builtin that requires a number, or ``format``; ``source`` the expression of the loss.
    """

    each_time = True
    raises = ("RuntimeError", "ValueError")
    source: cst.CSTNode
    how: str
    use: str
    tensor: Tensor

    @property
    def label(self) -> str:
        return source_text(self.source)


@dataclass(frozen=True)
class ReplicaLossReduced(Event):
    """The vector of per-replica losses is reduced: ``how`` is ``sum`` or ``mean``."""

    label: str
    how: str
    tensor: Tensor


@dataclass(frozen=True)
class Returned:
    """An expression in a ``return`` statement, or all of it, and the type of its value, which is not a tensor."""

    node: cst.BaseExpression
    type: str


@dataclass(frozen=True)
class PrecisionLost(Event):
    """Autocast around a DataParallel call, at ``node``, requests a ``dtype`` that its replicas do not compute in.

    ``layer`` is the call of a layer that does not.
    """

    dtype: str
    layer: cst.CSTNode


@dataclass(frozen=True)
class NonTensorReturned(Event):
    """The forward of a DataParallel model returns a value from which its outputs cannot be gathered."""

    returned: tuple[Returned, ...]
    # arguments of the forward that are surely tensors, and this file's name for ``torch.tensor``
    inputs: tuple[str, ...]
    maker: str


@dataclass(frozen=True)
class BatchMisplaced(Event):
    """In a replica the batch is not in the dimension that an operation expects.

    ``what`` is ``input`` of a layer (``node`` wraps the model), ``state``, which was an argument of the call
    (``node``), or ``output`` (``node`` is returned by forward). ``layer`` is the class of the layer, if there is one.
    """

    what: str
    label: str
    layer: str
    # the dimension along which DataParallel splits and gathers, and the one that counts here
    split: int
    dim: int
    trace: tuple[Note, ...]


@dataclass(frozen=True)
class NotBatched(Event):
    """An argument of a DataParallel call is split although its first dimension is not the batch's, or it has none.

    ``rows`` is its first size, None if it is 0-dim; ``batch`` the number of rows of the others, if it is known.
    """

    call: cst.CSTNode
    label: str
    rows: int | None
    batch: int | None
    keyword: bool
    history: tuple[Note, ...]


@dataclass(frozen=True)
class KeywordAlone(Event):
    """A DataParallel call whose keyword arguments make replicas for which there are no rows. ``node`` is the call.

    ``keyword`` is one of the keyword arguments, which are not tensors; ``label`` is a batch of ``rows`` rows, which may
    be the ``last`` of a loader. ``names`` are the names of the forward's positional parameters.
    """

    label: str
    # zero if it is the last batch of unknown data
    rows: int
    last: bool
    keyword: str
    names: tuple[str, ...]
    # the literal ``device_ids`` of the wrapper, empty if they are not given or unknown
    ids: tuple[object, ...]


@dataclass(frozen=True)
class PackingMisused(Event):
    """A packed sequence is used with DataParallel, which does not support it.

    ``what`` is ``argument`` (``node`` is a PackedSequence that a wrapper is called with), ``lengths`` (it is on a GPU)
    or ``output`` (``node`` pads to the longest sequence in one replica, and ``label`` is returned).
    """

    what: str
    label: str
    trace: tuple[Note, ...]


@dataclass(frozen=True)
class ChunkUsed(Event):
    """A value that a hook keeps in a replica is used as if it came from the whole batch. ``node`` registers the hook.

    ``ids`` are the literal ``device_ids`` of the wrapper, empty if they are not given or unknown.
    """

    label: str
    ids: tuple[object, ...]
    trace: tuple[Note, ...]


@dataclass(frozen=True)
class AliasUsed(Event):
    """A replica computes with the original's weights, reached through an attribute. ``node`` assigned the attribute.

    ``how`` describes the content of the attribute, ``read`` is where the replica read it, ``method`` the name of a
    bound method; ``registering`` as in UnregisteredUsed.
    """

    owner: str
    name: str
    how: str
    read: cst.CSTNode
    method: str
    used: Note
    registering: str


@dataclass(frozen=True)
class ParametersRead(Event):
    """``parameters()`` or a similar method is called on a module while a replica runs."""

    label: str
    method: str


@dataclass(frozen=True)
class AttributeRebound(Event):
    """A replica assigns to an attribute of its module: the assignment is lost with the replica."""

    label: str
    name: str
    # later reads of the attribute: the value that the program misses
    reads: tuple[Note, ...]
    buffer: bool


@dataclass(frozen=True)
class SharedTensorChanged(Event):
    """A replica changes, in place, a buffer of its module or a tensor that is a plain attribute of it."""

    label: str
    name: str
    buffer: bool
    # the new value depends on the rows of the replica
    from_batch: bool


@dataclass(frozen=True)
class SharedContainerChanged(Event):
    """A replica puts tensors into a list, set or dict of its module; ``how`` is the method, or ``[]=``."""

    label: str
    name: str
    container: str
    how: str


@dataclass(frozen=True)
class ParameterLost(Event):
    """A tensor computed from a Parameter is stored in the Parameter's intended place, or ``replaces`` the Parameter."""

    label: str
    name: str
    tensor: Tensor
    replaces: bool


@dataclass(frozen=True)
class ParameterShared(Event):
    """Two attributes of a module are in the same memory, and one of them is changed. ``node`` made the Parameter.

    ``name`` is the Parameter's attribute, ``changed_name`` the one that is changed, and ``other`` the one that changes
    with it, which is read at ``reads``; ``both`` if both are Parameters.
    """

    name: str
    changed_name: str
    other: str
    both: bool
    changed: Note
    reads: tuple[Note, ...] = ()


@dataclass(frozen=True)
class LayerRepeated(Event):
    """A container of torch.nn gets one layer or Parameter many times. ``node`` multiplies the list with it.

    ``items`` is that list or tuple, ``times`` the factor; ``kind`` is the class of the layer.
    """

    items: cst.List | cst.Tuple
    times: cst.BaseExpression
    kind: str


@dataclass(frozen=True)
class TieBroken(Event):
    """An optimizer trains one Parameter with several names as separate ones. ``node`` gave each name a new one.

    ``how`` is ``materialized``, ``converted``, ``moved to XLA`` or ``assigned`` (by ``load_state_dict``); ``tied`` is
    the statement that tied them.
    """

    how: str
    tied: cst.CSTNode
    optimizer: str
    stepped: Note


@dataclass(frozen=True)
class UnregisteredUsed(Event):
    """A module or Parameter that only a plain list or dict of its owner holds takes part in forward.

    ``node`` is the statement that stored the container.
    """

    owner: str
    name: str
    container: str
    content: str
    used: Note
    # where the owner was moved or wrapped; None if it never was
    moved: Note | None
    # this file's name for the container of torch.nn that could be used instead; empty if none could
    registering: str = ""
    held_by: Holder | None = None

    @property
    def holder(self) -> Holder | None:
        return self.held_by


@dataclass(frozen=True)
class MadeInForward(Event):
    """Each call of a forward makes a new module or Parameter and computes with it. ``kept``: and stores it."""

    cls: str
    kept: bool


@dataclass(frozen=True)
class OptimizerStale(Event):
    """An optimizer steps after its parameters were replaced. ``node`` is the replacement.

    ``how`` is ``replaced``, ``assigned`` (by ``load_state_dict``), ``succeeded`` (by another model) or ``copied``; or
    the operation on the whole model: the name of a function of torch, ``materialized`` if it had no data before,
    ``converted`` if conversions are set to make new Parameters, ``made in forward`` if the first call adds to the
    model, ``unfrozen`` if parameters that the optimizer excluded as frozen require gradients again.
    """

    optimizer: str
    cls: str
    replaced: str
    how: str
    built: Note
    stepped: Note
    # from the statement that builds the optimizer to the last replacement, if they follow each other in a block
    statements: tuple[cst.CSTNode, ...] = ()


@dataclass(frozen=True)
class SchedulerOutlived(Event):
    """A scheduler steps whose optimizer no longer trains. ``node`` is the statement that replaced the optimizer."""

    scheduler: str
    optimizer: str
    built: Note
    stepped: Note


@dataclass(frozen=True)
class OptimizerMisses(Event):
    """A loss depends on trainable parameters that no optimizer holds. ``node`` builds the one that steps.

    ``missed`` names the module that has them; it is empty for a single Parameter. An optimizer ``before`` this one held
    them.
    """

    optimizer: str
    missed: str
    made: cst.CSTNode
    stepped: Note
    before: Note | None = None


@dataclass(frozen=True)
class GroupsMiss(Event):
    """An optimizer is given most parts of a model, by themselves or by the names of parameters, but not these.

    ``node`` builds the optimizer.
    """

    optimizer: str
    parts: str
    stepped: Note


@dataclass(frozen=True)
class ParameterReadAsData(Event):
    """A forward reads a Parameter of its module, which requires gradients, only through ``.data``."""

    label: str


@dataclass(frozen=True)
class GradientLost(Event):
    """A forward cuts a value off the graph; the parameters before it are in an optimizer, but no backward reaches them.

    ``node`` is the cut, ``how`` the operation.
    """

    text: str
    how: str
    optimizer: str
    backward: Note
    stepped: Note


@dataclass(frozen=True)
class GradientsOfCopyClipped(Event):
    """A model or its copy gets gradients, but ``node`` clips those of the other one.

    ``how`` is the function, ``label`` its argument, ``trained`` the other, and ``name`` a variable that holds it.
    """

    label: str
    trained: str
    how: str
    name: str
    copied: Note


@dataclass(frozen=True)
class NonLeafOptimized(Event):
    """An optimizer gets a tensor that was computed from the intended leaf; ``made`` is the computation."""

    label: str
    how: str
    made: cst.CSTNode


@dataclass(frozen=True)
class OptimizerEmpty(Event):
    """An optimizer gets a list without items, which ``made`` creates; ``filtered`` if its tests exclude all tensors."""

    label: str
    made: cst.CSTNode
    filtered: bool


@dataclass(frozen=True)
class GeneratorExhausted(Event):
    """``use``, or a ``loop``, reads the parameters from a generator that is exhausted; ``maker`` made it."""

    label: str
    use: str
    maker: cst.CSTNode
    consumed: Note
    loop: Note | None = None


@dataclass(frozen=True)
class OptimizerStateStranded(Event):
    """An optimizer's state stays where its parameters were. ``node`` is the statement out of order."""

    optimizer: str
    cls: str
    reason: str  # "built", "stepped" or "loaded"
    module: str
    source: Place
    target: Place
    trace: tuple[Note, ...]


@dataclass(frozen=True)
class CudaRequested(Event):
    """CUDA is requested explicitly by a program that elsewhere chooses its device.

    ``node`` is the request, or the literal that reaches it through a variable or an argument, which is ``used`` there.
    """

    how: str
    choice: Note
    choice_text: str
    used: Note | None = None
    # ``choice_text``, if it is a device that has this name here too
    device: str = ""
    # it names no device that could be replaced by the chosen one
    fixed: bool = False


@dataclass(frozen=True)
class CpuRefused(Event):
    """A call that only takes GPUs gets the CPU: by ``given``, which is a ``number`` if it comes from a tensor."""

    each_time = True
    given: cst.BaseExpression
    number: bool


@dataclass(frozen=True)
class HostRead(Event):
    """The memory of a tensor on another device is read on the host."""

    each_time = True
    raises = ("TypeError",)
    source: str | cst.CSTNode
    how: str
    tensor: Tensor
    # the tensor is an item of the value that ``source`` names
    inside: bool
    # the same is read where no test for CUDA left the tensor
    anyway: bool = False

    @property
    def label(self) -> str:
        return source_text(self.source)

    @property
    def guard(self) -> cst.CSTNode | None:
        """The test for CUDA that left the tensor on another accelerator."""
        return guard_of(self.tensor.place) if is_other_accelerator(self.tensor.place) and not self.anyway else None


@dataclass(frozen=True)
class GradFlagAssigned(Event):
    """``requires_grad``, or a misspelling, is assigned on a tensor, or on a module, which has no such attribute."""

    label: str
    owner: str
    name: str
    value: str
    on_module: bool
    # a tensor whose flag may be assigned: it was not computed from others
    leaf: bool
    # the flag that the tensor, or all parameters of the module, had until then; None if that is unknown
    before: bool | None


@dataclass(frozen=True)
class Rumoured(Event):
    """Correct code that is often claimed to be wrong; ``claim`` is one of the claims in rumours.py."""

    claim: str
    label: str
    optimizer: str = ""
    wrapper: str = ""


@dataclass(frozen=True)
class DeviceIdsInvalid(Event):
    """DataParallel gets ``device_ids`` or an ``output_device`` that it cannot use, or that are not as intended.

    ``fault`` is ``empty``, ``number``, ``text``, ``device``, ``no device``, ``cpu``, ``cpu output``, ``repeated``,
    ``invisible`` or ``output elsewhere``.
    """

    fault: str
    # as plain data, for code that prints or tests them
    ids: object
    output: object
    # the list of visible devices, if the program sets it
    visible: tuple[str, ...] = ()
    trace: tuple[Note, ...] = ()


@dataclass(frozen=True)
class DistributedArgumentsInvalid(Event):
    """DistributedDataParallel gets devices that do not fit its module.

    ``fault`` is ``number``, ``several``, ``module on the CPU``, ``another GPU``, ``current device`` or
    ``output alone``.
    """

    fault: str
    label: str
    ids: object
    output: object
    place: Place | None = None
    trace: tuple[Note, ...] = ()


@dataclass(frozen=True)
class VisibleDevicesLate(Event):
    """``CUDA_VISIBLE_DEVICES`` is set after the driver has read it."""

    touched: Note


@dataclass(frozen=True)
class InvisibleDevice(Event):
    """GPUs are named by numbers that ``CUDA_VISIBLE_DEVICES`` hides."""

    how: str
    indices: tuple[int, ...]
    visible: tuple[str, ...]
    set_here: Note
    # the value that the program uses both as the list and as the number, or as ``several`` numbers; the others are an
    # example of it
    given: str = ""
    several: bool = False


@dataclass(frozen=True)
class CurrentDeviceUnset(Event):
    """The ranks of a process group all use the current device, which no code set: the first GPU."""

    how: str
    trace: tuple[Note, ...]


@dataclass(frozen=True)
class MoveOnNonMovable(Event):
    """``to`` or ``cuda`` is called on something that has no such method."""

    label: str
    method: str
    kind: str
    # the device as the program writes it, and this file's name for torch.is_tensor; empty if there is none
    device: str
    is_tensor: str
    # the call is a statement of its own
    dropped: bool


@dataclass(frozen=True)
class CudaInWorker(Event):
    """A worker process of a DataLoader, forked from this one, uses CUDA.

    ``loader`` makes the workers; ``initialised`` if the program uses CUDA itself.
    """

    how: str
    loader: Note
    initialised: bool = False
    trace: tuple[Note, ...] = ()


@dataclass(frozen=True)
class LoaderMisplaced(Event):
    """A DataLoader or a split cannot work with the devices of the tensors or generators.

    ``fault`` is ``pinned``, ``default device`` or ``generator``.
    """

    fault: str
    place: Place
    trace: tuple[Note, ...] = ()


@dataclass(frozen=True)
class LoadedWhereSaved(Event):
    """``torch.load`` restores a checkpoint's tensors to their original device, in a program that also runs elsewhere.

    ``why`` is ``choice`` (the program chooses its device) or ``ranks`` (every process loads it).
    """

    file: str
    why: str
    reason: Note
    choice_text: str
    # the value goes into ``load_state_dict`` and nowhere else
    only_state: bool
    # what is known of the name of the file
    name: str = ""


@dataclass(frozen=True)
class GlobalRankUsed(Event):
    """The rank among all processes names a GPU, in a program made for several nodes."""

    label: str
    # this file's name for os.environ; empty if there is none
    environ: str
    trace: tuple[Note, ...]
    # the program computes it from the number of the node, which it receives from outside
    computed: bool = False


@dataclass(frozen=True)
class SamplerMisused(Event):
    """What is wrong with the order of a loader's samples.

    ``fault`` is ``no epoch`` (the same order each time), ``class`` (for a dataset), ``shuffled`` (twice), or
    ``no share`` (each process goes through all of the data).
    """

    fault: str
    trace: tuple[Note, ...] = ()


@dataclass(frozen=True)
class GradientOfCopyRead(Event):
    """``.grad`` is read from a tensor that was moved away from the leaf that has the gradient."""

    label: str
    place: Place
    moved: cst.CSTNode
    trace: tuple[Note, ...]


@dataclass(frozen=True)
class UnfinishedCopyRead(Event):
    """A non-blocking copy to the host is read before anything has waited for it."""

    label: str
    how: str
    copied: Note


@dataclass(frozen=True)
class DeviceNeverEqual(Event):
    """The device of a tensor, or a ``torch.device``, is compared with a value that it never equals."""

    tested: cst.CSTNode
    other: cst.CSTNode
    # the other is a string, not a device
    text: bool
    identity: bool
    of_tensor: bool
    # the device is built in the comparison itself
    spelled_out: bool


@dataclass(frozen=True)
class Revealed(Event):
    """``reveal_placement(label)``, and the ``known`` facts about the value, in words."""

    label: str
    known: str
