"""Conditions under which something holds: which machine, and which way each branch went.

A condition is a disjunction of *cubes*. A cube says how many GPUs the machine may have (none, one, or
several: three cases are all that decides placement) and how a few questions of the program, such as
``args.cuda`` or ``rank == 0``, were answered. There are many of them, so they are computed with as *cases*: pairs of
whole numbers, whose bits are the kinds of machine and the answers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial, reduce
from itertools import takewhile
from operator import and_, or_
from typing import NamedTuple
from weakref import WeakValueDictionary

import libcst as cst

from placement_lint.flow.domain.structural_eq import Likeness
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
    NO_GPU | MANY_GPUS: "unless there is exactly one GPU",
}

# A memory keeps at least this many answers, and up to this many times the number of questions of the current text.
_FEW, _OLD = 4_096, 8

# This many answers add little to the cost of an analysis step.
_EASY = 20

# Past this many cubes a condition is widened: precision is worth less than a bounded analysis.
MAX_CUBES = 8
# Whether a condition's cases are just those in which it holds, fewer, or more; of several, the greatest counts.
EXACT, NARROWED, WIDENED = range(3)
_OPPOSITE = (EXACT, WIDENED, NARROWED)
# Past this many questions, the questions of a program share a few objects: see `Blurred`.
MOST_ASKED = 3_000
# More cases than this are not told apart, and a case is split at most this many times to check whether others cover it.
_MOST_TOLD_APART, _MOST_SPLITS = 128, 12


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


# The first part of the subject of a question about what the script sets itself, for its user to edit.
SETTING = "setting"
# How messages say that the answer to a question, which the program words so, is yes, or no.
IS_TRUE = ("`{}` is true", "`{}` is false")
ELSEWHERE = ("`{}` names another device", "`{}` names the same device")
SEVERAL_PROCESSES = ("several processes run", "only one process runs")


class Asked(NamedTuple):
    """The content of a question: equal for two questions only if they ask the same."""

    subject: Hashable
    rivals: Hashable
    source: str | cst.CSTNode
    usual: bool | None

    def is_same(self, other: Asked) -> bool:
        """Whether two texts ask this; the source of ``x is not None`` is rebuilt each time, so its text is compared."""
        if not _now.likeness.same((self.subject, self.rivals, self.usual), (other.subject, other.rivals, other.usual)):
            return False
        return self.source is other.source or source_text(self.source) == source_text(other.source)


class Question:
    """Something the program asks and the analysis cannot answer.

    Questions are compared by identity: to ask the same thing twice, use the same object (see ``Machine.question``);
    :func:`asked` makes them. ``subject`` is what is asked about. ``rivals`` groups questions that are mutually
    exclusive: ``mode == "dp"``, ``mode == "ddp"``. ``usual`` is the answer that is assumed by default. ``source`` is
    how the program words it. ``number`` is higher the later it was first asked. A ``passing`` one is answered yes on
    some pass of a loop. The ``range`` of an answer bounds the number asked about.
    """

    def __init__(self, number: int, asked: Asked, answers: Answers) -> None:
        self.number = number
        self.asked = asked
        self.subject, self.rivals, _, self.usual = asked
        self.answers = answers
        self.no, self.yes = answers.of(self)
        if isinstance(self.subject, tuple) and self.subject[0] == SETTING:
            answers.settings |= self.no.bit | self.yes.bit
        self.forget_the_rest()

    def forget_the_rest(self) -> None:
        """Of all that is said of a question, only what it asks is known."""
        self.source = self.asked.source
        self.passing = False
        # it asks which name of a module is exported, and not all names are meant
        self.by_name = False
        # the answers, as bits, that the program has given wherever it asks; None before it does
        self.under: int | None = None
        # the answers without which the program raises, each with the condition under which it does
        self.required: tuple[tuple[bool, Condition], ...] = ()
        self.predicate = IS_TRUE
        # the answer that makes the program choose the CPU, once a device was seen to depend on it
        self.chooses_cpu: bool | None = None
        self.no.range = self.yes.range = None
        if self.rivals is not None:
            self.answers.compete(self.yes)

    def say(self, **known: object) -> None:
        """Say of the question what is known only now: ``passing``, ``by_name``, ``predicate`` or ``chooses_cpu``.

        Whoever repeats it says it too: what said it first may be gone in the next text.
        """
        vars(self).update(known)
        _now.said.append(partial(self.say, **known))

    def ask_under(self, given: int) -> None:
        """The program asks it here, after it has given these answers."""
        under = given if self.under is None else self.under & given
        if under != self.under:
            self.under = under
            _now.said.append(partial(self.ask_under, given))

    def follows(self, answer: Answer) -> bool:
        """Whether the program asks it only after it has given this answer."""
        return self.under is not None and bool(self.under & answer.bit)

    def require(self, given: bool, under: Condition) -> None:
        """Where a condition holds, the program raises or ends unless this is the answer."""
        if (given, under) not in self.required:
            self.required = (*self.required, (given, under))
            _now.said.append(partial(self.require, given, under))

    def word(self, source: str | cst.CSTNode) -> None:
        """Word a question that has no wording yet."""
        self.source = self.source or source
        _now.said.append(partial(self.word, source))

    def measure(self, subject: Hashable, above: Cut, below: Cut = _NO_END) -> None:
        """Yes says that a number lies between two cuts; no, where there is only one, that it lies before it."""
        self.yes.range = Range(subject, above, below)
        self.answers.compete(self.yes)
        if below == _NO_END:
            self.no.range = Range(subject, _NO_BEGINNING, above)
            self.answers.compete(self.no)
        _now.said.append(partial(self.measure, subject, above, below))

    def is_number(self, subject: Hashable) -> None:
        """It asks whether a number is true, so that no says that the number is 0."""
        if self.no.range is None:
            self.no.range = Range(subject, (0, 0), (0, 1))
            self.answers.compete(self.no)
            _now.said.append(partial(self.is_number, subject))

    @property
    def text(self) -> str:
        return source_text(self.source)

    def untie(self) -> None:
        """Nobody asks any more: its answers tell what was asked, and it does not know them."""
        del self.no, self.yes, self.answers


class Blurred(Question):
    """One of a few questions that stand for all that are asked after :data:`MOST_ASKED`.

    Nothing that depends on its answer is certain, and nothing that is known of one question holds for the others.
    Cases then have a bounded number of answers, which bounds time and memory.
    """

    def __init__(self, number: int, asked: Asked, answers: Answers) -> None:
        super().__init__(number, asked, answers)
        answers.blurred |= self.no.bit | self.yes.bit

    def say(self, **known: object) -> None: ...

    def require(self, given: bool, under: Condition) -> None: ...

    def word(self, source: str | cst.CSTNode) -> None: ...

    def measure(self, subject: Hashable, above: Cut, below: Cut = _NO_END) -> None: ...

    def is_number(self, subject: Hashable) -> None: ...


@dataclass(eq=False)
class Answer:
    """A question together with yes or no; ``bit`` stands for it in a case."""

    question: Question
    given: bool
    bit: int
    range: Range | None = None

    @property
    def words(self) -> str:
        """The answer as messages say it: ``args.cuda`` is true."""
        yes, no = self.question.predicate
        return (yes if self.given else no).format(self.question.text)

    def __hash__(self) -> int:
        """The same in every run; of a question's two answers, "no" has the lower hash."""
        return 2 * self.question.number + self.given


