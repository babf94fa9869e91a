"""Dispatch events to the rules that subscribe to them, and filter what the rules report by path condition.

A value may have alternatives, and then a problem may hold under some of them only. It is reported if it holds on every
path that reaches the statement, or under a simple condition: a kind of machine, and one decision of the program or two
options of its command line. If it takes more, it is reported as possible, under the part that chooses the values, or
under the options that all its cases take. Any other complex condition is as likely a gap of the analysis as a bug.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import combinations
from operator import or_
from typing import NamedTuple

import libcst as cst

from placement_lint.finding import Severity, When
from placement_lint.flow.domain import path_condition
from placement_lint.flow.domain.path_condition import (
    MACHINES,
    MANY_GPUS,
    NEVER,
    NO_GPU,
    ONE_GPU,
    Answer,
    Condition,
    Cube,
    any_of,
    is_precondition,
    machines,
    of,
)
from placement_lint.flow.domain.record import replace
from placement_lint.flow.domain.values import Class, Value
from placement_lint.flow.driver.analyse import Account, analyse
from placement_lint.flow.events.schema import Event
from placement_lint.flow.incremental.definition_memo import Outcomes
from placement_lint.flow.models.describing import words
from placement_lint.flow.observers.placements import PlacementLog
from placement_lint.flow.state.options import asks_for_kind_of_data, is_flag, preferred_answer, switches
from placement_lint.project.finder import Surroundings
from placement_lint.project.saved_states import StateFile
from placement_lint.rule import Problem, Rule


@dataclass
class Hearing:
    """The report of all rules on one file. A crash without a rule is a crash of the analysis itself."""

    problems: list[tuple[Rule, Problem]] = field(default_factory=list)
    crashes: list[tuple[Rule | None, BaseException]] = field(default_factory=list)
    account: Account = field(default_factory=Account)
    unsaid: list[Unsaid] = field(default_factory=list)


@dataclass(frozen=True)
class Unsaid:
    """A problem that is not reported, as its ``condition`` (in words) takes too many decisions of the program."""

    rule: Rule
    problem: Problem
    condition: str


@dataclass
class _Charge:
    """A problem with the alternatives of one execution of one statement in which it occurs."""

    problem: Problem
    site: cst.CSTNode | None = None
    wrong: Condition = NEVER
    # the part of ``wrong`` that chooses the values, whatever else leads to the statement
    decided: Condition = NEVER
    reach: Condition = NEVER
    # how the program reaches the calls of the function in which it occurs; None if it may occur in others as well
    calls: set[Condition] | None = None
    # the problems that say different things, each with its part of ``wrong``
    parts: dict[str, tuple[Problem, Condition]] = field(default_factory=dict)


def problems_in(
    module: cst.Module,
    rules: Sequence[Rule],
    log: PlacementLog | None = None,
    surroundings: Surroundings | None = None,
    outcomes: Outcomes | None = None,
    thorough: bool = False,
) -> Hearing:
    """The report of ``rules`` on a program; an exception in one rule does not affect the others' findings."""
    with path_condition.asking(outcomes.conditions if outcomes is not None else None):
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
    """The problems of a rule: one per node, per call that leads there from elsewhere, and per state that it needs."""
    charges: dict[tuple[cst.CSTNode, cst.CSTNode | None, StateFile | None], list[_Charge]] = {}
    for charge in _charges(rule, account):
        charges.setdefault((charge.problem.node, charge.site, charge.problem.if_saved), []).append(charge)
    return [problem for alike in charges.values() if (problem := _weighed(rule, alike, account)) is not None]


def _unsaid(rule: Rule, account: Account) -> Iterator[Unsaid]:
    for charge in _charges(rule, account):
        if charge.wrong.possible and not _sayable(charge):
            yield Unsaid(rule, charge.problem, words(charge.wrong))


