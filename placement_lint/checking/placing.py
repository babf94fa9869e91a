"""From the problems of a program to findings: the position of each, in any file, and the place to report it.

A problem in the code of a module class is reported there, even if the class is in another file: its use causes the
problem. A problem in a plain function of another file is reported there too, unless the function is also called without
it: then the caller causes it, and it is reported at the call (``reconcile``). A problem ``for_any_caller`` is reported
in the function in any case.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from placement_lint.finding import Edit, Finding, Fix, Range, Step
from placement_lint.project.files import displayed
from placement_lint.project.saved_states import SavedState, StateFile
from placement_lint.report.results import Provisional
from placement_lint.source.positions import positions

if TYPE_CHECKING:
    import libcst as cst

    from placement_lint.flow.events.schema import SavedThere
    from placement_lint.project.finder import Surroundings
    from placement_lint.project.unit import Owner, Statement
    from placement_lint.rule import Problem, Rule


Named = tuple[str, str, str]
"""An attribute or a function of a class, or a plain function: the file, the class and the name."""


@dataclass(frozen=True)
class Spot:
    """The position of a node; ``function`` is the plain function of another file that contains it, if any."""

    path: str
    range: Range
    function: Named | None = None


Placer = Callable[["Sequence[cst.CSTNode]"], "dict[cst.CSTNode, Range]"]


class Spots:
    """The positions of nodes: those of the file itself, by ``place``, and those of statements of other files."""

    def __init__(
        self,
        path: str,
        folder: str,
        place: Placer,
        surroundings: Surroundings,
        module_classes: Collection[cst.CSTNode],
    ) -> None:
        self.path = path
        self._folder = folder
        self._place = place
        self._surroundings = surroundings
        self._module_classes = module_classes
        self._known: dict[cst.CSTNode, Spot] = {}

    def look_up(self, nodes: Iterable[cst.CSTNode]) -> None:
        """Find the positions of all of these at once."""
        wanted = [node for node in dict.fromkeys(nodes) if node not in self._known]
        self._known.update((node, Spot(self.path, place)) for node, place in self._place(wanted).items())
        missing = {node for node in wanted if node not in self._known}
        for statement in self._surroundings.statements:
            if not missing:
                return
            if inside := missing.intersection(statement.owners):
                self._known.update(self._elsewhere(statement, inside))
                missing -= inside

    def get(self, node: cst.CSTNode) -> Spot | None:
        return self._known.get(node)

    def named(self, file: str, cls: str, name: str) -> Named:
        """An attribute or a function, named in the same way in every file of a run."""
        return (displayed(Path(file), self._folder), cls, name)

    def in_file(self, state: StateFile | None) -> StateFile | None:
        """The same with the class of its module named so."""
        return replace(state, cls=self.named(*state.cls)) if state is not None and state.cls else state

    def _elsewhere(self, statement: Statement, nodes: Collection[cst.CSTNode]) -> Iterator[tuple[cst.CSTNode, Spot]]:
        path = displayed(Path(statement.unit.path), self._folder)
        above = self._surroundings.first_line(statement) - 1
        for node, place in positions(statement.tree, list(nodes), roughly=True).items():
            lines = replace(place, line=place.line + above, end_line=place.end_line + above)
            yield node, Spot(path, lines, self._plain_function(path, statement.owners[node]))

    def _plain_function(self, path: str, owner: Owner) -> Named | None:
        if owner.function is None or owner.cls in self._module_classes:
            return None
        return (path, owner.cls.name.value if owner.cls is not None else "", owner.function.name.value)


def findings_of(problems: Sequence[tuple[Rule, Problem]], spots: Spots) -> list[Provisional]:
    """Findings from problems, each once however often a function was interpreted."""
    spots.look_up(node for _, problem in problems for node in _nodes(problem))
    found = (one for rule, problem in problems if (one := _finding(rule, problem, spots)) is not None)
    return list({_identity(one): one for one in found}.values())


def saved_states(saved: Sequence[SavedThere], spots: Spots) -> tuple[SavedState, ...]:
    """The same with the places where they are taken and saved."""
    spots.look_up(node for one in saved for node in one.nodes)
    found = []
    for one in saved:
        places = [spot for node in one.nodes if (spot := spots.get(node)) is not None]
        saved_here = f"saved here when {one.option}" if one.option else "saved here"
        said = zip(places, ("the state dict is taken here", saved_here)[-len(places) :], strict=False)
        steps = tuple(Step(spot.path, spot.range, message) for spot, message in said)
        if steps:
            state = spots.in_file(one.state) or one.state
            found.append(SavedState(spots.path, state, steps, one.standalone, one.on_cpu, one.option))
    return tuple(dict.fromkeys(found))


def places_of(nodes: Collection[cst.CSTNode], spots: Spots) -> tuple[tuple[str, Range], ...]:
    """Where nodes are, by the path of the file."""
    spots.look_up(nodes)
    return tuple(sorted((spot.path, spot.range) for node in nodes if (spot := spots.get(node)) is not None))


def _identity(one: Provisional) -> tuple[object, ...]:
    finding, call = one.finding, one.at_call
    where = (call.path, call.range) if call is not None else None
    return (finding.path, finding.code, finding.range, finding.message, where, one.if_saved)


def _nodes(problem: Problem) -> Iterator[cst.CSTNode]:
    yield problem.node
    yield from problem.sites
    yield from (note.node for note in problem.trace)
    if problem.rewrite:
        yield from (node for node, _ in problem.rewrite.replacements)


def _finding(rule: Rule, problem: Problem, spots: Spots) -> Provisional | None:
    spot = spots.get(problem.node)
    if spot is None:
        return None
    finding = Finding(
        code=rule.code,
        name=rule.name,
        severity=problem.severity or rule.severity,
        message=_on_one_line(problem.message),
        path=spot.path,
        range=spot.range,
        trace=tuple(_steps(problem, spots)),
        fix=_fix(problem, spot, spots),
        facts=tuple((name, _plain(fact)) for name, fact in problem.facts.items()),
        when=problem.when,
    )
    if spot.function is not None:
        return _in_plain_function(finding, spot.function, problem, spots)
    about = spots.named(*problem.about) if problem.about else None
    return Provisional(finding, about, if_saved=spots.in_file(problem.if_saved), unless_on_cpu=problem.unless_on_cpu)


def _in_plain_function(finding: Finding, function: Named, problem: Problem, spots: Spots) -> Provisional | None:
    """The finding there or at the call that led to it; None if it concerns only the other file itself."""
    called = (spots.get(site) for site in problem.sites)
    site = next((spot for spot in called if spot is not None and spot.function is None), None)
    if site is None:
        return None
    here = Step(finding.path, finding.range, "this is where it happens")
    where = f"{finding.path}:{finding.range.line}"
    at_call = replace(
        finding,
        message=f"{finding.message} (at {where}, where this call leads)",
        path=site.path,
        range=site.range,
        trace=(*finding.trace, here),
    )
    there = replace(finding, trace=(*finding.trace, Step(site.path, site.range, "this call leads there")))
    provisional = Provisional(there, if_saved=spots.in_file(problem.if_saved), unless_on_cpu=problem.unless_on_cpu)
    return provisional if problem.for_any_caller else replace(provisional, at_call=at_call, function=function)


def _steps(problem: Problem, spots: Spots) -> Iterator[Step]:
    for note in problem.trace:
        if (spot := spots.get(note.node)) is not None:
            yield Step(spot.path, spot.range, _on_one_line(note.message))


def _on_one_line(message: str) -> str:
    """A message that quotes code of several lines, without the line breaks."""
    return " ".join(line.strip() for line in message.splitlines())


def _fix(problem: Problem, spot: Spot, spots: Spots) -> Fix | None:
    """The fix, if all of its edits are in the finding's own file, and that is the one being checked."""
    if problem.rewrite is None or spot.path != spots.path:
        return None
    edits = [(spots.get(node), text) for node, text in problem.rewrite.replacements]
    if any(place is None or place.path != spots.path for place, _ in edits):
        return None
    return Fix(
        problem.rewrite.applicability,
        problem.rewrite.message,
        tuple(Edit(place.range, text) for place, text in edits if place is not None),
    )


def _plain(fact: object) -> object:
    """A fact as data that can be sent, compared and stored; other values are converted to strings."""
    if isinstance(fact, (list, tuple)):
        return tuple(map(_plain, fact))
    return fact if isinstance(fact, (bool, int, float, str, type(None))) else str(fact)
