"""The abstract machine: the store, the path condition, and how paths fork and join.

It does not depend on syntax or torch. :mod:`statements` and :mod:`expressions` drive it through a program, and the
models of modules, tensors and optimizers keep their facts in its store.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from collections.abc import Mapping as Table
from collections.abc import Sequence as Many
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, partial, reduce
from operator import and_, or_
from typing import TYPE_CHECKING, Any, overload

import libcst as cst

from placement_lint.flow.api.bounds import MOST_NESTED
from placement_lint.flow.domain.path_condition import (
    ALWAYS,
    NEVER,
    Answer,
    Condition,
    Cube,
    Question,
    answered,
    any_of,
    are_too_many,
    asked,
    blurred,
    current,
    of,
    survived,
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
    Device,
    External,
    Fact,
    Function,
    Kind,
    Mapping,
    Object,
    Sequence,
    Symbol,
    Value,
    alternatives,
    choose,
)
from placement_lint.flow.events.schema import Event, Scene
from placement_lint.flow.state import joins
from placement_lint.flow.state.allocations import InForward
from placement_lint.flow.state.budget import Budget
from placement_lint.flow.state.evaluator import Evaluator
from placement_lint.flow.state.extent import CONTENT_CELLS, within_reach
from placement_lint.flow.state.heap import ITEMS, MAPPING, Delta, Key, Slot, Store
from placement_lint.flow.state.module_notes import ModuleNotes
from placement_lint.flow.state.moment import Around, Calls, Replica, Tried
from placement_lint.flow.state.namespaces import Namespaces
from placement_lint.flow.state.notes import Registry, Use, all_notes, beginning, moments
from placement_lint.flow.state.program import Program
from placement_lint.flow.state.signals import Signals
from placement_lint.rule import Note
from placement_lint.source.querying import names_in, only_asks
from placement_lint.source.wording import source_text

if TYPE_CHECKING:
    from placement_lint.flow.state.imports import Project
    from placement_lint.flow.state.listening import Log, Recollection

# Work is bounded: beyond these, calls are no longer analysed and choices become unknown.
MAX_CALL_DEPTH = 12
MAX_COMBINATIONS = 24
MAX_PATH_CUBES = 8

# Forwards in an editor's text get ids from multiples of this.
_ROUND = 256


# One value that stands for too many guarded ones; None if they have nothing in common.
Summary = Callable[["Machine", Many[tuple[Condition, Value]]], "Value | None"]


@dataclass
class Exit:
    """One exit from a scope: the path that led there, the cells it wrote, and the value it carries.

    ``guard`` is what the path adds to that at the fork, if that is all that it adds.
    """

    path: Condition
    reach: Condition
    tested: Condition
    changes: Delta
    value: Value
    guard: Condition | None = None

    def since(self, fork: Condition) -> Condition:
        """What the path adds to that at the fork: both together may have too many cases to be certain."""
        added = self.path.given(fork)
        return added if added.certain or self.guard is None or not self.guard.possible else self.guard


@dataclass
class Scope:
    """The target of a ``return``, ``break`` or ``continue``."""

    kind: str
    depth: int
    exits: list[Exit] = field(default_factory=list)


@dataclass
class Frame:
    """A running function (or the module): its variables are cells of ``id``."""

    id: int
    function: Function | None = None
    receiver: Value | None = None
    # the number of tests around its call
    guards: int = 0
    # the statement that is running
    line: cst.CSTNode | None = None
    # it has passed a test after which it would have returned, had the program not raised before
    returns_early: bool = False


class Machine:
    """State of one analysis; see the module's docstring."""

    def __init__(self, evaluator: Evaluator, log: Log | None = None) -> None:
        self.evaluator = evaluator
        self.log = log
        self.signals = Signals()
        self.store = Store()
        self.notes = all_notes()
        self.budget = Budget()
        self._begin()
        self.namespaces = Namespaces()
        self._questions: dict[Hashable, Question] = {}
        # by owner and key
        self._parts: dict[int, dict[object, Symbol]] = {}
        self._last_id = 0
        self._visit = 0
        self.module_frame = self.new_frame(None)
        self.frames: list[Frame] = [Frame(self.module_frame)]
        # the other files of the project; None if a program is analysed alone
        self.project: Project | None = None
        # whether a module that is analysed by itself is on a GPU
        self.own_on_gpu = asked(source="the module is on a GPU")
        # cached forwards of an editor's previous text
        self.recollection: Recollection | None = None
        # a common summary of too many guarded values
        self.summarise: Summary = lambda machine, options: None

    def _begin(self) -> None:
        """Set the current position to the beginning of the program."""
        self.now = beginning()
        self.path: Condition = ALWAYS
        self.reach: Condition = ALWAYS
        # the part of reach that the program itself tests: without conditions that hold because nothing raised
        self.tested: Condition = ALWAYS
        # the nested alternatives of values that are being analysed
        self.alternatives: tuple[Condition, ...] = ()
        self.dead = False
        self.scopes: list[Scope] = []
        self._lifting = 0

    # --- identities ------------------------------------------------------------------------------------

    def new_id(self) -> int:
        self._last_id += 1
        return self._last_id

    @property
    def newest(self) -> int:
        """The last id."""
        return self._last_id

    @property
    def visits(self) -> int:
        """The number of the last visit."""
        return self._visit

    def align(self, slot: int = 0, circle: int = _ROUND) -> None:
        """Continue with the next numbers that leave ``slot`` when divided by ``circle``.

        Events in the alternatives of one value keep the number of their visit.
        """
        self._last_id += (slot - self._last_id) % circle
        if not self._lifting:
            self._visit += (slot - self._visit) % circle
        questions = current()
        questions.last += (slot - questions.last) % circle

    def number(self, ids: int, visits: int) -> None:
        """Continue with the ids and visits after these."""
        self._last_id, self._visit = ids, visits

    def new_namespace(self) -> int:
        """The id of a frame or class."""
        identity = self.new_id()
        self.namespaces.ids.add(identity)
        return identity

    def new_frame(self, parent: int | None) -> int:
        frame = self.new_id()
        self.namespaces.add_frame(frame, parent)
        if parent is not None:
            self.store.passing.add(frame)
        return frame

    def enclose(self) -> int:
        """The id of the running frame, marked as captured by a closure."""
        self.namespaces.enclosing.add(self.frame.id)
        return self.frame.id

    def leave(self, frame: int) -> None:
        """A function has returned."""
        if frame not in self.namespaces.enclosing:
            self.store.drop(frame)

    def root(self, frame: int) -> int:
        """The frame of the module whose code runs in a frame."""
        return self.namespaces.roots[frame]

    @property
    def at_home(self) -> bool:
        """Whether the running code is in the program's own file."""
        return self.root(self.frame.id) == self.module_frame

    def spend(self) -> None:
        """Count one step against the budget."""
        function = self.frame.function
        self.budget.spend(function.node if function is not None else None, self.path.effort, self.is_abroad)

    @property
    def recollects(self) -> bool:
        """Whether results for the running statement may be reused from an editor's previous text.

        The forward of a model that the program calls is reused as a whole, or not at all.
        """
        calls = self.now[Calls]
        return self.remembers and (calls.standalone or not calls.in_forward) and self.at_home

    @property
    def remembers(self) -> bool:
        """Whether the running code is compared with an editor's previous text."""
        if self.recollection is None:
            return False
        forward = self.now[InForward]
        return not (forward.rehearsing or forward.made or self.is_abroad)

    @contextmanager
    def without_recollection(self) -> Iterator[None]:
        """Run everything here without reusing results."""
        recollection, self.recollection = self.recollection, None
        try:
            yield
        finally:
            self.recollection = recollection

    @property
    def is_abroad(self) -> bool:
        """Whether the running code was called by code of another file, or belongs to its import."""
        return self.frames[0].id != self.module_frame or self.now[Calls].foreign > 0

    def affords(self, function: Function) -> bool:
        """Whether the budget allows analysing a function: always a lambda of another file, a single expression."""
        abroad = self.is_abroad or self.root(function.frame) != self.module_frame
        abroad = abroad and not isinstance(function.node, cst.Lambda)
        return self.budget.affords(function.node, abroad, bool(self.now[Replica].notes))

    @contextmanager
    def apart(self, frame: int) -> Iterator[None]:
        """Run code of the program's initial state in the frame of a module: no branch rolls it back."""
        moment = {name: vars(self)[name] for name in _MOMENT}
        frames, self.frames = self.frames, [Frame(frame)]
        self._begin()
        try:
            with self.store.lasting():
                yield
        finally:
            self.frames = frames
            vars(self).update(moment)

    def moment(self, without: Use) -> dict[type[Any], dict[str, Any]]:
        """The current position, without fields of such a use."""
        now = {kind: vars(held) for kind, held in self.now.items()}
        known = {kind: {name: now[kind][name] for name in names} for kind, names in moments(without).items()}
        return {Machine: {name: vars(self)[name] for name in _PATH}, **known}

    def go_to(self, moment: Table[type[Any], Table[str, Any]]) -> None:
        """Continue at the position with these values of its fields."""
        for kind, values in moment.items():
            vars(self if kind is Machine else self.now[kind]).update(values)

    def noted(self, notes: type[Any], name: str, key: Hashable) -> Any:
        """The entry for one thing in a registry that is read only through this method."""
        registry = Registry(notes, name)
        entry = self.notes.get_registry(registry).get(key)
        if self.store.watch is not None:
            self.store.watch.noted.setdefault((registry, key), entry)
        return entry

    def fresh(self, text: str | cst.CSTNode = "", type: str = "", scattered: bool = False) -> Symbol:
        """An unknown value, possibly of a known type, or one that depends on the rows of a replica."""
        self._last_id += 1
        return Symbol(self._last_id, text, None, type, scattered)

    def override(self, owner: int, name: str, text: str, preferred: Const) -> None:
        """Mark a setting as possibly overridden with another value than the present one."""
        self._last_id += 1
        self.notes[Program].overridden[owner, name] = setting = Symbol(self._last_id, text, preferred=preferred)
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
        """The unknown value under ``key`` of an unknown owner: the same at each read, unless it is nested too deep."""
        symbol = self.known_part(owner, key)
        if symbol is None and parent is not None and self._is_deep(owner):
            return self.fresh(text, type)
        if symbol is None:
            symbol = Symbol(self.new_id(), text, parent, type, preferred=preferred)
            self._add_part(owner, key, symbol)
        return symbol

    def _is_deep(self, owner: int) -> bool:
        """Whether a value is a part of a part, and so on, nested deeper than the analysis follows."""
        outer = self.notes[Program].outer
        for _ in range(MOST_NESTED):
            if owner not in outer:
                return False
            owner = outer[owner]
        return True

    def _add_part(self, owner: int, key: object, symbol: Symbol) -> None:
        self._parts.setdefault(owner, {})[key] = symbol
        if symbol.parent is not None:
            self.notes[Program].outer[symbol.id] = owner

    def known_part(self, owner: int, key: object) -> Symbol | None:
        """The unknown value under ``key``, if it was read before."""
        symbol = self._parts.get(owner, {}).get(key)
        if self.store.watch is not None:
            self.store.watch.parts.setdefault((owner, key), symbol)
        return symbol

    def parts(self, owner: int) -> Many[Symbol]:
        """The parts that were read before, without the analysis's own, such as the place of a module."""
        known = self._parts.get(owner, {}).items()
        parts = tuple([part for key, part in known if not isinstance(key, Slot)])
        if self.store.watch is not None and owner <= self.store.watch.newest:
            self.store.watch.all_parts.setdefault(owner, parts)
        return parts

    def new_object(self, kind: Kind, cls: Class | External, node: cst.CSTNode, text: str = "") -> Object:
        made = Object(self.new_id(), kind, cls, node, text)
        if self.frames[0].id == self.module_frame:
            self.namespaces.own.add(made.id)
        return made

    def new_list(self, items: Sequence, node: cst.CSTNode) -> Object:
        result = self.new_object(Kind.LIST, External("builtins.list"), node)
        self.write(result.id, ITEMS, items)
        return result

    def new_dict(self, content: Mapping, node: cst.CSTNode) -> Object:
        result = self.new_object(Kind.DICT, External("builtins.dict"), node)
        self.write(result.id, MAPPING, content)
        return result

    # --- restoring results -------------------------------------------------------------------------------

    def know(self, known: Table[str, Any]) -> None:
        """Add cached facts about frames, classes and objects."""
        self.namespaces.know(known)
        self.store.passing.update(frame for frame, parent in known["parents"].items() if parent is not None)

    def know_parts(self, parts: Table[tuple[int, object], Symbol]) -> None:
        for (owner, key), symbol in parts.items():
            self._add_part(owner, key, symbol)

    def know_questions(self, questions: Table[Hashable, Question]) -> None:
        self._questions.update(questions)

    # --- reading and writing cells -----------------------------------------------------------------------

    def restrict(self, value: Value, absent: bool = False) -> Value:
        """The alternatives of a value that are possible on this path: of a setting, on the path as written.

        ABSENT is among them only if ``absent``.
        """
        if not isinstance(value, Choice):
            return value
        remaining = self._possible(value, self.path)
        if len(remaining) < len(value.alternatives) and _is_setting(value):
            remaining = self._possible(value, self.written)
        remaining = [(guard, option) for guard, option in remaining if absent or option is not ABSENT]
        if len(remaining) == len(value.alternatives):
            return value
        if len(remaining) > 1:
            return Choice(tuple(remaining))
        return remaining[0][1] if remaining else ABSENT

    @staticmethod
    def _possible(value: Choice, path: Condition) -> list[tuple[Condition, Value]]:
        return [(guard, option) for guard, option in value.alternatives if not path.excludes(guard)]

    @overload
    def read(self, owner: int, name: Key) -> Value | None: ...

    @overload
    def read(self, owner: int, name: Key, unset: Value | Callable[[], Value]) -> Value: ...

    def read(self, owner: int, name: Key, unset: Value | Callable[[], Value] | None = None) -> Value | None:
        """A cell's value on this path; None if it has none, or ``unset`` on each path on which it has none.

        A program that reads a variable or attribute raises where that is unset. A slot then has ABSENT as one of its
        alternatives.
        """
        value = self.store.read(owner, name)
        if isinstance(value, Choice):
            value = self.restrict(value, absent=unset is not None or isinstance(name, Slot))
        if unset is None:
            return None if value is ABSENT else value
        known = alternatives(ABSENT if value is None else value)
        if value is not None and all(option is not ABSENT for _, option in known):
            return value
        missing = unset() if callable(unset) else unset
        return self.either([(guard, missing if option is ABSENT else option) for guard, option in known])

    def fact(self, name: str, details: object) -> Fact:
        """A fact about the running statement."""
        return Fact(name, details, self.tested)

    def add(self, owner: int, name: Slot, item: Value) -> None:
        """Append an item to the list in a slot, unless it is in it already."""

        def added(listed: Value) -> Value:
            known = listed.items if isinstance(listed, Sequence) else ()
            return Sequence(known if item in known else (*known, item))

        self.write(owner, name, self.lift(added, self.read(owner, name, unset=Sequence(()))))

    def variable(self, frame: int, name: str) -> Value | None:
        """The value of a variable; the path then excludes branches that did not bind it, since the program raises."""
        value = self.store.read(frame, name)
        if not isinstance(value, Choice):
            return None if value is ABSENT else value
        possible = [(guard, option) for guard, option in value.alternatives if not self.path.excludes(guard)]
        bound = [(guard, option) for guard, option in possible if option is not ABSENT]
        if not bound or len(bound) == len(possible):
            return self.read(frame, name)
        guards = [guard for guard, _ in bound]
        unbound = any_of(guard for guard, option in possible if option is ABSENT)
        # Of two tests that each bind it, one or the other holds, which is shorter than what the assignments say.
        is_bound = unbound.negation if unbound.certain else any_of(guards)
        if len(is_bound.cases) == 1 or sum(len(cube.answers) for cube in is_bound.cubes) <= 2:
            self.survive(is_bound)
            return self.read(frame, name)
        # A path with several cases would complicate all later code.
        return choose(zip(told_apart([[guard] for guard in guards]), (option for _, option in bound), strict=True))

    def write(self, owner: int, name: Key, value: Value) -> None:
        if name in CONTENT_CELLS:
            value = within_reach(self, owner, value)
        self.store.write(owner, name, value)

    # --- paths -----------------------------------------------------------------------------------------

    @property
    def looks_at_forward(self) -> bool:
        """Whether the forward of a module is analysed by itself: its tensors are assumed to be where the module is."""
        calls = self.now[Calls]
        return calls.standalone and bool(calls.in_forward)

    def known_question(self, subject: Hashable) -> Question | None:
        """The question about ``subject``, if there is one."""
        known = self._questions.get(subject)
        if self.store.watch is not None:
            self.store.watch.questions.setdefault(subject, known)
        return known

    def question(self, subject: Hashable, rivals: Hashable = None, text: str | cst.CSTNode = "") -> Question:
        """The question about ``subject``: the same object each time."""
        known = self.known_question(subject)
        if known is None:
            if are_too_many(self.is_abroad):
                return blurred(self.store.depth)
            known = self._questions[subject] = asked(subject, rivals, text)
        known.ask_under(self.path.shared)
        return known

    def equality(self, value: Value, other: Value, text: str) -> Question:
        """Whether a value equals another one, such as a constant: then it equals no other."""
        return self.question((cst.Equal.__name__, value, other), ("equal", value), text)

    def opaque(self, text: str | cst.CSTNode = "", usual: bool | None = None) -> Question:
        """A question equal to no other; ``usual`` is the answer that is assumed by default."""
        return blurred(self.store.depth) if are_too_many(self.is_abroad) else asked(source=text, usual=usual)

    def hangs_on_later(self, question: Question) -> bool:
        """Whether something that the running branch wrote depends on a later question."""
        changes = self.store.changes(self.store.depth - 1)
        return any(_hangs_on_later(value, question) for value in changes.values() if value is not None)

    def ask(self, question: Question) -> Value:
        """A question's answer as a boolean: a choice that is consistent with later tests of the same question."""
        yes, no = answered(question, True), answered(question, False)
        return self.either(((yes, TRUE), (no, FALSE)))

    def either(self, options: Many[tuple[Condition, Value]]) -> Value:
        """The value among guarded ones; if there are too many, their common summary."""
        feasible = [(guard, value) for guard, value in options if not self.path.excludes(guard)]
        return choose(feasible) or self.summarise(self, feasible) or self.fresh()

    def fork(
        self, branches: Many[tuple[Condition, Callable[[], Value]]], asks: bool = False, decides: bool = False
    ) -> Value:
        """Run each branch that is possible here, from the same state, and join their effects.

        ``asks`` if the program itself tests the condition: then it is part of ``reach`` in the branch. ``decides`` if
        the condition belongs to a value that the program chose earlier.
        """
        path, reach, tested = self.path, self.reach, self.tested
        outer, newest = self.alternatives, self.newest
        denied = branches[0][0] if len(branches) == 2 else NEVER
        feasible = [
            (inside, guard, run) for guard, run in branches if (inside := narrowed(path, guard, denied)).possible
        ]
        # What the program tests before branches that would be possible if nothing before had raised.
        unseen = NEVER
        if asks and len(feasible) == 1:
            written = self.written
            others = [guard for guard, _ in branches if guard is not feasible[0][1] and not written.excludes(guard)]
            unseen = any_of(tested & guard for guard in others)
        exits, whole = [], True
        for inside, guard, run in feasible:
            self.path = inside
            self.reach = reached = narrowed(reach, guard, denied) if asks else reach
            self.tested = asked = narrowed(tested, guard, denied) if asks else tested
            self.alternatives = (*outer, guard) if decides else outer
            if len(feasible) == 1:
                exited = [len(scope.exits) for scope in self.scopes]
                value = run()
                for scope, known in zip(self.scopes, exited, strict=True):
                    for exit in scope.exits[known:]:
                        exit.tested = exit.tested | unseen
                self.path = path if self.path is inside else self.path
                self.reach = reach if self.reach is reached else self.reach
                self.tested = tested if self.tested is asked else self.tested | unseen
                self.alternatives = outer
                return value
            depth, left = self.store.depth, self._ways_out
            self.store.begin()
            value = run()
            if self.dead and self._ways_out == left:
                self._require(guard.negation, path)
            survived = self.path.machines == inside.machines
            if not self.dead:
                # Where the branch only ends the program, or goes on, its effects are those of all that goes on.
                left_by = inside if survived and self._ways_out == left else self.path
                changes, alone = self.store.changes(depth), guard if left_by is inside else None
                exits.append(Exit(left_by, self.reach, self.tested, changes, value, alone))
            # Other conditions that a branch survives are not added: they would complicate the path of all later code.
            whole = whole and not self.dead and (self.path is inside or survived)
            self.store.roll_back()
            self.dead = False
        self.path, self.reach, self.tested = path, reach, tested
        self.alternatives = outer
        return self._join(exits, whole=whole, newest=newest)

    @property
    def _ways_out(self) -> int:
        """The number of jumps out of the running scopes."""
        return sum(len(scope.exits) for scope in self.scopes)

    @staticmethod
    def _require(condition: Condition, path: Condition) -> None:
        """The program continues only if the condition holds: otherwise it raises or ends."""
        common = reduce(and_, (cube.answers for cube in condition.cubes)) if condition.possible else frozenset[Answer]()
        for answer in common:
            answer.question.require(answer.given, path)
        for cube in condition.cubes:
            for answer in cube.answers - common:
                rest = path & of([Cube(cube.machines, cube.answers - {answer})])
                if condition.excludes(rest & answered(answer.question, not answer.given)):
                    answer.question.require(answer.given, rest)

    @contextmanager
    def reaching(self, condition: Condition) -> Iterator[None]:
        """The code that runs here is reached only under a condition: the program calls other code otherwise."""
        before = self.reach
        self.reach = inside = before & condition
        try:
            yield
        finally:
            self.reach = before if self.reach is inside else self.reach

    @property
    def written(self) -> Condition:
        """The path as written: what the program's own tests leave of it, not what raised before.

        After ``net.cuda()`` there is a GPU, or the program is no longer running. That does not change for which
        machines the program chose ``device`` before. So the path as written has all kinds of machine back that no test
        of the program rules out, and leaves open what the settings of the script are, which its user edits.
        """
        return self.path.regardless_of((self.tested & self.decided).machines)

    @contextmanager
    def as_written(self, *nodes: cst.CSTNode) -> Iterator[None]:
        """Run on the path as written what chooses a setting: the nodes, if given, must only ask for settings."""
        path = self.path
        self.path = written = self.written if all(map(only_asks, nodes)) else path
        try:
            yield
        finally:
            self.path = path if self.path is written else path & self.path

    @property
    def decided(self) -> Condition:
        """The alternatives of values that are being analysed."""
        return reduce(and_, self.alternatives, ALWAYS)

    def survive(self, condition: Condition) -> None:
        """Continue past a statement that raises unless the condition holds."""
        if self.path.excludes(condition):
            self.dead = True
            return
        self._require(condition, self.path)
        self.path = _bounded(self.path & condition, self.path & condition.common)
        self.reach = _bounded(self.reach & condition, self.reach & condition.common)

    def assume(self, condition: Condition) -> None:
        """Continue under a condition that the program does not test here."""
        self.path, self.reach = self.path & condition, self.reach & condition

    def _join(self, exits: list[Exit], whole: bool, newest: int | None = None) -> Value:
        """Join the effects of several exits; ``whole`` if every path that enters leaves by one of them.

        Objects with an id after ``newest`` were made on one of the paths.
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
        if not cells and (settled := joins.settled(self, values)) is not None:
            return settled
        guards = cache(lambda: [exit.since(base_path) for exit in exits])
        # What was made on one of the paths comes first: the other cells are joined by what is in it.
        made = [cell for cell in cells if newest is not None and cell[0] > newest and cell[0] in self.namespaces.own]
        for cell in made:
            self.store.write(*cell, cells.pop(cell))
        for cell in cells:
            owner, name = cell
            before = self.store.read(owner, name)
            after = [exit.changes.get(cell, before) for exit in exits]
            if before is not None and (overridden := joins.overridden(self, cell, before, after)) is not None:
                self.store.write(owner, name, overridden)
                continue
            join = joins.joined_content if name in CONTENT_CELLS else joins.joined
            self.store.write(owner, name, join(self, guards, after))
        return joins.joined(self, guards, values) or NONE

    @contextmanager
    def assuming(self, guard: Condition) -> Iterator[None]:
        """Consider one alternative without running code in it."""
        before, self.path = self.path, self.path & guard
        try:
            with self._one_visit():
                yield
        finally:
            self.path = before

    @contextmanager
    def aside(self, guard: Condition, goes_without_saying: bool = True) -> Iterator[None]:
        """Run something under a condition and undo its effects, except for its events."""
        before = self.path, self.reach, self.tested, self.dead
        self.path, self.tested = self.path & guard, self.tested & guard
        self.reach = self.reach & guard if goes_without_saying else self.reach
        self.store.begin()
        try:
            yield
        finally:
            self.store.roll_back()
            self.path, self.reach, self.tested, self.dead = before

    def scope(self, kind: str, run: Callable[[], None]) -> Value:
        """Run code that jumps can leave; the value is the one that the jumps carry."""
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
        """Leave the innermost scope of that kind; code outside any such scope ends."""
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
        restricted = [self.restrict(value, absent=True) for value in values]
        if Choice not in map(type, restricted):
            return operation(*restricted)
        combinations = self._combinations(restricted)
        if combinations is None:
            return self.fresh()
        branches = [(guard, partial(operation, *chosen)) for guard, chosen in combinations]
        with self._one_visit():
            return self.fork(branches, decides=True)

    def _combinations(self, values: list[Value]) -> list[tuple[Condition, tuple[Value, ...]]] | None:
        """The combinations of alternatives that can occur together; None if there are too many."""
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
        """Give the events of nested alternatives the visit of the outermost execution."""
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
        calls, replica = self.now[Calls], self.now[Replica]
        return Scene(
            self.reach,
            self.path,
            self._visit,
            self.site,
            replica.notes,
            calls.standalone,
            replica.ids,
            tuple(calls.nodes),
            self.frame.function.node.params if self.frame.function is not None else None,
            tuple(calls.entered),
            calls.entry,
        )

    def circumstances(self) -> Hashable:
        """All that events and values may depend on here, besides the store and the operands."""
        now = [
            tuple(value) if isinstance(value := getattr(self.now[kind], name), list) else value
            for kind, names in moments(Use.PASSING).items()
            for name in names
        ]
        return self.path, self.reach, self.tested, self.alternatives, *now

    def emit(self, event: Event) -> None:
        """Emit an event, unless the program handles the error.

        The events of another file that is being imported are emitted when that file is analysed.
        """
        if self.frames[0].id != self.module_frame or (event.raises and self.falls_back(*event.raises)):
            return
        scene, when = event.scene, survived(event.scene.when)
        # An event under another condition than the path knows better what it depends on.
        decided = self.decided if scene.when is self.path else ALWAYS
        if when.possible:
            if when is not scene.when or decided is not scene.decided:
                scene = replace(scene, when=when, decided=decided)
            self.notes[Program].events.append(event if scene is event.scene else replace(event, scene=scene))

    @contextmanager
    def unheard(self) -> Iterator[None]:
        """Drop the events here: they are emitted when the running function is analysed by itself."""
        program = self.notes[Program]
        before = program.events, program.called, program.called_on
        program.events, program.called, program.called_on = [], set(), set()
        try:
            yield
        finally:
            program.events, program.called, program.called_on = before

    # --- code of other files -------------------------------------------------------------------------------

    @property
    def site(self) -> cst.CSTNode | None:
        """The call that led to the running plain function of another file; None outside of such functions.

        It is in the program's own file or in a module class, whose users decide how it is wrapped and where it is.
        """
        if self._answers(self.frame):
            return None
        callers = reversed(list(zip(self.frames, self.now[Calls].nodes, strict=False)))
        return next((call for frame, call in callers if self._answers(frame)), None)

    def _answers(self, frame: Frame) -> bool:
        if self.namespaces.roots[frame.id] == self.module_frame:
            return True
        owner = frame.function.owner if frame.function is not None else None
        return owner is not None and owner.module

    @property
    def chooses(self) -> bool:
        """Whether the running function runs this under a test of its own."""
        own = self.now[Around].guards[self.frame.guards :]
        return bool(own) and (self.frame.function is not None or not self.is_script)

    @property
    def is_script(self) -> bool:
        """Whether the code only runs if the file is the program: under ``if __name__ == "__main__"``."""
        return any("__name__" in names_in(guard) for guard in self.now[Around].guards)

    @property
    def names_one_of_many(self) -> bool:
        """Whether the running code was looked up by its name, ``getattr(hub, name)``: failing names are not meant."""
        return any(answer.given and answer.question.by_name for cube in self.path.cubes for answer in cube.answers)

    @property
    def runs_one_of_many(self) -> bool:
        """Whether a running function was itself looked up so: one that cannot take what it is given is not meant."""
        named = {
            answer.question.subject[2]
            for cube in self.path.cubes
            for answer in cube.answers
            if answer.given and answer.question.by_name and isinstance(answer.question.subject, tuple)
        }
        running = (frame.function for frame in self.frames if frame.receiver is None) if named else ()
        return any(function is not None and Const(function.name) in named for function in running)

    def note_site(self, node: cst.CSTNode) -> None:
        """Record, for a call in a plain function of another file, the call that led to it."""
        if self.project is not None and (site := self.site) is not None:
            self.notes[Program].sites.setdefault(node, {})[site] = None

    def definition(self, cls: Class) -> cst.ClassDef:
        """The definition of a class, with its body."""
        definition = self.namespaces.definitions[cls.id]
        if self.store.watch is not None:
            self.store.watch.definitions.setdefault(cls.id, definition)
        return definition

    # --- names ---------------------------------------------------------------------------------------------

    @property
    def frame(self) -> Frame:
        return self.frames[-1]

    def label(self, value: Value, default: str = "") -> str:
        """The program's name for a value."""
        if isinstance(value, (Object, Symbol)):
            return source_text(self.noted(Program, "labels", value.id) or "") or value.text or default
        return default

    def call_it(self, identity: int, name: str | cst.CSTNode) -> None:
        """Record the program's name for a value; the first name stays."""
        if self.noted(Program, "labels", identity) is None:
            self.notes[Program].labels[identity] = name

    def block_around(self) -> tuple[Many[cst.CSTNode], int]:
        """The block of the simple statement that is running, and its place there."""
        block = self.now[Around].block
        if self.store.watch is not None:
            self.store.watch.around.append(block)
        return block

    def loops_around(self) -> Many[cst.For | cst.While]:
        """The running loops, outermost first."""
        loops = self.now[Around].loops
        if self.store.watch is not None:
            self.store.watch.around.extend(loops)
        return loops

    def wraps_here(self, identity: int) -> tuple[Note, ...]:
        """Where this module is wrapped, if that is relevant here.

        In an uncalled function, only wraps by the same run count: another method may not have run.
        """
        running = {frame.id for frame in self.frames[1:]}
        noted = self.notes[ModuleNotes]
        if self.now[Calls].standalone and noted.wrapped_in.get(identity, set()).isdisjoint(running):
            return ()
        return tuple(noted.wraps.get(identity, ()))

    def constructing(self, owner: Object) -> bool:
        """Whether the ``__init__`` of this object is running."""
        return any(
            frame.function is not None and frame.function.name == "__init__" and frame.receiver == owner
            for frame in self.frames
        )

    def expects(self, *errors: str) -> bool:
        """Whether a handler catches one of these exceptions, by name; or all exceptions, in the running function."""
        return any(tried.deals_with(errors, tried.depth == len(self.frames)) for tried in self.now[Around].tried)

    def does_without(self, *errors: str, only_if: Callable[[Tried], bool] = lambda tried: tried.resumes) -> bool:
        """Whether the program has a fallback for the case that this code, all that it tries, raises one of these.

        A handler around a function that does more is for any kind of error.
        """
        around = self.now[Around]
        lines, place = around.block
        is_last = place == len(lines) - 1
        return any(
            only_if(tried) and tried.deals_with(errors, near := self._is_near(tried)) and (near or is_last)
            for tried in around.tried
        )

    def falls_back(self, *errors: str) -> bool:
        """The same, if the fallback is seen."""
        return self.does_without(*errors, only_if=lambda tried: tried.resumes and tried.falls_back)

    def _is_near(self, tried: Tried) -> bool:
        """Whether the running function tries something, or is a plain series of statements that its caller tries."""
        here = len(self.frames)
        function = self.frame.function
        if tried.depth == here or function is None or tried.depth != here - 1 or not tried.falls_back:
            return tried.depth == here
        body = function.node.body.body if isinstance(function.node, cst.FunctionDef) else ()
        return all(isinstance(line, cst.SimpleStatementLine) for line in body)

    @contextmanager
    def round_by_round(self) -> Iterator[None]:
        """Mark a loop as running."""
        rounds = self.now[Around].rounds
        if not rounds:
            self.now[Around].effort = self.budget.effort
        rounds.append(self._last_id)
        try:
            yield
        finally:
            rounds.pop()

    def same_each_round(self, made: int) -> bool:
        """Whether the tests that lead to this statement are older than the loop that made something with this id."""
        asked = {answer.question.subject for cube in self.reach.cubes for answer in cube.answers}
        rounds = self.now[Around].rounds
        began = max((start for start in rounds if start < made), default=min(rounds, default=0))
        return not rounds or all(_older(subject, began) for subject in asked)

    @staticmethod
    def text(node: cst.CSTNode) -> str:
        """A node's source, without the whitespace and comments around it."""
        return source_text(node)

    @contextmanager
    def only_updating(self) -> Iterator[None]:
        """The reads here are only updates: ``self.count += 1``."""
        around = self.now[Around]
        before, around.updating = around.updating, True
        try:
            yield
        finally:
            around.updating = before


