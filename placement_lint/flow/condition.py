"""Conditions under which something holds: which machine, and which way each branch went.

A condition is a disjunction of *cubes*. A cube says how many GPUs the machine may have (none, one, or
several: three cases are all that decides placement) and how a few questions of the program, such as
``args.cuda`` or ``rank == 0``, were answered.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial, reduce
from itertools import combinations, groupby, starmap, takewhile
from operator import or_
from typing import NamedTuple

import libcst as cst

from placement_lint.flow.likeness import Likeness
from placement_lint.source.wording import source_text

# A set of machines as bits, so that conjunction is ``&`` and disjunction is ``|``.
NO_GPU, ONE_GPU, MANY_GPUS = 1, 2, 4
ANY_MACHINE = NO_GPU | ONE_GPU | MANY_GPUS

MACHINES = {
    NO_GPU: "without a GPU",
    ONE_GPU: "with exactly one GPU",
    MANY_GPUS: "when two or more GPUs are visible",
    NO_GPU | ONE_GPU: "with fewer than two GPUs",
    ONE_GPU | MANY_GPUS: "on a machine with a GPU",
}

# So many answers hardly show in what it costs to go on.
_EASY = 20

# Past this many cubes a condition is widened: precision is worth less than a bounded analysis.
MAX_CUBES = 8


# A place between numbers: (2, 0) is just below 2, (2, 1) just above.
Cut = tuple[float, int]
_NO_BEGINNING, _NO_END = (float("-inf"), 0), (float("inf"), 0)


class Range(NamedTuple):
    """Between which cuts a number lies; ``subject`` says which number."""

    subject: Hashable
    above: Cut
    below: Cut

    def excludes(self, other: Range) -> bool:
        return self.subject == other.subject and (self.above >= other.below or other.above >= self.below)


class Asked(NamedTuple):
    """What a question asks: the same for two questions only if they are the same."""

    subject: Hashable
    rivals: Hashable
    source: str | cst.CSTNode
    usual: bool | None

    def is_same(self, other: Asked) -> bool:
        """Whether two texts ask this; of ``x is not None`` the source is made anew each time."""
        if not _likeness.same((self.subject, self.rivals, self.usual), (other.subject, other.rivals, other.usual)):
            return False
        return self.source is other.source or source_text(self.source) == source_text(other.source)


class Question:
    """Something the program asks and the analysis cannot answer.

    Questions are compared by identity: whoever asks the same thing twice has to use the same object (see
    ``Machine.question``); :func:`asked` makes them. ``subject`` is what is asked about. ``rivals`` groups questions of
    which at most one is answered yes: ``mode == "dp"``, ``mode == "ddp"``. ``usual`` is the answer that goes without
    saying. ``source`` is how the program words it. ``number`` is higher the later it was first asked, and ``last`` the
    highest so far. One that is ``passing`` is answered yes on some pass of a loop. What an answer tells of a number's
    size is its ``range``.
    """

    last = 0

    def __init__(self, number: int, asked: Asked) -> None:
        self.number = number
        self.asked = asked
        self.subject, self.rivals, _, self.usual = asked
        self.yes, self.no = Answer(self, True), Answer(self, False)
        self.yes.opposite, self.no.opposite = self.no, self.yes
        self.forget_the_rest()

    def forget_the_rest(self) -> None:
        """Of all that is said of a question, only what it asks is known."""
        self.source = self.asked.source
        self.passing = False
        # it tells one of the names that a module exports from the others, of which not all are meant
        self.by_name = False
        # the answer that makes the program choose the CPU, once a device was seen to depend on it
        self.chooses_cpu: bool | None = None
        self.yes.range = self.no.range = None

    def say(self, **known: object) -> None:
        """Say of the question what is known only now: ``passing``, ``by_name`` or ``chooses_cpu``.

        Whoever repeats it says it too: what said it first may be gone in the next text.
        """
        vars(self).update(known)
        said.append(partial(self.say, **known))

    def word(self, source: cst.CSTNode) -> None:
        """Word a question that has no wording yet."""
        self.source = self.source or source
        said.append(partial(self.word, source))

    def measure(self, subject: Hashable, above: Cut, below: Cut = _NO_END) -> None:
        """Yes says that a number lies between two cuts; no, where there is only one, that it lies before it."""
        self.yes.range = Range(subject, above, below)
        if below == _NO_END:
            self.no.range = Range(subject, _NO_BEGINNING, above)
        said.append(partial(self.measure, subject, above, below))

    @property
    def text(self) -> str:
        return source_text(self.source)

    def untie(self) -> None:
        """Nobody asks any more: its answers tell what was asked, and it does not know them."""
        del self.yes.opposite, self.no.opposite
        del self.yes, self.no


class Answer:
    """A question together with yes or no."""

    opposite: Answer
    range: Range | None

    def __init__(self, question: Question, given: bool) -> None:
        self.question = question
        self.given = given
        self._hash = 2 * question.number + given

    def __hash__(self) -> int:
        """The same in every run, and of a question's two answers the lower where it is no."""
        return self._hash