def _weighed(rule: Rule, charges: Sequence[_Charge], account: Account) -> Problem | None:
    """The most severe problem at one place, under the widest condition; None if that is not simple to state.

    The forward of a model runs at several visits: with one GPU by itself, with more in replicas. The machines on which
    a problem occurs are those of all visits together.
    """
    otherwise = _called_without(charges, account)
    here = otherwise if all(charge.calls is not None and charge.site is None for charge in charges) else NEVER
    wider = [replace(charge, reach=charge.reach | here) for charge in charges]
    reached = reduce(or_, (charge.reach.machines for charge in charges)) | otherwise.machines
    return _stated(rule, charges, wider, reached) or _possible(rule, charges, wider, reached)


def _possible(rule: Rule, charges: Sequence[_Charge], wider: Sequence[_Charge], reached: int) -> Problem | None:
    """The same by the options that choose the values, for a problem with a condition that is not simple to state."""
    pairs = [
        (replace(one, wrong=chosen), replace(all_, wrong=chosen))
        for one, all_ in zip(charges, wider, strict=True)
        if (chosen := _chosen(one)).possible
    ]
    found = _stated(rule, [one for one, _ in pairs], [all_ for _, all_ in pairs], reached)
    if found is None:
        found = next((problem for one, _ in pairs if (problem := _by_options(one)) is not None), None)
    if found is None or (found.severity or rule.severity) is Severity.INFO:
        return None
    return replace(found, message=f"possible: {found.message}", severity=Severity.INFO, rewrite=None)


def _chosen(charge: _Charge) -> Condition:
    """The cases in which options alone choose the values of a problem."""
    reach, chosen = charge.reach, charge.decided & machines(charge.wrong.machines)
    # Otherwise it is not known what makes the difference, or the line may not be reached with these values.
    if not (reach.certain and chosen.certain) or reach.excludes(chosen) or reach.implies(chosen):
        return NEVER
    given = _given(charge)
    return any_of(of([cube]) for cube in chosen.cubes if _options_of(cube, given))


def _by_options(charge: _Charge) -> Problem | None:
    """A problem under the options that all its cases take; None if they share none."""
    given, reach = _given(charge), charge.reach.machines
    cubes = [cube for cube in charge.wrong.cubes if cube.machines & reach]
    taken = [frozenset(_options_of(cube, given)) for cube in cubes]
    shared = _without_implied(_without_rivals(frozenset.intersection(*taken))) if taken else []
    if not shared:
        return None
    bits = reduce(or_, (cube.machines & reach for cube in cubes))
    when = When(bits, MACHINES[bits] if bits != reach else "", _in_words(shared))
    return replace(charge.problem, message=_sentence(charge.problem, when), when=when)


def _stated(rule: Rule, charges: Sequence[_Charge], wider: Sequence[_Charge], reached: int) -> Problem | None:
    """The most severe problem, under the widest condition that is simple to state."""
    said = [(one, ways) for one, all_ in zip(charges, wider, strict=True) if (ways := _sayable_among(one, all_))]
    gravest = max((_severity(rule, charge) for charge, _ in said), default=None)
    said = [(charge, ways) for charge, ways in said if _severity(rule, charge) is gravest]
    shown: dict[str, int] = {}
    for _, ways in said:
        for decision, bits in ways.items():
            shown[decision] = shown.get(decision, 0) | bits
    if not shown:
        return None
    decision = min(shown, key=lambda decision: (bool(decision), -shown[decision].bit_count(), len(decision), decision))
    bits = shown[decision]
    when = When(bits, MACHINES[bits] if bits != reached else "", decision)
    widest, _ = max(said, key=lambda one: one[1].get(decision, 0).bit_count())
    problem = _problem_under(decision, widest)
    return replace(problem, message=_sentence(problem, when), when=when)


def _problem_under(decision: str, charge: _Charge) -> Problem:
    """The problem that occurs under a decision, of those at one place."""
    parts = charge.parts.values()
    occurring = (problem for problem, part in parts if decision in _sayable(replace(charge, wrong=part)))
    return next(occurring, charge.problem) if len(parts) > 1 else charge.problem


def _called_without(charges: Sequence[_Charge], account: Account) -> Condition:
    """How the program reaches calls of the function with a problem that do not lead to the problem."""
    scenes = [scene for charge in charges if (scene := charge.problem.scene) is not None]
    functions, causing = {scene.function for scene in scenes}, {scene.called_on for scene in scenes}
    causing = causing.union(*(charge.calls or () for charge in charges))
    return any_of(way for function, way in account.called_on if function in functions and way not in causing)


