"""Rules listen: events go to the rules that want them, and what they say is weighed.

A value may have alternatives, and then a problem may hold under some of them only. It is reported where it holds on
every path that reaches the statement, or under a condition that can be said in a sentence: a kind of machine, and
at most one decision of the program. Anything more entangled is as likely a gap of the analysis as a bug.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import or_

import libcst as cst

from placement_lint.finding import Severity, When
from placement_lint.flow import condition
from placement_lint.flow.condition import MACHINES, NEVER, NO_GPU, Answer, Condition, Cube
from placement_lint.flow.copying import replace
from placement_lint.flow.describing import words
from placement_lint.flow.events import Event
from placement_lint.flow.outcomes import Outcomes
from placement_lint.flow.placements import PlacementLog
from placement_lint.flow.program import Account, analyse
from placement_lint.flow.values import Class
from placement_lint.project.finder import Surroundings
from placement_lint.rule import Problem, Rule


@dataclass
class Hearing:
    """What the rules said of one file. A crash without a rule is one of the analysis itself."""

    problems: list[tuple[Rule, Problem]] = field(default_factory=list)
    crashes: list[tuple[Rule | None, BaseException]] = field(default_factory=list)
    account: Account = field(default_factory=Account)
    unsaid: list[Unsaid] = field(default_factory=list)


@dataclass(frozen=True)
class Unsaid:
    """A problem that is not reported, as its ``condition`` (in words) takes more than one decision of the program."""

    rule: Rule
    problem: Problem
    condition: str


@dataclass
class _Charge:
    """A problem as it showed in the alternatives of one execution of one statement."""

    problem: Problem
    site: cst.CSTNode | None = None
    wrong: Condition = NEVER
    reach: Condition = NEVER


def problems_in(
    module: cst.Module,
    rules: Sequence[Rule],
    log: PlacementLog | None = None,
    surroundings: Surroundings | None = None,
    outcomes: Outcomes | None = None,
    thorough: bool = False,
) -> Hearing:
    """What ``rules`` say of a program; an exception in one rule leaves the others' findings alone."""
    with condition.asking(outcomes.conditions if outcomes is not None else None):
        return _hearing(module, rules, log, surroundings, outcomes, thorough)


def _hearing(
    module: cst.Module,
    rules: Sequence[Rule],
    log: PlacementLog | None,
    surroundings: Surroundings | None,
    outcomes: Outcomes | None,
    thorough: bool,
) -> Hearing:
    hearing = Hearing()
    try:
        hearing.account = analyse(module, log, surroundings, outcomes, thorough)
    except RecursionError:
        raise
    except Exception as error:
        hearing.crashes.append((None, error))
        return hearing
    for rule in rules:
        if rule.listens:
            try:
                hearing.problems.extend((rule, problem) for problem in _heard(rule, hearing.account))
                if log is not None and log.explains:
                    hearing.unsaid.extend(_unsaid(rule, hearing.account))
            except Exception as error:
                hearing.crashes.append((rule, error))
    return hearing


def _heard(rule: Rule, account: Account) -> list[Problem]:
    """One problem a node, and a call that led there from elsewhere."""
    charges: dict[tuple[cst.CSTNode, cst.CSTNode | None], list[_Charge]] = {}
    for charge in _charges(rule, account):
        charges.setdefault((charge.problem.node, charge.site), []).append(charge)
    return [problem for alike in charges.values() if (problem := _weighed(rule, alike, account)) is not None]


def _unsaid(rule: Rule, account: Account) -> Iterator[Unsaid]:
    for charge in _charges(rule, account):
        if charge.wrong.possible and not _sayable(charge):
            yield Unsaid(rule, charge.problem, words(charge.wrong))


def _weighed(rule: Rule, charges: Sequence[_Charge], account: Account) -> Problem | None:
    """The gravest of what shows at one place, under the widest condition; None where that cannot be said simply.

    The forward of a model runs at several visits: with one GPU by itself, with more in replicas. The machines on
    which a problem shows are those of all visits together.
    """
    said = [(charge, ways) for charge in charges if (ways := _sayable(charge))]
    gravest = max((_severity(rule, charge) for charge, _ in said), default=None)
    said = [(charge, ways) for charge, ways in said if _severity(rule, charge) is gravest]
    shown: dict[str, int] = {}
    for _, ways in said:
        for decision, machines in ways.items():
            shown[decision] = shown.get(decision, 0) | machines
    if not shown:
        return None
    decision = min(shown, key=lambda decision: (bool(decision), -shown[decision].bit_count(), len(decision), decision))
    reached = reduce(or_, (charge.reach.machines for charge in charges)) | _called_without(charges, account)
    machines = shown[decision]
    when = When(machines, MACHINES[machines] if machines != reached else "", decision)
    widest, _ = max(said, key=lambda one: one[1].get(decision, 0).bit_count())
    return replace(widest.problem, message=_sentence(widest.problem, when), when=when)


