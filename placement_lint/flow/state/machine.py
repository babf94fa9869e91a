"""The abstract machine: the store, the path, and how paths part and join.

It knows nothing of syntax or torch. :mod:`statements` and :mod:`expressions` drive it through a program, and
the rooms for modules, tensors and optimizers keep their facts in its store.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator
from collections.abc import Mapping as Table
from collections.abc import Sequence as Many
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, partial, reduce
from operator import and_, itemgetter, or_
from typing import TYPE_CHECKING, Any, NamedTuple

import libcst as cst

from placement_lint.flow.api.bounds import MOST_NESTED
from placement_lint.flow.domain.path_condition import (
    ALWAYS,
    ANY_MACHINE,
    Answer,
    Condition,
    Cube,
    Question,
    answered,
    any_of,
    asked,
    of,
    told_apart,
)
from placement_lint.flow.domain.values import (
    ABSENT,
    FALSE,
    NONE,
    TRUE,
    AtLeast,
    Bound,
    Choice,
    Class,
    Const,
    External,
    Function,
    Kind,
    Mapping,
    Object,
    Sequence,
    Symbol,
    Value,
    alternatives,
    choose,
    tells,
)
from placement_lint.flow.events.schema import Event, Scene
from placement_lint.flow.state.evaluator import Evaluator
from placement_lint.flow.state.extent import CONTENT_CELLS, within_reach
from placement_lint.flow.state.heap import Cell, Delta, Store, Watch
from placement_lint.flow.state.registries import Registries
from placement_lint.flow.state.signals import Signals
from placement_lint.rule import Note
from placement_lint.source.querying import names_in
from placement_lint.source.wording import source_text

if TYPE_CHECKING:
    from placement_lint.flow.incremental.effect_memo import Recollection
    from placement_lint.flow.observers.placements import PlacementLog
    from placement_lint.flow.state.imports import Project
    from placement_lint.project.index import Import

# Work is bounded: beyond these, calls are no longer looked into and choices become unknown.
MAX_CALL_DEPTH = 12
MAX_COMBINATIONS = 24
MAX_PATH_CUBES = 4

FUEL = 120_000
# Looking into other files may cost a third of what the program's own file does, and this: less for what nobody calls.
ABROAD = 5_000
# Of what is left of that, one call from the program's own file leaves a part to those after it; so does the building of
# a model, which is large as a rule, to what is done with it.
KEPT_BY_CALL = 0.25
KEPT_BY_BUILDING = 0.5
ABROAD_FOR_UNCALLED = 200
# Forwards in an editor's text have numbers from multiples of this.
_ROUND = 256


# One value that stands for too many guarded ones; None where they have nothing in common.
Summary = Callable[["Machine", Many[tuple[Condition, Value]]], "Value | None"]

# The conditions of several ways out: worked out where it makes a difference which of them is taken.
Guards = Callable[[], Many[Condition]]


@dataclass
class Exit:
    """One way out of a scope: the path that led there, what it wrote, and the value it carries."""

    path: Condition
    reach: Condition
    tested: Condition
    changes: Delta
    value: Value


class Tried(NamedTuple):
    """A try that is running: how many functions were when it began, and the exceptions that its handlers deal with.

    It ``resumes`` after them: no handler that deals with one leaves the loop or function, nor raises any other.
    """

    depth: int
    names: frozenset[str]
    resumes: bool

    def deals_with(self, errors: Collection[str], here: int) -> bool:
        """Whether a handler is for one of these, by its name; or for all, in the function that runs."""
        return not self.names.isdisjoint((*errors, *(("Exception", "BaseException") if self.depth == here else ())))


@dataclass
class Scope:
    """What ``return``, ``break`` or ``continue`` jumps out of."""

    kind: str
    depth: int
    exits: list[Exit] = field(default_factory=list)


@dataclass
class Made:
    """A module or Parameter that a running forward made: whether it took part in it, and whether it is kept."""

    node: cst.CSTNode
    scene: Scene
    cls: str
    used: bool = False
    kept: bool = False


@dataclass
class Children:
    """What a module holds, and what of it is registered: by what that hangs on, if it ``hangs`` on anything else."""

    held: Many[tuple[str, Value]]
    hangs: bool
    found: dict[object, Many[tuple[str, Value]]] = field(default_factory=dict)


@dataclass
class Below:
    """The modules that were found below one, with the ``ids`` of their Parameters and buffers once they were asked for.

    It stands as long as each of them holds what it ``held``, if that is said, and what it hangs on is ``given``.
    """

    found: dict[int, Object | Symbol]
    held: Many[tuple[int, Many[tuple[str, Value]]]] = ()
    given: object = None
    ids: frozenset[int] | None = None


@dataclass
class Frame:
    """A running function (or the module): its variables are cells of ``id``."""

    id: int
    function: Function | None = None
    receiver: Value | None = None
    # how many tests its call stands under
    guards: int = 0
    # the statement that is running
    line: cst.CSTNode | None = None


class Machine(Registries):
    """State of one analysis; see the module's docstring."""

    def __init__(self, evaluator: Evaluator, log: PlacementLog | None = None) -> None:
        self.evaluator = evaluator
        self.log = log
        self.signals = Signals()
        self.store = Store()
        self._note_moment()
        self.fuel = FUEL
        # what may still be spent in code of other files, and what was spent in the program's own
        self.abroad = ABROAD
        # what is left when the running call has spent its part of that
        self.floor = 0
        self.spent = 0
        # how often there was a function of another file to look into
        self.ventures = 0
        # how often there was no time to look into one
        self.refused = 0
        self.parents: dict[int, int | None] = {}
        # the frames and classes: through the names there, and only so, code gets hold of what there is already
        self.namespaces: set[int] = set()
        self._roots: dict[int, int] = {}
        # frames whose variables functions inside them, classes and lambdas may still ask for when they have returned
        self.enclosing: set[int] = set()
        # frames and objects that came up while the program ran: of the branches of a fork, one at most has each
        self._own: set[int] = set()
        # by the id of a class, those of other files included
        self.definitions: dict[int, cst.ClassDef] = {}
        self.homes: dict[tuple[int, str], int] = {}
        # by the frame of a module: what it imports everything from
        self.stars: dict[int, list[Import]] = {}
        self.default_was_set = False
        self._questions: dict[Hashable, Question] = {}
        # by owner and key
        self._parts: dict[int, dict[object, Symbol]] = {}
        self._last_id = 0
        self._visit = 0
        self.module_frame = self.new_frame(None)
        self.frames: list[Frame] = [Frame(self.module_frame)]
        # the other files of the project; None where a program is looked at alone
        self.project: Project | None = None
        # whether a module that is looked at by itself is on a GPU
        self.own_on_gpu = asked(source="the module is on a GPU")
        super().__init__()
        # by function, for each parameter whether it may be a tensor
        self.takes_tensors: dict[cst.CSTNode, list[bool]] = {}
        # by the id of a module
        self.children: dict[int, Children] = {}
        self.below: dict[int, Below] = {}
        # whether the modules are in training mode, once that was read: those of a model are in one mode
        self.mode: Symbol | None = None
        # forwards that left nothing behind: what they saw of the store, and their value
        self.forwards: dict[Hashable, tuple[Watch, Value]] = {}
        # those of an editor's last text
        self.recollection: Recollection | None = None
        # what too many guarded values have in common
        self.summarise: Summary = lambda machine, options: None
        # by its cell: what a setting became when something may have overridden it
        self.overridden: dict[Cell, Symbol] = {}

    def _note_moment(self) -> None:
        """Where the program is: at its beginning."""
        self.path: Condition = ALWAYS
        self.reach: Condition = ALWAYS
        # the part of reach that the program itself tests: without what follows from not having raised
        self.tested: Condition = ALWAYS
        # the alternatives of values that are being looked at, inside each other
        self.alternatives: tuple[Condition, ...] = ()
        self.dead = False
        self.scopes: list[Scope] = []
        # for each running function: the node that called it
        self.calls: list[cst.CSTNode] = []
        self.running: list[cst.CSTNode] = []
        # the modules and other objects that are being called, inside each other
        self.called_objects: list[Object] = []
        # the kinds of machine on which the innermost was called
        self.entered = ANY_MACHINE
        # how many of them are of other files
        self.foreign_calls = 0
        # the block of the simple statement that is running, and its place there
        self.block: tuple[Many[cst.CSTNode], int] = ((), 0)
        # the tests of the branches that are running, inside each other
        self.guards: list[cst.BaseExpression] = []
        # the loops that are running, inside each other
        self.loops: list[cst.For | cst.While] = []
        # for each of the running loops the last id given before it began: what has a later one may change each round
        self.rounds: list[int] = []
        # one of them is in a later round
        self.again = False
        self.standalone = False
        self.replica: tuple[Note, ...] = ()
        # the same where DataParallel has a single GPU, and runs the module itself
        self.on_only_gpu: tuple[Note, ...] = ()
        self.replica_ids: tuple[object, ...] = ()
        # the frames that were running when the replica began
        self.replica_depth = 0
        # the dimension along which its inputs were split, and whether a layer wanted another one
        self.replica_dim: int | None = None
        self.batch_misplaced = False
        self.replicated: frozenset[int] = frozenset()
        # what autocast does here, where something around says so that no replica has entered; None of no autocast
        self.casting: Value = NONE
        # the modules whose forward is running, and the attributes written since the outermost one began
        self.in_forward: list[Object] = []
        self.written: set[tuple[int, str]] = set()
        # by the id of a module or Parameter that a forward made: what is known of it, until that forward ends
        self.made: dict[int, Made] = {}
        self.rehearsing = False
        # how many wrappers of DistributedDataParallel are calling their module, and how many ``no_grad`` are around
        self.through = 0
        self.without_grad = 0
        # where the running function was started in several processes
        self.spawned: list[Note] = []
        # inside a try whose handler is for a missing attribute
        self.expecting_attribute_errors = 0
        self.tried: list[Tried] = []
        # something was seen to be on a GPU; how many branches are running whose test saw that
        self.saw_gpu = False
        self.sure_of_gpu = 0
        self.in_default_context = 0
        self.updating = False
        # what is read here is only compared with None
        self.testing = False
        # the call that is a statement of its own: what it returns is dropped
        self.statement: cst.CSTNode | None = None
        self._lifting = 0
        # the DataLoader one of whose worker processes is running
        self.worker: Note | None = None

    # --- identities ------------------------------------------------------------------------------------

    def new_id(self) -> int:
        self._last_id += 1
        return self._last_id

    @property
    def newest(self) -> int:
        """The last id that was given."""
        return self._last_id

    @property
    def visits(self) -> int:
        """The last visit that was given a number."""
        return self._visit

    def align(self, slot: int = 0, circle: int = _ROUND) -> None:
        """Go on with the next numbers that leave ``slot`` when they are divided by ``circle``."""
        self._last_id += (slot - self._last_id) % circle
        self._visit += (slot - self._visit) % circle
        Question.last += (slot - Question.last) % circle

    def number(self, ids: int, visits: int) -> None:
        """Go on after these."""
        self._last_id, self._visit = ids, visits

    def new_namespace(self) -> int:
        """The id of a frame or class."""
        identity = self.new_id()
        self.namespaces.add(identity)
        return identity

    def new_frame(self, parent: int | None) -> int:
        frame = self.new_namespace()
        self.parents[frame] = parent
        self._roots[frame] = frame if parent is None else self._roots[parent]
        if parent is not None:
            self.store.passing.add(frame)
            self._own.add(frame)
        return frame

    def enclose(self) -> int:
        """The running frame, over which something closes."""
        self.enclosing.add(self.frame.id)
        return self.frame.id

    def leave(self, frame: int) -> None:
        """A function has returned."""
        if frame not in self.enclosing:
            self.store.drop(frame)

    def root(self, frame: int) -> int:
        """The frame of the module whose code runs in a frame."""
        return self._roots[frame]

    @property
    def at_home(self) -> bool:
        """Whether the code that runs is of the program's own file."""
        return self.root(self.frame.id) == self.module_frame

    def spend(self) -> None:
        """Something is done that costs time."""
        self.fuel -= 1
        if self.is_abroad:
            self.abroad -= self.path.effort
        else:
            self.spent += 1

    @property
    def recollects(self) -> bool:
        """Whether the statement that runs may be known from an editor's last text.

        The forward of a model that the program calls is known as a whole, or not at all.
        """
        return self.remembers and (self.standalone or not self.in_forward) and self.at_home

    @property
    def remembers(self) -> bool:
        """Whether what runs now is compared with an editor's last text."""
        return self.recollection is not None and not (self.rehearsing or self.made or self.is_abroad)

    @contextmanager
    def without_recollection(self) -> Iterator[None]:
        """All that runs here runs indeed."""
        recollection, self.recollection = self.recollection, None
        try:
            yield
        finally:
            self.recollection = recollection

    @property
    def is_abroad(self) -> bool:
        """Whether what runs was called by code of another file, or belongs to its import."""
        return self.frames[0].id != self.module_frame or self.foreign_calls > 0

    def affords(self, function: Function) -> bool:
        """Whether there is time to look into a function: always into a lambda of another file, a single expression."""
        abroad = self.is_abroad or self.root(function.frame) != self.module_frame
        abroad = abroad and not isinstance(function.node, cst.Lambda)
        self.ventures += abroad
        affords = self.fuel > 0 and (not abroad or self.left_abroad > self.floor)
        self.refused += not affords
        return affords

    @property
    def left_abroad(self) -> int:
        """What may still be spent in code of other files."""
        return self.abroad + self.spent // 3

    @contextmanager
    def leaving(self, part: float) -> Iterator[None]:
        """What runs here leaves a part of what may be spent in other files to what comes after it."""
        floor = self.floor
        self.floor += int(max(self.left_abroad - floor, 0) * part)
        try:
            yield
        finally:
            self.floor = floor

    @contextmanager
    def apart(self, frame: int) -> Iterator[None]:
        """Run what belongs to the beginning of the program, in the frame of a module: no branch takes it back."""
        moment = self.moment()
        frames, self.frames = self.frames, [Frame(frame)]
        self._note_moment()
        try:
            with self.store.lasting():
                yield
        finally:
            self.frames = frames
            vars(self).update(moment)

    def moment(self) -> dict[str, Any]:
        """Where the program is."""
        return dict(zip(_MOMENT, _of_moment(vars(self)), strict=True))

    @contextmanager
    def noting(self, registries: dict[str, Any]) -> Iterator[None]:
        """Let the rooms note in these registries meanwhile, in the place of those with the same names."""
        before = {name: vars(self)[name] for name in registries}
        vars(self).update(registries)
        try:
            yield
        finally:
            registries.update({name: vars(self)[name] for name in registries})
            vars(self).update(before)

    def noted(self, registry: str, key: Hashable) -> Any:
        """What is noted of one thing in a registry that is only asked so."""
        entry = vars(self)[registry].get(key)
        if self.store.watch is not None:
            self.store.watch.noted.setdefault((registry, key), entry)
        return entry

    def fresh(self, text: str | cst.CSTNode = "", type: str = "", scattered: bool = False) -> Symbol:
        """A value of which nothing is known, but perhaps its type, or that it depends on the rows of a replica."""
        self._last_id += 1
        return Symbol(self._last_id, text, None, type, scattered)

    def override(self, owner: int, name: str, text: str, preferred: Const) -> None:
        """Somebody may have given a setting another value than the one that it has."""
        self._last_id += 1
        self.overridden[owner, name] = setting = Symbol(self._last_id, text, preferred=preferred)
        self.write(owner, name, setting)

    def part(
        self,
        owner: int,
        key: object,
        text: str | cst.CSTNode,
        parent: Symbol | Object | None = None,
        type: str = "",
        preferred: Const | None = None,
    ) -> Symbol:
        """The unknown value under ``key`` of an unknown owner: the same at each reading, unless it is too deep."""
        symbol = self.known_part(owner, key)
        if symbol is None and parent is not None and self._is_deep(owner):
            return self.fresh(text, type)
        if symbol is None:
            symbol = Symbol(self.new_id(), text, parent, type, preferred=preferred)
            self._add_part(owner, key, symbol)
        return symbol

    def _is_deep(self, owner: int) -> bool:
        """Whether a value is a part of a part, and so on, further than the analysis goes."""
        for _ in range(MOST_NESTED):
            if owner not in self.outer:
                return False
            owner = self.outer[owner]
        return True

    def _add_part(self, owner: int, key: object, symbol: Symbol) -> None:
        self._parts.setdefault(owner, {})[key] = symbol
        if symbol.parent is not None:
            self.outer[symbol.id] = owner

    def known_part(self, owner: int, key: object) -> Symbol | None:
        """The unknown value under ``key``, if somebody asked for it."""
        symbol = self._parts.get(owner, {}).get(key)
        if self.store.watch is not None:
            self.store.watch.parts.setdefault((owner, key), symbol)
        return symbol

    def parts(self, owner: int) -> Many[Symbol]:
        """The parts that somebody asked for; where a module is, under a name of the analysis's own, is none."""
        known = self._parts.get(owner, {}).items()
        parts = tuple([part for key, part in known if not isinstance(key, str) or key[:1] != "#"])
        if self.store.watch is not None and owner <= self.store.watch.newest:
            self.store.watch.all_parts.setdefault(owner, parts)
        return parts

    def new_object(self, kind: Kind, cls: Class | External, node: cst.CSTNode, text: str = "") -> Object:
        made = Object(self.new_id(), kind, cls, node, text)
        if self.frames[0].id == self.module_frame:
            self._own.add(made.id)
        return made

    def new_list(self, items: Sequence, node: cst.CSTNode) -> Object:
        result = self.new_object(Kind.LIST, External("builtins.list"), node)
        self.write(result.id, "#items", items)
        return result

    def new_dict(self, content: Mapping, node: cst.CSTNode) -> Object:
        result = self.new_object(Kind.DICT, External("builtins.dict"), node)
        self.write(result.id, "#map", content)
        return result

    # --- what comes up again -----------------------------------------------------------------------------

    def known_of(self, identities: set[int]) -> dict[str, Any]:
        """What there is to know of frames, classes and objects that the store does not keep."""
        frames = self.parents.keys() & identities
        return {
            "definitions": {cls: self.definitions[cls] for cls in self.definitions.keys() & identities},
            "parents": {frame: self.parents[frame] for frame in frames},
            "_roots": {frame: self._roots[frame] for frame in frames},
            "namespaces": self.namespaces & identities,
            "enclosing": self.enclosing & identities,
            "_own": self._own & identities,
        }

    def know(self, known: Table[str, Any]) -> None:
        """Know that of frames, classes and objects again."""
        for name, entries in known.items():
            getattr(self, name).update(entries)
        self.store.passing.update(frame for frame, parent in known["parents"].items() if parent is not None)

    def know_parts(self, parts: Table[tuple[int, object], Symbol]) -> None:
        for (owner, key), symbol in parts.items():
            self._add_part(owner, key, symbol)

    def know_questions(self, questions: Table[Hashable, Question]) -> None:
        self._questions.update(questions)

    # --- reading and writing cells -----------------------------------------------------------------------

    def restrict(self, value: Value) -> Value:
        """What remains of a value on this path."""
        if not isinstance(value, Choice):
            return value
        remaining = [
            (condition, option)
            for condition, option in value.alternatives
            if option is not ABSENT and not self.path.excludes(condition)
        ]
        if len(remaining) == len(value.alternatives):
            return value
        if len(remaining) > 1:
            return Choice(tuple(remaining))
        return remaining[0][1] if remaining else ABSENT

    def read(self, owner: int, name: str) -> Value | None:
        """A cell's value on this path; None where it has none."""
        value = self.store.read(owner, name)
        if isinstance(value, Choice):
            value = self.restrict(value)
        return None if value is ABSENT else value

    def variable(self, frame: int, name: str) -> Value | None:
        """The value of a variable, which has one from here on: the program raises where no branch bound it."""
        value = self.store.read(frame, name)
        if not isinstance(value, Choice):
            return None if value is ABSENT else value
        possible = [(guard, option) for guard, option in value.alternatives if not self.path.excludes(guard)]
        bound = [(guard, option) for guard, option in possible if option is not ABSENT]
        if not bound or len(bound) == len(possible):
            return self.read(frame, name)
        guards = [guard for guard, _ in bound]
        is_bound = any_of(guards)
        if len(is_bound.cases) == 1 or sum(len(cube.answers) for cube in is_bound.cubes) <= 2:
            self.survive(is_bound)
            return self.read(frame, name)
        # A path of several cases would entangle all that follows.
        return choose(zip(told_apart([[guard] for guard in guards]), (option for _, option in bound), strict=True))

    def may_lack(self, owner: int, name: str) -> bool:
        """Whether a cell has a value on some of the ways that lead here, and none on others."""
        value = self.store.read(owner, name)
        return isinstance(value, Choice) and any(
            option is ABSENT and not self.path.excludes(guard) for guard, option in value.alternatives
        )

    def filled(self, owner: int, name: str, missing: Value, there: Value | None = None) -> Value:
        """A cell's value, or ``there`` in its place, and another one where it has none."""
        stored = alternatives(self.store.read(owner, name) or ABSENT)
        return self.either([(guard, missing if option is ABSENT else there or option) for guard, option in stored])

    def write(self, owner: int, name: str, value: Value) -> None:
        if name in CONTENT_CELLS:
            value = within_reach(self, owner, value)
        self.store.write(owner, name, value)

    # --- paths -----------------------------------------------------------------------------------------

    @property
    def looks_at_forward(self) -> bool:
        """Whether the forward of a module is looked at by itself: its tensors are taken to be where the module is."""
        return self.standalone and bool(self.in_forward)

    def known_question(self, subject: Hashable) -> Question | None:
        """The question about ``subject``, if it was asked."""
        known = self._questions.get(subject)
        if self.store.watch is not None:
            self.store.watch.questions.setdefault(subject, known)
        return known

    def question(self, subject: Hashable, rivals: Hashable = None, text: str | cst.CSTNode = "") -> Question:
        """The question about ``subject``: the same object each time it is asked."""
        known = self.known_question(subject)
        if known is None:
            known = self._questions[subject] = asked(subject, rivals, text)
        return known

    @staticmethod
    def opaque(text: str | cst.CSTNode = "") -> Question:
        """A question that nothing else can be the same as."""
        return asked(source=text)

    def hangs_on_later(self, question: Question) -> bool:
        """Whether something that the running branch wrote hangs on what was asked after this question."""
        changes = self.store.changes(self.store.depth - 1)
        return any(_hangs_on_later(value, question) for value in changes.values() if value is not None)

    def ask(self, question: Question) -> Value:
        """A question's answer as a boolean: a choice that later tests of the same question agree with."""
        yes, no = answered(question, True), answered(question, False)
        return self.either(((yes, TRUE), (no, FALSE)))

    def either(self, options: Many[tuple[Condition, Value]]) -> Value:
        """The value among guarded ones; where there are too many, what they have in common."""
        feasible = [(guard, value) for guard, value in options if not self.path.excludes(guard)]
        return choose(feasible) or self.summarise(self, feasible) or self.fresh()

    def fork(
        self, branches: Many[tuple[Condition, Callable[[], Value]]], asks: bool = False, decides: bool = False
    ) -> Value:
        """Run each branch that is possible here, from the same state, and join what they leave behind.

        ``asks`` where the program itself tests the condition: then it is part of what reaches the branch.
        ``decides`` where a value does that the program chose earlier.
        """
        path, reach, tested = self.path, self.reach, self.tested
        outer, newest = self.alternatives, self.newest
        feasible = [(inside, guard, run) for guard, run in branches if (inside := path & guard).possible]
        exits, whole = [], True
        for inside, guard, run in feasible:
            self.path = inside
            self.reach = reached = reach & guard if asks else reach
            self.tested = asked = tested & guard if asks else tested
            self.alternatives = (*outer, guard) if decides else outer
            if len(feasible) == 1:
                value = run()
                self.path = path if self.path is inside else self.path
                self.reach = reach if self.reach is reached else self.reach
                self.tested = tested if self.tested is asked else self.tested
                self.alternatives = outer
                return value
            depth, left = self.store.depth, self._ways_out
            self.store.begin()
            value = run()
            if self.dead and self._ways_out == left:
                self._require(guard.negation, path)
            if not self.dead:
                exits.append(Exit(self.path, self.reach, self.tested, self.store.changes(depth), value))
            # What else a branch survives is left to what comes after: it would entangle all of that.
            whole = whole and not self.dead and (self.path is inside or self.path.machines == inside.machines)
            self.store.roll_back()
            self.dead = False
        self.path, self.reach, self.tested = path, reach, tested
        self.alternatives = outer
        return self._join(exits, whole=whole, newest=newest)

    @property
    def _ways_out(self) -> int:
        """How often the program has jumped out of what is running."""
        return sum(len(scope.exits) for scope in self.scopes)

    @staticmethod
    def _require(condition: Condition, path: Condition) -> None:
        """The program goes on only where the condition holds: it raises elsewhere, or ends."""
        common = reduce(and_, (cube.answers for cube in condition.cubes)) if condition.possible else frozenset[Answer]()
        for answer in common:
            answer.question.require(answer.given, path)
        for cube in condition.cubes:
            for answer in cube.answers - common:
                rest = path & of([Cube(cube.machines, cube.answers - {answer})])
                if condition.excludes(rest & answered(answer.question, not answer.given)):
                    answer.question.require(answer.given, rest)

    @property
    def decided(self) -> Condition:
        """The alternatives of values that are being looked at."""
        return reduce(and_, self.alternatives, ALWAYS)

    def survive(self, condition: Condition) -> None:
        """Past a statement that raises unless the condition holds."""
        if self.path.excludes(condition):
            self.dead = True
            return
        self._require(condition, self.path)
        self.path = self.path & condition
        self.reach = self.reach & condition

    def _join(self, exits: list[Exit], whole: bool, newest: int | None = None) -> Value:
        """What several ways out leave behind; ``whole`` where all that came in gets out by one of them.

        What has an id after ``newest`` came up on one of the ways.
        """
        base_path = self.path
        if not exits:
            self.dead = True
            return NONE
        if not whole:
            self.path = _bounded(any_of(exit.path for exit in exits), self.path)
            self.reach = _bounded(any_of(exit.reach for exit in exits), self.reach)
            self.tested = _bounded(any_of(exit.tested for exit in exits), self.tested)
        if len(exits) == 1:
            for cell, changed in exits[0].changes.items():
                self.store.write(*cell, changed)
            return exits[0].value
        values, cells = [exit.value for exit in exits], reduce(or_, (exit.changes for exit in exits))
        if not cells and (settled := self._settled(values)) is not None:
            return settled
        guards = cache(lambda: [exit.path.given(base_path) for exit in exits])
        for cell, changed in cells.items():
            owner, name = cell
            if newest is not None and owner > newest and owner in self._own:
                self.store.write(owner, name, changed)
                continue
            before = self.store.read(owner, name)
            after = [exit.changes.get(cell, before) for exit in exits]
            if before is not None and (overridden := self._overridden(cell, before, after)) is not None:
                self.store.write(owner, name, overridden)
                continue
            join = self.joined_content if name in CONTENT_CELLS else self._joined
            self.store.write(owner, name, join(guards, after))
        return self._joined(guards, values) or NONE

    def _overridden(self, cell: Cell, before: Value, after: Many[Value | None]) -> Value | None:
        """The setting in a cell that some ways override: any value, on the others as well, but that by default."""
        setting = self.overridden.get(cell)
        if setting is None or setting.preferred != before or any(value not in (setting, before) for value in after):
            return None
        return setting

    def joined_content(self, guards: Guards, values: Many[Value | None]) -> Value | None:
        """What a list or dict holds after a branch: item by item, so that the rest of it stays known."""
        known = [(guard, value) for guard, value in zip(guards(), values, strict=True) if value is not None]
        if all(isinstance(value, Sequence) for _, value in known):
            rows = [(guard, value.items) for guard, value in known if isinstance(value, Sequence)]
            lengths = {len(items) for _, items in rows}
            exact = len(lengths) == 1 and all(isinstance(value, Sequence) and value.exact for _, value in known)
            joined = [
                self._joined_ways([(guard, items[place]) for guard, items in rows if len(items) > place])
                for place in range(max(lengths, default=0))
            ]
            return Sequence(tuple(item for item in joined if item is not None), exact)
        if all(isinstance(value, Mapping) for _, value in known):
            return self._joined_mappings([(guard, value) for guard, value in known if isinstance(value, Mapping)])
        return self._joined(guards, values)

    def _joined_mappings(self, known: list[tuple[Condition, Mapping]]) -> Value:
        contents = [(guard, dict(mapping.items)) for guard, mapping in known]
        items = []
        for key in dict.fromkeys(key for _, content in contents for key in content):
            # A read under a missing key raises, so its value there does not matter.
            missing = self.fresh()
            value = self._joined_ways([(guard, content.get(key, missing)) for guard, content in contents])
            items.append((key, value if value is not None else self.fresh()))
        rests = [(guard, mapping.rest) for guard, mapping in known if mapping.rest is not None]
        rest = self._joined_ways(rests) if rests else None
        return Mapping(tuple(items), rest)

    def _settled(self, values: Many[Value | None]) -> Value | None:
        """What is one of these values, where it makes no difference which."""
        first = values[0]
        for value in values:
            if value is not first and value != first:
                break
        else:
            return first
        for value in values:
            if value is None or tells(value):
                return None
        return self.fresh()

    def _joined_ways(self, ways: list[tuple[Condition, Value]]) -> Value | None:
        return self._joined(lambda: [guard for guard, _ in ways], [value for _, value in ways])

    def _joined(self, guards: Guards, values: Many[Value | None]) -> Value | None:
        settled = self._settled(values)
        if settled is not None or all(value is None for value in values):
            return settled
        options = [(guard, ABSENT if value is None else value) for guard, value in zip(guards(), values, strict=False)]
        return choose(options) or self.summarise(self, options) or self.fresh()

    @contextmanager
    def assuming(self, guard: Condition) -> Iterator[None]:
        """Look at one alternative without running anything in it."""
        before, self.path = self.path, self.path & guard
        try:
            with self._one_visit():
                yield
        finally:
            self.path = before

    @contextmanager
    def aside(self, guard: Condition) -> Iterator[None]:
        """Run something, under a condition, that leaves nothing behind but what it says."""
        before = self.path, self.reach, self.tested, self.dead
        self.path, self.reach, self.tested = self.path & guard, self.reach & guard, self.tested & guard
        self.store.begin()
        try:
            yield
        finally:
            self.store.roll_back()
            self.path, self.reach, self.tested, self.dead = before

    def scope(self, kind: str, run: Callable[[], None]) -> Value:
        """Run something that can be jumped out of; the value is the one that the jumps carry."""
        path, reach, tested = self.path, self.reach, self.tested
        scope = Scope(kind, self.store.depth)
        self.scopes.append(scope)
        self.store.begin()
        run()
        self.scopes.pop()
        if not scope.exits and not self.dead:
            self.store.commit()
            return NONE
        if not self.dead:
            scope.exits.append(Exit(self.path, self.reach, self.tested, self.store.changes(scope.depth), NONE))
        self.store.roll_back()
        self.dead = False
        self.path, self.reach, self.tested = path, reach, tested
        return self._join(scope.exits, whole=False)

    def jump(self, kind: str, value: Value = NONE) -> None:
        """Leave the innermost scope of that kind; code outside any such scope just ends."""
        for scope in reversed(self.scopes):
            if scope.kind == kind:
                scope.exits.append(Exit(self.path, self.reach, self.tested, self.store.changes(scope.depth), value))
                break
            if scope.kind == "function":
                break
        self.dead = True

    # --- alternatives --------------------------------------------------------------------------------------

    def lift(self, operation: Callable[..., Value], *values: Value) -> Value:
        """Apply an operation on concrete values to each combination of alternatives that can occur here."""
        for value in values:
            if type(value) is Choice:
                break
        else:
            return operation(*values)
        restricted = [self.restrict(value) for value in values]
        if Choice not in map(type, restricted):
            return operation(*restricted)
        combinations = self._combinations(restricted)
        if combinations is None:
            return self.fresh()
        branches = [(guard, partial(operation, *chosen)) for guard, chosen in combinations]
        with self._one_visit():
            return self.fork(branches, decides=True)

    def _combinations(self, values: list[Value]) -> list[tuple[Condition, tuple[Value, ...]]] | None:
        """The combinations of alternatives that can occur together; None where they are too many."""
        found: list[tuple[Condition, tuple[Value, ...]]] = [(ALWAYS, ())]
        for value in values:
            found = [
                (both, (*chosen, option))
                for guard, chosen in found
                for condition, option in alternatives(value)
                if not self.path.excludes(both := guard & condition)
            ]
            if len(found) > MAX_COMBINATIONS:
                return None
        return found

    @contextmanager
    def _one_visit(self) -> Iterator[None]:
        """Events of nested alternatives belong to the same execution of the outermost one."""
        if not self._lifting:
            self._visit += 1
        self._lifting += 1
        try:
            yield
        finally:
            self._lifting -= 1

    @property
    def scene(self) -> Scene:
        if not self._lifting:
            self._visit += 1
        return Scene(
            self.reach,
            self.path,
            self._visit,
            self.site,
            self.replica,
            self.standalone,
            self.replica_ids,
            tuple(self.calls),
            self.frame.function.node.params if self.frame.function is not None else None,
            self.entered,
        )

    def circumstances(self) -> Hashable:
        """All that events and values may depend on here, besides the store and the values at hand."""
        return (
            self.path,
            self.reach,
            self.tested,
            self.alternatives,
            self.entered,
            tuple(self.calls),
            tuple(self.guards),
            tuple(self.tried),
            self.standalone,
            self.replica,
            self.on_only_gpu,
            self.replica_ids,
            self.replica_dim,
            self.casting,
            self.through,
            self.without_grad,
            self.expecting_attribute_errors,
            self.sure_of_gpu,
            self.in_default_context,
            self.worker,
        )

    def emit(self, event: Event) -> None:
        """Tell the rules; what another file does while it is imported, they hear when they listen to that file."""
        if self.frames[0].id == self.module_frame:
            self.events.append(event)

    # --- code of other files -------------------------------------------------------------------------------

    @property
    def site(self) -> cst.CSTNode | None:
        """Where a plain function of another file was called that is running now, from a place that answers for it.

        The program's own file does, and a module class of any file: how it is wrapped and where it is, its users say.
        """
        if self._answers(self.frame):
            return None
        callers = reversed(list(zip(self.frames, self.calls, strict=False)))
        return next((call for frame, call in callers if self._answers(frame)), None)

    def _answers(self, frame: Frame) -> bool:
        if self._roots[frame.id] == self.module_frame:
            return True
        owner = frame.function.owner if frame.function is not None else None
        return owner is not None and owner.module

    @property
    def chooses(self) -> bool:
        """Whether the running function has chosen to do what it does: it stands under a test of its own."""
        own = self.guards[self.frame.guards :]
        return bool(own) and (self.frame.function is not None or not self.is_script)

    @property
    def is_script(self) -> bool:
        """Whether what runs does so only where the file is the program: under ``if __name__ == "__main__"``."""
        return any("__name__" in names_in(guard) for guard in self.guards)

    @property
    def names_one_of_many(self) -> bool:
        """Whether what runs was looked up by its name, ``getattr(hub, name)``: what fails is not meant to be named."""
        return any(answer.given and answer.question.by_name for cube in self.path.cubes for answer in cube.answers)

    def note_site(self, node: cst.CSTNode) -> None:
        """Remember for a call in a plain function of another file what led to it."""
        if self.project is not None and (site := self.site) is not None:
            self.sites.setdefault(node, {})[site] = None

    def definition(self, cls: Class) -> cst.ClassDef:
        """Where a class is defined, and all that stands in it."""
        definition = self.definitions[cls.id]
        if self.store.watch is not None:
            self.store.watch.definitions.setdefault(cls.id, definition)
        return definition

    # --- names ---------------------------------------------------------------------------------------------

    @property
    def frame(self) -> Frame:
        return self.frames[-1]

    def label(self, value: Value, default: str = "") -> str:
        """How the program names a thing."""
        if isinstance(value, (Object, Symbol)):
            return source_text(self.noted("labels", value.id) or "") or value.text or default
        return default

    def call_it(self, identity: int, name: str | cst.CSTNode) -> None:
        """The program names a thing; the first of its names stays."""
        if self.noted("labels", identity) is None:
            self.labels[identity] = name

    def block_around(self) -> tuple[Many[cst.CSTNode], int]:
        """The block of the simple statement that is running, and its place there."""
        if self.store.watch is not None:
            self.store.watch.around.append(self.block)
        return self.block

    def loops_around(self) -> Many[cst.For | cst.While]:
        """The loops that are running, inside each other."""
        if self.store.watch is not None:
            self.store.watch.around.extend(self.loops)
        return self.loops

    def wraps_here(self, identity: int) -> tuple[Note, ...]:
        """Where this module is wrapped, if that says something of this place.

        In a function that nobody calls, only what that same run did before: another method may not have run.
        """
        running = {frame.id for frame in self.frames[1:]}
        if self.standalone and self.wrapped_in.get(identity, set()).isdisjoint(running):
            return ()
        return tuple(self.wraps.get(identity, ()))

    def constructing(self, owner: Object) -> bool:
        """Whether the ``__init__`` of this object is running."""
        return any(
            frame.function is not None and frame.function.name == "__init__" and frame.receiver == owner
            for frame in self.frames
        )

    def expects(self, *errors: str) -> bool:
        """Whether a handler deals with one of these exceptions, by its name; or with all, in the function that runs."""
        return any(tried.deals_with(errors, len(self.frames)) for tried in self.tried)

    def does_without(self, *errors: str) -> bool:
        """Whether the program has something else for where what runs raises one of these, which is all that it tries.

        A handler around a function that does more is there for whatever may go wrong.
        """
        here, (lines, place) = len(self.frames), self.block
        is_last = place == len(lines) - 1
        return any(
            tried.resumes and tried.deals_with(errors, here) and (tried.depth == here or is_last)
            for tried in self.tried
        )

    def test(self, test: Callable[[], Condition]) -> tuple[Condition, bool]:
        """The condition of a branch, and whether something was found to be on a GPU to answer it."""
        before, self.saw_gpu = self.saw_gpu, False
        holds = test()
        saw, self.saw_gpu = self.saw_gpu, before
        return holds, saw

    @contextmanager
    def without_gradients(self, gradless: bool) -> Iterator[None]:
        """Inside ``torch.no_grad()``, if that is where this is."""
        self.without_grad += gradless
        try:
            yield
        finally:
            self.without_grad -= gradless

    @contextmanager
    def round_by_round(self) -> Iterator[None]:
        """While a loop runs."""
        self.rounds.append(self._last_id)
        try:
            yield
        finally:
            self.rounds.pop()

    def same_each_round(self) -> bool:
        """Whether what decides that this statement is reached was known before the innermost loop began."""
        asked = {answer.question.subject for cube in self.reach.cubes for answer in cube.answers}
        return not self.rounds or all(_older(subject, self.rounds[-1]) for subject in asked)

    @staticmethod
    def text(node: cst.CSTNode) -> str:
        """A node's source, without the whitespace and comments around it."""
        return source_text(node)

    @contextmanager
    def only_updating(self) -> Iterator[None]:
        """What is read here is read only to be updated: ``self.count += 1``."""
        before, self.updating = self.updating, True
        try:
            yield
        finally:
            self.updating = before


