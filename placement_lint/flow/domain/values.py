"""Abstract values: the facts that the analysis tracks about a Python value, as small frozen objects.

State that changes over time (the device of a module, the value of an attribute) is in the store, keyed by
the identity of an :class:`Object` or :class:`Symbol`; the values themselves are immutable.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from enum import Enum, IntEnum, auto
from typing import TypeAlias

import libcst as cst

from placement_lint.flow.domain.path_condition import ALWAYS, NEVER, Condition, any_of
from placement_lint.flow.domain.record import record, replace
from placement_lint.rule import Note
from placement_lint.source.wording import source_text

# A value with more alternatives than this is widened to a symbol, about which rules report nothing.
MAX_ALTERNATIVES = 8
# The limit for functions and classes, as in a dispatch table: they mostly return similar values.
MAX_CALLABLES = 24


@record(frozen=True)
class Const:
    """A literal. ``1``, ``1.0`` and ``True`` are different constants here.

    For a constant that names an accelerator, ``written`` is the expression in the program.
    For the answer to a test for CUDA, and for a device that such a test chooses, ``guard`` is the test.
    """

    value: object
    written: cst.BaseExpression | None = field(default=None, compare=False)
    guard: cst.CSTNode | None = field(default=None, compare=False)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Const) and type(self.value) is type(other.value) and self.value == other.value

    def __hash__(self) -> int:
        return hash((type(self.value), self.value))


# The rows of a loader's last batch if the size of its data is unknown: at least one.
REST = 0


@record(frozen=True)
class Symbol:
    """A value that is unknown but equal to itself: an argument, ``args.device``, the result of an unanalysed call."""

    id: int
    source: str | cst.CSTNode = field(default="", compare=False)
    # the value of which this symbol is an attribute: if the program treats the root as a module, this may be one
    parent: Symbol | Object | None = field(default=None, compare=False)
    # the known Python type: ``float``, ``str``, ``torch.Size``; empty if unknown
    type: str = field(default="", compare=False)
    # a number that depends on the rows of a batch that DataParallel scattered
    scattered: bool = field(default=False, compare=False)
    # for a command-line option: its default value
    preferred: Const | None = None
    # of a text that is known in part, its letters (:mod:`placement_lint.flow.domain.partial_text`)
    letters: str = field(default="", compare=False)

    @property
    def text(self) -> str:
        """The source text of the value."""
        return source_text(self.source)


# The type of the result of ``parse_args``.
NAMESPACE = "argparse.Namespace"


def is_option(symbol: Symbol) -> bool:
    """Whether a value comes from the command line, or is a setting that may be overridden."""
    root: Symbol | Object | None = symbol
    while isinstance(root, Symbol) and root.preferred is None and root.parent is not None:
        root = root.parent
    return isinstance(root, Symbol) and (root.preferred is not None or root.type == NAMESPACE)


@record(frozen=True)
class AtLeast:
    """An integer with a known lower bound: ``torch.cuda.device_count()`` on a machine with several GPUs."""

    bound: int


@record(frozen=True)
class Device:
    """A device for tensors.

    ``kind`` is a torch device type, or one of two symbolic devices of the analysis: ``replica`` (the GPU of the running
    DataParallel replica) and ``own`` (the device of the analysed module).
    ``index`` is None for "the current device", and a Symbol for an index that is unknown but equal to itself.
    ``written`` is the literal that names it, if there is one. ``guard`` is the test for CUDA that left something there.
    ``built`` is set for a ``torch.device``, which equals no text, and not for a text or number that names a device.
    ``found`` is set for the device of something that is there already: that the program chooses where it puts it.
    """

    kind: str
    index: int | Symbol | None = None
    written: cst.BaseExpression | None = field(default=None, compare=False)
    guard: cst.CSTNode | None = field(default=None, compare=False)
    built: bool = field(default=False, compare=False)
    found: bool = field(default=False, compare=False)

    def __str__(self) -> str:
        if self.index is None:
            return self.kind
        index = self.index.text if isinstance(self.index, Symbol) else str(self.index)
        return f"{self.kind}:{index}" if index else self.kind


# Kinds of device with separate memory: an operation with one operand there and one on the CPU raises.
ACCELERATORS = frozenset({"cuda", "mps", "xpu", "npu", "hpu", "xla"})
# Those for which a test for CUDA is false.
OTHER_ACCELERATORS = ACCELERATORS - {"cuda"}

CPU = Device("cpu")
REPLICA = Device("replica")
OWN = Device("own")

Place: TypeAlias = "Device | Symbol"
"""The device of a tensor, or a symbol for a device that is unknown but equal to itself."""


def describe(place: Place) -> str:
    """The description of a place in a message."""
    if isinstance(place, Symbol):
        return f"`{place.text}`" if place.text else "an unknown device"
    return {
        "cpu": "the CPU",
        "replica": "the replica's GPU",
        "own": "the module's device",
        "cuda": str(place),
    }.get(place.kind, str(place))


def is_other_accelerator(place: Place) -> bool:
    """Whether a place is an accelerator for which a test for CUDA is false."""
    return isinstance(place, Device) and place.kind in OTHER_ACCELERATORS


def guard_of(place: Place) -> cst.CSTNode | None:
    """The test for CUDA that left something there."""
    return place.guard if isinstance(place, Device) else None


_NOT_ON_HOST = ACCELERATORS | {"replica", "own"}


class Comparison(Enum):
    SAME = auto()
    DIFFERENT = auto()
    UNKNOWN = auto()


def compare(one: Place, other: Place) -> Comparison:
    """Whether two places are provably the same or provably different."""
    if one == other:
        return Comparison.SAME
    if isinstance(one, Symbol) or isinstance(other, Symbol):
        return Comparison.UNKNOWN
    kinds = {one.kind, other.kind}
    if kinds == {"replica", "cuda"}:
        # Some replica is on another GPU than the indexed one.
        indexed = one.index if one.kind == "cuda" else other.index
        return Comparison.DIFFERENT if isinstance(indexed, int) else Comparison.UNKNOWN
    if "cpu" in kinds and not kinds.isdisjoint(_NOT_ON_HOST):
        return Comparison.DIFFERENT
    if len(kinds) == 1 and isinstance(one.index, int) and isinstance(other.index, int):
        return Comparison.DIFFERENT
    if len(kinds) == 1 and {one.index, other.index} == {None, 0}:
        # The current device is the first one unless the program sets another.
        return Comparison.SAME
    return Comparison.UNKNOWN


class Role(Enum):
    PLAIN = "tensor"
    PARAMETER = "parameter"
    BUFFER = "buffer"
    BATCH = "batch"  # directly from a loader; it may be a nested structure of tensors
    INPUT = "input"  # an argument of a forward; assumed to be on the module's device


class Source(Enum):
    """The kind of operation that put a tensor on its device."""

    UNKNOWN = auto()
    FACTORY = auto()  # torch.zeros(3)
    FACTORY_IN_FORWARD = auto()  # the same while a module's forward runs
    FACTORY_ON_DEVICE = auto()  # torch.zeros(3, device=d)
    LOADER = auto()
    MOVE = auto()
    MODULE = auto()  # computed by a module, or a parameter of one


@record(frozen=True)
class Holder:
    """The attribute of a module from which a tensor was read, and the statement that assigned it.

    For a value in a plain container, ``container`` is its type and ``content`` is ``module`` or ``parameter``.
    """

    owner: Object
    name: str
    node: cst.CSTNode
    container: str = ""
    content: str = ""
    # at that statement the module could register the value
    registrable: bool = False


@record(frozen=True)
class Alias:
    """An attribute through which a replica reaches the original module instead of itself.

    ``node`` is the statement that assigned it, ``read`` the expression by which a replica reads it; ``how`` is the kind
    of its value: ``list``, ``tuple``, ``dict``, ``bound method`` (with the name ``method``), ``lambda`` or ``partial``.
    """

    owner: Object
    name: str
    node: cst.CSTNode
    how: str
    read: cst.CSTNode
    method: str = ""


@record(frozen=True)
class Lost:
    """The operation that turned a Parameter into an ordinary tensor, with the Parameter's place and identity."""

    how: str
    node: cst.CSTNode
    place: Place
    uid: int


