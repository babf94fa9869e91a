"""Rules listen: events go to the rules that want them, and what they say is weighed.

A value may have alternatives, and then a problem may hold under some of them only. It is reported where it holds on
every path that reaches the statement, or under a condition that can be said in a sentence: a kind of machine, and
at most one decision of the program. Anything more entangled is as likely a gap of the analysis as a bug.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import libcst as cst

from placement_lint.flow import condition
from placement_lint.flow.condition import ANY_MACHINE, MACHINES, NEVER, NO_GPU, Answer, Condition, Cube
from placement_lint.flow.copying import replace
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
) -> Hearing:
    """What ``rules`` say of a program; an exception in one rule leaves the others' findings alone."""
    with condition.asking(outcomes.conditions if outcomes is not None else None):
        return _hearing(module, rules, log, surroundings, outcomes)


def _hearing(
    module: cst.Module,
    rules: Sequence[Rule],
    log: PlacementLog | None,
    surroundings: Surroundings | None,
    outcomes: Outcomes | None,
) -> Hearing:
    hearing = Hearing()
    try:
        hearing.account = analyse(module, log, surroundings, outcomes)
    except RecursionError:
        raise
    except Exception as error:
        hearing.crashes.append((None, error))
        return hearing
    for rule in rules:
        if rule.listens:
            try:
                hearing.problems.extend((rule, problem) for problem in _heard(rule, hearing.account))
            except Exception as error:
                hearing.crashes.append((rule, error))
    return hearing


def _heard(rule: Rule, account: Account) -> list[Problem]:
    """One problem a node, and a call that led there from elsewhere: the one that holds most widely."""
    best: dict[tuple[cst.CSTNode, cst.CSTNode | None], tuple[tuple[int, int, int], Problem]] = {}
    for order, charge in enumerate(_charges(rule, account)):
        phrase = _condition(charge.wrong, charge.reach)
        if phrase is None:
            continue
        problem = charge.problem
        severity = problem.severity or rule.severity
        weight = (-severity.rank, len(phrase), order)
        said = replace(problem, message=_sentence(problem, phrase))
        key = (problem.node, charge.site)
        if key not in best or weight < best[key][0]:
            best[key] = (weight, said)
    return [problem for _, problem in best.values()]


def _sentence(problem: Problem, phrase: str) -> str:
    parts = [f"{problem.message}, {phrase}" if phrase else problem.message, problem.advice]
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


def _condition(wrong: Condition, reach: Condition) -> str | None:
    """When a problem holds, in words; empty where it always does, None where it cannot be said simply."""
    if reach.implies(wrong) and not wrong.widened:
        return ""
    if wrong.widened:
        return None
    phrases = [phrase for cube in wrong.cubes if (phrase := _phrase(cube, reach)) is not None]
    return min(phrases, key=lambda phrase: (len(phrase), phrase), default=None)


def _phrase(cube: Cube, reach: Condition) -> str | None:
    given = frozenset.intersection(*(known.answers for known in reach.cubes)) if reach.cubes else frozenset()
    machines = 0
    for known in reach.cubes:
        machines |= known.machines
    decisions = [answer for answer in cube.answers if answer not in given and not _goes_without_saying(answer)]
    decisions = _without_rivals(decisions)
    if len(decisions) > 1 or any(_chooses_cpu_despite(answer, cube) for answer in decisions):
        return None
    parts = []
    if cube.machines != machines and cube.machines != ANY_MACHINE and cube.machines & machines != machines:
        parts.append(MACHINES.get(cube.machines & machines, "on some machines"))
    for answer in decisions:
        if not answer.question.text:
            return None
        parts.append(f"when `{answer.question.text}` is {'true' if answer.given else 'false'}")
    return " and ".join(parts)


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