def _severity(rule: Rule, charge: _Charge) -> Severity:
    return charge.problem.severity or rule.severity


def _sentence(problem: Problem, when: When) -> str:
    message = problem.without_gpu if problem.without_gpu and when.machines == NO_GPU else problem.message
    parts = [f"{message} {when.words}" if when.words else message, problem.advice]
    return "; ".join(part for part in parts if part)


def _charges(rule: Rule, account: Account) -> Iterator[_Charge]:
    charges: dict[tuple[int, cst.CSTNode, StateFile | None], _Charge] = {}
    for event in account.events:
        check = rule.listens.get(type(event))
        if check is None:
            continue
        for problem in check(event):
            sites, about = _sites(problem, event, account), _about(event)
            located = replace(problem, sites=sites, about=about, scene=event.scene)
            comparable = event.each_time and problem.node is event.node
            new = _Charge(located, event.scene.site, calls=set() if comparable else None)
            charge = charges.setdefault((event.scene.visit, problem.node, problem.if_saved), new)
            if charge.calls is not None:
                charge.calls.add(event.scene.called_on)
            charge.wrong = charge.wrong | event.scene.when
            first, part = charge.parts.get(problem.message, (located, NEVER))
            charge.parts[problem.message] = (first, part | event.scene.when)
            charge.decided = charge.decided | event.scene.decided
            charge.reach = charge.reach | event.scene.reach_of(problem.node)
    yield from charges.values()


def _sites(problem: Problem, event: Event, account: Account) -> tuple[cst.CSTNode, ...]:
    """Other places to report a problem: the call that led to it, if there is only one, then where it occurs."""
    led = account.sites.get(problem.node, ())
    calls = (event.scene.site, *(led if len(led) == 1 else ()), event.node)
    return (*(node for node in calls if node is not None), *(note.node for note in reversed(problem.trace)))


def _about(event: Event) -> tuple[str, str, str] | None:
    holder = event.holder if event.scene.standalone else None
    cls = holder.owner.cls if holder is not None else None
    return (cls.file, cls.name, holder.name) if holder is not None and isinstance(cls, Class) else None


def _sayable_among(charge: _Charge, wider: _Charge) -> dict[str, int]:
    """The same, seen among all calls of the function.

    If what leads to those is too complex, and nothing else tells them apart, the options that do are named.
    """
    if ways := _sayable(wider):
        return ways
    ways = _sayable(charge)
    return _sayable(wider, by_options=True) or ways if "" in ways else ways


def _sayable(charge: _Charge, by_options: bool = False) -> dict[str, int]:
    """The machines on which a problem occurs, by the decision, in words, that it depends on; empty for none."""
    wrong, reach = charge.wrong, charge.reach
    if not wrong.certain:
        return {}
    if reach.implies(wrong):
        return {"": reach.machines}
    relaxed = _relaxed(wrong)
    certain = [bits for bits in _KINDS if (reach & machines(bits)).implies(relaxed)]
    surely = reduce(or_, certain, 0) & reach.machines
    given = _given(charge)
    cases: dict[_Decisions, int] = {}
    for cube in wrong.cubes:
        decisions, shown = _decisions(cube, given, charge, relaxed, by_options), cube.machines & reach.machines
        if decisions is not None and shown:
            cases[decisions] = cases.get(decisions, 0) | shown
    if surely:
        cases = {one: shown for one, shown in cases.items() if _is_wider(one, shown, surely, reach)}
        if not cases:
            return {"": surely}
    ways: dict[str, int] = {}
    for decisions, shown in cases.items():
        decision = _in_words(*_without_varied(decisions, cases))
        ways[decision] = ways.get(decision, 0) | shown
    return ways


def _is_wider(decisions: _Decisions, shown: int, surely: int, reach: Condition) -> bool:
    """Whether one decision says more than the machines on which a problem ``surely`` occurs.

    On those the program goes on only with this decision, as one that names a GPU if it has a list of them, and on
    other machines it leads there as well.
    """
    if decisions.by_default or len(decisions.answers) > 1 or not shown & ~surely or surely & ~shown:
        return False
    return (reach & machines(surely)).implies(of([Cube(surely, decisions.answers)]))


