"""``--add-noqa``: comments that suppress the findings of a run, written into their files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import click

from placement_lint.checking.checker import Checker
from placement_lint.checking.suppress import speaking_for
from placement_lint.finding import Edit, Finding
from placement_lint.fix.fixes import Fixed, read_file, write
from placement_lint.registry import FAMILIES
from placement_lint.report.places import place
from placement_lint.report.results import Job, Run
from placement_lint.source.edits import NotEditable, edited
from placement_lint.source.notebook import NOTEBOOK, read_notebook
from placement_lint.source.silencing import suppressing
from placement_lint.source.suppressions import read_suppressions
from placement_lint.source.text import decode


@dataclass(frozen=True)
class Left:
    """A finding that gets no comment, and why."""

    finding: Finding
    reason: str


def add_comments(run: Run, job_of: Callable[[str], Job], quiet: bool) -> Run:
    """The run without the findings that comments in their files now suppress."""
    by_path: dict[str, list[Finding]] = {}
    for finding in run.findings:
        by_path.setdefault(finding.path, []).append(finding)
    left: list[Left] = []
    files = 0
    for path, findings in by_path.items():
        before = read_file(path)
        after, without = _commented(before, path, findings, Checker(job_of(path)))
        left.extend(without)
        if after != before:
            write(Fixed(path, before, after, (), ()))
            files += 1
    if not quiet:
        suppressed = len(run.findings) - len(left)
        click.echo(f"placement-lint: suppressed {_count(suppressed, 'finding')} in {_count(files, 'file')}", err=True)
        for each in left:
            click.echo(f"placement-lint: {place(each.finding)}: {each.finding.code} stays: {each.reason}", err=True)
    kept = {each.finding for each in left}
    return replace(run, findings=tuple(finding for finding in run.findings if finding in kept))


def _commented(data: bytes, path: str, findings: Sequence[Finding], checker: Checker) -> tuple[bytes, list[Left]]:
    """A file with a comment for each finding, and the findings without one; unchanged if that is not possible."""
    own = [finding for finding in findings if finding.code.startswith(FAMILIES["tool"])]
    after, left = data, _all(own, "a comment cannot suppress it")
    others = [finding for finding in findings if finding not in own]
    try:
        for finding in others:
            edit = _edit(_text(after, path, finding.cell), finding)
            if edit is None:
                left.append(Left(finding, "no comment can stand on its lines"))
            elif edit.text:
                after = edited(after, [edit])
    except NotEditable:
        return data, _all(findings, "the file cannot be written back with nothing else changed")
    if after == data:
        return data, left
    result = checker.check_bytes(after, path)
    if result.skipped or result.crashes:
        return data, _all(findings, "the file could not be checked with comments in it")
    return after, left


def _edit(text: str, finding: Finding) -> Edit | None:
    """The edit that suppresses a finding, empty if a comment does already; None if no comment can be placed."""
    if speaking_for(finding.code, finding.range, read_suppressions(text)):
        return Edit(finding.range, "")
    edit = suppressing(text, finding.range, finding.code, finding.name)
    return replace(edit, cell=finding.cell) if edit is not None else None


def _text(data: bytes, path: str, cell: int | None) -> str:
    if not path.endswith(NOTEBOOK):
        return decode(data)
    return next(each.source for each in read_notebook(data).cells if each.number == cell)


def _all(findings: Iterable[Finding], reason: str) -> list[Left]:
    return [Left(finding, reason) for finding in findings]


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
