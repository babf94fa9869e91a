"""The check of one file: read, skip if it cannot matter, parse, analyse, locate, suppress."""

from __future__ import annotations

import gc
import os
import re
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from placement_lint import registry
from placement_lint.checking.placing import Spots, findings_of, places_of, saved_states
from placement_lint.checking.stack import with_deep_stack
from placement_lint.checking.suppress import idle_comments, speaking_for
from placement_lint.finding import Finding, Range
from placement_lint.own_rules import UNREADABLE_SOURCE
from placement_lint.project.files import patterns
from placement_lint.project.finder import Answers, Surroundings, read_from_disk
from placement_lint.project.saved_states import SavedState
from placement_lint.report.results import Checked, Crash, Job, Provisional, Read, digest
from placement_lint.source.anchors import Anchors
from placement_lint.source.layout import Unplaced
from placement_lint.source.notebook import NOTEBOOK, Notebook, OtherLanguage, read_notebook
from placement_lint.source.parsing import BeyondTheParser, check_syntax, keyword_as_name, parse, read
from placement_lint.source.suppressions import Suppressions, read_suppressions
from placement_lint.source.text import Unreadable, decode

if TYPE_CHECKING:
    import libcst as cst

    from placement_lint.checking.listen import Hearing
    from placement_lint.rule import Rule

Texts = Mapping["cst.CSTNode", "cst.CSTNode"]
"""For a node that the program runs but its text lacks: the corresponding node of the text."""

Placer = Callable[["cst.Module", Sequence["cst.CSTNode"]], "dict[cst.CSTNode, Range]"]
"""A function that returns the positions of the nodes of a module."""

# Size of a run's cache of other files' contents.
_KEPT = 2048

# A file without any of these names has no tensor, module or optimizer that the analysis could know.
TRIGGER = re.compile(r"torch|lightning|accelerate|transformers|timm|deepspeed|diffusers|reveal_placement")


@dataclass(frozen=True)
class Terms:
    """The rules and suppressions that apply to a file."""

    anchors: Anchors
    suppressions: Suppressions
    codes: frozenset[str]


class Reading:
    """How a text is parsed and analysed, and its nodes located; a language server overrides this."""

    def is_notebook(self, path: str) -> bool:
        """Whether the bytes of a file are a notebook's JSON rather than Python source."""
        return path.endswith(NOTEBOOK)

    def may_tell(self, text: str, surroundings: Surroundings) -> bool:
        """Whether a text about tensors needs to be analysed at all."""
        from placement_lint.flow.triage.glance import may_tell

        return may_tell(text, surroundings)

    def read(self, text: str) -> cst.Module:
        return read(text)

    def parse(self, text: str) -> cst.Module:
        """The same with all layout, for results that need it."""
        return parse(text)

    def pieces(self, text: str) -> Sequence[str]:
        """A text, parsed before if that was useful, as one or more pieces of whole statements."""
        return [text]

    def hear(self, program: cst.Module, rules: Sequence[Rule], surroundings: Surroundings) -> Hearing:
        from placement_lint.checking.listen import problems_in
        from placement_lint.source.remembered import forget

        try:
            return problems_in(program, rules, surroundings=surroundings)
        finally:
            forget()

    def source(self, path: str) -> bytes | None:
        """The content of another file, by its absolute path; None if there is none."""
        return read_from_disk(path)

    def answers(self) -> Answers:
        """The cached answers about other files at the start of the next check."""
        return {}

    def place(self, module: cst.Module, nodes: Sequence[cst.CSTNode]) -> dict[cst.CSTNode, Range]:
        from placement_lint.source.positions import positions

        return positions(module, nodes)


