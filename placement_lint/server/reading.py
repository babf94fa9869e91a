"""Reads one text for an editor: its findings, and for each name the place and the history of its value."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import libcst as cst

from placement_lint.checking.checker import Reading
from placement_lint.checking.listen import Hearing, problems_in
from placement_lint.finding import Range
from placement_lint.flow.events.schema import OptimizerStale
from placement_lint.flow.incremental.definition_memo import Outcomes
from placement_lint.flow.observers.placements import Placement, PlacementLog
from placement_lint.project.finder import Surroundings, read_from_disk
from placement_lint.project.unit import forget
from placement_lint.rule import Rule
from placement_lint.server.analysis import Placed, Step
from placement_lint.server.splicing import Spliced, Splicer

MOST_PLACES = 2  # of one assignment in a hint; more would not be readable
CPU = "cpu"
ASSIGNMENTS = (cst.Assign, cst.AnnAssign, cst.NamedExpr)

Places = Mapping[cst.CSTNode, Range]


class OpenTexts:
    """The texts that are open in the editor, by absolute path: they override the files on disk."""

    MOST_CHANGES = 64  # of texts before the caches of earlier texts are cleared

    def __init__(self) -> None:
        self._texts: dict[str, bytes] = {}
        self._changes = 0

    def keep(self, path: str, data: bytes) -> None:
        if self._texts.get(path) != data:
            self._texts[path] = data
            self._changes += 1
        if self._changes > self.MOST_CHANGES:
            self._changes = 0
            forget()

    def drop(self, path: str) -> None:
        self._texts.pop(path, None)

    def source(self, path: str) -> bytes | None:
        return self._texts[path] if path in self._texts else read_from_disk(path)


class AmongOpenTexts(Reading):
    """Reads a file whose imports may be open; the editor determines whether an open file is a notebook."""

    def __init__(self, texts: OpenTexts, is_notebook: bool | None = None) -> None:
        self._texts = texts
        self._is_notebook = is_notebook

    def is_notebook(self, path: str) -> bool:
        return super().is_notebook(path) if self._is_notebook is None else self._is_notebook

    def source(self, path: str) -> bytes | None:
        return self._texts.source(path)


@dataclass
class Draft:
    """The state of a document that is kept from one of its texts to the next, to save time."""

    splicer: Splicer = field(default_factory=Splicer)
    outcomes: Outcomes = field(default_factory=Outcomes)

    def tidy(self) -> None:
        """Discard the results if most of them are of earlier texts."""
        if self.outcomes.conditions.is_full:
            self.outcomes = Outcomes()


class LiveReading(AmongOpenTexts):
    """Reads one text and records the placements in it."""

    def __init__(self, texts: OpenTexts, draft: Draft, is_notebook: bool) -> None:
        super().__init__(texts, is_notebook)
        self._draft = draft
        self._spliced = Spliced(cst.Module([]), ())
        self.log = PlacementLog()
        self.places: Places = {}
        self.reported: set[cst.CSTNode] = set()

    def may_tell(self, text: str, surroundings: Surroundings) -> bool:
        """Always analyse an open document: it needs placements as well as findings."""
        return True

    def read(self, text: str) -> cst.Module:
        return self.parse(text)

    def parse(self, text: str) -> cst.Module:
        self._spliced = self._draft.splicer.parse(text)
        return self._spliced.module

    def pieces(self, text: str) -> Sequence[str]:
        return [part.text for part in self._spliced.parts] or [text]

    def hear(self, program: cst.Module, rules: Sequence[Rule], surroundings: Surroundings) -> Hearing:
        self._draft.tidy()
        hearing = problems_in(program, rules, self.log, surroundings, self._draft.outcomes)
        self.reported = {problem.node for _, problem in hearing.problems}
        return hearing

    def place(self, module: cst.Module, nodes: Sequence[cst.CSTNode]) -> dict[cst.CSTNode, Range]:
        return self._spliced.place(nodes)

    def placed(self) -> tuple[Placed, ...]:
        """All assignments to the names whose values have a history."""
        eventful = {each.name for each in self.log.placements.values() if each.trace}
        told = [each for each in self.log.placements.values() if each.name in eventful]
        self.places = self._spliced.place(self._nodes(told))
        return tuple(self._placed(each) for each in told if each.target in self.places)

    def _nodes(self, told: Iterable[Placement]) -> Iterator[cst.CSTNode]:
        for each in told:
            yield each.target
            yield each.statement
            if each.scope is not None:
                yield each.scope
            yield from (note.node for note in each.trace)
        for stale in self.log.stale:
            yield from (stale.node, stale.built.node, stale.stepped.node)

    def _placed(self, each: Placement) -> Placed:
        places = self.places
        history = {Step(places[note.node], note.message) for note in each.trace if note.node in places}
        stale = self._stale(each)
        return Placed(
            name=each.name,
            target=places[each.target],
            scope=places.get(each.scope) if each.scope is not None else None,
            where=stale or _where(each),
            arrived=bool(stale) or self._arrives(each, history),
            history=tuple(sorted(history, key=lambda step: (step.range, step.message))),
        )

    def _arrives(self, each: Placement, history: Collection[Step]) -> bool:
        """Whether an assignment moves its value to its place. A value made without a device is on the CPU."""
        if not isinstance(each.statement, ASSIGNMENTS) or each.statement not in self.places:
            return False
        statement = self.places[each.statement]
        here = [step for step in history if _inside(step.range, statement)]
        return bool(here) and (_where(each) != CPU or any(step.range < statement for step in history))

    def _stale(self, each: Placement) -> str:
        """``net, 12 lines stale``: for an optimizer that is reported to step after its parameters were replaced."""
        built = {thing.node for thing in each.objects.values()}
        event = next((event for event in self.log.stale if self._concerns(event, built)), None)
        if event is None:
            return ""
        model = event.replaced.partition(".")[0].partition("[")[0]
        lines = self.places[event.stepped.node].line - self.places[event.node].line
        return f"{model}, {lines} lines stale" if lines > 1 else f"{model}, stale"

    def _concerns(self, event: OptimizerStale, built: set[cst.CSTNode]) -> bool:
        known = event.node in self.places and event.stepped.node in self.places
        return known and event.node in self.reported and event.built.node in built


def _where(each: Placement) -> str:
    places = sorted(each.places or ())
    return " or ".join(places) if len(places) <= MOST_PLACES else ""


def _inside(place: Range, statement: Range) -> bool:
    begins = (statement.line, statement.column) <= (place.line, place.column)
    return begins and (place.end_line, place.end_column) <= (statement.end_line, statement.end_column)
