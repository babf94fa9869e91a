"""First triage check of a file, before it is parsed: whether it can have a finding, by its text and its imports' texts.

Most files of a project only define code that begins no finding, such as configurations, tokenizers and layers: they
need not run. This first check is coarser and cheaper than the outlook of each definition, and never rejects more files.
"""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from functools import cached_property
from itertools import chain

from placement_lint.flow.triage.definition_facts import Said, read
from placement_lint.flow.triage.lexical import without_strings
from placement_lint.flow.triage.predicates import (
    begins,
    begins_beside_tensors,
    begins_in_module,
    in_statement,
    may_be_tended,
    while_it_runs,
)
from placement_lint.flow.triage.written import Written, words_of_bases
from placement_lint.project.finder import Surroundings
from placement_lint.project.index import without_imports
from placement_lint.project.relevance import concerns
from placement_lint.source.outline import bases_of
from placement_lint.source.scan import words_of

_SHORT_STRING = re.compile(r"""['"]([^'"\s]*)['"]""")
# A class in a block, which may be one of modules.
_INNER_CLASS = re.compile(r"\n[ \t]+class[ \t]+\w+[ \t]*[\[(:]")
# A name that is assigned, and so not read.
_GIVEN_VALUE = re.compile(r"^[ \t]*\w+[ \t]*=(?!=)", re.MULTILINE)
# Functions that look up modules by strings, and names that look up attributes of a module by strings.
_ASKING_BY_NAME = ("import_module", "__import__")
_ASKING_A_MODULE_BY_NAME = ("getattr", "__dict__")


def may_tell(text: str, surroundings: Surroundings) -> bool:
    """Whether there may be a finding in a file, or a fact that refutes a finding in another file."""
    return _Glance(Written(text, surroundings)).may_tell


class _Glance:
    def __init__(self, written: Written) -> None:
        self.written = written
        self.rest = self._running(written.outline.statements)

    @property
    def may_tell(self) -> bool:
        return (
            any(map(concerns, _SHORT_STRING.findall(self.rest.code)))
            or _may_begin(self.rest)
            or self._definitions_may_tell
            or self._may_tell_as_it_runs
        )

    @property
    def _definitions_may_tell(self) -> bool:
        """Whether its definitions may, by their texts alone."""
        return (
            any(map(_may_begin, self._all_said))
            or (self._makes_tensors and (self._tells_device or self._has_inner_classes))
            or any(map(self._may_tell, self._definitions))
        )

    def _running(self, statements: Sequence[str]) -> Said:
        """The facts about the text of these statements, and about the decorators of functions."""
        return read("\n".join((*self.written.outline.decorators, *statements)))

    @cached_property
    def _definitions(self) -> Sequence[str]:
        return [*chain.from_iterable(self.written.definitions.values())]

    @cached_property
    def _all_said(self) -> Sequence[Said]:
        return [self.rest, *map(read, self._definitions)]

    @cached_property
    def _makes_tensors(self) -> bool:
        """Whether it makes tensors on the CPU: these lead to findings in a module, or beside tensors elsewhere."""
        return any(said.is_of_cpu for said in self._all_said)

    @property
    def _tells_device(self) -> bool:
        """Whether something gets a ``device`` argument, or the code knows of a GPU."""
        return any(said.places or said.knows_of_gpu for said in self._all_said)

    @cached_property
    def _has_inner_classes(self) -> bool:
        return any(_INNER_CLASS.search(said.code) is not None for said in self._all_said)

    @property
    def _may_tell_as_it_runs(self) -> bool:
        """Whether its own statements may lead to a finding."""
        return self.written.leads_to(self._asked_for, while_it_runs) or self._looks_after_others(
            self.rest, self.rest.words
        )

    @cached_property
    def _asked_for(self) -> Set[str]:
        """The words of the running statements that may lead to other files."""
        return _asked_in(self.rest)

    def _may_tell(self, text: str) -> bool:
        """Whether a definition may lead to a finding, with the parts that it inherits and uses."""
        own, bases = read(text), bases_of(text)
        ancestors = self.written.ancestors(bases)
        if ancestors is None:
            return True
        left = [each for each in (base.leaves_to(own) for base in ancestors.said) if each]
        said = own.after(left) if left else own
        words = said.words - words_of_bases(own, bases)
        if ancestors.may_be_module:
            sought, meets_tensors = begins_in_module, self._makes_tensors or said.is_of_cpu
        else:
            sought, meets_tensors = begins_beside_tensors if said.is_of_cpu else begins, False
        return (
            meets_tensors
            or (bool(left) and _may_begin(said))
            or self.written.leads_to(words, in_statement(sought))
            or self._looks_after_others(said, words)
        )

    def _looks_after_others(self, said: Said, words: Set[str]) -> bool:
        return bool(said.tended) and self.written.leads_to(words, in_statement(may_be_tended(said.tended)))


def _asked_in(said: Said) -> Set[str]:
    """The words that stand for used names: not those that are only imported or assigned."""
    code = said.code
    if not said.has(*_ASKING_A_MODULE_BY_NAME):
        code = without_strings(code)
    return set(words_of(_GIVEN_VALUE.sub("", without_imports(code))))


def _may_begin(said: Said) -> bool:
    """Whether a finding may begin with it by itself, whatever uses it."""
    return said.begins or said.hides or bool(said.made_in_forward) or said.has(*_ASKING_BY_NAME)
