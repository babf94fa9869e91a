"""Abstract values: what the analysis knows of a Python value, as small frozen objects.

Everything that changes over time (where a module is, what an attribute holds) lives in the store, keyed by
the identity of an :class:`Object` or :class:`Symbol`; the values themselves never change.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from enum import Enum, auto
from typing import TypeAlias

import libcst as cst

from placement_lint.flow.domain.path_condition import ALWAYS, Condition, any_of
from placement_lint.flow.domain.record import record, replace
from placement_lint.rule import Note
from placement_lint.source.wording import source_text

# Past this many alternatives a value is given up: it becomes a symbol, on which every rule is silent.
MAX_ALTERNATIVES = 8
# The functions and classes of a table may be more: they mostly return similar values.
MAX_CALLABLES = 24


@record(frozen=True)
class Const:
    """A literal. ``1``, ``1.0`` and ``True`` are different constants here.

    Of one that names an accelerator, ``written`` is where it stands in the program.
    """

    value: object
    written: cst.BaseExpression | None = field(default=None, compare=False)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Const) and type(self.value) is type(other.value) and self.value == other.value

    def __hash__(self) -> int:
        return hash((type(self.value), self.value))


@record(frozen=True)
class Symbol:
    """A value that is unknown but equal to itself: an argument, ``args.device``, the result of a foreign call."""

    id: int
    source: str | cst.CSTNode = field(default="", compare=False)
    # A symbol that the program has treated as a module may be read as one: attribute chains keep the root.
    parent: Symbol | Object | None = field(default=None, compare=False)
    # the Python type that it surely has: ``float``, ``str``, ``torch.Size``; empty where that is not known
    type: str = field(default="", compare=False)
    # a number that depends on the rows of a batch that DataParallel scattered
    scattered: bool = field(default=False, compare=False)
    # of an option: its value unless the user gives another one
    preferred: Const | None = None

    @property
    def text(self) -> str:
        """How the program writes it."""
        return source_text(self.source)


@record(frozen=True)
class AtLeast:
    """An integer known only from below: ``torch.cuda.device_count()`` on a machine with several GPUs."""

    bound: int


@record(frozen=True)
class Device:
    """A place for tensors.

    ``kind`` is a torch device type, or one of two places that exist only in the analysis: ``replica`` (the GPU
    of whichever DataParallel replica is running) and ``own`` (wherever the analysed module is).
    ``index`` is None for "the current device", and a Symbol for an index that is unknown but equal to itself.
    ``written`` is the literal that names it, if there is one.
    """

    kind: str
    index: int | Symbol | None = None
    written: cst.BaseExpression | None = field(default=None, compare=False)

    def __str__(self) -> str:
        if self.index is None:
            return self.kind
        index = self.index.text if isinstance(self.index, Symbol) else str(self.index)
        return f"{self.kind}:{index}" if index else self.kind


# The kinds of device whose memory is not the host's: an operation takes no operands of one of them and of the CPU.
ACCELERATORS = frozenset({"cuda", "mps", "xpu", "npu", "hpu", "xla"})

CPU = Device("cpu")
REPLICA = Device("replica")
OWN = Device("own")

Place: TypeAlias = "Device | Symbol"
"""Where a tensor is: a device, or a symbol for a device that is unknown but equal to itself."""


def describe(place: Place) -> str:
    """A place in a sentence."""
    if isinstance(place, Symbol):
        return f"`{place.text}`" if place.text else "an unknown device"
    return {
        "cpu": "the CPU",
        "replica": "the replica's GPU",
        "own": "the module's device",
        "cuda": str(place),
    }.get(place.kind, str(place))


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
        # Some replica is on another card than the one that an index names.
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
    BATCH = "batch"  # straight out of a loader; it may be a nest of tensors
    INPUT = "input"  # of a forward; taken to be where the module is


class Source(Enum):
    """How a tensor came to be where it is."""

    UNKNOWN = auto()
    FACTORY = auto()  # torch.zeros(3)
    FACTORY_IN_FORWARD = auto()  # the same while a module's forward runs
    FACTORY_ON_DEVICE = auto()  # torch.zeros(3, device=d)
    LOADER = auto()
    MOVE = auto()
    MODULE = auto()  # computed by a module, or a parameter of one


@record(frozen=True)
class Holder:
    """The attribute of a module that a tensor was read from, and the statement that assigned it.

    Of what is held in a plain container: the container's type, and whether it is a ``module`` or a ``parameter``.
    """

    owner: Object
    name: str
    node: cst.CSTNode
    container: str = ""
    content: str = ""
    # at that statement the module could register what is assigned
    registrable: bool = False


@record(frozen=True)
class Alias:
    """An attribute through which a replica reaches the original module instead of itself.

    ``node`` is the statement that assigned it, ``read`` where a replica reads it; ``how`` is what it holds: ``list``,
    ``tuple``, ``dict``, ``bound method`` (called ``method``), ``lambda`` or ``partial``.
    """

    owner: Object
    name: str
    node: cst.CSTNode
    how: str
    read: cst.CSTNode
    method: str = ""


@record(frozen=True)
class Lost:
    """What was done to a Parameter that made it an ordinary tensor, and where and which it was before."""

    how: str
    node: cst.CSTNode
    place: Place
    uid: int


@record(frozen=True)
class Cut:
    """Where a value was cut off, how, and the modules and Parameters ``behind``: no gradient comes back to them."""

    node: cst.CSTNode
    how: str
    behind: frozenset[int]


@record(frozen=True)
class Chunk:
    """A replica's part of a batch, kept by a ``hook`` (the call that registered it); the replica's notes and ids.

    It is there as long as no module is called bare: ``since`` says since when.
    """

    hook: cst.Call
    replica: tuple[Note, ...]
    ids: tuple[object, ...]
    since: Value


@record(frozen=True)
class Tensor:
    """A tensor, by what matters for placement. Only ``place``, ``scalar``, ``role`` and the loss facts
    tell two tensors apart; the rest is history for messages."""

    place: Place
    scalar: bool | None = None  # 0-dim: True, False, or not known
    role: Role = Role.PLAIN
    # "mean" or "sum" where the tensor is a loss reduced that way over the batch
    reduction: str | None = None
    # a vector of one such loss a replica, as DataParallel gathers it
    per_replica: bool = False
    # the call of a DataParallel model that gathered it, or what takes an item of that, where its shape is not known:
    # at least one element a replica
    gathered: cst.CSTNode | None = None
    # of such a vector: whether some batch gives the replicas chunks of different sizes
    uneven: bool = False
    lost: Lost | None = None
    # the Parameters by themselves, outside of any module's call, that a backward from here would reach
    parameters: frozenset[int] = field(default=frozenset(), compare=False)
    # a leaf that gradients are asked for, and what made another tensor of one
    requires_grad: bool = field(default=False, compare=False)
    computed: Lost | None = field(default=None, compare=False)
    # integer or boolean content, as far as it shows: index tensors follow other rules
    source: Source = field(default=Source.UNKNOWN, compare=False)
    created: cst.CSTNode | None = field(default=None, compare=False)
    # the modules whose parameters a backward from here would reach
    modules: frozenset[int] = frozenset()
    # all modules and Parameters that it would reach, None where that is not known; and what it was cut off from
    reached: frozenset[int] | None = None
    cuts: frozenset[Cut] = field(default=frozenset(), compare=False)
    history: tuple[Note, ...] = field(default=(), compare=False)
    holder: Holder | None = field(default=None, compare=False)
    # the outermost call of a module through which the tensor came in as an argument; of what is only taken to be one,
    # the parameter
    entered: cst.CSTNode | None = field(default=None, compare=False)
    # how many rows it may have, where that is known: of a loader's batches, the full ones and the last
    rows: frozenset[int] = frozenset()
    # the values of its rows are written out in the program; it is a loader's batch, or came of one row by row
    literal: bool = False
    loaded: bool = False
    # in a replica: the dimension along which DataParallel split it, which is that of the batch
    split: int | None = None
    # in a replica: what padded it to the longest of the sequences there
    padded: cst.CSTNode | None = field(default=None, compare=False)
    # a hook of a replica kept it
    chunk: Chunk | None = field(default=None, compare=False)
    # a call of forward that has ended left it on its module, as ``holder`` says
    left: bool = False
    # the place is taken for granted, not seen: an unknown argument of a forward
    assumed: bool = False
    # the result of two tensors on different devices: its place is right once the stray one is moved, and not the other
    mended: bool = False
    # ... or once the other is moved, and not this: only the mismatch of those two is reported
    adrift: bool = False
    # the reduction of a vector of per-replica losses that this number comes from
    reduced: cst.CSTNode | None = field(default=None, compare=False)
    # the DDP wrappers through which it was computed, and the calls that bypassed one (its id, the call)
    synced: frozenset[int] = frozenset()
    unsynced: frozenset[tuple[int, cst.CSTNode]] = frozenset()
    # computed from the rows of a batch that DataParallel scattered: each replica has others
    scattered: bool = field(default=False, compare=False)
    # while a replica runs, the attribute of its module whose memory this is
    memory: Holder | None = field(default=None, compare=False)
    # ... and the one that a move copied it from
    copied_in_replica: Holder | None = field(default=None, compare=False)
    # the same where what was read there is not the replica's
    alias: Alias | None = field(default=None, compare=False)
    # the copy to the host that may not be finished, and how often the program had waited for the GPU until then
    unfinished: tuple[cst.CSTNode, object] | None = field(default=None, compare=False)
    # the move that copied it from a leaf made to have a gradient: the gradient stays with the leaf
    copied: cst.CSTNode | None = field(default=None, compare=False)
    # tells the tensor itself from an equal one: kept while it is only handed around
    uid: int = field(default=0, compare=False)

    @property
    def granted(self) -> cst.Param | None:
        """The parameter of a forward that it comes of, where nothing else says that it is there."""
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
            mended=False,
            adrift=False,
            memory=None,
            copied_in_replica=self.memory or self.copied_in_replica,
            holder=None,
            left=False,
            copied=None,
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
    """Something with an identity. ``cls`` is its class: a :class:`Class` of this program or a name of a library."""

    id: int
    kind: Kind = field(compare=False)
    cls: Class | External = field(compare=False)
    node: cst.CSTNode = field(compare=False)
    text: str = field(default="", compare=False)
    # while a replica runs, the attribute that led to this original instead of the replica's own
    alias: Alias | None = field(default=None, compare=False)


@record(frozen=True)
class External:
    """A name of a library, fully qualified: ``torch.nn.Linear``."""

    name: str


@record(frozen=True)
class Imported:
    """A module of the project: the names of its top level are cells of ``frame``, once they were asked for."""

    frame: int
    name: str = field(compare=False)


@record(frozen=True)
class Pending:
    """``from module import name`` before the name is used; ``library`` is its full name if the module has no such."""

    module: Imported
    name: str
    library: str = field(compare=False)


@record(frozen=True)
class Sequence:
    """A tuple, or the content of a list: ``exact`` says whether these are all the items there are."""

    items: tuple[Value, ...]
    exact: bool = True
    # of ``(*unknown, a, b)``: how many items there are before what is unpacked, and how many after it
    around: tuple[int, int] | None = None

    def has_in_place(self, place: int) -> bool:
        """Whether an item is where it would be without what is unpacked; a negative place counts from the end."""
        before, after = self.around or (len(self.items), len(self.items))
        return place < before if place >= 0 else -place <= after


@record(frozen=True)
class Mapping:
    """The content of a dict: known string keys, and the join of what other keys hold."""

    items: tuple[tuple[object, Value], ...]
    rest: Value | None = None
    # of a dict that has each entry of a state dict, and nothing else: the key under which it has it
    renamed: StateKey | None = None

    def get(self, key: object) -> Value | None:
        return next((value for name, value in self.items if name == key), self.rest)

    def with_item(self, key: object, value: Value) -> Mapping:
        return self.with_items(((key, value),))

    def with_items(self, items: Iterable[tuple[object, Value]]) -> Mapping:
        """The same with other values under these keys, which then come last."""
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
    # while a replica runs, the attribute that holds it: the variables in its closure are not the replica's
    alias: Alias | None = field(default=None, compare=False)

    @property
    def parameters(self) -> tuple[cst.Param, ...]:
        """Those that may be given by position."""
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
    file: str = field(default="", compare=False)  # the path of its file, where the program is part of a project


@record(frozen=True)
class Bound:
    """A method together with the object it was read from."""

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
    """``super()`` inside a method: look beyond ``owner`` for the attributes of ``receiver``."""

    receiver: Value
    owner: Class


@record(frozen=True)
class Parameters:
    """``model.parameters()``: a view on the parameters that a module has; ``named`` where each comes with its name."""

    module: Object | Symbol
    node: cst.CSTNode = field(compare=False)
    named: bool = False
    # only those that ask for gradients when they are taken
    trainable: bool = False
    # tells one generator from the next
    uid: int = field(default=0, compare=False)


@record(frozen=True)
class StateDict:
    """What ``state_dict()`` returned: whether its keys carry the ``module.`` of a wrapper."""

    owner: Object | Symbol
    prefixed: bool
    node: cst.CSTNode = field(compare=False)
    # the path on which it was taken
    path: Condition = field(default=ALWAYS, compare=False)


@record(frozen=True)
class Choice:
    """One of several values, each under its condition; the conditions exclude each other."""

    alternatives: tuple[tuple[Condition, Value], ...]


@record(frozen=True)
class Placed:
    """The content of a module's place cell: where it is, and the statement that put it there."""

    place: Place
    note: Note | None = field(default=None, compare=False)