Answers = frozenset[Answer]

# How many conjunctions, disjunctions and the like are remembered: what is asked for again is asked for soon.
_REMEMBERED = 4_096


class Cube(NamedTuple):
    """One case; a tuple, for so many of them are made and compared."""

    machines: int
    answers: Answers

    def excludes(self, other: Cube) -> bool:
        """Whether both cannot be at once."""
        return not self.machines & other.machines or not self._agrees(other)

    def _agrees(self, other: Cube) -> bool:
        """Whether no question is answered in two ways, and of rivals one at most with yes."""
        few, many = self.answers, other.answers
        if len(few) > len(many):
            few, many = many, few
        # Of a path with hundreds of answers and a test, only the test's are looked at.
        if not many.isdisjoint(_opposites(few)):
            return False
        competing = _competing(few)
        return not competing or _bear(competing, _competing(many))

    def covers(self, other: Cube) -> bool:
        return self.machines & other.machines == other.machines and self.answers <= other.answers


@lru_cache(_REMEMBERED)
def _opposites(answers: Answers) -> Answers:
    return frozenset(answer.opposite for answer in answers)


@lru_cache(_REMEMBERED)
def _competing(answers: Answers) -> tuple[Answer, ...]:
    """Those among them that others than their opposites may exclude."""
    return tuple(answer for answer in answers if answer.range or (answer.given and answer.question.rivals is not None))


def _bear(some: tuple[Answer, ...], others: tuple[Answer, ...]) -> bool:
    """Whether none gives a number another size, or says yes where a rival does."""
    for answer in some:
        extent = answer.range
        if extent is not None and any(other.range and extent.excludes(other.range) for other in others):
            return False
        rivals = answer.question.rivals
        if answer.given and rivals is not None:
            for other in others:
                if other.given and other is not answer and other.question.rivals == rivals:
                    return False
    return True


@dataclass(eq=False)
class Condition:
    """A disjunction of cubes; no cube at all is the condition that never holds.

    ``widened`` where it was made of too many cases and says less than it should: what holds under it is not certain.
    Equal ones are the same object, which makes comparing and remembering them cheap: :func:`of` makes them.
    """

    cubes: frozenset[Cube]
    widened: bool = False

    def __and__(self, other: Condition) -> Condition:
        if self is ALWAYS or self is other:
            return other
        if other is ALWAYS:
            return self
        return _both(self, other) if other.cubes else other

    def __or__(self, other: Condition) -> Condition:
        if self is ALWAYS or self is other or not other.cubes:
            return self
        if other is ALWAYS or not self.cubes:
            return other
        return _either(self, other)

    @property
    def possible(self) -> bool:
        return bool(self.cubes)

    @property
    def machines(self) -> int:
        """The kinds of machine on which it may hold."""
        return reduce(or_, (cube.machines for cube in self.cubes), 0)

    def excludes(self, other: Condition) -> bool:
        if self is ALWAYS or other is ALWAYS:
            return not (self.cubes and other.cubes)
        return _exclude(self, other)

    def implies(self, other: Condition) -> bool:
        """Whether every cube here lies inside ``other`` (sound; may miss a cover by several cubes)."""
        if other is ALWAYS:
            return True
        return all(any(theirs.covers(mine) for theirs in other.cubes) for mine in self.cubes)

    def given(self, known: Condition) -> Condition:
        """This condition without what ``known`` says already, in each of its cases."""
        return self if known is ALWAYS or not known.possible else _without(self, known)

    def known_before(self, question: Question) -> Condition:
        """What remains where every later question is answered in this condition's favour."""
        older = (
            Cube(cube.machines, frozenset(a for a in cube.answers if a.question.number < question.number))
            for cube in self.cubes
        )
        return _simplified(older, self.widened)

    def asks_after(self, question: Question) -> bool:
        """Whether it hangs on what was asked later than this question."""
        return any(answer.question.number > question.number for cube in self.cubes for answer in cube.answers)

    @cached_property
    def effort(self) -> int:
        """What it costs to go on under this condition, where a plain one costs 1."""
        return 1 + sum(len(cube.answers) for cube in self.cubes) // _EASY

    @cached_property
    def negation(self) -> Condition:
        result = ALWAYS
        for cube in sorted(self.cubes, key=_narrowness):
            result = result & _negated(cube)
        return result


