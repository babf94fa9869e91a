"""What there is to know of a value, in terms that mean the same in the next run over almost the same text.

Within one run, identity says enough: of an object its id, of a question which one it is. Ids and the numbers of
questions are given in order; so what two runs have in common up to here has the same in both.
"""

from __future__ import annotations

from enum import Enum

import libcst as cst

from placement_lint.flow.condition import Condition, Cube, Question, of
from placement_lint.flow.values import AtLeast, Const, External

# What says all of itself.
_PLAIN = (int, str, float, type(None), type, Enum, cst.CSTNode, Const, External, AtLeast)


class UntoldError(Exception):
    """Something may change, or is no value."""


class Teller:
    """Tells the values of one run, each once; what is told compares with what was told in another."""

    def __init__(self) -> None:
        self._questions: dict[int, Question] = {}
        # by identity, together with what has it, which nothing else gets as long as that is here
        self._told: dict[int, tuple[object, object]] = {}

    def told(self, value: object) -> object:
        """All that there is to know of a value. Raises UntoldError where that cannot be said."""
        if isinstance(value, _PLAIN):
            return value
        if type(value) is tuple:
            return tuple(map(self.told, value))
        known = self._told.get(id(value))
        if known is None:
            known = self._told[id(value)] = value, self._tell(value)
        return known[1]

    def _tell(self, value: object) -> object:
        if isinstance(value, Condition):
            return Condition, value.widened, frozenset(map(self._case, value.cubes))
        if isinstance(value, Question):
            self._questions[value.number] = value
            ranges = value.yes.range, value.no.range
            return Question, value.number, *map(self.told, (value.subject, value.rivals, *ranges))
        if isinstance(value, tuple):
            return type(value), *map(self.told, value)
        if isinstance(value, frozenset):
            return frozenset(map(self.told, value))
        kind = getattr(type(value), "__dataclass_params__", None)
        if kind is not None and kind.frozen:
            return type(value), *map(self.told, vars(value).values())
        raise UntoldError

    def _case(self, cube: Cube) -> object:
        return cube.machines, frozenset((self.told(answer.question), answer.given) for answer in cube.answers)

    def here(self, condition: Condition) -> Condition | None:
        """The condition of another run in this one; None where it asks what this one was not told of."""
        cubes = []
        for cube in condition.cubes:
            asked = [(self._questions.get(answer.question.number), answer.given) for answer in cube.answers]
            answers = frozenset(question.yes if given else question.no for question, given in asked if question)
            if len(answers) < len(asked):
                return None
            cubes.append(Cube(cube.machines, answers))
        return of(frozenset(cubes), condition.widened)