class Answers:
    """Those to all questions of a program, in the order in which these came up: of each no, and then yes.

    ``noes`` are the bits of the first, ``competing`` those that others than their opposites may exclude, ``blurred``
    those of questions that stand for many, and ``settings`` those of questions about settings of the script.
    """

    def __init__(self) -> None:
        self._all: list[Answer] = []
        self.noes = 0
        self.competing = 0
        self.blurred = 0
        self.settings = 0

    def of(self, question: Question) -> tuple[Answer, Answer]:
        """The answers to one more question."""
        bit = 1 << len(self._all)
        no, yes = Answer(question, False, bit), Answer(question, True, 2 * bit)
        self._all += no, yes
        self.noes |= bit
        return no, yes

    def compete(self, answer: Answer) -> None:
        """That answer may exclude others."""
        self.competing |= answer.bit

    def among(self, bits: int) -> list[Answer]:
        """The answers that are meant by bits."""
        found = []
        while bits:
            lowest = bits & -bits
            found.append(self._all[lowest.bit_length() - 1])
            bits ^= lowest
        return found

    def __len__(self) -> int:
        return len(self._all)


# The kinds of machine and the answers, as bits, of one case: conditions compute with these.
Case = tuple[int, int]

# Size of the caches of conjunctions, disjunctions and the like: repeated requests are close together.
_REMEMBERED = 4_096