# Conditions by what they are made of, and all questions by their numbers; those of the last text of a document as well.
_made: dict[tuple[frozenset[Cube], bool], Condition] = {}
_asked: dict[int, Question] = {}
_asked_before: dict[int, Question] = {}
# What was said of questions after they had been asked, in order: it can be said again.
said: list[Callable[[], None]] = []
_likeness = Likeness()


def asked(
    subject: Hashable = None, rivals: Hashable = None, source: str | cst.CSTNode = "", usual: bool | None = None
) -> Question:
    """The next question; where the last text of the document asked the same here, the same object as then."""
    Question.last = number = Question.last + 1
    this, known = Asked(subject, rivals, source, usual), _asked_before.get(number)
    if known is not None and known.asked.is_same(this):
        known.forget_the_rest()
        question = known
    else:
        question = Question(number, this)
    _asked[number] = question
    return question


def asked_since(number: int) -> list[Question]:
    """The questions that were asked since one had this number, or none had a higher one, the last first."""
    return list(takewhile(lambda question: question.number > number, reversed(_asked.values())))


def ask_again(questions: Sequence[Question], last: int) -> None:
    """These questions of the last text are asked again, with the same numbers; ``last`` is the last number after it."""
    _asked.update((question.number, question) for question in reversed(questions))
    Question.last = last


def of(cubes: frozenset[Cube], widened: bool = False) -> Condition:
    """The condition of these cubes."""
    key = (cubes, widened)
    known = _made.get(key)
    if known is None:
        known = _made[key] = Condition(cubes, widened)
    return known


@lru_cache(_REMEMBERED)
def _both(one: Condition, other: Condition) -> Condition:
    """The same few conditions meet again and again while a block is looked at."""
    return _simplified(_met(one.cubes, other.cubes), one.widened or other.widened)


def _met(some: Iterable[Cube], others: Iterable[Cube]) -> Iterator[Cube]:
    """Each of some cubes together with each of others, where they do not exclude each other."""
    known = [(*cube, _opposites(cube.answers), _competing(cube.answers)) for cube in others]
    for cube in some:
        bits, answers = cube
        competing = _competing(answers)
        for others_bits, theirs, opposites, rivals in known:
            both = bits & others_bits
            # Of hundreds of answers and a few, only the few are looked at.
            if both and answers.isdisjoint(opposites) and not (competing and rivals and not _bear(competing, rivals)):
                if answers >= theirs:
                    yield cube if both == bits else Cube(both, answers)
                else:
                    yield Cube(both, theirs if answers <= theirs else answers | theirs)


@lru_cache(_REMEMBERED)
def _exclude(one: Condition, other: Condition) -> bool:
    return all(mine.excludes(theirs) for mine in one.cubes for theirs in other.cubes)


@lru_cache(_REMEMBERED)
def _either(one: Condition, other: Condition) -> Condition:
    return _simplified((*one.cubes, *other.cubes), one.widened or other.widened)


@lru_cache(_REMEMBERED)
def _without(condition: Condition, known: Condition) -> Condition:
    base = Cube(known.machines, frozenset.intersection(*(cube.answers for cube in known.cubes)))
    rest = (
        Cube(ANY_MACHINE if base.machines & ~cube.machines == 0 else cube.machines, cube.answers - base.answers)
        for cube in condition.cubes
    )
    return _simplified(rest, condition.widened)


class Memory:
    """The questions and conditions of one text of a document: the next one asks the same, but for a few."""

    def __init__(self) -> None:
        self.questions: dict[int, Question] = {}
        self.conditions: dict[tuple[frozenset[Cube], bool], Condition] = {}


@contextmanager
def asking(memory: Memory | None) -> Iterator[None]:
    """While a program is analysed; questions and conditions of the document's last text are in its ``memory``."""
    _asked.clear()
    if memory is not None:
        _asked_before.update(memory.questions)
        _made.update(memory.conditions)
    try:
        yield
    finally:
        if memory is not None:
            memory.questions = {**_asked}
            memory.conditions = {key: made for key, made in _made.items() if _is_current(made)}
        else:
            _untie()
        _forget()


