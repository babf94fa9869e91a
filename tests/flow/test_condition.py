"""Path conditions: on which machine and on which path something holds."""

from __future__ import annotations

import itertools
from functools import reduce
from operator import and_

import pytest

from placement_lint.flow.domain import path_condition
from placement_lint.flow.domain.path_condition import (
    ALWAYS,
    MANY_GPUS,
    NEVER,
    NO_GPU,
    ONE_GPU,
    Condition,
    Memory,
    answered,
    any_of,
    asked,
    asking,
    machines,
    told_apart,
)
from placement_lint.flow.state.machine import narrowed

CUDA, DEBUG = asked(source="args.cuda"), asked(source="args.debug")
DP, DDP = asked(rivals="mode", source='mode == "dp"'), asked(rivals="mode", source='mode == "ddp"')

ATOMS = (
    machines(NO_GPU),
    machines(ONE_GPU | MANY_GPUS),
    answered(CUDA, True),
    answered(CUDA, False),
    answered(DEBUG, True),
    ALWAYS,
    NEVER,
)


def holds(condition: Condition, machine: int, cuda: bool, debug: bool) -> bool:
    """The value of a condition on a concrete machine with concrete answers, which the algebra must preserve."""
    given = {CUDA: cuda, DEBUG: debug}
    return any(
        cube.machines & machine and all(given[answer.question] is answer.given for answer in cube.answers)
        for cube in condition.cubes
    )


WORLDS = list(itertools.product((NO_GPU, ONE_GPU, MANY_GPUS), (False, True), (False, True)))


@pytest.mark.parametrize(("one", "other"), list(itertools.product(ATOMS, repeat=2)))
def test_and_or_and_negation_mean_what_they_say(one: Condition, other: Condition) -> None:
    for world in WORLDS:
        assert holds(one & other, *world) is (holds(one, *world) and holds(other, *world))
        assert holds(one | other, *world) is (holds(one, *world) or holds(other, *world))
        assert holds(one.negation, *world) is not holds(one, *world)


@pytest.mark.parametrize(("one", "other"), list(itertools.product(ATOMS, repeat=2)))
def test_excludes_and_implies(one: Condition, other: Condition) -> None:
    assert one.excludes(other) is not any(holds(one, *world) and holds(other, *world) for world in WORLDS)
    if one.implies(other):
        assert all(holds(other, *world) for world in WORLDS if holds(one, *world))


def test_complementary_cases_merge_to_always() -> None:
    assert answered(CUDA, True) | answered(CUDA, False) == ALWAYS
    assert machines(NO_GPU) | machines(ONE_GPU) | machines(MANY_GPUS) == ALWAYS


def test_an_answer_that_another_case_denies_is_dropped_if_fewer_cases_remain() -> None:
    no_cuda, rest = answered(CUDA, False), answered(CUDA, True) & answered(DEBUG, False)
    assert no_cuda | rest | answered(DEBUG, True) == ALWAYS
    assert [len(cube.answers) for cube in (no_cuda | rest).cubes].count(2) == 1
    assert machines(NO_GPU) | answered(CUDA, True) | machines(ONE_GPU | MANY_GPUS) & no_cuda == ALWAYS


def test_rival_questions_are_not_both_answered_yes() -> None:
    assert not (answered(DP, True) & answered(DDP, True)).possible
    assert (answered(DP, False) & answered(DDP, False)).possible


def test_what_is_given_is_left_out() -> None:
    known = answered(CUDA, True)
    assert (known & machines(MANY_GPUS)).given(known) == machines(MANY_GPUS)


def test_a_condition_of_too_many_cases_is_widened_never_narrowed() -> None:
    questions = [asked(source=f"q{number}") for number in range(20)]
    pairs = [answered(one, True) & answered(other, True) for one, other in itertools.pairwise(questions)]
    wide = any_of(pairs)
    assert all(pair.implies(wide) for pair in pairs)


def test_the_negation_of_a_widened_condition_is_certain_and_its_own_negation_is_not() -> None:
    questions = [asked(source=f"q{number}") for number in range(10)]
    shared = answered(CUDA, True)
    wide = any_of(shared & answered(one, True) & answered(other, True) for one, other in itertools.pairwise(questions))
    assert wide.widened
    assert not wide.certain
    assert wide.negation.certain
    assert wide.negation.negation.widened
    assert (wide & answered(DEBUG, True)).widened
    assert (wide.negation & answered(DEBUG, True)).certain


