"""Replays: the part of the user's program that shows a finding is run, beside the same part repaired."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

import libcst as cst

from placement_lint.finding import Level, Outcome, Verdict
from placement_lint.flow.condition import ANY_MACHINE, MANY_GPUS, NO_GPU, ONE_GPU, Cube
from placement_lint.probe import synthesis
from placement_lint.probe.devices import Ground, TooFew, counted, grounds
from placement_lint.probe.experiment import Experiment, Raises
from placement_lint.probe.prober import Prober
from placement_lint.probe.rendering import MARK, Additions, filled, observing, rendered, shadowed
from placement_lint.probe.sandbox import ArmLost, Script
from placement_lint.probe.slicing import Slice, slice_of
from placement_lint.probe.units import Program, Unit
from placement_lint.probe.verdicts import Sight
from placement_lint.replaying import given_keyword
from placement_lint.rule import ALONE, Crew, Line, Problem, Replay, Rule

FAILED_CLAIM = Raises("AssertionError")
STATEMENT = (cst.SimpleStatementLine, cst.BaseCompoundStatement)
MOST_TRIES = 12  # stand-ins for data that are tried


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

    ``observers`` are the lines of those that the claims call, some of which fail by themselves.

    ``shadowed`` are the names for what a replay brings that mean something else in this program.
    """

    text: str
    line: int
    claims: frozenset[int]
    places: frozenset[int]
    observers: frozenset[int] = frozenset()
    crew: Crew = ALONE
    entry: Entry | None = None
    shadowed: frozenset[str] = frozenset()

    @property
    def length(self) -> int:
        return len(self.text.splitlines())

    def quoted(self, number: int) -> str:
        return self.text.splitlines()[number - 1].partition(MARK)[0].strip()


@dataclass(frozen=True)
class Piece:
    """A slice and what stands in for the world around it."""

    name: str
    units: Slice
    supply: Mapping[cst.CSTNode, str]
    lines: tuple[Line, ...] = ()
    entry: Entry | None = None


@dataclass(frozen=True)
class Entry:
    """A program that imports the file of a case, ``home``."""

    path: str
    home: str
    program: Program

    @cached_property
    def text(self) -> str:
        return rendered(Slice.whole(self.program, ()), *self._supply)

    @property
    def shadowed(self) -> set[str]:
        return shadowed(self.program, *self._supply)

    @cached_property
    def _supply(self) -> tuple[Mapping[cst.CSTNode, str], Additions]:
        supply = next(iter(synthesis.supplies(self.program, frozenset(), Replay())))
        additions = Additions()
        for line in supply.lines:
            additions.before[self.program.unit_of[line.node]].append(line)
        return supply.edits, additions

    @property
    def roots(self) -> tuple[str, ...]:
        """Its folder, and the one of the outermost package that the file is in."""
        outside = Path(self.home).parent
        while (outside / "__init__.py").exists():
            outside = outside.parent
        return (str(Path(self.path).parent), str(outside))