def _older(subject: Hashable, limit: int) -> bool:
    """Whether all values in the subject of a question have an id up to ``limit``."""
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


# The attributes of the current position: the moment, and the path that led there.
_PATH = ("path", "reach", "tested", "alternatives", "dead", "_lifting")
_MOMENT = ("now", "scopes", *_PATH)


def _is_setting(choice: Choice) -> bool:
    """Whether a value chooses among constants, devices and names of libraries, as a program does at its beginning."""
    return all(isinstance(option, (Const, Device, External)) for _, option in choice.alternatives)


def narrowed(condition: Condition, guard: Condition, denied: Condition) -> Condition:
    """The condition inside a branch: with the guard, or without the denied condition.

    The denied condition may be widened from too many cases, and exclude everything: then nothing is certain here.
    """
    if guard is not denied.negation:
        return condition & guard
    rest = condition.but_not(denied)
    return rest if rest.possible or not denied.widened else condition.at_most


def _bounded(condition: Condition, otherwise: Condition) -> Condition:
    """A path with many cases costs more than it is worth, and nothing is certain on one made of too many.

    The common part of all cases is kept: after ``if small: return``, the rest is not the path of small ones as well.
    """
    if not condition.certain:
        return otherwise
    return condition if len(condition.cases) <= MAX_PATH_CUBES else otherwise & condition.common