@record(frozen=True)
class Cut:
    """A detached value: the node, how it was detached, and the modules and Parameters that get no gradient."""

    node: cst.CSTNode
    how: str
    behind: frozenset[int]


@record(frozen=True)
class Chunk:
    """A replica's part of a batch that a hook kept; ``hook`` is its registration, the rest the replica's notes and ids.

    It is valid until a module is called without a wrapper; ``since`` is the time at which it was kept.
    """

    hook: cst.Call
    replica: tuple[Note, ...]
    ids: tuple[object, ...]
    since: Value


@record(frozen=True)
class Loss:
    """What is known of a tensor as a loss: how it was reduced over the batch, and gathered from replicas."""

    # "mean" or "sum": the reduction over the batch
    reduction: str | None = None
    # a vector of such losses, one per replica, that DataParallel gathered
    per_replica: bool = False
    # the identity of what the call that gathered it returned
    output: int = field(default=0, compare=False)
    # the call of a DataParallel model that gathered it, or an expression that reads an item of the result, if the shape
    # is unknown: it has at least one element per replica
    gathered: cst.CSTNode | None = None
    # for such a vector: whether some batch is split into chunks of different sizes
    uneven: bool = False
    # the call that reduced such a vector to this number
    reduced: cst.CSTNode | None = field(default=None, compare=False)


