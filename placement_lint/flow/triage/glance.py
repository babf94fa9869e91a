"""First triage check of a file: whether it can have a finding, by its definitions and by those that it imports.

Most files of a project only define code that begins no finding, such as configurations, tokenizers and layers: they
need not run. Running the statements of a file is expensive even if they place nothing, because its imports and
decorators run, too. This check has the predicates of the filter of entry points, and shares their cached facts.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence, Set
from functools import cached_property
from itertools import chain

from placement_lint.flow.triage.definition_facts import Facts, read, read_all
from placement_lint.flow.triage.predicates import (
    begins,
    begins_beside_tensors,
    begins_in_module,
    externally_written,
    hides,
    in_statement,
    knows_of_gpu,
    may_begin,
    places,
    refuted_by,
    while_it_runs,
)
from placement_lint.flow.triage.written import Written, words_of_bases
from placement_lint.project.finder import Surroundings
from placement_lint.project.relevance import concerns
from placement_lint.source.outline import bases_of
from placement_lint.source.scan import words_of

# Functions that look up modules by strings, and names that look up attributes of a module by strings.
_ASKING_BY_NAME = ("import_module", "__import__")
_ASKING_A_MODULE_BY_NAME = ("getattr", "__dict__")


def may_tell(text: str, surroundings: Surroundings) -> bool:
    """Whether there may be a finding in a file, or a fact that refutes a finding in another file."""
    return _Glance(Written(text, surroundings)).may_tell


class _Glance:
    def __init__(self, written: Written) -> None:
        self.written = written
        outline = written.outline
        read_all(written.text, {line: each.text for line, each in outline.definitions.items()})
        self.rest = read("\n".join((*_without_signs(outline.decorators), *outline.statements)))

    @property
    def may_tell(self) -> bool:
        return (
            any(map(concerns, self.rest.texts.values()))
            or any(map(_may_begin, self._all))
            or (self._makes_tensors and (self._tells_device or self._has_inner_classes))
            or any(map(self._may_tell, self._definitions))
            or self._may_tell_as_it_runs
        )

    @cached_property
    def _definitions(self) -> Sequence[str]:
        return [*chain.from_iterable(self.written.definitions.values())]

    @cached_property
    def _all(self) -> Sequence[Facts]:
        """The facts about the statements that run, and those about each definition."""
        return [self.rest, *map(read, self._definitions)]

    @cached_property
    def _makes_tensors(self) -> bool:
        """Whether it makes tensors on the CPU: these lead to findings in a module, or beside tensors elsewhere."""
        return any(facts.is_of_cpu for facts in self._all)

    @property
    def _tells_device(self) -> bool:
        """Whether something gets a ``device`` argument, or the code knows of a GPU."""
        return any(places(facts) or knows_of_gpu(facts) for facts in self._all)

    @property
    def _has_inner_classes(self) -> bool:
        """Whether a class is in a block, which may be one of modules."""
        return any(facts.has_inner_classes for facts in self._all)

    @property
    def _may_tell_as_it_runs(self) -> bool:
        """Whether its own statements may lead to a finding."""
        return self.written.leads_to(_asked_in(self.rest), while_it_runs) or self._may_refute(
            self.rest, self.rest.words
        )

    def _may_tell(self, text: str) -> bool:
        """Whether a definition may lead to a finding, with the parts that it inherits and uses."""
        own, bases = read(text), bases_of(text)
        ancestors = self.written.ancestors(bases)
        if ancestors is None:
            return True
        facts = own.with_inherited(ancestors.facts)
        words = facts.words - words_of_bases(own, bases)
        if ancestors.may_be_module:
            sought, meets_tensors = begins_in_module, self._makes_tensors or facts.is_of_cpu
        else:
            sought, meets_tensors = begins_beside_tensors if facts.is_of_cpu else begins, False
        return (
            meets_tensors
            or (facts is not own and _may_begin(facts))
            or self.written.leads_to(words, in_statement(sought))
            or self._may_refute(facts, words)
        )

    def _may_refute(self, facts: Facts, words: Set[str]) -> bool:
        written = externally_written(facts)
        return bool(written) and self.written.leads_to(words, in_statement(refuted_by(written)))


def _without_signs(decorators: Sequence[str]) -> Sequence[str]:
    """The lines of decorators as lines of expressions."""
    return [line.removeprefix("@") for line in decorators]


def _asked_in(facts: Facts) -> Set[str]:
    """The words that stand for used names: not those that are only imported or assigned."""
    names = {node.id for node in facts.all(ast.Name) if isinstance(node.ctx, ast.Load)}
    names |= {node.attr for node in facts.all(ast.Attribute)}
    if facts.has(*_ASKING_A_MODULE_BY_NAME):
        names |= {word for text in facts.texts.values() for word in words_of(text)}
    return names


def _may_begin(facts: Facts) -> bool:
    """Whether a finding may begin with it by itself, whatever uses it."""
    return may_begin(facts) or facts.once(hides) or bool(facts.made_in_forward) or facts.has(*_ASKING_BY_NAME)
