"""The effects of code that ran in one text of a document, kept for the next text: most edits do not affect them.

A costly statement, a forward, or another method of a model that is called from outside the model has the same effects
if everything that it read is unchanged. Then its recorded effects are applied instead of running it again. Ids, visits
and questions are numbered as before, so that the unchanged parts of two runs are equal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from collections.abc import Mapping as Table
from collections.abc import Sequence as Many
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

import libcst as cst

from placement_lint.flow.domain import path_condition
from placement_lint.flow.domain.path_condition import Question
from placement_lint.flow.domain.record import replace
from placement_lint.flow.domain.structural_eq import Likeness
from placement_lint.flow.domain.values import NONE, Symbol, Value
from placement_lint.flow.incremental.stable_ids import CIRCLE, Slots
from placement_lint.flow.observers.placements import PlacementLog
from placement_lint.flow.state.budget import MOST_BY_FUNCTION, SHARE_ABROAD
from placement_lint.flow.state.heap import Cell, Delta, Watch
from placement_lint.flow.state.machine import Exit, Machine
from placement_lint.flow.state.moment import Around
from placement_lint.flow.state.notes import Registry, Use, copied, empty, registries, with_entries

if TYPE_CHECKING:
    from placement_lint.project.unit import Seen

Run: TypeAlias = "Callable[[], Value]"
Key = TypeVar("Key")
Thing = TypeVar("Thing")

# Running a cheaper statement again takes less time than checking whether its recorded effects are valid.
_WORTH = 12


class _UnkeptError(Exception):
    """An effect cannot be recorded, such as the removal of an entry."""


class _Numbers(NamedTuple):
    """The last numbers that were assigned."""

    ids: int
    visits: int
    questions: int


class _Cost(NamedTuple):
    """The counters of the budget."""

    fuel: int
    spent: int
    abroad: int
    ventures: int
    refused: int
    skipped: int
    by_function: Counter[cst.CSTNode]


@dataclass(frozen=True)
class _Before:
    """The state at the start of a run, apart from its reads from the store and from other files."""

    numbers: _Numbers
    scene: object
    around: Many[object]
    registries: Table[Registry, Any]
    cost: _Cost
    functions: Many[cst.CSTNode]
    imported: Table[str, Any]

    def is_now(self, machine: Machine, seen: Watch, likeness: Likeness) -> bool:
        """Whether a run that read this state would read the same now."""
        same = likeness.same
        return (
            self.numbers == _numbers(machine)
            and same(self.scene, _scene(machine))
            and (same(self.around, _around(machine)) or not _asked_around(self.around, seen))
            and all(same(entries, machine.notes.get_registry(one)) for one, entries in self.registries.items())
        )


class _Marks(NamedTuple):
    """Sizes at the start of a run: of lists, of the set of captured frames, and of what was said of questions.

    ``exits`` holds, for each scope, the number of exits and the cells written in it.
    """

    listed: Table[Registry, int]
    enclosing: set[int]
    said: int
    exits: Many[tuple[int, Delta]]


@dataclass(frozen=True)
class _Left:
    """The effects of a run."""

    numbers: _Numbers
    value: Value
    # the changed fields of the moment; the running statement, and the exits taken
    moment: Table[type[Any], Table[str, Any]]
    line: cst.CSTNode | None
    exits: Many[tuple[int, Exit]]
    # the changes of the store, and of the machine's other tables
    named: Many[Cell]
    cells: Table[Cell, Value | None]
    lasting: Table[Cell, Value | None]
    came: Table[str, Any]
    parts: Table[tuple[int, object], Symbol]
    things: Table[tuple[Registry, Hashable], Any]
    # the questions that it asked, latest first, and by subject; the facts that it recorded about questions
    questions: Many[Question]
    subjects: Table[Hashable, Question]
    said: Many[Callable[[], None]]
    # the entries of models and observers: in registries that the run did not read, and in the others
    noted: Table[Registry, Any]
    registries: Table[Registry, Any]
    log: PlacementLog | None
    imported: Table[str, Any]
    cost: _Cost
    # of the functions that it entered: the amount that each spent in it before it was last entered
    entered: Table[cst.CSTNode, int]


@dataclass(frozen=True)
class _Kept:
    """A recorded run: its initial state, its reads, its effects, and the recorded runs inside it."""

    what: Hashable
    before: _Before
    seen: Watch
    # the files analysed by its end, if it used other files
    files: Table[str, Seen | None]
    left: _Left
    inner: Many[tuple[Hashable, _Kept]]

    def would_be(self, machine: Machine, what: Hashable, likeness: Likeness) -> bool:
        """Whether a run would have the same effects now."""
        return (
            likeness.same(self.what, what)
            and _affords(_cost(machine), self.before.cost, self.left)
            and self.before.is_now(machine, self.seen, likeness)
            and (machine.project is None or machine.project.around.are_as_before(self.files))
            and (not self.left.imported or likeness.same(self.before.imported, _imported(machine)))
            and self._knows_the_same_modules(machine)
            and _sees_the_same(machine, self.seen, likeness)
        )

    def _knows_the_same_modules(self, machine: Machine) -> bool:
        """Whether the modules of other files that existed then are the same now: its effects may refer to them."""
        project = machine.project
        return project is None or self.before.imported["modules"].items() <= project.modules.items()


@dataclass
class Recollection:
    """The recorded runs of one document's last text, and of the current one."""

    _known: Table[Hashable, _Kept] = field(default_factory=dict)
    _again: dict[Hashable, _Kept] = field(default_factory=dict)
    _order: list[tuple[Hashable, _Kept]] = field(default_factory=list)
    # costly statements of the last text, those whose effects cannot be kept, and the same for the current text
    _costly: set[cst.CSTNode] = field(default_factory=set)
    _futile: set[cst.CSTNode] = field(default_factory=set)
    _costly_again: set[cst.CSTNode] = field(default_factory=set)
    _futile_again: set[cst.CSTNode] = field(default_factory=set)
    _slots: Slots = field(default_factory=Slots)
    _likeness: Likeness = field(default_factory=Likeness)

    def begin(self, module: cst.Module) -> None:
        """Start the next text: keep only the runs that the last text used."""
        self._slots.assign(module)
        self._known, self._again, self._order = self._again, {}, []
        self._costly, self._costly_again = self._costly_again, set()
        self._futile, self._futile_again = self._futile_again, set()
        self._likeness = Likeness()

    def execute(self, machine: Machine, statement: cst.CSTNode, run: Callable[[], None]) -> None:
        """Execute a statement of the program's own file."""
        machine.align(self._slots[statement], CIRCLE)
        spent = machine.budget.spent
        if statement in self._costly and statement not in self._futile:
            _, kept = self._run(machine, statement, lambda: _nothing(run))
        else:
            run()
            kept = statement not in self._futile
        if machine.budget.spent - spent >= _WORTH:
            self._costly_again.add(statement)
        if not kept:
            self._futile_again.add(statement)

    def run(self, machine: Machine, what: Hashable, run: Run) -> Value:
        """The result of ``run``, executed or applied from a recorded run."""
        machine.align()
        value, _ = self._run(machine, what, run)
        return value

    def _run(self, machine: Machine, what: Hashable, run: Run) -> tuple[Value, bool]:
        """The result, and whether its effects are kept."""
        key = what, machine.newest
        known = self._known.get(key)
        if known is not None and known.would_be(machine, what, self._likeness):
            self._keep(key, known)
            return _again(machine, known), True
        begun = len(self._order)
        asked = machine.project.asked if machine.project is not None else 0
        value, before, seen, left = _watched(machine, run)
        if left is None:
            return value, False
        kept = _Kept(what, before, seen, _files(machine, asked), left, self._order[begun:])
        self._again[key] = kept
        self._order[begun:] = [(key, kept)]
        return value, True

    def _keep(self, key: Hashable, kept: _Kept) -> None:
        self._order.append((key, kept))
        waiting = [(key, kept)]
        while waiting:
            key, kept = waiting.pop()
            self._again[key] = kept
            waiting.extend(kept.inner)