@record(frozen=True)
class Leaf:
    """Whether a tensor is a leaf that requires gradients, or comes from one."""

    requires_grad: bool = False
    # the operation that computed the tensor from such a leaf
    computed: Lost | None = None
    # the move that copied it from such a leaf: the leaf gets the gradient, not the copy
    copied: cst.CSTNode | None = None


@record(frozen=True)
class Backward:
    """What a backward from a tensor reaches."""

    # the Parameters used outside of module calls
    parameters: frozenset[int] = field(default=frozenset(), compare=False)
    # all modules and Parameters, None if unknown; and the cuts before the tensor
    reached: frozenset[int] | None = None
    cuts: frozenset[Cut] = field(default=frozenset(), compare=False)
    # the ids of the DDP wrappers through which it was computed, and the calls that bypassed one (its id, the call)
    synced: frozenset[int] = frozenset()
    unsynced: frozenset[tuple[int, cst.CSTNode]] = frozenset()


@record(frozen=True)
class InReplica:
    """What is known of a tensor while a replica of DataParallel runs."""

    # the batch dimension, along which DataParallel split it
    split: int | None = None
    # the call that padded it to the longest sequence of this replica
    padded: cst.CSTNode | None = field(default=None, compare=False)
    # the chunk that a hook kept
    chunk: Chunk | None = field(default=None, compare=False)
    # the attribute of its module that shares memory with it, or from which a move copied it
    memory: Holder | None = field(default=None, compare=False)
    copied: Holder | None = field(default=None, compare=False)


class Mixed(IntEnum):
    """Whether a tensor was computed from operands on different devices: where it is then depends on what is moved."""

    NO = 0
    SETTLED = 1  # it is where it would be if the stray operand were moved
    ADRIFT = 2  # nothing says which one is to move: only the mismatch of the operands is reported


