"""Replays: the user's program is run, or the part of it that shows a finding, beside the same repaired.

The whole program comes first, as it is written. Where it goes through, the finding is refuted, and no part of it can
show otherwise; where it cannot be run, slices of it are tried, which can show the finding but not refute it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, zip_longest
from pathlib import Path
from types import MappingProxyType
from typing import Any

import libcst as cst

from placement_lint.finding import Level, Outcome, Verdict
from placement_lint.flow.domain.path_condition import ANY_MACHINE, MANY_GPUS, NO_GPU, ONE_GPU, Answer, Cube
from placement_lint.probe import preludes, synthesis
from placement_lint.probe.commands import Command, commands_for, demands
from placement_lint.probe.confinement import extended
from placement_lint.probe.devices import Ground, TooFew, counted, grounds, of_kind
from placement_lint.probe.experiment import CUDA, Experiment, Raises
from placement_lint.probe.prober import Prober
from placement_lint.probe.rendering import MARK, Additions, Rendered, filled, observing, rendered, shadowed
from placement_lint.probe.sandbox import PLAY_LIMIT, ArmLost, Script
from placement_lint.probe.slicing import Slice, slice_of
from placement_lint.probe.units import Program, Unit
from placement_lint.probe.verdicts import HOLLOWED, Sight
from placement_lint.replaying import given_keyword
from placement_lint.rule import ALONE, Crew, Line, Problem, Replay, Rule

FAILED_CLAIM = Raises("AssertionError")
STATEMENT = (cst.SimpleStatementLine, cst.BaseCompoundStatement)
MOST_TRIES = 12  # stand-ins for data that are tried
MOST_SECONDS = 60.0  # after which nothing more is tried for a finding
WHOLE_LIMIT = 10.0  # seconds that a whole program may take
ASKING = ("exists", "isfile", "isdir")  # what asks whether a file is there
NO_EDITS: Mapping[cst.CSTNode, str] = MappingProxyType({})
MOST_NAMES = 6  # of stand-ins in a verdict
LONGEST_COMMAND = 80  # characters of a command line in a verdict


@dataclass(frozen=True)
class Repair:
    """One way to write a program without a fault: other text for nodes, and lines to add."""

    edits: Mapping[cst.CSTNode, str]
    lines: tuple[Line, ...] = ()

    @property
    def is_independent(self) -> bool:
        """Whether it does without what lines of its problem watch."""
        return not any("watched" in line.text for line in self.lines)


@dataclass(frozen=True)
class Scripted:
    """A slice as a program: the line of the finding, those of its claims, and those at which the symptom may show.

    ``observers`` are the lines of those that the claims call; some of them fail by themselves.

    ``trail`` are the lines of the statements that lead to the finding, ``seen`` all that are traced; ``notes`` are
    numbers, of no line, by which the text itself reports that it was reached. ``shadowed`` are the names for what a
    replay adds that mean something else in this program; ``names`` says what tensors stand in for.
    ``packages`` have stand-ins whether they are installed or not. A ``lenient`` one passes over statements that fail on
    the way for an unrelated reason. ``lent`` are other texts for files that it imports, by their paths.
    ``unset`` options get no value. ``command`` is what it is called with. It may ``ask`` for files.
    """

    text: str
    line: int
    claims: frozenset[int]
    places: frozenset[int]
    observers: frozenset[int] = frozenset()
    crew: Crew = ALONE
    entry: Entry | None = None
    verbatim: bool = False
    shadowed: frozenset[str] = frozenset()
    trail: frozenset[int] = frozenset()
    seen: frozenset[int] = frozenset()
    notes: frozenset[int] = frozenset()
    limit: float = PLAY_LIMIT
    symptoms: tuple[Raises, ...] = ()
    names: frozenset[str] = frozenset()
    workers: bool = False
    saved_on: str = "cpu"
    packages: frozenset[str] = frozenset()
    lenient: bool = False
    lent: tuple[tuple[str, str], ...] = ()
    unset: frozenset[str] = frozenset()
    command: Command | None = None
    asks: bool = False

    @property
    def bare(self) -> str:
        """The text without the comments that mark its lines."""
        return "\n".join(line.partition(MARK)[0].rstrip() for line in self.text.splitlines())

    @property
    def length(self) -> int:
        return len(self.text.splitlines())

    @property
    def steps(self) -> list[int]:
        """The first lines of the statements that lead to the finding, and those of its claims."""
        return sorted(self.trail | self.claims | {self.line})

    @property
    def kept(self) -> frozenset[int]:
        """The lines that are never passed over."""
        return self.places | self.observers | self.seen

    def suffices(self, answer: Mapping[str, Any]) -> bool:
        """Whether an answer says all that can be known, so that stand-ins would change nothing."""
        sight = Sight.of(answer)
        if sight.unable:
            return not (sight.unable.startswith("the slice ") or preludes.is_costly(answer))
        if not sight.kinds:
            return not self.asks or self.line in answer.get("reached", ())
        return any(sight.shows(symptom) for symptom in self.symptoms)

    def quoted(self, number: int) -> str:
        return self.text.splitlines()[number - 1].partition(MARK)[0].strip()


@dataclass(frozen=True)
class Piece:
    """A slice and the stand-ins for the world around it.

    ``decisive``: the program runs under the conditions of the finding, and nothing in it can change the values that
    reach the finding. ``lenient``: it passes over statements that fail for an unrelated reason. ``command`` is what the
    program is called with, None for nothing.
    """

    name: str
    units: Slice
    supply: Mapping[cst.CSTNode, str]
    lines: tuple[Line, ...] = ()
    entry: Entry | None = None
    mended: bool = True  # all other problems are repaired as far as possible
    decisive: bool = False
    names: Mapping[cst.CSTNode, str] = field(default_factory=dict)
    lenient: bool = False
    command: Command | None = None

    @property
    def is_whole(self) -> bool:
        """Whether it is the program as it is written, and none that only imports it."""
        return self.units.verbatim and self.entry is None


@dataclass(frozen=True)
class Entry:
    """A program that imports the file of a case, ``home``, with the ``problems`` that it has itself.

    ``answers`` are the circumstances of the case.
    """

    path: str
    home: str
    program: Program
    problems: tuple[Problem, ...] = field(default=(), compare=False)
    answers: frozenset[Answer] = frozenset()

    @cached_property
    def text(self) -> str:
        """With its loops cut, and its own problems repaired as far as that is possible."""
        edits, additions = self._supply(mended=True)
        return rendered(Slice.whole(self.program, ()), edits, additions).text

    @cached_property
    def uncut(self) -> str:
        return rendered(Slice.whole(self.program, (), verbatim=True), *self._supply()).text

    @property
    def shadowed(self) -> set[str]:
        return shadowed(self.program, *self._supply(mended=True))

    @cached_property
    def ways(self) -> tuple[Command | None, ...]:
        return _ways(self.path, self.home, self.answers)

    def _supply(self, mended: bool = False) -> tuple[Mapping[cst.CSTNode, str], Additions]:
        supply = next(iter(synthesis.supplies(self.program, self.answers, Replay(), meant=Path(self.home).stem)))
        return _mending(self.program, self.problems if mended else (), supply.edits, supply.lines)

    @property
    def roots(self) -> tuple[str, ...]:
        """Its folder, and the one of the outermost package that the file is in."""
        outside = Path(self.home).parent
        while (outside / "__init__.py").exists():
            outside = outside.parent
        return (str(Path(self.path).parent), str(outside))


@dataclass(frozen=True)
class Case:
    """A problem of a program, the problems that it has besides, and programs that import it. ``path`` is absolute.

    If it ``is_led`` to by one of those programs, only they can show it. ``lent`` are other files, by their paths, in
    which the program has problems, with these repaired.
    """

    path: str
    program: Program
    rule: Rule
    problem: Problem
    others: tuple[Problem, ...] = ()
    entries: tuple[Entry, ...] = ()
    is_led: bool = False
    lent: tuple[tuple[str, str], ...] = ()

    @property
    def experiment(self) -> Experiment:
        assert self.rule.experiment is not None
        return self.rule.experiment

    @property
    def replay(self) -> Replay:
        return self.problem.replay or Replay()

    @property
    def is_visible(self) -> bool:
        """Whether there is anything that a replay could show: an exception, or a line of the rule's that fails."""
        return self._claims_something or any(isinstance(one, Raises) for one in self.experiment.symptoms)

    @property
    def symptoms(self) -> tuple[Raises, ...]:
        loud = tuple(one for one in self.experiment.symptoms if isinstance(one, Raises))
        return (*loud, FAILED_CLAIM) if self._claims_something else loud

    @property
    def _claims_something(self) -> bool:
        return bool(self._claims or self.replay.noted)

    # --- circumstances -----------------------------------------------------------------------------------------

    @cached_property
    def circumstances(self) -> Cube:
        """Those under which it shows: the least special of them."""
        scene = self.problem.scene
        if scene is None or not scene.when.cubes:
            return Cube(ANY_MACHINE, frozenset())
        return min(scene.when.cubes, key=lambda cube: (len(cube.answers), -cube.machines))

    @property
    def kind(self) -> str:
        """The kind of GPU on which it shows."""
        alone = self.replay.crew == ALONE
        return self.experiment.kind_for(self.experiment.completed(self.problem.facts)) if alone else CUDA

    @property
    def gpu_counts(self) -> list[int]:
        """Numbers of GPUs with which it shows, the likeliest first."""
        if self.kind != CUDA:
            return [1]
        needed = self.replay.gpus
        if needed is None:
            needed = self.experiment.gpus_for(self.experiment.completed(self.problem.facts))
        if self.replay.crew != ALONE:
            return [max(needed, self.replay.crew.ranks // self.replay.crew.nodes)]
        counts = {MANY_GPUS: max(2, needed), ONE_GPU: 1, NO_GPU: 0}
        if self.replay.gpus == 0:  # without a GPU it shows at once
            counts = dict(reversed(counts.items()))
        machines = self.problem.when.machines if self.problem.when is not None else ANY_MACHINE
        return [
            count
            for machine, count in counts.items()
            if machines & machine and (count >= needed or machine == machines)
        ]

    # --- slices ------------------------------------------------------------------------------------------------

    def parts(self) -> Iterator[Piece]:
        """Slices of the program, and the programs that import it; then those that pass over what fails on the way."""
        pieces = [*(() if self.is_led else self.slices()), *self.imported()]
        yield from pieces
        yield from (replace(piece, lenient=True) for piece in pieces if not piece.units.verbatim)

    def imported(self) -> Iterator[Piece]:
        """The whole program as each of those gets it that import it: first all of them in the likeliest way."""
        supply = self._supply(self.circumstances.answers)
        entries = [replace(entry, answers=self.circumstances.answers) for entry in self.entries]
        turns = zip_longest(*([(entry, way) for way in entry.ways] for entry in entries))
        for number, turn in enumerate(turns):
            for entry, command in filter(None, turn):
                name = f"program, imported by {Path(entry.path).name},"
                for verbatim in (True, False) if number < 2 else (True,):
                    units = Slice.whole(self.program, self._criteria, verbatim)
                    yield Piece(name, units, supply.edits, supply.lines, entry, mended=not verbatim, command=command)

    def wholes(self) -> Iterator[Piece]:
        """The program as it is, then adapted to the finding's conditions and to missing files, then also repaired."""
        if self.is_led:
            return
        whole = Slice.whole(self.program, self._criteria, verbatim=True)
        answers = self.circumstances.answers
        if self.replay.crew == ALONE:  # which rank a process is, its launcher may tell it by an option
            for command in self.ways:
                yield Piece("program", whole, {}, mended=False, decisive=not answers, command=command)
        supply = self._supply(answers)
        decisive = all(map(self._is_given, answers)) and not self._stands_in(supply)
        for mended in (False, True):
            for command in self.ways[:2]:  # whose options are not to be others than those of the conditions
                sure = decisive and (command is None or not answers)
                yield Piece("program", whole, supply.edits, supply.lines, mended=mended, decisive=sure, command=command)

    def slices(self) -> Iterator[Piece]:
        """From the smallest to the whole program."""
        for supply in synthesis.supplies(self.program, self.circumstances.answers, self.replay, self.problem.node):
            whole = Slice.whole(self.program, self._criteria)
            yield Piece("slice", self._slice(supply), supply.edits, supply.lines, names=supply.names)
            for command in self.ways[:2]:
                yield Piece("program", whole, supply.edits, supply.lines, names=supply.names, command=command)

    @cached_property
    def ways(self) -> tuple[Command | None, ...]:
        return _ways(self.path, self.path, self.circumstances.answers)

    def _supply(self, answers: frozenset[Answer]) -> synthesis.Supply:
        return next(iter(synthesis.supplies(self.program, answers, self.replay, self.problem.node)))

    def _is_given(self, answer: Answer) -> bool:
        """Whether the program can be made to answer a question like this: by an option, or where it asks."""
        return self._supply(frozenset({answer})).edits != self._supply(frozenset()).edits

    def _stands_in(self, supply: synthesis.Supply) -> bool:
        """Whether something that reaches the finding is none of the program's."""
        kept = self._slice(supply).kept
        added = [line.node for line in supply.lines if line.node is not self.problem.node]
        return not kept.isdisjoint(self.program.unit_of[node] for node in (*supply.replaced, *added))

    def _slice(self, supply: synthesis.Supply) -> Slice:
        criteria = self._criteria
        if any(self.program.unit_of[line.node] in criteria for line in supply.lines):
            criteria |= supply.needed
        return slice_of(self.program, self._path, criteria, supply.replaced)

    @property
    def _path(self) -> list[cst.Call]:
        scene = self.problem.scene
        return [call for call in scene.calls if isinstance(call, cst.Call)] if scene else []

    @property
    def is_guarded(self) -> bool:
        """Whether the program may catch the error that the finding describes."""
        units = self.program.unit_of
        reached = (*self._criteria, *(units[call] for call in self._path if call in units))
        return any(isinstance(outer.node, (cst.Try, cst.TryStar)) for unit in reached for outer in unit.above)

    @property
    def _claims(self) -> list[Line]:
        """The lines that make the fault loud; not those that belong into another file, or have no words for it."""
        known = [line for line in self.replay.watch if line.node in self.program.unit_of]
        return [line for line in known if filled(line, self.program, {})]

    @property
    def _criteria(self) -> set[Unit]:
        lines = (*self.replay.watch, *self.replay.mended)
        along = {unit for name in self.replay.along for unit, _ in self.program.callers.get(name, ())}
        nodes = (self.problem.node, *(note.node for note in self.problem.trace), *(line.node for line in lines))
        return along | {self.program.unit_of[node] for node in nodes if node in self.program.unit_of}

    @property
    def smallest(self) -> Scripted:
        return self.scripted(next(self.slices()))

    # --- texts -------------------------------------------------------------------------------------------------

    def repairs(self) -> list[Repair]:
        """The ways in which the program can be repaired, the best first."""
        return _repairs(self.problem)

    @property
    def on_first_id(self) -> Repair | None:
        """The wrapper on the first of its GPUs alone, where it names several."""
        scene = self.problem.scene
        if scene is None or not scene.replica_ids:
            return None
        return Repair(dict(given_keyword(scene.replica[0].node, "device_ids", "[0]")))

    def scripted(self, piece: Piece, repair: Repair | None = None) -> Scripted:
        """The piece as a program."""
        edits = {**dict(self.replay.noted), **piece.supply}
        mending = list(piece.lines)
        for way in (*(self._repairs_of_others() if piece.mended else ()), *((repair,) if repair else ())):
            edits |= way.edits
            mending += way.lines
        return self._laid_out(piece, edits, mending)

    def with_notes(self, piece: Piece) -> Scripted | None:
        """The piece, which notes when it comes by what is evaluated under a condition of its own; None without any."""
        nodes = (self.problem.node, *(note.node for note in self.problem.trace))
        conditional = [node for node in nodes if node in self.program.unit_of and _is_conditional(node, self.program)]
        if not conditional:
            return None
        edits = {**dict(self.replay.noted), **piece.supply}
        notes = {node: -number for number, node in enumerate(dict.fromkeys(conditional), 1)}
        for node, note in notes.items():
            if not any(_overlap(node, edited) for edited in edits):
                edits[node] = f"(__reached__({note}), {self.program.module.code_for_node(node)})[1]"
        return replace(self._laid_out(piece, edits, list(piece.lines)), notes=frozenset(notes.values()))

    def _laid_out(self, piece: Piece, edits: Mapping[cst.CSTNode, str], mending: list[Line]) -> Scripted:
        units = self.program.unit_of
        additions = Additions(marks=self._marks())
        # A repair before a statement precedes the claims about it, and one after it follows them.
        for lines, place in ((mending, True), (self._claims, True), (self._claims, False), (mending, False)):
            for line in lines:
                if line.before is place and line.node in units and filled(line, self.program, edits):
                    (additions.before if place else additions.after)[units[line.node]].append(line)
        laid_out = rendered(piece.units, edits, additions)
        own = shadowed(self.program, edits, additions) | (piece.entry.shadowed if piece.entry else set())
        return replace(
            self._numbered(laid_out),
            crew=self.replay.crew,
            entry=piece.entry,
            verbatim=piece.units.verbatim,
            shadowed=frozenset(own),
            limit=WHOLE_LIMIT if piece.units.verbatim else PLAY_LIMIT,
            symptoms=self.symptoms,
            workers=self.replay.workers,
            saved_on=self.replay.saved_on,
            names=frozenset(name for node, name in piece.names.items() if units[node] in piece.units.kept),
            lenient=piece.lenient,
            lent=self.lent if piece.mended else (),
            unset=synthesis.unset(self.circumstances.answers),
            command=piece.command,
            asks=any(name in self.program.callers for name in ASKING),
        )

    def _repairs_of_others(self) -> Iterator[Repair]:
        """Those that leave this problem as it is, and of those that change the same code the first."""
        nodes = [self.problem.node, *(node for way in self.repairs() for node in way.edits)]
        lines = {line.text for way in self.repairs() for line in way.lines}
        for other in self.others:
            way = next(iter(_repairs(other)), None)
            if way is None or not way.is_independent or lines.intersection(line.text for line in way.lines):
                continue
            if not any(_overlap(node, mine) for node in way.edits for mine in nodes):
                nodes += way.edits
                yield way

    def _numbered(self, laid_out: Rendered) -> Scripted:
        units = self.program.unit_of
        claims = frozenset(laid_out.added[line] for line in self._claims if line in laid_out.added)
        marked = [laid_out.units[unit] for unit in self._marks() if unit in laid_out.units]
        own = laid_out.units.get(units[self.problem.node], (0, 0))
        others = {
            laid_out.units[units[node]][0]
            for problem in (self.problem, *self.others)
            for node in (problem.node, *(note.node for note in problem.trace))
            if units.get(node) in laid_out.units
        }
        return Scripted(
            laid_out.text,
            own[0],
            claims,
            claims.union(number for first, last in marked for number in range(first, last + 1)),
            frozenset(observing(laid_out.text)),
            trail=frozenset(first for first, _ in marked),
            seen=claims | others,
        )

    @property
    def label(self) -> str:
        return f"{self.rule.code} {self.rule.name}"

    def _marks(self) -> dict[Unit, str]:
        units = self.program.unit_of
        marks = {units[note.node]: note.message for note in self.problem.trace if note.node in units}
        return {**marks, units[self.problem.node]: self.label}


def _ways(path: str, home: str, answers: Iterable[Answer]) -> tuple[Command | None, ...]:
    """The ways in which a program is called, the likeliest first: with nothing, and as its project tells.

    ``home`` is the file of the finding, ``answers`` are its conditions.
    """
    meant = " ".join([*Path(home).parts[-2:], *(answer.question.text for answer in answers if answer.given)])
    commands = commands_for(path, words=set(re.findall(r"[a-z0-9]+", meant.lower())))
    return (*commands, None) if demands(path) else (None, *commands)


def mended(program: Program, problems: Iterable[Problem]) -> str:
    """The text of a program without those of its problems that can be repaired."""
    return rendered(Slice.whole(program, (), verbatim=True), *_mending(program, problems)).text


def _mending(
    program: Program,
    problems: Iterable[Problem],
    edits: Mapping[cst.CSTNode, str] = NO_EDITS,
    lines: Iterable[Line] = (),
) -> tuple[Mapping[cst.CSTNode, str], Additions]:
    """The edits and lines that repair problems in a program, besides other edits and lines."""
    all_edits, all_lines = dict(edits), [*lines]
    for problem in problems:
        way = next(iter(_repairs(problem)), None)
        if way is not None and way.is_independent:
            all_edits |= way.edits
            all_lines += way.lines
    additions = Additions()
    for line in all_lines:
        if line.node in program.unit_of and filled(line, program, all_edits):
            place = additions.before if line.before else additions.after
            place[program.unit_of[line.node]].append(line)
    return all_edits, additions


def _repairs(problem: Problem) -> list[Repair]:
    replay, rewrite = problem.replay or Replay(), problem.rewrite
    ways = []
    if replay.mended:
        ways.append(Repair({}, replay.mended))
    # A fix that puts statements in another order is one of the whole text, not of a slice.
    if rewrite and not any(isinstance(node, STATEMENT) for node, _ in rewrite.replacements):
        ways.append(Repair(dict(rewrite.replacements)))
    ways.extend(Repair(dict(repair)) for repair in replay.repairs if repair)
    if replay.instead:
        ways.append(Repair({}, replay.instead))
    return ways


def _is_conditional(node: cst.CSTNode, program: Program) -> bool:
    """Whether an expression may be skipped when its statement is executed."""
    statement: cst.CSTNode = program.unit_of[node].node

    def within(outer: cst.CSTNode) -> bool:
        return _within(node, outer)

    parts: list[cst.CSTNode] = [statement]
    while parts:
        part = parts.pop()
        if part is node:
            return False
        if isinstance(part, cst.IfExp) and (within(part.body) or within(part.orelse)):
            return True
        if isinstance(part, cst.BooleanOperation) and within(part.right):
            return True
        if isinstance(part, (cst.Lambda, cst.BaseComp)) and within(part):
            return True
        parts.extend(child for child in part.children if within(child))
    return False


def _overlap(one: cst.CSTNode, other: cst.CSTNode) -> bool:
    return _within(one, other) or _within(other, one)


def _within(node: cst.CSTNode, outer: cst.CSTNode) -> bool:
    return node is outer or any(_within(node, child) for child in outer.children)


# --- verdicts ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Played:
    """What was seen of a script on a ground.

    ``lines`` are its own that an exception came through, ``passed`` those that matter and were reached, with how many
    ``times``; ``left`` says how often the program went on from them. ``is_late`` if it was ended at its limit. Where it
    had stand-ins, they were for its ``lack``, and ``stood_in`` names what of them was used.
    """

    script: Scripted
    ground: Ground
    sight: Sight
    lines: tuple[int, ...] = ()
    passed: frozenset[int] = frozenset()
    times: Mapping[int, int] = field(default_factory=dict)
    left: Mapping[int, int] = field(default_factory=dict)
    is_late: bool = False
    lack: preludes.Lack | None = None
    stood_in: tuple[str, ...] = ()

    @property
    def stand_ins(self) -> str:
        """Which stand-ins it had, if any, in words."""
        names = sorted({*self.script.names, *self.stood_in})
        more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
        return f"stand-ins for {', '.join(names[:MOST_NAMES])}{more}" if names else ""

    @property
    def besides(self) -> str:
        """The same, of one that has nothing else than PyTorch."""
        return f" and {self.stand_ins}" if self.stand_ins else ""

    @property
    def reached(self) -> bool:
        """Whether it came by the line of the finding."""
        return self.script.line in self.passed

    def compares_with(self, other: Played) -> bool:
        """Whether the values that a claim may be about were computed in both arms, or in none."""
        return not self.sight.shows(FAILED_CLAIM) or (HOLLOWED in self.stood_in) == (HOLLOWED in other.stood_in)

    @property
    def is_in_place(self) -> bool:
        """Whether an exception came from the lines of the finding."""
        return bool(self.script.places.intersection(self.lines))

    @property
    def is_at_finding(self) -> bool:
        """Whether it came from the statement of the finding itself, perhaps in a process that notes nothing."""
        inside = self.script.places.intersection(self.lines)
        return any(max(step for step in (0, *self.script.steps) if step <= line) == self.script.line for line in inside)

    @property
    def is_clean(self) -> bool:
        return not self.sight.unable and not self.sight.kinds

    @property
    def what_came(self) -> str:
        """Of one that came by the finding, what came of it then."""
        if self.is_clean:
            return str(self.sight)
        return f"no error there, {f'and later {self.sight.unable}' if self.sight.unable else f'but later {self.sight}'}"

    @property
    def went_on(self) -> bool:
        """Whether it came by the finding and its claims, and nothing was raised there; elsewhere it may be."""
        if self.sight.unable:
            return all(self.rounds(line) for line in (self.script.line, *self.script.claims))
        return self.reached and self.script.claims <= self.passed and not self.is_in_place

    def rounds(self, line: int) -> int:
        """How often it went on from a line."""
        # One that is reached once more was left before, also where nothing notes that.
        return max(self.left.get(line, 0), self.times.get(line, 0) - 1)

    def goes_on_after(self, failed: Played) -> bool:
        """Whether it went on from what the other arm failed at, in the same round."""
        lines, others = self.script.steps, failed.script.steps
        last = next((line for line in reversed(failed.lines) if line in failed.script.places), 0)
        before = [line for line in others if line <= last]
        if not before or len(lines) != len(others):
            return False
        return self.rounds(lines[len(before) - 1]) >= max(1, failed.times.get(before[-1], 0))

    @property
    def came_by_notes(self) -> bool:
        """Whether it came by all that notes its own evaluation."""
        return self.script.notes <= self.passed

    @property
    def is_right(self) -> bool:
        """Whether it went through, and made all its claims on the way."""
        return self.is_clean and self.reached and not self.stood_in and self.script.claims <= self.passed


class Replayer:
    """Plays cases in a sandbox, and nothing twice.

    ``roots`` are the folders from which programs import; their file is in the folder ``beside``, else in the first.
    """

    def __init__(self, prober: Prober, roots: Sequence[str] = (), beside: str = "") -> None:
        self.prober = prober
        self.roots = tuple(roots)
        self.beside = beside or next(iter(roots), "")
        self.missing: set[str] = set()  # packages that turned out to be
        self.waited = 0.0  # seconds in which others had the processor
        self.is_slow = False  # whether the program took too long
        self._known: dict[tuple[object, ...], tuple[tuple[Mapping[str, Any], preludes.Lack | None], float]] = {}

    def replayed(self, case: Case) -> tuple[Verdict, Scripted | None]:
        """What the replay says, and the script that shows it; where none does, why."""
        expected = " or ".join(map(str, case.symptoms))
        try:
            places = self._places(case)
        except TooFew as reason:
            return Verdict(Level.REPLAY, Outcome.INCONCLUSIVE, self.prober.mode, str(reason), expected), None
        if not case.is_visible:
            return self._pattern(case, "it raises nothing"), None
        shown: list[tuple[Played, str]] = []
        failures: list[tuple[Played, str]] = []
        for piece, played in self._tried(case, places):
            with_what = f" with {played.stand_ins}" if played.stand_ins else ""
            called = f", called with `{_short(piece.command)}`" if piece.command else ""
            what = f"{piece.name} of {played.script.length} lines{called}{with_what}"
            device = self._device(played.ground)
            if _shows(case, played):
                outcome, observed = self._compared(case, piece, played)
                if outcome is Outcome.CONFIRMED:
                    return Verdict(Level.REPLAY, outcome, device, f"{what}: {observed}", expected), played.script
                shown.append((played, f"{what}: {observed}"))
            elif self._is_refuted(case, piece, played):
                return Verdict(Level.REPLAY, Outcome.REFUTED, device, f"{what}: no error", expected), None
            else:
                failures.append((played, f"{what}: {_failure(case, played)}"))
        if shown:
            played, told = shown[0]
            return Verdict(
                Level.REPLAY, Outcome.INCONCLUSIVE, self._device(played.ground), told, expected
            ), played.script
        # What fails in a way of its own says more than what goes through.
        played, failure = min(failures, key=lambda told: told[0].is_clean)
        if case.problem.replay is None:
            return self._pattern(case, failure), None
        return Verdict(Level.REPLAY, Outcome.INCONCLUSIVE, self._device(played.ground), failure, expected), None

    def shown(self, case: Case, script: Scripted) -> tuple[Played | None, str]:
        """A play of a script that shows the symptom; None if none does, and why."""
        reason = ""
        try:
            for ground in self._places(case):
                played = self._played(script, ground)
                if _shows(case, played):
                    return played, ""
                reason = reason or f"with PyTorch alone{played.besides}, {_failure(case, played)}"
        except TooFew as error:
            reason = str(error)
        return None, reason

    def _places(self, case: Case) -> list[Ground]:
        mode = self.prober.mode
        return grounds(mode, case.gpu_counts, self.prober.found) if case.kind == CUDA else [of_kind(mode, case.kind)]

    def _tried(self, case: Case, places: Sequence[Ground]) -> Iterator[tuple[Piece, Played]]:
        """One script after another, all on one ground before the next; identical scripts are played once."""
        began, waited, tried, enough = time.monotonic(), self.waited, 0, False
        went_on: set[Ground] = set()  # with the whole program, by the finding, without a symptom
        scripts: set[tuple[Scripted, Ground]] = set()
        latest: dict[tuple[Ground, Command | None], Played] = {}  # of the whole program, as it is called
        last: dict[Ground, Played] = {}  # of the whole program, however it is called
        hopeless = _Hopeless()
        for ground, piece in ((ground, piece) for ground in places for piece in chain(case.wholes(), case.parts())):
            if time.monotonic() - began > extended(MOST_SECONDS, self.waited - waited):
                return
            if piece.is_whole:
                before = latest.get((ground, piece.command), last.get(ground))
                if before is not None and not _asks_for(case, piece, before):
                    continue
            elif (enough or ground in went_on) and piece.entry is None:
                continue
            script = case.scripted(piece)
            if (script, ground) in scripts or hopeless.includes(script):
                continue
            scripts.add((script, ground))
            played = self._played(script, ground)
            yield piece, played
            hopeless.learn_from(played, as_meant=bool(piece.supply or not case.circumstances.answers))
            if piece.is_whole:
                latest[ground, piece.command] = last[ground] = played
            tried += not piece.is_whole
            # What lacks a package in a part lacks it in the whole, whatever stands in for data.
            lacks = piece.name == "slice" and "ModuleNotFoundError" in played.sight.kinds
            # No part of the program can show what the whole of it does not.
            if piece.decisive and played.went_on and not (played.sight.unable or played.stood_in or case.is_guarded):
                went_on.add(ground)
            enough = enough or lacks or tried == MOST_TRIES

    def _is_refuted(self, case: Case, piece: Piece, played: Played) -> bool:
        """Whether the program as it is goes through, by way of all that leads to the finding."""
        if case.problem.replay is None or not case.replay.right or case.is_guarded:
            return False
        if not piece.decisive or piece.mended or not played.is_right or not played.script.trail <= played.passed:
            return False
        noting = case.with_notes(piece)
        return noting is None or self._played(noting, played.ground).came_by_notes

    def _device(self, ground: Ground) -> str:
        return f"{ground.name}, torch {self.prober.found.torch}"

    def _pattern(self, case: Case, reason: str) -> Verdict:
        """Of a rule that does not say how a program shows its fault, the experiment has to do."""
        verdict = self.prober.verdict(case.experiment, case.problem.facts)
        observed = f"not shown by a replay ({reason}); the rule's pattern: {verdict.observed}"
        return replace(verdict, observed=observed)

    def _compared(self, case: Case, piece: Piece, flagged: Played) -> tuple[Outcome, str]:
        """The control: the same repaired, in a single process, or on fewer GPUs."""
        others = []
        for words, played in self._controls(case, piece, flagged):
            is_right = played.is_clean or (flagged.is_in_place and _went_on(case, flagged, played))
            if is_right and flagged.compares_with(played):
                return Outcome.CONFIRMED, f"{flagged.sight}; {words}: {played.what_came}"
            others.append(f"{words}: {played.sight}")
        return Outcome.INCONCLUSIVE, "; ".join([str(flagged.sight), *others])

    def _controls(self, case: Case, piece: Piece, flagged: Played) -> Iterator[tuple[str, Played]]:
        for repair in case.repairs():
            yield "repaired", self._played(case.scripted(piece, repair), flagged.ground)
        if flagged.script.crew != ALONE:
            yield "in a single process", self._played(replace(flagged.script, crew=ALONE), flagged.ground)
        fewer = case.experiment.harmless_on
        if fewer is not None and flagged.ground.simulate is not None and flagged.ground.kind == CUDA:
            script = case.scripted(piece, case.on_first_id)
            yield f"on {counted(fewer)}", self._played(script, replace(flagged.ground, simulate=fewer))

    def _played(self, script: Scripted, ground: Ground) -> Played:
        if script.shadowed:
            names = " and ".join(f"`{name}`" for name in sorted(script.shadowed))
            return Played(
                script, ground, Sight.of({"unable": f"{names} would have to be the replay's, not the program's"})
            )
        entry = script.entry and script.entry.path
        given = (script.packages, script.lenient, script.workers, script.saved_on, script.unset)
        lack = preludes.Lack(*given, time=not self.is_slow)
        passing = (script.kept, script.symptoms) if script.lenient else ()
        own = (script.bare, script.lent, script.seen, script.crew, entry, script.limit, script.command)
        key = (*own, passing, lack, ground)
        if key not in self._known:
            began, waited = time.monotonic(), self.waited
            answered = self._answer(script, lack, ground)
            self.is_slow = self.is_slow or bool(answered[1] and not answered[1].time)
            self._known[key] = (answered, time.monotonic() - began - (self.waited - waited))
        (answer, found), seconds = self._known[key]
        return Played(
            script,
            ground,
            Sight.of(answer),
            tuple(answer.get("lines", ())),
            frozenset(answer.get("reached", ())),
            dict(answer.get("times", ())),
            dict(answer.get("left", ())),
            "late" in answer or ("unable" in answer and seconds >= script.limit),
            found,
            tuple(answer.get("stood_in", ())),
        )

    def _play(self, script: Script, ground: Ground) -> Mapping[str, Any]:
        answer = self.prober.sandbox.play(script, ground.simulate, ground.kind)
        self.waited += answer.get("waited", 0.0)
        return answer

    def _answer(
        self, script: Scripted, lack: preludes.Lack, ground: Ground
    ) -> tuple[Mapping[str, Any], preludes.Lack | None]:
        crew, entry = script.crew, script.entry
        lines = tuple(sorted(script.seen))
        played = Script(script.text, lines, self.roots, script.limit, crew.ranks, crew.nodes, beside=self.beside)
        played = replace(played, lent=script.lent)
        if script.command is not None:
            played = replace(played, argv=script.command.arguments, here=script.command.folder)
        if script.lenient:
            symptoms = tuple((one.kind, one.words) for one in script.symptoms)
            played = replace(played, lenient=True, kept=tuple(sorted(script.kept)), symptoms=symptoms)
        if entry is not None:
            roots = (*entry.roots, *self.roots)
            text = entry.uncut if script.verbatim else entry.text
            played = replace(played, roots=roots, entry=text, home=entry.home, beside=roots[0])
        try:
            return preludes.played(
                lambda one: self._play(one, ground),
                played,
                script.suffices,
                lack,
                self.missing,
            )
        except (ArmLost, SyntaxError) as reason:
            return {"unable": str(reason)}, None


@dataclass
class _Hopeless:
    """What makes no difference to try: command lines that the program refuses, and statements that end it.

    A statement that fails for want of data, before the finding, fails again wherever nothing is passed over and the
    program is called in the same way.
    """

    commands: set[Command] = field(default_factory=set)
    statements: set[tuple[Command | None, str]] = field(default_factory=set)

    def learn_from(self, played: Played, as_meant: bool) -> None:
        """``as_meant`` if the program ran under the conditions of the finding."""
        script = played.script
        if played.sight.unable == USAGE and script.command is not None:
            self.commands.add(script.command)
        if as_meant and not played.reached and played.lines and not OTHERWISE.intersection(played.sight.kinds):
            self.statements.add((script.command, script.quoted(played.lines[-1])))

    def includes(self, script: Scripted) -> bool:
        if script.command in self.commands:
            return True
        known = (statement for command, statement in self.statements if command == script.command)
        return not script.lenient and any(statement in script.text for statement in known)


USAGE = "the slice exits with 2"  # what argparse does with a command line that it does not understand
OTHERWISE = {"RuntimeError", "AssertionError", "ModuleNotFoundError"}  # which may be the fault of another finding


def _short(command: Command) -> str:
    text = str(command)
    return text if len(text) <= LONGEST_COMMAND else f"{text[: LONGEST_COMMAND - 1]}…"


def _asks_for(case: Case, piece: Piece, last: Played) -> bool:
    """Whether the whole program is to be run in another form, after what came of the last."""
    if last.is_late:
        return False
    if last.is_clean and last.reached:
        return (bool(case.circumstances.answers) or bool(last.stood_in)) and not piece.mended
    if piece.mended and not last.reached and last.script.seen.isdisjoint(last.lines):
        return False  # another finding is not the obstacle
    return piece.mended or not _shows(case, last)


def _shows(case: Case, played: Played) -> bool:
    """Elsewhere than at its place, an exception is the finding's if a repair of the finding alone ends it.

    A failing assertion of the program's own is not a failed claim, and what fails on the way is another fault.
    """
    seen = [symptom for symptom in case.symptoms if played.sight.shows(symptom)]
    claimed = played.script.claims | played.script.observers
    if not seen or (seen == [FAILED_CLAIM] and claimed.isdisjoint(played.lines)):
        return False
    if not (played.reached or played.is_at_finding) and claimed.isdisjoint(played.lines):
        return False
    return played.is_in_place or bool(case.repairs())


def _went_on(case: Case, flagged: Played, control: Played) -> bool:
    """Whether the control came by what the flagged arm fails at; if it could go no further, in the same round."""
    if control.goes_on_after(flagged):
        return not (control.is_in_place and any(map(control.sight.shows, case.symptoms)))
    return control.went_on and not control.sight.unable


def _failure(case: Case, played: Played) -> str:
    """Why a script does not show the finding."""
    sight = played.sight
    if sight.unable:
        return sight.unable
    if "ModuleNotFoundError" in sight.kinds:
        return f"it needs a package: {sight.text}"
    if "FileNotFoundError" in sight.kinds:
        return f"it needs a file: {sight.text}"
    if sight.kinds:
        entry = f" in {Path(played.script.entry.path).name}" if played.script.entry is not None else ""
        where = f" at `{played.script.quoted(played.lines[-1])}`" if played.lines else entry
        return f"it fails with another error{where}: {sight}"
    if not played.reached and case.problem.scene is not None and case.problem.scene.standalone:
        return "nothing in this file calls the reported code"
    if not played.reached:
        return f"`{played.script.quoted(played.script.line)}` is not reached"
    for line in sorted((played.script.claims | played.script.trail) - played.passed):
        return f"`{played.script.quoted(line)}` is not reached"
    return "it does not fail here, but may fail elsewhere"