def _without_varied(decisions: _Decisions, cases: Collection[_Decisions]) -> _Decisions:
    """Without the value of an option that may have another one, if its default is among them."""
    for answer in decisions.answers:
        rest, rivals = decisions.answers - {answer}, answer.question.rivals
        others = [case.answers - rest for case in cases if rest < case.answers]
        values = [
            one for each in others if len(each) == 1 for one in each if one.given and one.question.rivals == rivals
        ]
        if rest and rivals is not None and answer in values and len(values) > 1:
            default = any(preferred_answer(one.question) for one in values)
            return decisions._replace(answers=rest) if default else decisions
    return decisions


def _given(charge: _Charge) -> frozenset[Answer]:
    """The answers without which the program does not reach the statement."""
    cubes = charge.reach.cubes
    return frozenset.intersection(*(known.answers for known in cubes)) if cubes else frozenset()


def _relaxed(condition: Condition) -> Condition:
    """The condition without the answers that the program requires to continue, and those that go without saying."""
    return any_of(
        of([Cube(cube.machines, frozenset(answer for answer in cube.answers if not _is_required(cube, answer)))])
        for cube in condition.cubes
    )


def _is_required(cube: Cube, answer: Answer) -> bool:
    return is_precondition(cube, answer) or answer.given is answer.question.usual


class _Decisions(NamedTuple):
    """Decisions of the program, and whether all other options must have their defaults."""

    answers: frozenset[Answer]
    by_default: bool = False


def _decisions(
    cube: Cube, given: Collection[Answer], charge: _Charge, relaxed: Condition, by_options: bool
) -> _Decisions | None:
    """The decisions under which a case holds, if they are simple enough to describe; else None.

    One decision of the program, or two that its user makes by options. If there are more, the answers that options give
    by default are dropped. ``by_options`` for only those of the decisions that its user makes.
    """
    open_ = _open(cube, given)
    free = [answer for answer in open_ if not is_precondition(cube, answer)]
    if not free:
        return _Decisions(frozenset())
    enough = _decisive(open_, cube, charge, relaxed)
    first = open_ if any(_is_left_over(answer, open_) for answer in enough) else enough
    ways = [_without_rivals(each) for each in (first, free, _decisive(free, cube, charge, relaxed), _not_default(free))]
    ways = [list(filter(_is_of_user, free))] if by_options else [*ways, *map(_without_implied, ways[1:])]
    decisions = next(filter(_can_be_said, ways), ways[0])
    if not _can_be_said(decisions) or any(_chooses_cpu_despite(answer, cube) for answer in decisions):
        return None
    if any(_is_left_over(answer, open_) for answer in decisions):
        return None
    by_default = not by_options and decisions == ways[3] and len(decisions) < len(ways[1])
    # Then those without which the line is not reached, and which are not the defaults, are among the others.
    needed = [answer for answer in given if _is_of_user(answer) and _is_not_default(answer)] if by_default else []
    return _Decisions(frozenset(_without_rivals((*decisions, *needed))), by_default)


def _open(cube: Cube, given: Collection[Answer]) -> list[Answer]:
    """The answers of a case that are to be said."""
    silent = [answer for answer in cube.answers if _goes_without_saying(answer)]
    settled = {answer.question.rivals for answer in silent if answer.given} - {None}
    unsaid = {*given, *silent, *(answer for answer in cube.answers if answer.question.rivals in settled)}
    return [answer for answer in cube.answers if answer not in unsaid]


def _options_of(cube: Cube, given: Collection[Answer]) -> list[Answer]:
    """The options that a case takes; none if it takes other decisions as well."""
    free = [answer for answer in _open(cube, given) if not is_precondition(cube, answer)]
    odd = any(_chooses_cpu_despite(answer, cube) for answer in free)
    return [] if odd or not all(_can_be_said([one]) and _is_of_user(one) for one in free) else free


