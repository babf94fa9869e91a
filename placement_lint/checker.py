"""One file to its findings: read, pass over what cannot matter, parse, analyse, place, suppress."""

from __future__ import annotations

import gc
import os
import re
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from placement_lint import registry
from placement_lint.config import Settings
from placement_lint.files import patterns
from placement_lint.finding import Edit, Finding, Fix, Range, Severity, Step
from placement_lint.own_rules import UNREADABLE_SOURCE
from placement_lint.results import Crash
from placement_lint.source.anchors import Anchors
from placement_lint.source.notebook import NOTEBOOK, Notebook, OtherLanguage, read_notebook
from placement_lint.source.parsing import check_syntax, parse
from placement_lint.source.suppressions import read_suppressions
from placement_lint.source.text import Unreadable, decode
from placement_lint.stack import with_deep_stack
from placement_lint.suppress import idle_comments, without_suppressed

if TYPE_CHECKING:
    import libcst as cst

    from placement_lint.listen import Hearing
    from placement_lint.rule import Problem, Rule

Texts = Mapping["cst.CSTNode", "cst.CSTNode"]
"""For a node that the program runs and its text lacks: the node of the text."""

# A file that names none of these holds no tensor, module or optimizer that the analysis could know.
TRIGGER = re.compile(r"torch|lightning|accelerate|transformers|timm|deepspeed|diffusers")


@dataclass(frozen=True)
class Job:
    """What to look for, as plain data that can be sent to another process."""

    settings: Settings
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    extend_select: tuple[str, ...] = ()
    severity: Severity = Severity.INFO


@dataclass(frozen=True)
class Checked:
    """One file's share of a run."""

    path: str
    findings: tuple[Finding, ...] = ()
    crashes: tuple[Crash, ...] = ()
    skipped: bool = False


class Reading:
    """How a text becomes a tree, the tree what rules say of it, and nodes places; a language server does it its way."""

    def parse(self, text: str) -> cst.Module:
        return parse(text)

    def hear(self, program: cst.Module, rules: Sequence[Rule]) -> Hearing:
        from placement_lint.listen import problems_in

        return problems_in(program, rules)

    def place(self, module: cst.Module, nodes: Sequence[cst.CSTNode]) -> dict[cst.CSTNode, Range]:
        from placement_lint.source.positions import positions

        return positions(module, nodes)