def _older(subject: Hashable, limit: int) -> bool:
    """Whether all that a question is about has an id up to ``limit``."""
    if isinstance(subject, tuple):
        return all(_older(part, limit) for part in subject)
    if isinstance(subject, Symbol):
        return subject.id <= limit or (subject.parent is not None and _older(subject.parent, limit))
    if isinstance(subject, (Object, Bound)):
        return _older(subject.receiver, limit) if isinstance(subject, Bound) else subject.id <= limit
    return isinstance(subject, (str, Const, AtLeast))


def _hangs_on_later(value: Value, question: Question) -> bool:
    if isinstance(value, Choice):
        return any(
            guard.asks_after(question) or _hangs_on_later(option, question) for guard, option in value.alternatives
        )
    if isinstance(value, (Sequence, Mapping)):
        items = value.items if isinstance(value, Sequence) else [item for _, item in value.items]
        return any(_hangs_on_later(item, question) for item in items)
    return False


def _of_the_moment() -> tuple[str, ...]:
    bare = Machine.__new__(Machine)
    bare._note_moment()
    return tuple(vars(bare))


# The attributes that say where the program is.
_MOMENT = _of_the_moment()
_of_moment = itemgetter(*_MOMENT)


def _bounded(condition: Condition, otherwise: Condition) -> Condition:
    """A path made of many cases costs more than it tells, and nothing is certain on one that was made of too many."""
    return condition if len(condition.cases) <= MAX_PATH_CUBES and not condition.widened else otherwise