@record(frozen=True)
class Tensor:
    """A tensor, with the properties that matter for placement. Only ``place``, ``scalar``, ``role`` and the loss
    facts distinguish tensors; the other fields are history for messages."""

    place: Place
    scalar: bool | None = None  # 0-dim: True, False, or unknown
    role: Role = Role.PLAIN
    loss: Loss = Loss()
    leaf: Leaf = field(default=Leaf(), compare=False)
    lost: Lost | None = None
    # the kind of operation that put it on its device, and the node that created it
    source: Source = field(default=Source.UNKNOWN, compare=False)
    created: cst.CSTNode | None = field(default=None, compare=False)
    # the modules whose parameters a backward from here would reach
    modules: frozenset[int] = frozenset()
    backward: Backward = Backward()
    history: tuple[Note, ...] = field(default=(), compare=False)
    holder: Holder | None = field(default=None, compare=False)
    # the outermost call of a module that got the tensor as an argument; for an argument that is only assumed to be a
    # tensor, the parameter
    entered: cst.CSTNode | None = field(default=None, compare=False)
    # a lower bound of its number of dimensions, if that is more than one
    dims: int = 0
    # the possible numbers of rows, if known: for a loader's batches, those of the full ones and of the last, or REST
    rows: frozenset[int] = frozenset()
    # the program has its rows as a literal; it is a loader's batch, or was computed from one row by row
    literal: bool = False
    # for such a batch with rows by the default of an option, that option
    loaded: bool | Symbol = False
    replica: InReplica = InReplica()
    # a forward that has returned stored it in the attribute ``holder`` of its module
    left: bool = False
    # the place is assumed rather than observed: an unknown argument of a forward
    assumed: bool = False
    mixed: Mixed = Mixed.NO
    # computed from the rows of a batch that DataParallel scattered: it differs between replicas
    scattered: bool = field(default=False, compare=False)
    # in a replica: the attribute through which it was read from the original module
    alias: Alias | None = field(default=None, compare=False)
    # the copy to the host that may not be complete, and the number of waits for the GPU before it
    unfinished: tuple[cst.CSTNode, object] | None = field(default=None, compare=False)
    # the identity of the tensor object, which assignments and calls preserve
    uid: int = field(default=0, compare=False)

    @property
    def granted(self) -> cst.Param | None:
        """The parameter of a forward that is this tensor, if the place is only assumed."""
        return self.entered if self.assumed and isinstance(self.entered, cst.Param) else None

    def at(self, place: Place, note: Note | None = None, source: Source = Source.MOVE) -> Tensor:
        """The copy of this tensor on another device."""
        history = (*self.history, note) if note else self.history
        return replace(
            self,
            place=place,
            history=history,
            source=source,
            assumed=False,
            mixed=Mixed.NO,
            replica=replace(self.replica, memory=None, copied=self.replica.memory or self.replica.copied),
            holder=None,
            left=False,
            leaf=replace(self.leaf, copied=None),
            unfinished=None,
            entered=None,
            uid=0,
        )


class Kind(Enum):
    """The kind of an Object."""

    MODULE = "module"
    WRAPPER = "wrapper"
    OPTIMIZER = "optimizer"
    LOADER = "loader"
    DATASET = "dataset"
    LIST = "list"
    DICT = "dict"
    INSTANCE = "instance"
    OTHER = "other"


@record(frozen=True)
class Object:
    """A value with an identity. ``cls`` is its class: a :class:`Class` of this program or a name of a library."""

    id: int
    kind: Kind = field(compare=False)
    cls: Class | External = field(compare=False)
    node: cst.CSTNode = field(compare=False)
    text: str = field(default="", compare=False)
    # while a replica runs, the attribute that led to this original instead of the replica's own
    alias: Alias | None = field(default=None, compare=False)
    # when it is the module that torch.compile made around the one with this identity
    compiled: Condition = field(default=NEVER, compare=False)


@record(frozen=True)
class External:
    """A name of a library, fully qualified: ``torch.nn.Linear``.

    Of a type of tensors that is chosen by a test for CUDA, ``guard`` is that test.
    """

    name: str
    guard: cst.CSTNode | None = field(default=None, compare=False)


@record(frozen=True)
class Imported:
    """A module of the project: its top-level names are cells of ``frame``, resolved on first use."""

    frame: int
    name: str = field(compare=False)


@record(frozen=True)
class Pending:
    """``from module import name`` before its first use; ``library`` is the full name if the module lacks the name."""

    module: Imported
    name: str
    library: str = field(compare=False)


@record(frozen=True)
class Sequence:
    """A tuple, or the content of a list: ``exact`` is set if these are all the items."""

    items: tuple[Value, ...]
    exact: bool = True
    # for ``(*unknown, a, b)``: the numbers of items before and after the unpacked one
    around: tuple[int, int] | None = None

    def has_in_place(self, place: int) -> bool:
        """Whether the unpacked item does not shift the item at a place; a negative place counts from the end."""
        before, after = self.around or (len(self.items), len(self.items))
        return place < before if place >= 0 else -place <= after


@record(frozen=True)
class Slice:
    """A slice such as ``1:`` in ``items[1:]``; ``bounds`` are its start, stop and step, unless one is unknown."""

    bounds: tuple[object, ...] | None = None