class OneRun(Reading):
    """While no file changes: the contents of files, and the absence of files, are cached for the next check."""

    def __init__(self) -> None:
        self._content = lru_cache(_KEPT)(read_from_disk)
        self._absent: set[str] = set()
        self._names: dict[str, Set[str] | None] = {}
        self._answers: Answers = {}

    def source(self, path: str) -> bytes | None:
        if path in self._absent:
            return None
        if self._may_be(path):
            return self._content(path)
        self._absent.add(path)
        return None

    def _may_be(self, path: str) -> bool:
        """Whether a file of that path may exist; most of the paths that an import may mean do not."""
        folder, name = os.path.split(path)
        if folder == path:
            return True
        if folder not in self._names:
            self._names[folder] = _names_in(folder or os.curdir) if self._may_be(folder) else frozenset()
        names = self._names[folder]
        return names is None or name in names

    def answers(self) -> Answers:
        return self._answers


class Checker:
    """Checks one file after another for a job."""

    def __init__(self, job: Job, reading: Reading | None = None) -> None:
        self.job = job
        self.reading = reading or Reading()
        self.rules = registry.select(job.select, job.ignore, job.extend_select)
        self.exemptions = [
            (patterns(job.settings.root, [pattern]), selectors) for pattern, selectors in job.settings.exemptions
        ]
        self.excluded = [patterns(job.settings.root, job.settings.excluded), patterns(Path(job.folder), job.exclude)]
        self.roots = tuple(dict.fromkeys((str(job.settings.root), *job.roots)))
        for _, selectors in self.exemptions:
            for selector in selectors:
                registry.check_selector(selector)

    def rules_for(self, path: str) -> tuple[Rule, ...]:
        """The selected rules without those that the project ignores in this file."""
        if not self.exemptions:
            return self.rules
        absolute = Path(self.job.absolute(path))
        exempt = [
            selector
            for pattern, selectors in self.exemptions
            if pattern.verdict(absolute, is_folder=False)
            for selector in selectors
        ]
        return tuple(rule for rule in self.rules if not any(registry.matches(rule, word) for word in exempt))

    def check_file(self, path: str) -> Checked:
        try:
            data = Path(path).read_bytes()
        except OSError as error:
            reason = Unreadable(f"the file cannot be read: {error.strerror or error}")
            return replace(self.unreadable(path, reason), absent=(self.job.absolute(path),))
        return self.check_content(data, path)

    def check_content(self, data: bytes, path: str) -> Checked:
        """The result for a file with that content, which counts as read."""
        checked = self.check_bytes(data, path)
        return replace(checked, reads=(Read(self.job.absolute(path), digest(data)), *checked.reads))

    def check_bytes(self, data: bytes, path: str) -> Checked:
        """The full result for one text, including errors in reading it."""
        try:
            with collector_at_rest():
                return with_deep_stack(lambda: self._check(data, path))
        except Unreadable as reason:
            return self.unreadable(path, reason)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # a panic of the native parser is not an Exception
            return Checked(path, crashes=(_crash(path, None, error),))

    def unreadable(self, path: str, reason: Unreadable) -> Checked:
        """The file's only finding: nothing else is known about it."""
        finding = _refusal(path, reason)
        return Checked(path, (finding,) if UNREADABLE_SOURCE in self.rules_for(path) else (), skipped=True)

    def _check(self, data: bytes, path: str) -> Checked:
        if not self.reading.is_notebook(path):
            return self._check_program(decode(data), path)
        try:
            notebook = read_notebook(data)
        except OtherLanguage:
            return Checked(path, skipped=True)
        try:
            checked = self._check_program(notebook.program, path, notebook)
        except Unreadable as reason:
            checked = self.unreadable(path, reason)
        return replace(
            checked,
            findings=tuple(notebook.placed(finding, path) for finding in checked.findings),
            provisional=tuple(replace(one, finding=notebook.placed(one.finding, path)) for one in checked.provisional),
        )

    def _check_program(self, text: str, path: str, notebook: Notebook | None = None) -> Checked:
        suppressions = read_suppressions(text)
        if suppressions.skip_file:
            return Checked(path, skipped=True)
        rules = self.rules_for(path)
        surroundings = Surroundings(
            self.job.absolute(path), self.roots, self.reading.source, self.reading.answers(), program=text
        )
        heard = _Heard()
        if self._may_matter(text, surroundings):
            heard = self._heard(text, path, notebook, surroundings)
        else:
            check_syntax(text)
        anchors = Anchors(self.reading.pieces(text))
        terms = {path: Terms(anchors, suppressions, frozenset(rule.code for rule in rules))}
        refused = keyword_as_name(text)
        found = [*heard.findings, *([Provisional(_refusal(path, refused))] if refused is not None else [])]
        kept, used = self._admitted(found, terms, surroundings)
        # After a crash, an unused comment proves nothing.
        if not heard.crashes:
            own = {place for file, place in used if file == path}
            idle = idle_comments(path, suppressions, own, rules)
            kept.extend(admitted for one in idle if (admitted := _admitted_by(one, terms)) is not None)
        return Checked(
            path,
            self._shown([one.finding for one in kept if one.if_saved is None]),
            heard.crashes,
            provisional=tuple(one for one in kept if one.is_conditional),
            needed=tuple(sorted((file, place) for file, place in used if file != path)),
            tended=heard.tended,
            uses=heard.uses,
            refused=heard.refused,
            saved=heard.saved,
            harmless=heard.harmless,
            reads=surroundings.reads,
            absent=surroundings.absent,
        )

    def _may_matter(self, text: str, surroundings: Surroundings) -> bool:
        """Whether a text may have findings: it is about tensors, and something in it can begin a finding."""
        texts = chain((text,), (unit.text for unit in surroundings.reached(text)))
        return any(map(TRIGGER.search, texts)) and self.reading.may_tell(text, surroundings)

    def _heard(self, text: str, path: str, notebook: Notebook | None, surroundings: Surroundings) -> _Heard:
        """The analysis result of a text; parsed with all layout only if positions need it.

        For a text that libcst cannot parse, Python's own tree is analysed, and positions are approximate.
        """
        try:
            if notebook is None:
                with suppress(Unplaced):
                    return self._analyse(self.reading.read(text), path, None, surroundings, self.reading.place)
            return self._analyse(self.reading.parse(text), path, notebook, surroundings, self.reading.place)
        except BeyondTheParser:
            return self._analyse(read(text), path, notebook, surroundings, _placed_roughly)

    def _analyse(
        self, module: cst.Module, path: str, notebook: Notebook | None, surroundings: Surroundings, where: Placer
    ) -> _Heard:
        program, texts = self._as_run(module, notebook, where)
        hearing = self.reading.hear(program, [rule for rule in self.rules if rule.listens], surroundings)
        crashes = tuple(_crash(path, rule, error) for rule, error in hearing.crashes)
        account = hearing.account

        def place(nodes: Sequence[cst.CSTNode]) -> dict[cst.CSTNode, Range]:
            places = where(module, [texts.get(node, node) for node in nodes])
            return places | {node: places[texts[node]] for node in nodes if texts.get(node) in places}

        spots = Spots(path, self.job.folder, place, surroundings, account.module_classes)
        found = findings_of(hearing.problems, spots) if hearing.problems else []
        uses = sorted((spots.named(*function), len(calls)) for function, calls in account.uses.items())
        tended = tuple(sorted(spots.named(*one) for one in account.tended))
        saved, harmless = saved_states(account.saved, spots), places_of(account.harmless, spots)
        return _Heard(found, crashes, tended, tuple(uses), account.refused, saved, harmless)

    def _as_run(self, module: cst.Module, notebook: Notebook | None, where: Placer) -> tuple[cst.Module, Texts]:
        if notebook is None:
            return module, {}
        from placement_lint.source.display import with_displays

        return with_displays(module, where(module, module.body), notebook)

    def _admitted(
        self, found: Sequence[Provisional], terms: dict[str, Terms], surroundings: Surroundings
    ) -> tuple[list[Provisional], set[tuple[str, Range]]]:
        """The findings that the files involved allow, and the comments that suppress the others."""
        kept: list[Provisional] = []
        used: set[tuple[str, Range]] = set()
        for one in found:
            places = [(said.path, said.range) for said in (one.finding, one.at_call) if said is not None]
            for file in {file for file, _ in places} - terms.keys():
                terms[file] = self._terms(file, surroundings)
            admitted = _admitted_by(one, terms)
            if admitted is not None:
                comments = {
                    (file, comment)
                    for file, place in places
                    for comment in speaking_for(one.finding.code, place, terms[file].suppressions)
                }
                used |= comments
                if not comments:
                    kept.append(admitted)
        return kept, used

    def _terms(self, path: str, surroundings: Surroundings) -> Terms:
        """The terms of another file."""
        unit = surroundings.unit(self.job.absolute(path))
        text = surroundings.text(unit) if unit is not None else ""
        suppressions = read_suppressions(text)
        rules = () if unit is None or suppressions.skip_file or self._is_excluded(path) else self.rules_for(path)
        return Terms(Anchors([text]), suppressions, frozenset(rule.code for rule in rules))

    def _is_excluded(self, path: str) -> bool:
        absolute = Path(self.job.absolute(path))
        return any(
            pattern.verdict(part, is_folder=part != absolute)
            for pattern in self.excluded
            for part in (absolute, *absolute.parents)
        )

    def _shown(self, findings: Sequence[Finding]) -> tuple[Finding, ...]:
        severe = (finding for finding in findings if finding.severity >= self.job.severity)
        return tuple(sorted(severe, key=lambda finding: finding.sort_key))