def _nothing(run: Callable[[], None]) -> Value:
    run()
    return NONE


# --- inputs of a run ----------------------------------------------------------------------------------------------


def _numbers(machine: Machine) -> _Numbers:
    return _Numbers(machine.newest, machine.visits, path_condition.current().last)


def _cost(machine: Machine) -> _Cost:
    budget = machine.budget
    numbers = (budget.fuel, budget.spent, budget.abroad, budget.ventures, budget.refused, budget.skipped)
    return _Cost(*numbers, budget.by_function.copy())


def _since(then: _Cost, now: _Cost) -> _Cost:
    pairs: Iterator[tuple[Any, Any]] = zip(now, then, strict=True)
    return _Cost(*(one - other for one, other in pairs))


def _affords(now: _Cost, then: _Cost, left: _Left) -> bool:
    """Whether the budget would refuse no more now than it did then."""
    cost = left.cost
    if cost.refused or now == then:
        return now == then
    spent, fuel = min(now.spent, then.spent), min(now.fuel, then.fuel)
    return (
        fuel + cost.fuel > 0
        and (not cost.ventures or -cost.abroad < now.abroad + spent // SHARE_ABROAD)
        and all(now.by_function[function] + before < MOST_BY_FUNCTION for function, before in left.entered.items())
    )


def _moment(machine: Machine) -> dict[type[Any], dict[str, Any]]:
    return machine.moment(without=Use.LOCAL)


def _scene(machine: Machine) -> object:
    """The current position in the program, with only the parts of running functions and loops that code can read."""
    moment = {
        kind: {name: copied(value) for name, value in values.items()} for kind, values in _moment(machine).items()
    }
    functions = [
        (frame.id, frame.receiver, frame.function and (frame.function.name, frame.function.owner))
        for frame in machine.frames
    ]
    loops = [(loop.target, loop.iter) if isinstance(loop, cst.For) else loop.test for loop in machine.now[Around].loops]
    scopes = [scope.kind for scope in machine.scopes]
    return moment, functions, loops, scopes, machine.budget.abroad


def _around(machine: Machine) -> Many[object]:
    return (machine.now[Around].block, *machine.now[Around].loops)


def _asked_around(around: Many[object], seen: Watch) -> bool:
    """Whether the run read an enclosing block or loop, and not only those inside functions that it called."""
    return any(one == other for one in seen.around for other in around)


def _before(machine: Machine) -> _Before:
    return _Before(
        _numbers(machine),
        _scene(machine),
        _around(machine),
        {one: _copied(machine.notes.get_registry(one)) for one in registries().asked},
        _cost(machine),
        _functions(machine),
        _imported(machine),
    )


def _functions(machine: Machine) -> list[cst.CSTNode]:
    return [frame.function.node for frame in machine.frames if frame.function is not None]


def _imported(machine: Machine) -> dict[str, Any]:
    known = machine.project.imported if machine.project is not None else {}
    return {name: copied(registry) for name, registry in known.items()}


def _copied(registry: Any) -> Any:
    """A copy of a registry, with copies of its entries."""
    now = copied(registry)
    if isinstance(now, dict):
        now.update((key, entry.copy()) for key, entry in now.items() if isinstance(entry, (dict, list, set)))
    return now


def _sees_the_same(machine: Machine, seen: Watch, likeness: Likeness) -> bool:
    store, same = machine.store, likeness.same
    return (
        all(same(store.read(*cell), value) for cell, value in seen.seen.items())
        and all(tuple(store.names(owner)) == names for owner, names in seen.names.items())
        and all(same(machine.known_part(*part), symbol) for part, symbol in seen.parts.items())
        and all(same(machine.parts(owner), parts) for owner, parts in seen.all_parts.items())
        and all(machine.known_question(subject) is question for subject, question in seen.questions.items())
        and all(same(machine.noted(*one, key), entry) for (one, key), entry in seen.noted.items())
        and all(machine.namespaces.definitions.get(identity) is node for identity, node in seen.definitions.items())
    )


# --- effects of a run ---------------------------------------------------------------------------------------------


def _watched(machine: Machine, run: Run) -> tuple[Value, _Before, Watch, _Left | None]:
    """Run, and return the result, initial state, reads and effects; the effects are None if they cannot be kept."""
    before, marks, store = _before(machine), _marks(machine), machine.store
    with store.watched(machine.newest) as seen, _noting_apart(machine) as (entries, log):
        store.begin()
        value = run()
        cells = store.changes(store.depth - 1)
        store.commit()
    try:
        return value, before, seen, _left(machine, before, marks, seen, value, cells, entries, log)
    except _UnkeptError:
        return value, before, seen, None


def _marks(machine: Machine) -> _Marks:
    return _Marks(
        {one: len(machine.notes.get_registry(one)) for one in registries().listed},
        {*machine.namespaces.enclosing},
        len(path_condition.current().said),
        [(len(scope.exits), machine.store.changes(scope.depth)) for scope in machine.scopes],
    )


def _left(
    machine: Machine,
    before: _Before,
    marks: _Marks,
    seen: Watch,
    value: Value,
    cells: Delta,
    entries: Table[Registry, Any],
    log: PlacementLog | None,
) -> _Left:
    """The effects of a run. Raises _UnkeptError if they cannot be applied later."""
    imported = _added(before.imported, machine.project.imported) if machine.project is not None else {}
    came = {
        *(owner for owner, _ in (*cells, *seen.lasting)),
        *machine.namespaces.definitions,
        *imported.get("places", ()),
    }
    came = {identity for identity in came if identity > before.numbers.ids} | (
        machine.namespaces.enclosing - marks.enclosing
    )
    return _Left(
        numbers=_numbers(machine),
        value=value,
        moment=_changed(before, machine),
        line=machine.frame.line,
        exits=[exit for place, known in enumerate(marks.exits) for exit in _new_exits(machine, place, known)],
        named=tuple(seen.named),
        cells=cells,
        lasting={cell: machine.store.read(*cell) for cell in seen.lasting},
        came=machine.namespaces.known_of(came),
        parts=_come_up(seen.parts, lambda part: machine.known_part(*part)),
        things={
            (one, key): now
            for (one, key), entry in seen.noted.items()
            if (now := machine.noted(*one, key)) is not entry
        },
        questions=path_condition.asked_since(before.numbers.questions),
        subjects=_come_up(seen.questions, machine.known_question),
        said=path_condition.current().said[marks.said :],
        noted={
            **entries,
            **{one: machine.notes.get_registry(one)[length:] for one, length in marks.listed.items()},
        },
        registries=_added(before.registries, {one: machine.notes.get_registry(one) for one in registries().asked}),
        log=log,
        imported=imported,
        cost=_since(before.cost, _cost(machine)),
        entered={
            function: spent - then
            for function, spent in machine.budget.entered.items()
            if spent >= (then := before.cost.by_function[function])
        },
    )


def _come_up(seen: Table[Key, Thing | None], known: Callable[[Key], Thing | None]) -> dict[Key, Thing]:
    """The entries that were missing when they were first read, and exist now."""
    now = ((key, known(key)) for key, before in seen.items() if before is None)
    return {key: thing for key, thing in now if thing is not None}


def _files(machine: Machine, asked: int) -> dict[str, Seen | None]:
    """The analysed files, if the run has used other files; ``asked`` is the count at its start."""
    project = machine.project
    return {**project.around.looked_at} if project is not None and project.asked != asked else {}


def _new_exits(machine: Machine, place: int, before: tuple[int, Delta]) -> Iterator[tuple[int, Exit]]:
    """The new exits of a scope, each with the cells that were newly written before it."""
    count, written = before
    for exit in machine.scopes[place].exits[count:]:
        new = {cell: value for cell, value in exit.changes.items() if cell not in written or written[cell] is not value}
        yield place, replace(exit, changes=new)


@contextmanager
def _noting_apart(machine: Machine) -> Iterator[tuple[dict[Registry, Any], PlacementLog | None]]:
    """Collect the entries of registries that are read only at the end separately, and merge them in afterwards."""
    entries = empty(registries().collected)
    outer = machine.log if isinstance(machine.log, PlacementLog) else None
    machine.log = log = outer.another() if outer is not None else None
    try:
        with machine.notes.replaced(entries):
            yield entries, log
    finally:
        machine.log = outer
        for registry, noted in entries.items():
            with_entries(machine.notes.get_registry(registry), noted)
        if outer is not None and log is not None:
            outer.take(log)


def _with(registry: Any, entries: Any) -> Any:
    """The same registry with new and changed entries applied."""
    if not isinstance(registry, dict):
        return with_entries(registry, entries)
    for key, entry in entries.items():
        known = registry.get(key)
        registry[key] = _with(known, entry) if isinstance(known, (list, set, dict)) else copied(entry)
    return registry


def _changed(before: _Before, machine: Machine) -> dict[type[Any], dict[str, Any]]:
    """The changed fields of the moment. Raises _UnkeptError if a list, set or dict among them changed."""
    assert isinstance(before.scene, tuple)
    then = before.scene[0]
    changed = {
        kind: {name: value for name, value in values.items() if value != then[kind][name]}
        for kind, values in _moment(machine).items()
    }
    if any(isinstance(value, (list, set, dict)) for values in changed.values() for value in values.values()):
        raise _UnkeptError
    return {kind: values for kind, values in changed.items() if values}


def _added(before: Table[Key, Any], after: Table[Key, Any]) -> dict[Key, Any]:
    """The new or different entries. Raises _UnkeptError if one was removed."""
    new = {name: _new(before[name], now) for name, now in after.items() if now is not before[name]}
    return {name: entries for name, entries in new.items() if entries is not None}


def _new(before: Any, after: Any) -> Any:
    """The new part of a registry; None if there is none."""
    if isinstance(after, list):
        if len(after) < len(before) or any(one is not other for one, other in zip(before, after, strict=False)):
            raise _UnkeptError
        return after[len(before) :] or None
    if isinstance(after, set):
        if not before <= after:
            raise _UnkeptError
        return after - before or None
    if isinstance(after, dict):
        if not before.keys() <= after.keys():
            raise _UnkeptError
        entries = {
            key: _new(before[key], entry) if key in before else copied(entry)
            for key, entry in after.items()
            if key not in before or before[key] is not entry
        }
        return {key: entry for key, entry in entries.items() if entry is not None} or None
    return None if isinstance(after, int) and after == before else after


def _again(machine: Machine, kept: _Kept) -> Value:
    """Apply the effects of a recorded run."""
    left = kept.left
    store = machine.store
    for place, exit in left.exits:
        scope = machine.scopes[place]
        scope.exits.append(replace(exit, changes={**store.changes(scope.depth), **exit.changes}))
    store.name_again(left.named)
    with store.lasting():
        for cell, value in left.lasting.items():
            store.write(*cell, value)
    if machine.project is not None:
        machine.project.imports_again(left.imported)
    for cell, value in left.cells.items():
        store.write(*cell, value)
    machine.know(left.came)
    machine.know_parts(left.parts)
    machine.know_questions(left.subjects)
    for (registry, key), entry in left.things.items():
        machine.notes.get_registry(registry)[key] = entry
    path_condition.ask_again(left.questions, left.numbers.questions)
    for say in left.said:
        say()
    machine.go_to(left.moment)
    machine.frame.line = left.line
    notes = machine.notes
    for one, entries in left.noted.items():
        with_entries(notes.get_registry(one), entries)
    for one, entries in left.registries.items():
        notes.set_registry(one, _with(notes.get_registry(one), entries))
    if isinstance(machine.log, PlacementLog) and left.log is not None:
        functions = zip(kept.before.functions, _functions(machine), strict=True)
        machine.log.take(left.log, {then: now for then, now in functions if then is not now})
    machine.number(left.numbers.ids, left.numbers.visits)
    budget = machine.budget
    budget.entered.update({function: budget.by_function[function] + spent for function, spent in left.entered.items()})
    for name, cost in left.cost._asdict().items():
        setattr(budget, name, getattr(budget, name) + cost)
    return left.value
