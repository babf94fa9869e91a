"""From the problems of a program to findings: where each stands, in whichever file, and where it is reported.

A problem in the code of a module class is reported there, also where the class is another file's: how it is used
made it one. One in a plain function of another file is the caller's: it is reported at the call.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from placement_lint.files import displayed
from placement_lint.finding import Edit, Finding, Fix, Range, Step
from placement_lint.results import Provisional
from placement_lint.source.positions import positions

if TYPE_CHECKING:
    import libcst as cst

    from placement_lint.project.finder import Statement
    from placement_lint.rule import Problem, Rule


@dataclass(frozen=True)
class Spot:
    """Where a node stands; ``answers`` where what is wrong there is reported there."""

    path: str
    range: Range
    answers: bool = True


Placer = Callable[["Sequence[cst.CSTNode]"], "dict[cst.CSTNode, Range]"]


class Spots:
    """Where nodes stand: those of the file itself, as ``place`` says, and those of parts of other files."""

    def __init__(
        self,
        path: str,
        folder: str,
        place: Placer,
        statements: Sequence[Statement],
        module_classes: Collection[cst.CSTNode],
    ) -> None:
        self.path = path
        self._folder = folder
        self._place = place
        self._statements = statements
        self._module_classes = module_classes
        self._known: dict[cst.CSTNode, Spot] = {}

    def look_up(self, nodes: Iterable[cst.CSTNode]) -> None:
        """Find all of these at once."""
        wanted = [node for node in dict.fromkeys(nodes) if node not in self._known]
        self._known.update((node, Spot(self.path, place)) for node, place in self._place(wanted).items())
        missing = {node for node in wanted if node not in self._known}
        for statement in self._statements:
            if not missing:
                return
            if inside := missing.intersection(statement.owners):
                self._known.update(self._elsewhere(statement, inside))
                missing -= inside

    def get(self, node: cst.CSTNode) -> Spot | None:
        return self._known.get(node)

    def attribute(self, file: str, cls: str, name: str) -> tuple[str, str, str]:
        """An attribute of a class, as every file of a run names it."""
        return (displayed(Path(file), self._folder), cls, name)

    def _elsewhere(self, statement: Statement, nodes: Collection[cst.CSTNode]) -> Iterator[tuple[cst.CSTNode, Spot]]:
        path = displayed(Path(statement.unit.path), self._folder)
        above = statement.lines.first - 1
        for node, place in positions(statement.tree, list(nodes)).items():
            lines = replace(place, line=place.line + above, end_line=place.end_line + above)
            yield node, Spot(path, lines, statement.owners[node] in self._module_classes)


def findings_of(problems: Sequence[tuple[Rule, Problem]], spots: Spots) -> list[Provisional]:
    """Findings from problems, each once however often a function was interpreted."""
    spots.look_up(node for _, problem in problems for node in _nodes(problem))
    found = (one for rule, problem in problems if (one := _finding(rule, problem, spots)) is not None)
    return list({_identity(one.finding): one for one in found}.values())


def _identity(finding: Finding) -> tuple[str, str, Range, str]:
    return (finding.path, finding.code, finding.range, finding.message)


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
        message=problem.message,
        path=spot.path,
        range=spot.range,
        trace=tuple(_steps(problem, spots)),
        fix=_fix(problem, spot, spots),
        facts=tuple((name, _plain(fact)) for name, fact in problem.facts.items()),
    )
    if not spot.answers:
        return _at_call(finding, problem, spots)
    return Provisional(finding, unless_tended=spots.attribute(*problem.about) if problem.about else None)


def _at_call(finding: Finding, problem: Problem, spots: Spots) -> Provisional | None:
    """The same at the call that led to it; None where nothing but the other file itself is concerned."""
    called = (spots.get(site) for site in problem.sites)
    site = next((spot for spot in called if spot is not None and spot.answers), None)
    if site is None:
        return None
    here = Step(finding.path, finding.range, "this is where it happens")
    where = f"{finding.path}:{finding.range.line}"
    moved = replace(
        finding,
        message=f"{finding.message} (at {where}, where this call leads)",
        path=site.path,
        range=site.range,
        trace=(*finding.trace, here),
        fix=None,
    )
    return Provisional(moved, unless_reported=(finding.path, finding.range))


def _steps(problem: Problem, spots: Spots) -> Iterator[Step]:
    for note in problem.trace:
        if (spot := spots.get(note.node)) is not None:
            yield Step(spot.path, spot.range, note.message)


def _fix(problem: Problem, spot: Spot, spots: Spots) -> Fix | None:
    """The fix, as long as all of it is in the finding's own file, and that is the one being checked."""
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
    """A fact as data that can be sent, compared and written down; what is neither becomes its text."""
    if isinstance(fact, (list, tuple)):
        return tuple(map(_plain, fact))
    return fact if isinstance(fact, (bool, int, float, str, type(None))) else str(fact)