@dataclass(frozen=True)
class _Heard:
    """The result of the analysis of one file."""

    findings: Sequence[Provisional] = ()
    crashes: tuple[Crash, ...] = ()
    tended: tuple[tuple[str, str, str], ...] = ()
    uses: tuple[tuple[tuple[str, str, str], int], ...] = ()
    refused: int = 0
    saved: tuple[SavedState, ...] = ()
    harmless: tuple[tuple[str, Range], ...] = ()


def _refusal(path: str, reason: Unreadable) -> Finding:
    """The finding about a text that Python rejects."""
    rule = UNREADABLE_SOURCE
    place = Range(reason.line, reason.column, reason.line, reason.column)
    return Finding(rule.code, rule.name, rule.severity, reason.message, path, place)


def _admitted_by(one: Provisional, terms: Mapping[str, Terms]) -> Provisional | None:
    """The parts of a finding whose rules are selected in the files where they would be reported."""
    there, at_call = (
        _anchored(said, terms) if said is not None and said.code in terms[said.path].codes else None
        for said in (one.finding, one.at_call)
    )
    if there is not None:
        return replace(one, finding=there, at_call=at_call)
    return Provisional(at_call) if at_call is not None else None


def _anchored(finding: Finding, terms: Mapping[str, Terms]) -> Finding:
    return replace(finding, anchor=terms[finding.path].anchors.at(finding.range.line))


def _placed_roughly(module: cst.Module, nodes: Sequence[cst.CSTNode]) -> dict[cst.CSTNode, Range]:
    from placement_lint.source.positions import positions

    return positions(module, nodes, roughly=True)


def _names_in(folder: str) -> Set[str] | None:
    """The names in a folder, if it can be listed."""
    try:
        return frozenset(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return frozenset()
    except OSError:
        return None


@contextmanager
def collector_at_rest() -> Iterator[None]:
    """Pause the garbage collector: the check of one file makes little garbage, and collection costs a tenth of it."""
    resting = not gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if not resting:
            gc.enable()


def _crash(path: str, rule: Rule | None, error: BaseException) -> Crash:
    frames = traceback.extract_tb(error.__traceback__)
    where = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "an unknown place"
    culprit = f"{rule.code} ({rule.name})" if rule else None
    return Crash(path, culprit, f"{type(error).__name__}: {error}", where)