def _in_words(decisions: Collection[Answer], by_default: bool = False) -> str:
    ordered = [answer.words for answer in sorted(decisions, key=lambda answer: answer.question.number)]
    ordered += ["the other options have their defaults"] if by_default else []
    return f"when {' and '.join(ordered)}" if ordered else ""


# Each kind of machine.
_KINDS = (NO_GPU, ONE_GPU, MANY_GPUS)
# The maximum number of options that a user has to give for a problem to occur.
_MOST_OPTIONS = 2


def _can_be_said(decisions: Collection[Answer]) -> bool:
    # an unexpected failure is not a decision of the user
    if not decisions or not all(answer.question.text and answer.question.usual is None for answer in decisions):
        return False
    # nor is the kind of data that a caller passes
    if any(asks_for_kind_of_data(answer.question) for answer in decisions):
        return False
    if len(decisions) == 1:
        return True
    # answers about the values of one option count as one
    options: dict[object, frozenset[Value]] = {}
    for answer in decisions:
        about = answer if answer.question.rivals is None else answer.question.rivals
        options[about] = options.get(about, frozenset()) | switches(answer.question)
    distinct = len(options) == 1 or not frozenset.intersection(*options.values())
    return len(options) <= _MOST_OPTIONS and distinct and all(_is_of_user(answer) for answer in decisions)


def _is_of_user(answer: Answer) -> bool:
    return bool(switches(answer.question))


def _decisive(answers: list[Answer], cube: Cube, charge: _Charge, relaxed: Condition) -> list[Answer]:
    """One or two of the answers that suffice for a problem wherever its line is reached; all if none suffice."""
    for count in range(1, min(_MOST_OPTIONS + 1, len(answers))):
        for some in combinations(sorted(answers, key=lambda answer: answer.question.number), count):
            assumed = charge.reach & of([Cube(cube.machines, frozenset(some))])
            if assumed.possible and (assumed.implies(charge.wrong) or assumed.implies(relaxed)):
                return list(some)
    return answers


def _not_default(answers: list[Answer]) -> list[Answer]:
    """Among answers that only options give, those that differ from the default; all answers otherwise."""
    others = list(filter(_is_not_default, answers))
    return others if others and all(switches(answer.question) for answer in answers) else answers


def _is_not_default(answer: Answer) -> bool:
    return preferred_answer(answer.question) is not answer.given


def _goes_without_saying(answer: Answer) -> bool:
    return answer.given is answer.question.usual or (answer.given and answer.question.passing)


def _without_implied(decisions: list[Answer]) -> list[Answer]:
    """Without those that others bring along: a number that is known only after a decision implies it.

    An option of the user's has its value whatever the program has decided before it asks for it.
    """
    asked = [answer.question for answer in decisions if not switches(answer.question)]
    return [one for one in decisions if not any(question.follows(one) for question in asked)]


def _without_rivals(decisions: Collection[Answer]) -> list[Answer]:
    """Of the questions that exclude each other, the one answered yes, or all if all are answered no."""
    winners = {answer.question.rivals for answer in decisions if answer.given}
    kept: dict[object, Answer] = {}
    for answer in sorted(decisions, key=lambda answer: (not answer.given, answer.question.text)):
        rivals = answer.question.rivals
        if rivals is None or rivals not in winners:
            kept[answer] = answer
        elif answer.given:
            kept.setdefault(rivals, answer)
    return list(kept.values())


def _is_left_over(decision: Answer, answers: Collection[Answer]) -> bool:
    """Whether it means "none of the others" for a value that is compared with several others and is not an option.

    Nothing in the program shows that such a value can be anything else.
    """
    rivals = decision.question.rivals
    if rivals is None or decision.given or switches(decision.question):
        return False
    return sum(answer.question.rivals == rivals for answer in answers) > 1


def _chooses_cpu_despite(answer: Answer, cube: Cube) -> bool:
    """Whether a program chooses the CPU although there is a GPU: an unusual case, unless a flag selects it."""
    chooses = answer.given is answer.question.chooses_cpu and not cube.machines & NO_GPU
    return chooses and not is_flag(answer.question)
