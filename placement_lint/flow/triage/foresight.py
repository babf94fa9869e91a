"""Triage check of a file before it runs: its definitions' possible findings, if its own statements use none of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence as Many
from collections.abc import Set
from itertools import chain

from placement_lint.flow.triage.definition_facts import Said, read
from placement_lint.flow.triage.predicates import Sought, in_statement
from placement_lint.flow.triage.reachability import PARSING, Known, Meaning, Outlook
from placement_lint.flow.triage.written import Written, words_of_bases
from placement_lint.project.relevance import is_of_tensors
from placement_lint.source.outline import bases_of, defines_class


class Foresight(Outlook[Said | str]):
    """The outlook of a file by its text; names that are not definitions come from statements or libraries.

    It is not for files that choose a device themselves, nor for those with classes of unknown bases.
    """

    chooses = False

    def __init__(self, written: Written) -> None:
        super().__init__()
        self.written = written
        self._others = defaultdict[str, list[Said]](list)
        for statement in written.statements:
            for name in statement.names:
                self._others[name].append(statement.said)
        self.names = self._others.keys() | written.definitions.keys() | written.imports.keys()
        self.options = {name for name, made in self._others.items() if any(each.has(*PARSING) for each in made)}

    @property
    def promises(self) -> bool:
        """Whether analysing one of the definitions may lead to a finding."""
        known = [*chain.from_iterable(self._meaning(name).known for name in self.written.definitions)]
        # The facts of a single definition are the cheapest to check.
        return any(each.said.alone.begins for each in known) or any(
            self._promises(self._with_inherited(each), each) for each in known
        )

    def _may_be(self, name: str, text: str) -> Many[Known]:
        """The possible meanings of a definition: it may be unclear whether a class is a module."""
        said = read(text)
        if not defines_class(text):
            return [Known(said, {name})]
        bases = bases_of(text)
        ancestors = self.written.ancestors(bases)
        assert ancestors is not None
        itself = {name, *words_of_bases(said, bases)}
        kinds = [True] * ancestors.may_be_module + [False] * (not ancestors.is_module)
        return [Known(said, itself, True, is_module, ancestors.said) for is_module in kinds]

    def _meant_by(self, name: str) -> Meaning[Said | str]:
        return Meaning(
            [each for text in self.written.definitions.get(name, ()) for each in self._may_be(name, text)],
            [*self._others.get(name, ()), *self.written.libraries({name})],
            any(place is not None for _, place in self.written.imports.get(name, ())),
        )

    def _moves_by(self, other: Said | str) -> bool:
        return not isinstance(other, str)

    def _may_learn(self, other: Said | str) -> bool:
        return not isinstance(other, str) or other.partition(".")[0] == "torch"

    def _leads_to(self, other: Said | str, sought: Sought) -> bool:
        if isinstance(other, str):
            return False
        if any(map(is_of_tensors, self.written.libraries(other.words))):
            return True
        held = (self._meaning(name).known for name in other.words & self.written.definitions.keys())
        if any(self._is_sought(known, sought) for known in chain.from_iterable(held)):
            return True
        return self._uses_one_of_elsewhere(other.words, sought)

    def _uses_one_of_elsewhere(self, words: Set[str], sought: Sought) -> bool:
        return self.written.leads_to(words, in_statement(sought))
