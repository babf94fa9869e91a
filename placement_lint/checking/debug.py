"""The facts of the analysis at a line, and the step at which a finding that a user expects there was lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from placement_lint import registry
from placement_lint.checking.checker import Checker, Reading
from placement_lint.errors import UsageError
from placement_lint.project.files import displayed
from placement_lint.run.reconcile import reconciled
from placement_lint.source.notebook import NOTEBOOK
from placement_lint.source.parsing import parse
from placement_lint.source.text import Unreadable, decode

if TYPE_CHECKING:
    import libcst as cst

    from placement_lint.checking.listen import Hearing
    from placement_lint.finding import Finding, Range
    from placement_lint.flow.observers.visits import Visit, VisitLog
    from placement_lint.project.finder import Surroundings
    from placement_lint.report.results import Checked, Job
    from placement_lint.rule import Rule


MOST_WAYS = 10  # to a line: a function that is called a hundred times has a hundred


def debugged(place: str, job: Job) -> str:
    """The path conditions at ``FILE:LINE``, and the abstract values of the names that its statements read."""
    return Examination(*split_place(place), job).known()


def why_not(selector: str, place: str, job: Job) -> str:
    """Why a rule reports nothing at ``FILE:LINE``, or that it does."""
    return Examination(*split_place(place), job).lost(registry.find_rule(selector))


def split_place(place: str) -> tuple[str, int]:
    """The file and the line of ``FILE:LINE``. Raises UsageError for another form and for unreadable files."""
    path, _, line = place.rpartition(":")
    if not path or not line.isdecimal() or int(line) < 1:
        raise UsageError(f"{place!r} is not of the form FILE:LINE, as in train.py:21")
    if path.endswith(NOTEBOOK):
        raise UsageError(f"{path}: a notebook's lines cannot be named; export it as a script first")
    if not Path(path).is_file():
        raise UsageError(f"{path}: there is no such file")
    return path, int(line)


class _Examining(Reading):
    """Reads one file as a run does, and records the visits of the statements at one of its lines.

    It analyses the file even if the file filter would skip it, and if ``thorough`` the definitions that triage skips.
    """

    def __init__(self, line: int, thorough: bool) -> None:
        self.line = line
        self.thorough = thorough
        self.passes_filter = True
        self.program: cst.Module | None = None
        self.statements: Sequence[cst.CSTNode] = ()
        self.places: dict[cst.CSTNode, Range] = {}
        self.log: VisitLog | None = None
        self.hearing: Hearing | None = None

    def may_tell(self, text: str, surroundings: Surroundings) -> bool:
        self.passes_filter = super().may_tell(text, surroundings)
        return True

    def read(self, text: str) -> cst.Module:
        return self.parse(text)

    def hear(self, program: cst.Module, rules: Sequence[Rule], surroundings: Surroundings) -> Hearing:
        from placement_lint.checking.listen import problems_in
        from placement_lint.flow.observers.visits import VisitLog

        self.program = program
        self.statements = statements_at(program, self.line)
        self.log = VisitLog(self.statements)
        self.hearing = problems_in(program, rules, self.log, surroundings, thorough=self.thorough)
        calls = [node for visit in self.log.visits for node in visit.calls]
        self.places = self.place(program, [*self.statements, *calls])
        return self.hearing

    @property
    def visits(self) -> Sequence[Visit]:
        return [*self.log.visits] if self.log is not None else []


class Examination:
    """The examination of one line of a file, under the settings of a run."""

    def __init__(self, path: str, line: int, job: Job) -> None:
        self.path = path
        self.line = line
        self.job = job
        self.shown = displayed(Path(job.absolute(path)), job.folder)
        self.text = self._text()
        self.reading, self.checked = self._checked(thorough=False)
        self.findings = reconciled([self.checked])

    def _text(self) -> str:
        try:
            text = decode(Path(self.path).read_bytes())
            parse(text)
        except Unreadable as reason:
            raise UsageError(f"{self.path}:{reason.line}:{reason.column}: {reason.message}") from None
        except OSError as error:
            raise UsageError(f"{self.path}: the file cannot be read: {error.strerror}") from None
        lines = text.splitlines()
        if self.line > len(lines):
            raise UsageError(f"{self.path} has {len(lines)} lines, and no line {self.line}")
        return text

    def _checked(self, thorough: bool) -> tuple[_Examining, Checked]:
        reading = _Examining(self.line, thorough)
        return reading, Checker(self.job, reading).check_content(self.text.encode(), self.path)

    # --- known facts -------------------------------------------------------------------------------------------

    def known(self) -> str:
        return "\n".join([f"{self.shown}:{self.line}: {self._line}", *self._visits(self.reading)])

    @property
    def _line(self) -> str:
        return self.text.splitlines()[self.line - 1].strip()

    def _visits(self, reading: _Examining) -> Iterator[str]:
        if not reading.visits:
            yield f"  {self._unreached()}"
        seen = Counter((self._way(reading, visit), visit.names) for visit in reading.visits)
        for (way, names), count in islice(seen.items(), MOST_WAYS):
            yield f"  {way}{f' ({count} times)' if count > 1 else ''}"
            width = max((len(name) for name, _ in names), default=0)
            yield from (f"    {name:{width}}  {_shortened(value)}" for name, value in names)
        if len(seen) > MOST_WAYS:
            yield f"  and {len(seen) - MOST_WAYS} other ways to this line, with other values or conditions"

    def _way(self, reading: _Examining, visit: Visit) -> str:
        calls = [reading.places[node].line for node in visit.calls if node in reading.places]
        parts = [
            f"called at line {', then '.join(map(str, calls))}" if calls and not visit.standalone else "",
            "the function or class by itself, without a caller" if visit.standalone else "",
            "in a replica of DataParallel" if visit.in_replica else "",
            visit.reach or "on every path",
        ]
        return "; ".join(part for part in parts if part)

    def _unreached(self) -> str:
        """Why no path of the analysis leads to the line."""
        if self.checked.crashes:
            return f"the analysis of the file fails: {self.checked.crashes[0]}"
        if self.reading.hearing is None:
            return "the file is not analysed: neither it nor what it imports uses PyTorch or a library built on it"
        if not self.reading.statements:
            return "there is no statement on this line"
        if all(map(_is_definition, self.reading.statements)):
            return "this line begins a definition; ask about a line of its body"
        if self._checked(thorough=True)[0].visits:
            return (
                "the definition around the line is not analysed: no analysed code calls it, and triage finds nothing "
                "in it that can begin a finding"
            )
        refused = self.reading.hearing.account.refused
        budget = f" or for lack of budget, as {refused:,} calls in the analysis of this file" if refused else ""
        return (
            "no path of the analysis leads here: the code is dead, or the calls that lead here were not entered "
            f"because of their depth{budget}"
        )

    # --- missing findings --------------------------------------------------------------------------------------

    def lost(self, rule: Rule) -> str:
        reasons = "\n".join(self._lost(rule))
        return f"{rule.code} at {self.shown}:{self.line}: {reasons}"

    def _lost(self, rule: Rule) -> Iterator[str]:
        if not rule.listens:
            yield "this rule is about files and comments, and is not found by the analysis"
            return
        if (finding := self._finding(self.findings, rule)) is not None:
            yield f"it is reported: {finding.message}"
            return
        if (finding := self._elsewhere(rule)) is not None:
            yield f"it is reported at line {finding.range.line}, as this line is a step of its trace: {finding.message}"
            return
        if reason := self._withheld(rule):
            yield reason
            return
        if not self.reading.visits:
            yield self._unreached()
            return
        if not self.reading.passes_filter:
            yield "the file filter skips the file: nothing in it seems to begin a finding"
            return
        yield from self._unsaid(rule)

    def _finding(self, findings: Sequence[Finding], rule: Rule) -> Finding | None:
        return next((each for each in findings if each.code == rule.code and self._is_here(each.range)), None)

    def _elsewhere(self, rule: Rule) -> Finding | None:
        """A finding of the rule at another line whose trace includes this one."""
        return next((finding for finding in self._passing() if finding.code == rule.code), None)

    def _passing(self) -> Iterator[Finding]:
        """The findings at any line whose place or trace includes this one."""
        for finding in self.findings:
            places = [finding.range, *(step.range for step in finding.trace if step.path == finding.path)]
            if any(map(self._is_here, places)):
                yield finding

    def _is_here(self, place: Range) -> bool:
        return place.line <= self.line <= place.end_line

    def _withheld(self, rule: Rule) -> str:
        """Why the settings or comments keep the rule from being reported; empty if they do not."""
        from placement_lint.checking.suppress import speaking_for
        from placement_lint.source.suppressions import read_suppressions

        if read_suppressions(self.text).skip_file:
            return "a `skip-file` comment excludes the file"
        if rule not in Checker(self.job).rules_for(self.path):
            return "the rule is not selected for this file (see `select`, `ignore` and `per-file-ignores`)"
        if rule.severity < self.job.severity:
            return f"its severity, {rule.severity.value}, is below the minimum that is reported"
        for statement in self.reading.statements:
            if speaking_for(rule.code, self.reading.places[statement], read_suppressions(self.text)):
                return "a comment on the line suppresses the rule"
        if self._finding(reconciled([self._checked(thorough=True)[1]]), rule) is not None:
            return "triage skips the definition around the line; an analysis without triage reports it"
        return ""

    def _unsaid(self, rule: Rule) -> Iterator[str]:
        """Reasons if the analysis executes the line and the rule reports nothing there."""
        hearing = self.reading.hearing
        assert hearing is not None
        entangled = [one for one in hearing.unsaid if one.rule == rule and self._at(one.problem.node)]
        for one in entangled:
            yield f"the condition takes too many decisions of the program to state: {one.problem.message}"
            yield f"  {_shortened(one.condition)}"
        subsumed = [event for event in hearing.account.subsumed if type(event) in rule.listens and self._at(event.node)]
        for event in subsumed:
            yield f"{type(event).__name__}: it only follows from another finding, which is reported instead"
        elsewhere = self._finding([one.finding for one in self.checked.provisional if one.if_saved], rule)
        if elsewhere is not None:
            yield f"it is reported if another program of the run saves such a file: {elsewhere.message}"
        if entangled or subsumed or elsewhere is not None:
            return
        kinds = ", ".join(sorted(kind.__name__ for kind in rule.listens))
        if any(type(event) in rule.listens and self._at(event.node) for event in hearing.account.events):
            yield f"the analysis emits an event at the line ({kinds}), and by its facts the rule reports nothing"
        else:
            yield f"the analysis executes the line and sees nothing that the rule is about (no event of: {kinds})"
        for finding in self._passing():
            yield f"  {finding.code} at line {finding.range.line} is about this line: {finding.message}"
        yield from self._visits(self.reading)

    def _at(self, node: cst.CSTNode) -> bool:
        assert self.reading.program is not None
        place = self.reading.place(self.reading.program, [node]).get(node)
        return place is not None and self._is_here(place)


def _shortened(text: str, most: int = 400) -> str:
    return text if len(text) <= most else f"{text[:most]}…"


def _is_definition(node: cst.CSTNode) -> bool:
    import libcst as cst

    return isinstance(node, (cst.FunctionDef, cst.ClassDef))


def statements_at(program: cst.Module, line: int) -> Sequence[cst.CSTNode]:
    """The innermost statements that have code on a line."""
    from placement_lint.source.positions import positions

    around = dict(_statements(program))
    places = positions(program, list(around))
    there = [node for node in around if node in places and places[node].line <= line <= places[node].end_line]
    outer = {around[node] for node in there}
    return [node for node in there if node not in outer]


def _statements(program: cst.Module) -> Iterator[tuple[cst.CSTNode, cst.CSTNode | None]]:
    """Each statement, with the compound statement that it is in."""
    import libcst as cst

    from placement_lint.source.walking import children

    waiting: list[tuple[cst.CSTNode, cst.CSTNode | None]] = [(node, None) for node in program.body]
    while waiting:
        node, outer = waiting.pop()
        if isinstance(node, (cst.BaseSmallStatement, cst.BaseCompoundStatement)):
            yield node, outer
            outer = node
        waiting.extend((child, outer) for child in children(node))