class Cube(NamedTuple):
    """One case, with its answers."""

    machines: int
    answers: frozenset[Answer]


@lru_cache(_REMEMBERED)
def _bear(some: int, others: int) -> bool:
    """Whether, of competing answers, none gives a number another size, or says yes where a rival does."""
    theirs = _now.answers.among(others)
    for answer in _now.answers.among(some):
        extent = answer.range
        if extent is not None and any(other.range and extent.excludes(other.range) for other in theirs):
            return False
        rivals = answer.question.rivals
        if answer.given and rivals is not None:
            for other in theirs:
                if other.given and other is not answer and other.question.rivals == rivals:
                    return False
    return True


@dataclass(eq=False)
class Condition:
    """A disjunction of cases; no case at all is the condition that never holds.

    ``extent`` says whether its cases are exactly those in which it holds. A condition made of too many cases is
    widened: it covers more cases than it should, and nothing that holds under it is certain. The negation of a widened
    condition is narrowed: it omits cases in which it holds, and what holds under it is certain.
    Equal conditions are the same object, which makes comparing and caching them cheap: :func:`of` makes them. The
    ``answers`` of the program map its bits to answers.
    """

    cases: frozenset[Case]
    extent: int
    answers: Answers = field(repr=False)

    @property
    def certain(self) -> bool:
        """Whether it says all that it should, so that what holds under it is certain."""
        return not self.widened and not self.blurred

    @property
    def widened(self) -> bool:
        return self.extent == WIDENED

    @cached_property
    def shared(self) -> int:
        """The answers, as bits, that all its cases share."""
        return reduce(and_, (answers for _, answers in self.cases)) if self.cases else 0

    @cached_property
    def cubes(self) -> frozenset[Cube]:
        """Its cases, with their answers."""
        return frozenset(Cube(bits, frozenset(self.answers.among(answers))) for bits, answers in self.cases)

    def __and__(self, other: Condition) -> Condition:
        if self is ALWAYS or self is other:
            return other
        if other is ALWAYS:
            return self
        return _both(self, other) if other.cases else other

    def __or__(self, other: Condition) -> Condition:
        if self is ALWAYS or self is other or not other.cases:
            return self
        if other is ALWAYS or not self.cases:
            return other
        return _either(self, other)

    @property
    def possible(self) -> bool:
        return bool(self.cases)

    @property
    def blurred(self) -> bool:
        """Whether it hangs on a question that stands for many."""
        blurred = self.answers.blurred
        return blurred != 0 and any(answers & blurred for _, answers in self.cases)

    @property
    def machines(self) -> int:
        """The kinds of machine on which it may hold."""
        return reduce(or_, (bits for bits, _ in self.cases), 0)

    @property
    def common(self) -> Condition:
        """What each of its cases says, in one case."""
        return _of(frozenset({(self.machines, self.shared)}))

    def excludes(self, other: Condition) -> bool:
        if self is ALWAYS or other is ALWAYS:
            return not (self.cases and other.cases)
        return _exclude(self, other)

    def implies(self, other: Condition) -> bool:
        """Whether every case here lies inside ``other``, in one of its cases or in several together."""
        return other is ALWAYS or all(_is_covered(case, other.cases) for case in self.cases)

    def given(self, known: Condition) -> Condition:
        """This condition without what ``known`` says already, in each of its cases."""
        return self if known is ALWAYS or not known.possible else _without(self, known)

    def known_before(self, question: Question) -> Condition:
        """The condition with every later question dropped, as if it were answered in this condition's favour."""
        older = [
            (cube.machines, _bits(answer for answer in cube.answers if answer.question.number < question.number))
            for cube in self.cubes
        ]
        return _simplified(frozenset(older), self.extent)

    def asks_after(self, question: Question) -> bool:
        """Whether it hangs on what was asked later than this question."""
        return any(answer.question.number > question.number for cube in self.cubes for answer in cube.answers)

    def regardless_of(self, kinds: int) -> Condition:
        """The same on these kinds of machine as well, and whatever the settings of the script are."""
        wider = frozenset((bits | kinds, answers & ~self.answers.settings) for bits, answers in self.cases)
        return self if wider == self.cases else _simplified(wider, self.extent)

    @cached_property
    def effort(self) -> int:
        """What it costs to go on under this condition, where a plain one costs 1."""
        return 1 + sum(map(_count, self.cases)) // _EASY

    @property
    def at_most(self) -> Condition:
        """Where this may hold, if something unknown holds as well."""
        return _of(self.cases, WIDENED)

    @property
    def negation(self) -> Condition:
        return _negation(self)

    def but_not(self, other: Condition) -> Condition:
        """Where this holds and the other does not: exact more often than with the negation, which knows no path."""
        return _but_not(self, other) if len(self.cases) > 1 and len(other.cases) > 1 else self & other.negation