def test_nothing_is_certain_in_a_branch_where_a_widened_test_fails() -> None:
    questions = [asked(source=f"q{number}") for number in range(20)]
    wide = any_of(answered(one, True) & answered(other, True) for one, other in itertools.pairwise(questions))
    inside = narrowed(answered(CUDA, True), wide.negation, wide)
    assert inside.possible
    assert not inside.certain


@pytest.mark.parametrize(("one", "other"), list(itertools.product(ATOMS, repeat=2)))
def test_where_one_holds_but_not_another(one: Condition, other: Condition) -> None:
    several = one | (answered(DEBUG, False) & answered(CUDA, True))
    for world in WORLDS:
        assert holds(several.but_not(other | answered(DEBUG, True)), *world) is (
            holds(several, *world) and not holds(other, *world) and not holds(answered(DEBUG, True), *world)
        )


def test_what_is_denied_on_each_of_several_paths_is_exact() -> None:
    paths = [answered(asked(source=f"p{number}"), True) for number in range(3)]
    ways = [path & reduce(and_, (other.negation for other in paths if other is not path)) for path in paths]
    denied = [way & answered(asked(source=f"d{number}"), True) for number, way in enumerate(ways)]
    rest = any_of(ways).but_not(any_of(denied))
    assert rest.certain
    assert rest.excludes(any_of(denied))
    assert len(rest.cases) == len(ways)


def test_what_all_cases_say() -> None:
    condition = any_of(
        machines(ONE_GPU | MANY_GPUS) & answered(CUDA, True) & answered(question, False)
        for question in (DEBUG, asked(source="a"), asked(source="b"))
    )
    assert condition.common == machines(ONE_GPU | MANY_GPUS) & answered(CUDA, True)
    assert condition.implies(condition.common)


def test_what_is_said_again_can_be_said_without_the_first() -> None:
    with asking(Memory()):
        question = asked(source="step > 3")
        question.say(passing=True)
        begun = len(path_condition.current().said)
        question.say(passing=True)
        again = path_condition.current().said[begun:]
        question.forget_the_rest()
        for say in again:
            say()
        assert question.passing


def test_the_next_text_asks_the_same_question() -> None:
    memory = Memory()
    with asking(memory):
        first, other = asked(("Equal", 1), source="n == 1"), asked(source="flag")
        both = answered(first, True) & answered(other, False)
    with asking(memory):
        assert asked(("Equal", 1), source="n == 1") is first
        assert asked(source="another flag") is not other
        assert both.possible


def test_several_cases_cover_one_together() -> None:
    yes, no = answered(CUDA, True), answered(CUDA, False)
    parts = any_of([yes & answered(DEBUG, True), answered(DEBUG, False), no])
    assert ALWAYS.implies(parts)
    assert machines(NO_GPU).implies(parts)
    assert not ALWAYS.implies(any_of([yes & answered(DEBUG, True), no]))


def test_rivals_are_no_cover_where_both_may_be_false() -> None:
    assert not ALWAYS.implies(answered(DP, True) | answered(DDP, True))
    assert ALWAYS.implies(any_of([answered(DP, True), answered(DDP, True), answered(DP, False) & answered(DDP, False)]))


def test_alternatives_are_told_apart_by_what_differs() -> None:
    with_gpu, debug = machines(ONE_GPU | MANY_GPUS), answered(DEBUG, True)
    wrapped = [with_gpu & answered(DP, True), with_gpu & answered(DDP, True) & debug]
    bare = [machines(NO_GPU) & answered(DP, True), machines(NO_GPU) & answered(DDP, True) & debug]
    assert told_apart([wrapped, bare]) == [with_gpu, machines(NO_GPU)]


def test_what_is_told_apart_still_excludes_the_rest() -> None:
    groups = [[answered(CUDA, True) & answered(DEBUG, True)], [answered(CUDA, False)], [answered(DEBUG, False)]]
    first, second, third = told_apart(groups)
    assert first.excludes(second)
    assert first.excludes(third)