@record(frozen=True)
class Mapping:
    """The content of a dict: the values of known keys, and the join of the values of other keys."""

    items: tuple[tuple[object, Value], ...]
    rest: Value | None = None
    # for a dict with exactly the entries of a state dict: the renamed key of each entry
    renamed: StateKey | None = None

    def get(self, key: object) -> Value | None:
        return next((value for name, value in self.items if name == key), self.rest)

    def with_item(self, key: object, value: Value) -> Mapping:
        return self.with_items(((key, value),))

    def with_items(self, items: Iterable[tuple[object, Value]]) -> Mapping:
        """A copy with new values for these keys, which then come last."""
        content = dict(self.items)
        for key, value in items:
            content.pop(key, None)
            content[key] = value
        return Mapping(tuple(content.items()), self.rest)


@record(frozen=True)
class Function:
    """A function or lambda of this program, with the frame it closes over."""

    node: cst.FunctionDef | cst.Lambda
    frame: int
    name: str = field(default="", compare=False)
    owner: Class | None = field(default=None, compare=False)
    decorators: tuple[str, ...] = field(default=(), compare=False)
    # in a replica: the attribute that holds it; the variables in its closure belong to the original
    alias: Alias | None = field(default=None, compare=False)

    @property
    def parameters(self) -> tuple[cst.Param, ...]:
        """The parameters that a call may pass by position."""
        return (*self.node.params.posonly_params, *self.node.params.params)


@record(frozen=True)
class Class:
    """A class of this program. Attributes and methods are cells of ``id``; ``bases`` are in order.

    ``fields`` are the names that are annotated in its body. ``Machine.definitions`` holds its definition, so that an
    edit of one of its methods does not change the identity of the class.
    """

    id: int
    name: str = field(compare=False)
    bases: tuple[Value, ...] = field(compare=False)
    fields: tuple[str, ...] = field(default=(), compare=False)
    module: bool = field(default=False, compare=False)  # derives from torch.nn.Module
    file: str = field(default="", compare=False)  # the path of its file, if the program is part of a project


@record(frozen=True)
class Bound:
    """A bound method: the method and its receiver."""

    receiver: Value
    name: str
    function: Function | None = None
    node: cst.CSTNode | None = field(default=None, compare=False)


@record(frozen=True)
class Partial:
    function: Value
    positional: tuple[Value, ...]
    keywords: tuple[tuple[str, Value], ...]


@record(frozen=True)
class Super:
    """``super()`` inside a method: the lookup of attributes of ``receiver`` starts after ``owner``."""

    receiver: Value
    owner: Class


@record(frozen=True)
class Parameters:
    """``model.parameters()``: a view of a module's parameters; ``named`` if it yields names as well."""

    module: Object | Symbol
    node: cst.CSTNode = field(compare=False)
    named: bool = False
    # only parameters that require gradients at the time of iteration
    trainable: bool = False
    # the identity of the generator; none for the parameters themselves, as the items of a list
    uid: int = field(default=0, compare=False)

    def listed(self) -> Parameters:
        """The item of a list that stands for each of the parameters."""
        return replace(self, uid=0)


@record(frozen=True)
class StateDict:
    """The result of ``state_dict()``; its keys have the ``prefix`` of wrappers, such as ``module.``."""

    owner: Object | Symbol
    prefix: str
    node: cst.CSTNode = field(compare=False)
    # the path condition of the call
    path: Condition = field(default=ALWAYS, compare=False)


@record(frozen=True)
class Choice:
    """One of several values, each under its condition; the conditions exclude each other."""

    alternatives: tuple[tuple[Condition, Value], ...]


@record(frozen=True)
class Placed:
    """The content of a module's place cell: its place, and the statement that moved it there."""

    place: Place
    note: Note | None = field(default=None, compare=False)


@record(frozen=True)
class Fact:
    """A fact about the program's past, stored in a cell; ``details`` belongs to the model or observer that wrote it.

    ``reach`` are the tests by which the program reached the statement that a report of the fact is about.
    """

    name: str
    details: object = field(default=None, compare=False)
    reach: Condition = field(default=ALWAYS, compare=False)


@record(frozen=True)
class Loaded:
    """The result of ``torch.load``, or an entry of it: resolved at the end, when all saved files are known."""

    file: str
    entries: tuple[object, ...] = ()
    # the call that loads the file, and its path condition
    node: cst.Call | None = field(default=None, compare=False)
    path: Condition = field(default=ALWAYS, compare=False)
    # the program resumes from it: an earlier run saved it, under any name
    resumed: bool = field(default=False, compare=False)
    # the letters of the name of the file; whether that is the default of an option
    name: str = field(default="", compare=False)
    by_default: bool = field(default=False, compare=False)