@record(frozen=True)
class Fact:
    """Something that a cell remembers of the program's past; ``details`` is for the room that wrote it."""

    name: str
    details: object = field(default=None, compare=False)


@record(frozen=True)
class Loaded:
    """What ``torch.load`` returned, or an entry of it: resolved once all that was saved is known."""

    file: str
    entries: tuple[object, ...] = ()
    # the call that read the file, and its path
    node: cst.Call | None = field(default=None, compare=False)
    path: Condition = field(default=ALWAYS, compare=False)
    # the program resumes from it: some earlier run saved it, under any name
    resumed: bool = field(default=False, compare=False)


@record(frozen=True)
class StateKey:
    """A key of a state dict, or what the program computes from one.

    ``samples`` are the values for some keys: each as it is in the state dict of a bare module, and with the prefix of a
    wrapper.
    """

    state: Loaded | StateDict
    samples: tuple[tuple[object, object], ...]


@record(frozen=True)
class Casting:
    """``torch.autocast("cuda", dtype=torch.bfloat16, enabled=flag)``"""

    device_type: Value
    dtype: Value
    enabled: Value
    node: cst.Call


Value: TypeAlias = (
    "Const | Symbol | AtLeast | Device | Tensor | Object | External | Imported | Pending | Sequence | Mapping"
    " | Function | Class | Bound | Partial | Super | Parameters | StateDict | Choice | Placed | Fact | Loaded"
    " | StateKey | Casting"
)