@dataclass(frozen=True)
class Case:
    """A problem of a program, the problems that it has besides, and programs that import it."""

    program: Program
    rule: Rule
    problem: Problem
    others: tuple[Problem, ...] = ()
    entries: tuple[Entry, ...] = ()

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
    def gpu_counts(self) -> list[int]:
        """Numbers of GPUs with which it shows, the likeliest first."""
        needed = max(self.replay.gpus, self.experiment.gpus_for(self.experiment.completed(self.problem.facts)))
        if self.replay.crew != ALONE:
            return [max(needed, self.replay.crew.ranks // self.replay.crew.nodes)]
        counts = {MANY_GPUS: max(2, needed), ONE_GPU: 1, NO_GPU: 0}
        machines = self.problem.when.machines if self.problem.when is not None else ANY_MACHINE
        return [
            count
            for machine, count in counts.items()
            if machines & machine and (count >= needed or machine == machines)
        ]

    # --- slices ------------------------------------------------------------------------------------------------

    def pieces(self) -> Iterator[Piece]:
        """From the smallest to the whole program, and to the programs that import it."""
        for supply in synthesis.supplies(self.program, self.circumstances.answers, self.replay):
            yield Piece("slice", self._slice(supply), supply.edits, supply.lines)
            yield Piece("program", Slice.whole(self.program, self._criteria), supply.edits, supply.lines)

        supply = next(iter(synthesis.supplies(self.program, self.circumstances.answers, self.replay)))
        whole = Slice.whole(self.program, self._criteria)
        for entry in self.entries:
            yield Piece(f"program, imported by {Path(entry.path).name},", whole, supply.edits, supply.lines, entry)

    def _slice(self, supply: synthesis.Supply) -> Slice:
        scene = self.problem.scene
        path = [call for call in scene.calls if isinstance(call, cst.Call)] if scene else []
        criteria = self._criteria
        if any(self.program.unit_of[line.node] in criteria for line in supply.lines):
            criteria |= supply.needed
        return slice_of(self.program, path, criteria, supply.replaced)

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
        return self.scripted(next(self.pieces()))

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

    def scripted(self, piece: Piece, repair: Repair | None = None, mended: bool = True) -> Scripted:
        """The piece as a program; if it is ``mended``, all other problems are repaired as far as that is possible."""
        units = self.program.unit_of
        edits = {**dict(self.replay.noted), **piece.supply}
        mending = list(piece.lines)
        for way in (*(self._repairs_of_others() if mended else ()), *((repair,) if repair else ())):
            edits |= way.edits
            mending += way.lines
        additions = Additions(marks=self._marks())
        # What is mended before a statement is so when the claims are made; what claims watch is there to be mended.
        for lines, place in ((mending, True), (self._claims, True), (self._claims, False), (mending, False)):
            for line in lines:
                if line.before is place and line.node in units and filled(line, self.program, edits):
                    (additions.before if place else additions.after)[units[line.node]].append(line)
        text = rendered(piece.units, edits, additions)
        own = shadowed(self.program, edits, additions) | (piece.entry.shadowed if piece.entry else set())
        return replace(self._numbered(text, edits), crew=self.replay.crew, entry=piece.entry, shadowed=frozenset(own))

    def _repairs_of_others(self) -> Iterator[Repair]:
        """Those that leave this problem as it is."""
        nodes = [self.problem.node, *(node for way in self.repairs() for node in way.edits)]
        lines = {line.text for way in self.repairs() for line in way.lines}
        for other in self.others:
            way = next(iter(_repairs(other)), None)
            if way is None or not way.is_independent or lines.intersection(line.text for line in way.lines):
                continue
            if not any(_overlap(node, mine) for node in way.edits for mine in nodes):
                yield way

    def _numbered(self, text: str, edits: Mapping[cst.CSTNode, str]) -> Scripted:
        claims = {filled(line, self.program, edits) for line in self._claims}
        lines = text.splitlines()
        marked = [
            (first, last)
            for first, last in _statements(text)
            if MARK in lines[last - 1] or lines[first - 1].strip() in claims
        ]
        return Scripted(
            text,
            next((first for first, last in marked if f"{MARK}{self.label}" in lines[last - 1]), 0),
            frozenset(first for first, _ in marked if lines[first - 1].strip() in claims),
            frozenset(number for first, last in marked for number in range(first, last + 1)),
            frozenset(observing(text)),
        )

    @property
    def label(self) -> str:
        return f"{self.rule.code} {self.rule.name}"

    def _marks(self) -> dict[Unit, str]:
        units = self.program.unit_of
        marks = {units[note.node]: note.message for note in self.problem.trace if note.node in units}
        return {**marks, units[self.problem.node]: self.label}


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


def _statements(text: str) -> Iterator[tuple[int, int]]:
    """First and last line of each statement; of a compound one, of its header. None where the text is no Python."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt):
            body = getattr(node, "body", None)
            last = max(node.lineno, body[0].lineno - 1) if body else node.end_lineno
            yield node.lineno, last or node.lineno


def _overlap(one: cst.CSTNode, other: cst.CSTNode) -> bool:
    return _within(one, other) or _within(other, one)


def _within(node: cst.CSTNode, outer: cst.CSTNode) -> bool:
    return node is outer or any(_within(node, child) for child in outer.children)


# --- verdicts ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Played:
    """What was seen of a script on a ground.

    ``lines`` are its own that an exception came through, ``passed`` those that matter and were reached.
    """

    script: Scripted
    ground: Ground
    sight: Sight
    lines: tuple[int, ...] = ()
    passed: frozenset[int] = frozenset()

    @property
    def reached(self) -> bool:
        """Whether it came by the line of the finding."""
        return self.script.line in self.passed

    @property
    def is_in_place(self) -> bool:
        """Whether an exception came from the lines of which the finding speaks."""
        return bool(self.script.places.intersection(self.lines))

    @property
    def is_clean(self) -> bool:
        return not self.sight.unable and not self.sight.kinds

    @property
    def is_right(self) -> bool:
        """Whether it went through, and made all its claims on the way."""
        return self.is_clean and self.reached and self.script.claims <= self.passed


class Replayer:
    """Plays cases in a sandbox. ``roots`` are the folders from which programs import."""

    def __init__(self, prober: Prober, roots: Sequence[str] = ()) -> None:
        self.prober = prober
        self.roots = tuple(roots)

    def replayed(self, case: Case) -> tuple[Verdict, Scripted | None]:
        """What the replay says, and the script that shows it; where none does, why."""
        expected = " or ".join(map(str, case.symptoms))
        try:
            places = grounds(self.prober.mode, case.gpu_counts, self.prober.found)
        except TooFew as reason:
            return Verdict(Level.REPLAY, Outcome.INCONCLUSIVE, self.prober.mode, str(reason), expected), None
        if not case.is_visible:
            return self._pattern(case, "it raises nothing"), None
        shown: list[tuple[Played, str]] = []
        failures: list[tuple[Played, str]] = []
        for piece, played in self._tried(case, places):
            what = f"{piece.name} of {played.script.length} lines"
            device = self._device(played.ground)
            if _shows(case, played):
                outcome, observed = self._compared(case, piece, played)
                if outcome is Outcome.CONFIRMED:
                    told = f"{what}: {observed}"
                    return Verdict(Level.REPLAY, outcome, device, told, expected), played.script
                shown.append((played, f"{what}: {observed}"))
                continue
            if shown:
                continue
            if case.problem.replay and piece.name == "program" and self._is_refuted(case, piece, played):
                return Verdict(Level.REPLAY, Outcome.REFUTED, device, f"{what}: no error", expected), None
            failures.append((played, f"{what}: {_failure(case, played)}"))
        if shown:
            return self._beside_pattern(case, *shown[0]), shown[0][0].script
        # What fails in a way of its own says more than what goes through.
        played, failure = min(failures, key=lambda told: told[0].is_clean)
        if case.problem.replay is None:
            return self._pattern(case, failure), None
        return Verdict(Level.REPLAY, Outcome.INCONCLUSIVE, self._device(played.ground), failure, expected), None

    def _tried(self, case: Case, places: Sequence[Ground]) -> Iterator[tuple[Piece, Played]]:
        """One script after another, from the smallest on; what is the same script is played once."""
        known: dict[tuple[Scripted, Ground], Played] = {}
        enough = False
        for piece, ground in product(case.pieces(), places):
            if enough and piece.entry is None:
                continue
            script = case.scripted(piece)
            if (script, ground) not in known:
                known[script, ground] = self._played(script, ground)
            yield piece, known[script, ground]
            # What lacks a package in a part lacks it in the whole, whatever stands in for data.
            lacks = piece.name == "slice" and "ModuleNotFoundError" in known[script, ground].sight.kinds
            enough = enough or lacks or len(known) == MOST_TRIES

    def _is_refuted(self, case: Case, piece: Piece, played: Played) -> bool:
        """Whether the program goes through, and does so as well with its other problems as they are."""
        if not (played.is_right and case.replay.right):
            return False
        return self._played(case.scripted(piece, mended=False), played.ground).is_right

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
        for repair in case.repairs():
            played = self._played(case.scripted(piece, repair), flagged.ground)
            if played.is_clean:
                return Outcome.CONFIRMED, f"{flagged.sight}; repaired: {played.sight}"
            others.append(f"repaired: {played.sight}")
        if flagged.script.crew != ALONE:
            played = self._played(replace(flagged.script, crew=ALONE), flagged.ground)
            if played.is_clean:
                return Outcome.CONFIRMED, f"{flagged.sight}; in a single process: {played.sight}"
            others.append(f"in a single process: {played.sight}")
        fewer = case.experiment.harmless_on
        if fewer is not None and flagged.ground.simulate is not None:
            played = self._played(case.scripted(piece, case.on_first_id), replace(flagged.ground, simulate=fewer))
            if played.is_clean:
                return Outcome.CONFIRMED, f"{flagged.sight}; on {counted(fewer)}: {played.sight}"
            others.append(f"on {counted(fewer)}: {played.sight}")
        return Outcome.INCONCLUSIVE, "; ".join([str(flagged.sight), *others])

    def _beside_pattern(self, case: Case, flagged: Played, told: str) -> Verdict:
        """Where no way to write the program is free of exceptions, the control is the rule's own pattern, repaired."""
        outcome = Outcome.INCONCLUSIVE
        trial = self.prober.trial(case.experiment, case.problem.facts)
        if trial.verdict.outcome is Outcome.REPRODUCED and flagged.is_in_place:
            outcome, what = Outcome.CONFIRMED, told.partition(": ")[0]
            told = f"{what}: {flagged.sight}; the rule's pattern, repaired: {trial.control}"
        expected = " or ".join(map(str, case.symptoms))
        return Verdict(Level.REPLAY, outcome, self._device(flagged.ground), told, expected)

    def _played(self, script: Scripted, ground: Ground) -> Played:
        if script.shadowed:
            names = " and ".join(f"`{name}`" for name in sorted(script.shadowed))
            return Played(
                script, ground, Sight.of({"unable": f"{names} would have to be the replay's, not the program's"})
            )
        try:
            crew, entry = script.crew, script.entry
            played = Script(script.text, (script.line, *script.claims), self.roots, ranks=crew.ranks, nodes=crew.nodes)
            if entry is not None:
                roots = (*entry.roots, *self.roots)
                played = replace(played, roots=roots, entry=entry.text, home=entry.home)
            answer: Mapping[str, Any] = self.prober.sandbox.play(played, ground.simulate)
        except ArmLost as reason:
            answer = {"unable": str(reason)}
        return Played(
            script, ground, Sight.of(answer), tuple(answer.get("lines", ())), frozenset(answer.get("reached", ()))
        )


def _shows(case: Case, played: Played) -> bool:
    """Elsewhere than at its place, an exception is the finding's if a repair of the finding alone ends it.

    An assertion of the program's own that fails is no failed claim.
    """
    seen = [symptom for symptom in case.symptoms if played.sight.shows(symptom)]
    claimed = played.script.claims | played.script.observers
    if not seen or (seen == [FAILED_CLAIM] and claimed.isdisjoint(played.lines)):
        return False
    return played.is_in_place or (played.reached and bool(case.repairs()))


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
        return f"it fails in another way{where}: {sight}"
    if not played.reached and case.problem.scene is not None and case.problem.scene.standalone:
        return "nothing in this file calls what the finding is about"
    if not played.reached:
        return f"`{played.script.quoted(played.script.line)}` is not reached"
    for line in sorted(played.script.claims - played.passed):
        return f"`{played.script.quoted(line)}` is not reached"
    return "no error" if case.replay.right else "it does not fail here, which says nothing of where it would"