@record(frozen=True)
class StateKey:
    """A key of a state dict, or a value that the program computes from one.

    ``samples`` are the values for some sample keys: each with the prefix of every kind of wrapper.
    """

    state: Loaded | StateDict
    samples: tuple[tuple[object, ...], ...]


@record(frozen=True)
class Casting:
    """``torch.autocast("cuda", dtype=torch.bfloat16, enabled=flag)``"""

    device_type: Value
    dtype: Value
    enabled: Value
    node: cst.Call


Value: TypeAlias = (
    "Const | Symbol | AtLeast | Device | Tensor | Object | External | Imported | Pending | Sequence | Slice | Mapping"
    " | Function | Class | Bound | Partial | Super | Parameters | StateDict | Choice | Placed | Fact | Loaded"
    " | StateKey | Casting"
)

# The value of a cell, after a join, on a path on which it was never written.
ABSENT = External("<absent>")
# The type of the unknown value that a list holds in some place on a path on which it has no item there.
MISSING = "<missing>"
NONE = Const(None)
# A NumPy array with dimensions, on the host; and one that may have none, as that of a single number.
ARRAY = External("<ndarray>")
OPEN_ARRAY = External("<ndarray>?")
ARRAYS = (ARRAY, OPEN_ARRAY)
TRUE = Const(True)
FALSE = Const(False)


def alternatives(value: Value) -> tuple[tuple[Condition, Value], ...]:
    return value.alternatives if isinstance(value, Choice) else ((ALWAYS, value),)


def choose(options: Iterable[tuple[Condition, Value]]) -> Value | None:
    """The join of guarded values: flat, with equal values merged; None if there are none or too many."""
    options = [(condition, value) for condition, value in options if condition.possible]
    if len(options) == 2 and not any(isinstance(value, Choice) or is_compiled(value) for _, value in options):
        return Choice(tuple(options)) if options[0][1] != options[1][1] else options[0][1]
    merged: dict[Value, list[Condition]] = {}
    compiled: dict[Value, list[Condition]] = {}
    for condition, value in options:
        for inner, alternative in alternatives(value):
            guard = condition & inner
            if guard.possible:
                merged.setdefault(alternative, []).append(guard)
                if isinstance(alternative, Object) and alternative.compiled is not NEVER:
                    compiled.setdefault(alternative, []).append(guard & alternative.compiled)
    if compiled:
        merged = {_compiled(value, compiled.get(value, ())): guards for value, guards in merged.items()}
    if not merged or (len(merged) > MAX_ALTERNATIVES and not (len(merged) <= MAX_CALLABLES and _are_callables(merged))):
        return None
    if len(merged) == 1:
        return next(iter(merged))
    return Choice(tuple((any_of(guards), value) for value, guards in merged.items()))


def is_compiled(value: Value | None) -> bool:
    """Whether a value may be what torch.compile made of a module."""
    return isinstance(value, Object) and value.compiled is not NEVER


def _compiled(value: Value, conditions: Iterable[Condition]) -> Value:
    return replace(value, compiled=any_of(conditions)) if isinstance(value, Object) else value


def _are_callables(values: Iterable[Value]) -> bool:
    return all(isinstance(value, (Function, Class, External, Bound, Partial)) for value in values)


def tells(value: Value | None) -> bool:
    """Whether the analysis should keep a value as a separate alternative.

    Flags, devices, tensors and values with an identity affect placement. Unknown values do not, and neither do numbers
    other than 0 and 1, which programs test for.
    """
    if isinstance(value, Choice):
        return any(tells(option) for _, option in value.alternatives)
    if isinstance(value, Const):
        return value.value in (0, 1) or not isinstance(value.value, (int, float))
    if isinstance(value, Sequence):
        return not value.items or any(tells(item) for item in value.items)
    if isinstance(value, Mapping):
        return any(tells(item) for _, item in value.items)
    if isinstance(value, Symbol):
        return value.preferred is not None
    return value is not None and not isinstance(value, AtLeast)
