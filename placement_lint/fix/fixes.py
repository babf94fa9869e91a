"""Fixes: each is applied only if it improves its file, and files are replaced atomically.

A fix is applied only if the file afterwards can be parsed, no longer has the finding and has no new one. If it reveals
findings that have fixes themselves, all are applied together. Each fix that is withheld has a reason.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from placement_lint import writing
from placement_lint.checking.checker import Checker, Reading
from placement_lint.errors import UsageError
from placement_lint.finding import Applicability, Edit, Finding
from placement_lint.report.results import Checked, Job, Run
from placement_lint.source.edits import NotEditable, edited, overlap
from placement_lint.source.scan import lines_with_ends
from placement_lint.source.text import Unreadable, decode

# The number of rounds in which fixes of newly revealed findings are added.
ROUNDS = 3
MOST_NAMED = 3  # findings that a fix would reveal
NO_NEWLINE = "\\ No newline at end of file"


@dataclass(frozen=True)
class Withheld:
    """A finding whose fix is not applied, and why."""

    finding: Finding
    reason: str


@dataclass(frozen=True)
class Fixed:
    """A file before and after fixing.

    ``fixed`` are findings of the file before, ``revealed`` those that only these fixes revealed and that were fixed as
    well, ``left`` the findings afterwards, and ``withheld`` those of them with a fix that could not be applied.
    """

    path: str
    before: bytes
    after: bytes
    fixed: tuple[Finding, ...]
    left: tuple[Finding, ...]
    revealed: tuple[Finding, ...] = ()
    withheld: tuple[Withheld, ...] = ()

    @property
    def diff(self) -> str:
        before, after = (_diff_lines(data) for data in (self.before, self.after))
        return "".join(difflib.unified_diff(before, after, self.path, self.path))


@dataclass(frozen=True)
class _Trial:
    """A file after the fixes of some findings and of those they revealed; with an ``objection``, it is not better."""

    findings: Sequence[Finding]
    after: bytes
    checked: Checked
    revealed: tuple[Finding, ...] = ()
    objection: str = ""


class Fixer:
    """Applies safe fixes, and unsafe ones if requested; with a ``code`` only those of one rule."""

    def __init__(self, job: Job, unsafe: bool, code: str | None = None, reading: Reading | None = None) -> None:
        self.checker = Checker(job, reading)
        self.code = code
        self.wanted = set(Applicability) if unsafe else {Applicability.SAFE}

    def fix(self, data: bytes, path: str) -> Fixed:
        """Apply fixes in rounds, until none is left that improves the file."""
        now, checked = data, self._check(data, path)
        fixed: list[Finding] = []
        revealed: list[Finding] = []
        while True:
            withheld: list[Withheld] = []
            for trial in self._trials(now, checked):
                if not trial.objection:
                    now, checked = trial.after, trial.checked
                    fixed.extend(trial.findings)
                    revealed.extend(trial.revealed)
                    break
                if len(trial.findings) == 1:
                    withheld.append(Withheld(trial.findings[0], trial.objection))
            else:
                return Fixed(path, data, now, tuple(fixed), checked.findings, tuple(revealed), tuple(withheld))

    def _check(self, data: bytes, path: str) -> Checked:
        """The result with findings in the file itself only: other files are fixed separately."""
        checked = self.checker.check_bytes(data, path)
        return replace(checked, findings=tuple(finding for finding in checked.findings if finding.path == path))

    def fixable(self, finding: Finding) -> bool:
        fix = finding.fix
        asked = self.code in (None, finding.code)
        return asked and fix is not None and bool(fix.edits) and fix.applicability in self.wanted

    def _trials(self, data: bytes, checked: Checked) -> Iterator[_Trial]:
        """The file after all fixes that do not overlap, then after each alone."""
        fixable = list(filter(self.fixable, checked.findings))
        together = _without_overlaps(fixable)
        if len(together) > 1:
            yield self._trial(data, checked, together)
        for finding in fixable:
            yield self._trial(data, checked, [finding])

    def _trial(self, data: bytes, checked: Checked, findings: Sequence[Finding]) -> _Trial:
        after, wanted, revealed, applied = data, findings, list[Finding](), list[Sequence[Edit]]()
        for _ in range(ROUNDS):
            applied.append([edit for finding in wanted for edit in _edits(finding)])
            try:
                after = edited(after, applied[-1])
            except NotEditable:
                return _Trial(findings, data, checked, objection="it would change more of the file than its own place")
            result = self._check(after, checked.path)
            new = _new_findings(checked, result, findings)
            objection = _objection(result, new, findings, applied)
            wanted = _without_overlaps(filter(self.fixable, new))
            if not objection or not wanted:
                break
            revealed.extend(wanted)
        if (
            objection
            and new
            and all(finding.fix and finding.fix.edits and not self.fixable(finding) for finding in new)
        ):
            objection += ", or apply its fix as well with --unsafe-fixes"
        return _Trial(findings, after, result, tuple(revealed), objection)


def fix_findings(run: Run, job_of: Callable[[str], Job], unsafe: bool) -> tuple[Run, list[Fixed]]:
    """The run after its files have been fixed in memory, and all files with fixes, changed or not."""
    paths = dict.fromkeys(finding.path for finding in run.findings if finding.fix)
    tried = [Fixer(job_of(path), unsafe).fix(run.texts.get(path) or read_file(path), path) for path in paths]
    return _with_results(run, [each for each in tried if each.fixed]), tried


def write(fixed: Fixed) -> None:
    """Replace the old file by the new one atomically."""
    if read_file(fixed.path) != fixed.before:
        raise UsageError(f"{fixed.path} has changed in the meantime and was not written")
    try:
        writing.write(Path(fixed.path), fixed.after)
    except OSError as error:
        raise UsageError(f"cannot write {fixed.path}: {error.strerror or error}") from None


def read_file(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from None


def _with_results(run: Run, changed: Sequence[Fixed]) -> Run:
    fixed_paths = {fixed.path for fixed in changed}
    left = [finding for finding in run.findings if finding.path not in fixed_paths]
    left.extend(finding for fixed in changed for finding in fixed.left)
    fixed = tuple(finding for each in changed for finding in each.fixed)
    return replace(run, findings=tuple(sorted(left, key=lambda finding: finding.sort_key)), fixed=fixed)


def _without_overlaps(findings: Iterable[Finding]) -> list[Finding]:
    """The findings whose fixes do not overlap, in order; the others wait for the next round."""
    kept: list[Finding] = []
    for finding in findings:
        taken = [edit for other in kept for edit in _edits(other)]
        if not any(overlap(edit, other) for edit in _edits(finding) for other in taken):
            kept.append(finding)
    return kept


def _new_findings(before: Checked, after: Checked, fixed: Sequence[Finding]) -> list[Finding]:
    """The findings afterwards beyond those before without the fixed ones; lines may have moved."""
    left = [finding for finding in before.findings if finding not in fixed]
    at_same_place = Counter(finding.identity for finding in left)
    unmatched: list[Finding] = []
    for finding in after.findings:
        if at_same_place[finding.identity]:
            at_same_place[finding.identity] -= 1
        else:
            unmatched.append(finding)
    moved = Counter(code for (_, code, _, _), number in at_same_place.items() for _ in range(number))
    new: list[Finding] = []
    for finding in unmatched:
        if moved[finding.code]:
            moved[finding.code] -= 1
        else:
            new.append(finding)
    return new


def _objection(
    after: Checked, new: Sequence[Finding], fixed: Sequence[Finding], applied: Sequence[Sequence[Edit]]
) -> str:
    """The reason why a file with these new findings after these rounds of edits is not better; empty if it is."""
    if after.crashes:
        return "the analysis of the fixed file fails"
    if after.skipped:
        return "the fixed file cannot be parsed"
    if not new:
        return ""
    if any((one.code, one.range.line) == (other.code, other.range.line) for one in new for other in fixed):
        return "it would not remove the finding"
    places = " and ".join(f"{finding.code} at {_line_before(finding, applied)}" for finding in new[:MOST_NAMED])
    more = f" and {len(new) - MOST_NAMED} more findings" if len(new) > MOST_NAMED else ""
    return f"it would reveal {places}{more}: fix {'that' if len(new) == 1 else 'those'} first"


def _line_before(finding: Finding, applied: Sequence[Sequence[Edit]]) -> str:
    """The line of a finding before these rounds of edits."""
    line = finding.range.line
    for edits in reversed(applied):
        added = 0
        for edit in sorted((edit for edit in edits if edit.cell == finding.cell), key=lambda edit: edit.range):
            if edit.range.line + added < line:
                added += edit.text.count("\n") - (edit.range.end_line - edit.range.line)
        line -= added
    return f"cell {finding.cell}, line {line}" if finding.cell else f"line {line}"


def _edits(finding: Finding) -> Sequence[Edit]:
    return finding.fix.edits if finding.fix else ()


def _diff_lines(data: bytes) -> list[str]:
    try:
        text = decode(data)
    except Unreadable:
        text = data.decode(errors="replace")
    return [line if line.endswith(("\n", "\r")) else f"{line}\n{NO_NEWLINE}\n" for line in lines_with_ends(text)]