class Memory:
    """The questions and conditions of one text of a document: the next one asks the same, but for a few."""

    def __init__(self) -> None:
        self.answers = Answers()
        self.questions: dict[int, Question] = {}
        self.conditions: dict[tuple[frozenset[Case], int], Condition] = {}

    @property
    def is_full(self) -> bool:
        """Whether most of the answers are to questions that no text asks any more."""
        return len(self.answers) > max(_FEW, _OLD * len(self.questions))


class Questions:
    """The questions, answers and conditions of one program, while it is analysed.

    Questions are known by their numbers; ``last`` is the highest. Those ``asked_before`` are of the document's last
    text, and the ``blurred`` ones stand for many, by the number of branches around. ``said`` is what was said of
    questions after they had been asked, in order: it can be said again. Conditions are known by their content, as long
    as they are referenced.
    """

    def __init__(self, memory: Memory) -> None:
        self.answers = memory.answers
        self.asked: dict[int, Question] = {}
        self.asked_before = memory.questions
        self.blurred: dict[int, Question] = {}
        self.last = 0
        self.said: list[Callable[[], None]] = []
        self.conditions = WeakValueDictionary[tuple[frozenset[Case], int], Condition](memory.conditions)
        self.likeness = Likeness()


# `asking` replaces them for each program.
_now = Questions(Memory())


def current() -> Questions:
    """Those of the program that is being analysed."""
    return _now


def asked(
    subject: Hashable = None, rivals: Hashable = None, source: str | cst.CSTNode = "", usual: bool | None = None
) -> Question:
    """The next question; where the last text of the document asked the same here, the same object as then."""
    _now.last = number = _now.last + 1
    this, known = Asked(subject, rivals, source, usual), _now.asked_before.get(number)
    if known is not None and known.asked.is_same(this):
        known.forget_the_rest()
        question = known
    else:
        question = Question(number, this, _now.answers)
    _now.asked[number] = question
    return question


def blurred(depth: int) -> Question:
    """The question that replaces all later ones inside ``depth`` branches once too many have been asked.

    Those inside each other are told apart, so that no branch is taken to be impossible inside another.
    """
    known = _now.blurred.get(depth)
    if known is None:
        _now.last += 1
        known = _now.blurred[depth] = Blurred(_now.last, Asked(None, None, "", None), _now.answers)
    return known