class Checker:
    """Checks one file after another for a job."""

    def __init__(self, job: Job, reading: Reading | None = None) -> None:
        self.job = job
        self.reading = reading or Reading()
        self.rules = registry.select(job.select, job.ignore, job.extend_select)
        self.exemptions = [
            (patterns(job.settings.root, [pattern]), selectors) for pattern, selectors in job.settings.exemptions
        ]
        for _, selectors in self.exemptions:
            for selector in selectors:
                registry.check_selector(selector)

    def rules_for(self, path: str) -> tuple[Rule, ...]:
        """The selected rules less those that the project ignores in this file."""
        absolute = Path(os.path.abspath(path))
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
            return self.unreadable(path, Unreadable(f"the file cannot be read: {error.strerror or error}"))
        return self.check_bytes(data, path)

    def check_bytes(self, data: bytes, path: str) -> Checked:
        """Everything the tool has to say about one text, whatever is wrong with it."""
        try:
            with collector_at_rest():
                return with_deep_stack(lambda: self._check(data, path))
        except Unreadable as reason:
            return self.unreadable(path, reason)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # a panic of the native parser is no Exception
            return Checked(path, crashes=(_crash(path, None, error),))

    def unreadable(self, path: str, reason: Unreadable) -> Checked:
        """The file's only finding: nothing else is known of it."""
        rule = UNREADABLE_SOURCE
        place = Range(reason.line, reason.column, reason.line, reason.column)
        finding = Finding(rule.code, rule.name, rule.severity, reason.message, path, place)
        return Checked(path, (finding,) if rule in self.rules_for(path) else (), skipped=True)

    def _check(self, data: bytes, path: str) -> Checked:
        if not path.endswith(NOTEBOOK):
            return self._check_program(decode(data), path)
        try:
            notebook = read_notebook(data)
        except OtherLanguage:
            return Checked(path, skipped=True)
        try:
            checked = self._check_program(notebook.program, path, notebook)
        except Unreadable as reason:
            checked = self.unreadable(path, reason)
        return replace(checked, findings=tuple(map(notebook.placed, checked.findings)))

    def _check_program(self, text: str, path: str, notebook: Notebook | None = None) -> Checked:
        suppressions = read_suppressions(text)
        if suppressions.skip_file:
            return Checked(path, skipped=True)
        rules = self.rules_for(path)
        found: list[Finding] = []
        crashes: list[Crash] = []
        if TRIGGER.search(text):
            found, crashes = self._analyse(self.reading.parse(text), path, rules, notebook)
        else:
            check_syntax(text)
        kept, used = without_suppressed(found, suppressions)
        # After a crash, that a comment suppressed nothing says nothing about the comment.
        if not crashes:
            running = {rule.code for rule in rules}
            idle = idle_comments(path, suppressions, used, rules)
            kept.extend(finding for finding in idle if finding.code in running)
        anchors = Anchors(text)
        anchored = [replace(finding, anchor=anchors.at(finding.range.line)) for finding in kept]
        return Checked(path, self._shown(anchored), tuple(crashes))

    def _analyse(
        self, module: cst.Module, path: str, rules: Sequence[Rule], notebook: Notebook | None
    ) -> tuple[list[Finding], list[Crash]]:
        listening = [rule for rule in rules if rule.listens]
        program, texts = _as_run(module, notebook)
        hearing = self.reading.hear(program, listening)
        crashes = [_crash(path, rule, error) for rule, error in hearing.crashes]
        found = self._place(module, path, hearing.problems, texts) if hearing.problems else []
        return found, crashes

    def _place(
        self, module: cst.Module, path: str, problems: Sequence[tuple[Rule, Problem]], texts: Texts
    ) -> list[Finding]:
        """Findings from problems, each once however often a function was interpreted."""
        nodes = [node for _, problem in problems for node in _nodes(problem)]
        places = self.reading.place(module, [texts.get(node, node) for node in nodes])
        places |= {node: places[texts[node]] for node in nodes if node in texts}
        findings = (_finding(rule, problem, path, places) for rule, problem in problems)
        return list({(finding.code, finding.range, finding.message): finding for finding in findings}.values())

    def _shown(self, findings: Sequence[Finding]) -> tuple[Finding, ...]:
        severe = (finding for finding in findings if finding.severity >= self.job.severity)
        return tuple(sorted(severe, key=lambda finding: finding.sort_key))


@contextmanager
def collector_at_rest() -> Iterator[None]:
    """While one file is looked at, next to nothing becomes garbage, and looking for it takes a tenth of the time."""
    resting = not gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if not resting:
            gc.enable()


def _as_run(module: cst.Module, notebook: Notebook | None) -> tuple[cst.Module, Texts]:
    if notebook is None:
        return module, {}
    from placement_lint.source.display import with_displays

    return with_displays(module, notebook)


def _nodes(problem: Problem) -> Iterator[cst.CSTNode]:
    yield problem.node
    yield from (note.node for note in problem.trace)
    if problem.rewrite:
        yield from (node for node, _ in problem.rewrite.replacements)


def _finding(rule: Rule, problem: Problem, path: str, places: Mapping[cst.CSTNode, Range]) -> Finding:
    fix = None
    if rewrite := problem.rewrite:
        edits = tuple(Edit(places[node], text) for node, text in rewrite.replacements)
        fix = Fix(rewrite.applicability, rewrite.message, edits)
    return Finding(
        code=rule.code,
        name=rule.name,
        severity=problem.severity or rule.severity,
        message=problem.message,
        path=path,
        range=places[problem.node],
        trace=tuple(Step(path, places[note.node], note.message) for note in problem.trace),
        fix=fix,
        facts=tuple((name, _plain(fact)) for name, fact in problem.facts.items()),
    )


def _plain(fact: object) -> object:
    """A fact as data that can be sent, compared and written down; what is neither becomes its text."""
    if isinstance(fact, (list, tuple)):
        return tuple(map(_plain, fact))
    return fact if isinstance(fact, (bool, int, float, str, type(None))) else str(fact)


def _crash(path: str, rule: Rule | None, error: BaseException) -> Crash:
    frames = traceback.extract_tb(error.__traceback__)
    where = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "an unknown place"
    culprit = f"{rule.code} ({rule.name})" if rule else None
    return Crash(path, culprit, f"{type(error).__name__}: {error}", where)