def _called_without(charges: Sequence[_Charge], account: Account) -> int:
    """The machines on which the function where a problem shows is called, but never with what makes it one."""
    scenes = [scene for charge in charges if (scene := charge.problem.scene) is not None]
    functions = {scene.function for scene in scenes}
    called = reduce(or_, (machines for function, machines in account.called_on if function in functions), 0)
    return called & ~reduce(or_, (scene.called_on for scene in scenes), 0)


def _severity(rule: Rule, charge: _Charge) -> Severity:
    return charge.problem.severity or rule.severity


def _sentence(problem: Problem, when: When) -> str:
    parts = [f"{problem.message}, {when.words}" if when.words else problem.message, problem.advice]
    return "; ".join(part for part in parts if part)


def _charges(rule: Rule, account: Account) -> Iterator[_Charge]:
    charges: dict[tuple[int, cst.CSTNode], _Charge] = {}
    for event in account.events:
        check = rule.listens.get(type(event))
        if check is None:
            continue
        for problem in check(event):
            sites, about = _sites(problem, event, account), _about(event)
            located = replace(problem, sites=sites, about=about, scene=event.scene)
            charge = charges.setdefault((event.scene.visit, problem.node), _Charge(located, event.scene.site))
            charge.wrong = charge.wrong | event.scene.when
            charge.reach = charge.reach | event.scene.reach
    yield from charges.values()


def _sites(problem: Problem, event: Event, account: Account) -> tuple[cst.CSTNode, ...]:
    """Where else to report a problem: at the call that led to it, if there is but one, else where it shows."""
    led = account.sites.get(problem.node, ())
    calls = (event.scene.site, *(led if len(led) == 1 else ()), event.node)
    return (*(node for node in calls if node is not None), *(note.node for note in reversed(problem.trace)))


def _about(event: Event) -> tuple[str, str, str] | None:
    holder = event.holder if event.scene.standalone else None
    cls = holder.owner.cls if holder is not None else None
    return (cls.file, cls.name, holder.name) if holder is not None and isinstance(cls, Class) else None


def _sayable(charge: _Charge) -> dict[str, int]:
    """On which machines a problem shows, by the decision of the program, in words, that it takes; empty for none."""
    wrong, reach = charge.wrong, charge.reach
    if wrong.widened:
        return {}
    if reach.implies(wrong):
        return {"": reach.machines}
    given = frozenset.intersection(*(known.answers for known in reach.cubes)) if reach.cubes else frozenset()
    ways: dict[str, int] = {}
    for cube in wrong.cubes:
        decision, machines = _decision(cube, given), cube.machines & reach.machines
        if decision is not None and machines:
            ways[decision] = ways.get(decision, 0) | machines
    return ways


def _decision(cube: Cube, given: Collection[Answer]) -> str | None:
    """The one answer under which a case holds that is not ``given``; None where it takes several, or has no words."""
    decisions = [answer for answer in cube.answers if answer not in given and not _goes_without_saying(answer)]
    decisions = _without_rivals(decisions)
    if not decisions:
        return ""
    [answer, *more] = decisions
    if more or not answer.question.text or _chooses_cpu_despite(answer, cube):
        return None
    return f"when `{answer.question.text}` is {'true' if answer.given else 'false'}"


def _goes_without_saying(answer: Answer) -> bool:
    return answer.given is answer.question.usual or (answer.given and answer.question.passing)


def _without_rivals(decisions: list[Answer]) -> list[Answer]:
    """Of questions that exclude each other one counts: the one answered yes, or any where all are answered no."""
    winners = {answer.question.rivals for answer in decisions if answer.given}
    kept: dict[object, Answer] = {}
    for answer in sorted(decisions, key=lambda answer: (not answer.given, answer.question.text)):
        rivals = answer.question.rivals
        if rivals is None:
            kept[answer] = answer
        elif answer.given or rivals not in winners:
            kept.setdefault(rivals, answer)
    return list(kept.values())


def _chooses_cpu_despite(answer: Answer, cube: Cube) -> bool:
    """A user who asks for the CPU although there is a GPU: a corner that nobody uses, and no bug of this line."""
    return answer.given is answer.question.chooses_cpu and not cube.machines & NO_GPU