def _is_current(condition: Condition) -> bool:
    """Whether it hangs on questions, and only on such as were asked in this text."""
    answers = [answer for cube in condition.cubes for answer in cube.answers]
    return bool(answers) and all(_asked.get(answer.question.number) is answer.question for answer in answers)


def _untie() -> None:
    """Leave no circles, in which all that a program asked about would wait for the collector."""
    for question in _asked.values():
        question.untie()
    for condition in _made.values():
        vars(condition).pop("negation", None)


def _forget() -> None:
    """Let go of a program's conditions: the next one asks questions of its own, and these hold its whole tree."""
    Question.last = 0
    for remembered in (_opposites, _competing, _in_order, _both, _exclude, _either, _without):
        remembered.cache_clear()
    for each in (_asked, _asked_before, said):
        each.clear()
    _likeness.forget()
    _made.clear()
    _made.update(_lasting)


def any_of(conditions: Iterable[Condition]) -> Condition:
    result = NEVER
    for condition in conditions:
        result = result | condition
    return result


def machines(bits: int) -> Condition:
    return of(frozenset({Cube(bits, frozenset())})) if bits != ANY_MACHINE else ALWAYS


def answered(question: Question, answer: bool) -> Condition:
    return of(frozenset({Cube(ANY_MACHINE, frozenset({question.yes if answer else question.no}))}))


def _negated(cube: Cube) -> Condition:
    flipped = [answered(answer.question, not answer.given) for answer in sorted(cube.answers, key=hash)]
    if cube.machines != ANY_MACHINE:
        flipped.append(machines(ANY_MACHINE & ~cube.machines))
    return any_of(flipped)


def _simplified(cubes: Iterable[Cube], widened: bool = False) -> Condition:
    """Merge what differs in one respect only and drop what another cube covers, until nothing changes."""
    kept = _widest(cubes)
    if any(any(starmap(_union, combinations(alike, 2))) for _, alike in groupby(kept, key=_count)):
        kept = _merged(kept)
    if len(kept) > MAX_CUBES:
        kept, widened = [_widened(kept)], True
    return of(frozenset(kept), widened)


def _widest(cubes: Iterable[Cube]) -> list[Cube]:
    """Those that no other one covers, the widest first."""
    kept: list[Cube] = []
    for cube in sorted(cubes, key=_count):
        bits, answers = cube
        for others_bits, others in kept:
            if bits & others_bits == bits and others <= answers:
                break
        else:
            kept.append(cube)
    return kept


def _count(cube: Cube) -> int:
    return len(cube.answers)


def _merged(cubes: list[Cube]) -> list[Cube]:
    """The same where some can be merged: in the same order whatever numbers their questions have."""
    kept: list[Cube] = []
    # The widest first, so that only what was merged can cover any before it.
    waiting = sorted(cubes, key=_narrowness, reverse=True)
    while waiting:
        cube = waiting.pop()
        if any(other.covers(cube) for other in kept):
            continue
        partner = next((other for other in kept if _union(cube, other) is not None), None)
        if partner is not None and (union := _union(cube, partner)) is not None:
            kept.remove(partner)
            waiting.append(union)
        else:
            kept = [*(other for other in kept if not cube.covers(other)), cube]
    return kept


def _narrowness(cube: Cube) -> tuple[int, tuple[int, ...], int]:
    """Which is narrower; of two that are as narrow, the same one first whatever numbers their questions have."""
    return len(cube.answers), _in_order(cube.answers), cube.machines


@lru_cache(_REMEMBERED)
def _in_order(answers: Answers) -> tuple[int, ...]:
    return tuple(sorted(map(hash, answers)))


def _union(one: Cube, other: Cube) -> Cube | None:
    """The single cube equal to both together, where there is one: they differ in their machines, or in one answer."""
    bits, answers = one
    others_bits, others = other
    if bits != others_bits:
        return Cube(bits | others_bits, answers) if answers == others else None
    if len(answers) != len(others) or len(mine := answers - others) != 1:
        return None
    (answer,) = mine
    return Cube(bits, answers & others) if answer.opposite in others else None


def _widened(cubes: list[Cube]) -> Cube:
    common = frozenset.intersection(*(cube.answers for cube in cubes))
    every = 0
    for cube in cubes:
        every |= cube.machines
    return Cube(every, common)


_EVERYTHING = Cube(ANY_MACHINE, frozenset())
ALWAYS = of(frozenset({_EVERYTHING}))
NEVER = of(frozenset())
# Those that ask nothing are the same for all programs.
for _bits in MACHINES:
    machines(_bits)
_lasting = dict(_made)