def are_too_many(abroad: bool) -> bool:
    """Whether no more questions are told apart; code of other files leaves a third of them to the file itself."""
    return len(_now.asked) >= (MOST_ASKED * 2 // 3 if abroad else MOST_ASKED)


def asked_since(number: int) -> list[Question]:
    """The questions that were asked since one had this number, or none had a higher one, the last first."""
    return list(takewhile(lambda question: question.number > number, reversed(_now.asked.values())))


def ask_again(questions: Sequence[Question], last: int) -> None:
    """These questions of the last text are asked again, with the same numbers; ``last`` is the last number after it."""
    _now.asked.update((question.number, question) for question in reversed(questions))
    _now.last = last


def of(cubes: Iterable[Cube]) -> Condition:
    """The condition of these cubes."""
    return _of(frozenset((cube.machines, _bits(cube.answers)) for cube in cubes))


def _bits(answers: Iterable[Answer]) -> int:
    return reduce(or_, (answer.bit for answer in answers), 0)


def _of(cases: frozenset[Case], extent: int = EXACT) -> Condition:
    key = (cases, extent)
    known = _now.conditions.get(key)
    if known is None:
        known = _now.conditions[key] = Condition(cases, extent, _now.answers)
    return known


@lru_cache(_REMEMBERED)
def _both(one: Condition, other: Condition) -> Condition:
    """Cached: the same few conditions are joined again and again while a block is analysed."""
    met = frozenset(_meeting(one.cases, other.cases))
    return one if met == one.cases and one.extent >= other.extent else _simplified(met, max(one.extent, other.extent))


def _meeting(some: Iterable[Case], others: Iterable[Case]) -> Iterator[Case]:
    """Each of some cases together with each of others, where they do not exclude each other."""
    noes, competing = _now.answers.noes, _now.answers.competing
    for bits, mine in some:
        rivals = mine & competing
        for others_bits, theirs in others:
            common, both = bits & others_bits, mine | theirs
            # No question has both answers in one case.
            if (
                common
                and not both & both >> 1 & noes
                and not (rivals and theirs & competing and not _bear(rivals, theirs & competing))
            ):
                yield common, both


@lru_cache(_REMEMBERED)
def _exclude(one: Condition, other: Condition) -> bool:
    return next(_meeting(one.cases, other.cases), None) is None


@lru_cache(_REMEMBERED)
def _either(one: Condition, other: Condition) -> Condition:
    return _simplified(one.cases | other.cases, max(one.extent, other.extent))


@lru_cache(_REMEMBERED)
def _negation(condition: Condition) -> Condition:
    result = ALWAYS
    for case in sorted(condition.cases, key=_narrowness):
        result = result & _negated(case)
    extent = max(result.extent, _OPPOSITE[condition.extent])
    return result if extent == result.extent else _of(result.cases, extent)


@lru_cache(_REMEMBERED)
def _but_not(condition: Condition, other: Condition) -> Condition:
    if other.extent != EXACT:
        return condition & other.negation
    result = condition
    for case in sorted(other.cases, key=_narrowness):
        result = result & _negated(case)
    return result if result.extent == condition.extent else condition & other.negation


@lru_cache(_REMEMBERED)
def _without(condition: Condition, known: Condition) -> Condition:
    base, common = known.machines, reduce(and_, (answers for _, answers in known.cases))
    rest = [(ANY_MACHINE if base & ~bits == 0 else bits, answers & ~common) for bits, answers in condition.cases]
    without_common = _simplified(frozenset(rest), condition.extent)
    if len(known.cases) == 1 or len(without_common.cases) == 1:
        return without_common
    ways = sorted(known.cases, key=_narrowness)
    added = _simplified(frozenset(_added(case, ways) for case in condition.cases), condition.extent)
    is_same = len(added.cases) < len(without_common.cases) and (known & added).implies(condition)
    return added if is_same else without_common


def _added(case: Case, ways: Sequence[Case]) -> Case:
    """What a case says beyond the first of several ways in which it lies."""
    bits, answers = case
    for way in ways:
        if _covers(way, case):
            return ANY_MACHINE if way[0] & ~bits == 0 else bits, answers & ~way[1]
    return case


def survived(condition: Condition) -> Condition:
    """A condition without the cases in which the program has raised or ended before."""
    if condition.widened:
        return condition
    kept = [cube for cube in condition.cubes if not any(_has_ended(cube, answer) for answer in cube.answers)]
    return condition if len(kept) == len(condition.cubes) else of(kept)


def _has_ended(cube: Cube, answer: Answer) -> bool:
    """Whether the program needs another answer where everything else in the case is so."""
    return _is_needed(not answer.given, cube, answer)


def is_precondition(cube: Cube, answer: Answer) -> bool:
    """Whether the program raises or ends with another answer, where everything else in the case is so."""
    return _is_needed(answer.given, cube, answer)


def _is_needed(given: bool, cube: Cube, answer: Answer) -> bool:
    """Whether the program needs this answer to the question of another, where everything else in the case is so."""
    needed = [under for one, under in answer.question.required if one is given]
    return bool(needed) and any(map(of([Cube(cube.machines, cube.answers - {answer})]).implies, needed))


@contextmanager
def asking(memory: Memory | None) -> Iterator[None]:
    """While a program is analysed; questions and conditions of the document's last text are in its ``memory``."""
    global _now
    _forget()
    around, _now = _now, Questions(memory if memory is not None else Memory())
    _now.conditions.update(_lasting)
    try:
        yield
    finally:
        if memory is not None:
            memory.questions = _now.asked
            memory.conditions = {key: made for key, made in _now.conditions.items() if _is_current(made)}
        else:
            _untie()
        _now = around
        _forget()


def _is_current(condition: Condition) -> bool:
    """Whether it hangs on questions, and only on such as were asked in this text."""
    answers = [answer for cube in condition.cubes for answer in cube.answers]
    return bool(answers) and all(_now.asked.get(answer.question.number) is answer.question for answer in answers)


def _untie() -> None:
    """Leave no circles, in which all that a program asked about would wait for the collector."""
    for question in (*_now.asked.values(), *_now.blurred.values()):
        question.untie()


def _forget() -> None:
    """Let go of the conditions of a program: they hold its whole tree."""
    for remembered in (_bear, _in_order, _both, _exclude, _either, _but_not, _without, _negation, _simplified):
        remembered.cache_clear()


def any_of(conditions: Iterable[Condition]) -> Condition:
    """The disjunction of all of them at once: cases that only together say little are not too many."""
    several = list(conditions)
    if ALWAYS in several:
        return ALWAYS
    cases = frozenset[Case]().union(*(condition.cases for condition in several))
    return _simplified(cases, max((condition.extent for condition in several), default=EXACT))


def told_apart(groups: Sequence[Sequence[Condition]]) -> list[Condition]:
    """A condition for each group that holds where one of its conditions does, and none of another group.

    The given conditions cover all cases, so an answer that no other group denies is dropped.
    """
    cases = [frozenset[Case]().union(*(condition.cases for condition in group)) for group in groups]
    extent = max((condition.extent for group in groups for condition in group), default=EXACT)
    if sum(map(len, cases)) > _MOST_TOLD_APART:
        return [any_of(group) for group in groups]
    return [
        _simplified(frozenset(_distinctive(case, others) for case in sorted(own, key=_narrowness)), extent)
        for own, others in _each_and_the_rest(cases)
    ]


def _each_and_the_rest(groups: Sequence[frozenset[Case]]) -> Iterator[tuple[frozenset[Case], frozenset[Case]]]:
    for place, own in enumerate(groups):
        yield own, frozenset[Case]().union(*groups[:place], *groups[place + 1 :])


def _distinctive(case: Case, others: frozenset[Case]) -> Case:
    """A case without the answers that it does not need to exclude all others: the machine is kept longest."""
    bits, answers = case
    for answer in reversed(_now.answers.among(answers)):
        if next(_meeting([(bits, answers & ~answer.bit)], others), None) is None:
            answers &= ~answer.bit
    return (bits, answers) if next(_meeting([(ANY_MACHINE, answers)], others), None) else (ANY_MACHINE, answers)


def machines(bits: int) -> Condition:
    return _of(frozenset({(bits, 0)})) if bits != ANY_MACHINE else ALWAYS


def answered(question: Question, answer: bool) -> Condition:
    return _of(frozenset({(ANY_MACHINE, question.yes.bit if answer else question.no.bit)}))


def _negated(case: Case) -> Condition:
    """That another answer is given to one of its questions, or the machine is another."""
    bits, answers = case
    noes = answers & _now.answers.noes
    turned = noes << 1 | (answers ^ noes) >> 1
    others = [(ANY_MACHINE, answer.bit) for answer in _now.answers.among(turned)]
    if bits != ANY_MACHINE:
        others.append((ANY_MACHINE & ~bits, 0))
    return _simplified(frozenset(others))


@lru_cache(_REMEMBERED)
def _simplified(cases: frozenset[Case], extent: int = EXACT) -> Condition:
    """Merge what differs in one respect only and drop what another case covers, until nothing changes."""
    if len(cases) < 2:
        return _of(cases, extent)
    kept, alike, uniting = _widest(cases)
    if alike:
        kept = _merged(kept, _union) if uniting else kept
        # Only if fewer cases remain: an answer that another case denies still tells how this one is reached.
        resolved = _merged(kept, _resolved)
        kept = resolved if len(resolved) < len(kept) else kept
    if len(kept) > MAX_CUBES:
        kept, extent = [_widened(kept)], WIDENED
    return _of(frozenset(kept), extent)


def _widest(cases: Iterable[Case]) -> tuple[list[Case], bool, bool]:
    """The cases that no other one covers, the widest first.

    Also whether some of them can be merged, and whether two of them together are equal to a single case.
    """
    kept: list[tuple[int, int, int]] = []
    noes, alike, uniting = _now.answers.noes, False, False
    for count, bits, answers in sorted([(answers.bit_count(), bits, answers) for bits, answers in cases]):
        for _, others_bits, others in kept:
            if others & answers == others and bits & others_bits == bits:
                break
            if not uniting:
                # As in _union and _resolved, which are only asked what comes of it.
                if answers == others:
                    alike = uniting = True
                    continue
                denied = others & ~answers
                turned = denied << 1 if denied & noes else denied >> 1
                if denied & (denied - 1) == 0 and turned & answers != 0 and bits & others_bits in (bits, others_bits):
                    alike = True
                    uniting = bits == others_bits and others ^ denied == answers ^ turned
        else:
            kept.append((count, bits, answers))
    return [(bits, answers) for _, bits, answers in kept], alike, uniting


def _covers(one: Case, other: Case) -> bool:
    return one[0] & other[0] == other[0] and one[1] & other[1] == one[1]


def _is_covered(case: Case, others: Collection[Case], splits: int = _MOST_SPLITS) -> bool:
    """Whether a case lies in others together: each part of it does, where it is split by what one of them asks."""
    bits, answers = case
    met = [other for other in others if next(_meeting((case,), (other,)), None) is not None]
    if any(_covers(other, case) for other in met):
        return True
    if not met or not splits:
        return False
    others_bits, theirs = min(met, key=_narrowness)
    if bits & ~others_bits:
        parts = [(bits & others_bits, answers), (bits & ~others_bits, answers)]
    else:
        asked = _now.answers.among(theirs & ~answers)[0].question
        parts = [*_meeting((case,), ((ANY_MACHINE, asked.no.bit), (ANY_MACHINE, asked.yes.bit)))]
    return all(_is_covered(part, met, splits - 1) for part in parts)


def _count(case: Case) -> int:
    """How many answers it has."""
    return case[1].bit_count()


def _merged(cases: list[Case], wider: Callable[[Case, Case], Case | None]) -> list[Case]:
    """The same with ``wider`` cases in the place of those that have one beside another.

    In the same order whatever numbers their questions have.
    """
    kept: list[Case] = []
    # The widest first, so that only what was merged can cover any before it.
    waiting = sorted(cases, key=_narrowness, reverse=True)
    while waiting:
        case = waiting.pop()
        union = None
        for other in kept:
            if _covers(other, case):
                break
            if union is None:
                union = wider(case, other)
        else:
            if union is not None:
                waiting.append(union)
                continue
            others: list[Case] = []
            for other in kept:
                if wider(other, case) is not None:
                    waiting.append(other)
                elif not _covers(case, other):
                    others.append(other)
            kept = [*others, case]
    return kept


def _narrowness(case: Case) -> tuple[int, tuple[int, ...], int]:
    """Which is narrower; of two that are as narrow, the same one first whatever numbers their questions have."""
    bits, answers = case
    return answers.bit_count(), _in_order(answers), bits


@lru_cache(_REMEMBERED)
def _in_order(answers: int) -> tuple[int, ...]:
    return tuple(sorted(map(hash, _now.answers.among(answers))))


def _union(case: Case, other: Case) -> Case | None:
    """The single case equal to both together, if they differ only in their machines or in one answer."""
    (bits, answers), (others_bits, others) = case, other
    if bits != others_bits:
        return (bits | others_bits, answers) if answers == others and others_bits & ~bits else None
    different = answers ^ others
    no = different & -different
    return (bits, answers & others) if different == 3 * no and no & _now.answers.noes else None


def _resolved(case: Case, other: Case) -> Case | None:
    """A case without the one answer that another case denies, if both together stay the same.

    ``a and b`` or ``not a`` is ``b`` or ``not a``. Cases that differ only in their machines become one.
    """
    (bits, answers), (others_bits, others) = case, other
    if answers == others:
        return _union(case, other)
    denied = others & ~answers
    turned = denied << 1 if denied & _now.answers.noes else denied >> 1
    resolves = denied & (denied - 1) == 0 and turned & answers and not bits & ~others_bits
    return (bits, answers & ~turned) if resolves else None


def _widened(cases: list[Case]) -> Case:
    return reduce(or_, (bits for bits, _ in cases)), reduce(and_, (answers for _, answers in cases))


ALWAYS = _of(frozenset({(ANY_MACHINE, 0)}))
NEVER = _of(frozenset())
# Conditions without questions are the same for all programs.
_lasting = {(made.cases, made.extent): made for made in (ALWAYS, NEVER, *map(machines, MACHINES))}
