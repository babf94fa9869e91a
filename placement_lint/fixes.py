"""Fixes: applied as long as each makes its file better, and written so that a file is either old or new.

A fix is taken only if the file afterwards can be read, has the finding no more and has none that it had not before.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from placement_lint import writing
from placement_lint.checker import Checker, Reading
from placement_lint.errors import UsageError
from placement_lint.finding import Applicability, Edit, Finding
from placement_lint.results import Checked, Job, Run
from placement_lint.source.edits import NotEditable, edited, overlap
from placement_lint.source.scan import lines_with_ends
from placement_lint.source.text import Unreadable, decode

NO_NEWLINE = "\\ No newline at end of file"


@dataclass(frozen=True)
class Fixed:
    """A file before and after, what was fixed in it and what was found afterwards."""

    path: str
    before: bytes
    after: bytes
    fixed: tuple[Finding, ...]
    left: tuple[Finding, ...]

    @property
    def diff(self) -> str:
        before, after = (_diff_lines(data) for data in (self.before, self.after))
        return "".join(difflib.unified_diff(before, after, self.path, self.path))


class Fixer:
    """Applies safe fixes, and unsafe ones where they are wanted; with a ``code`` those of one rule alone."""

    def __init__(self, job: Job, unsafe: bool, code: str | None = None, reading: Reading | None = None) -> None:
        self.checker = Checker(job, reading)
        self.code = code
        self.wanted = set(Applicability) if unsafe else {Applicability.SAFE}

    def fix(self, data: bytes, path: str) -> Fixed:
        """Round after round, until no fix is left that makes the file better."""
        now, checked = data, self._check(data, path)
        fixed: list[Finding] = []
        while better := self._better(now, checked):
            now, checked, findings = better
            fixed.extend(findings)
        return Fixed(path, data, now, tuple(fixed), checked.findings)

    def _check(self, data: bytes, path: str) -> Checked:
        """What the file says of itself: other files have their own turn."""
        checked = self.checker.check_bytes(data, path)
        return replace(checked, findings=tuple(finding for finding in checked.findings if finding.path == path))

    def fixable(self, finding: Finding) -> bool:
        fix = finding.fix
        asked = self.code in (None, finding.code)
        return asked and fix is not None and bool(fix.edits) and fix.applicability in self.wanted

    def _better(self, data: bytes, checked: Checked) -> tuple[bytes, Checked, Sequence[Finding]] | None:
        """The file after all fixes that go together, or if that is no good, after the first that is."""
        together = _without_overlaps(finding for finding in checked.findings if self.fixable(finding))
        for findings in (together, *([finding] for finding in together)):
            try:
                after = edited(data, [edit for finding in findings for edit in _edits(finding)])
            except NotEditable:
                return None
            result = self._check(after, checked.path)
            if findings and _is_better(checked, result, findings):
                return after, result, findings
        return None


def fix_findings(run: Run, job_of: Callable[[str], Job], unsafe: bool) -> tuple[Run, list[Fixed]]:
    """The run as it is after its files have been fixed in memory, and those files."""
    paths = dict.fromkeys(finding.path for finding in run.findings if finding.fix)
    tried = (Fixer(job_of(path), unsafe).fix(run.texts.get(path) or _read(path), path) for path in paths)
    changed = [each for each in tried if each.fixed]
    return _with_results(run, changed), changed


def write(fixed: Fixed) -> None:
    """Put the new file in the place of the old one in one step, whatever happens meanwhile."""
    if _read(fixed.path) != fixed.before:
        raise UsageError(f"{fixed.path} has changed while it was being fixed, and is left as it is")
    try:
        writing.write(Path(fixed.path), fixed.after)
    except OSError as error:
        raise UsageError(f"cannot write {fixed.path}: {error.strerror or error}") from None


def _read(path: str) -> bytes:
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
    """As many as go together, in their order; what overlaps has its turn in the next round."""
    kept: list[Finding] = []
    for finding in findings:
        taken = [edit for other in kept for edit in _edits(other)]
        if not any(overlap(edit, other) for edit in _edits(finding) for other in taken):
            kept.append(finding)
    return kept


def _is_better(before: Checked, after: Checked, fixed: Sequence[Finding]) -> bool:
    """Whether the findings that were fixed are gone, and nothing has come in their place."""
    if after.skipped or after.crashes:
        return False
    due = Counter(finding.code for finding in before.findings)
    due.subtract(Counter(finding.code for finding in fixed))
    return Counter(finding.code for finding in after.findings) <= due


def _edits(finding: Finding) -> Sequence[Edit]:
    return finding.fix.edits if finding.fix else ()


def _diff_lines(data: bytes) -> list[str]:
    try:
        text = decode(data)
    except Unreadable:
        text = data.decode(errors="replace")
    return [line if line.endswith(("\n", "\r")) else f"{line}\n{NO_NEWLINE}\n" for line in lines_with_ends(text)]