# The value of a cell, once paths are joined, on a path where it was never written.
ABSENT = External("<absent>")
# The value of a slice such as ``1:`` in ``items[1:]``.
SLICE = External("builtins.slice")
NONE = Const(None)
# A NumPy array, which has dimensions and is on the host.
ARRAY = External("<ndarray>")
TRUE = Const(True)
FALSE = Const(False)


def alternatives(value: Value) -> tuple[tuple[Condition, Value], ...]:
    return value.alternatives if isinstance(value, Choice) else ((ALWAYS, value),)


def choose(options: Iterable[tuple[Condition, Value]]) -> Value | None:
    """One value out of guarded ones: flat, equal values merged; None where there are too many or none."""
    options = [(condition, value) for condition, value in options if condition.possible]
    if len(options) == 2 and not isinstance(options[0][1], Choice) and not isinstance(options[1][1], Choice):
        return Choice(tuple(options)) if options[0][1] != options[1][1] else options[0][1]
    merged: dict[Value, list[Condition]] = {}
    for condition, value in options:
        for inner, alternative in alternatives(value):
            guard = condition & inner
            if guard.possible:
                merged.setdefault(alternative, []).append(guard)
    if not merged or (len(merged) > MAX_ALTERNATIVES and not (len(merged) <= MAX_CALLABLES and _are_callables(merged))):
        return None
    if len(merged) == 1:
        return next(iter(merged))
    return Choice(tuple((any_of(guards), value) for value, guards in merged.items()))


def _are_callables(values: Iterable[Value]) -> bool:
    return all(isinstance(value, (Function, Class, External, Bound, Partial)) for value in values)


def tells(value: Value | None) -> bool:
    """Whether it is worth knowing which of several values this is one of.

    Flags, devices, tensors and whatever has an identity decide about placement. Unknown values do not, nor sizes other
    than nothing and one, which programs ask for.
    """
    if isinstance(value, Choice):
        return any(tells(option) for _, option in value.alternatives)
    if isinstance(value, Const):
        return value.value in (0, 1) or not isinstance(value.value, (int, float))
    if isinstance(value, Sequence):
        return not value.items or any(tells(item) for item in value.items)
    if isinstance(value, Mapping):
        return any(tells(item) for _, item in value.items)
    return value is not None and not isinstance(value, (Symbol, AtLeast))
