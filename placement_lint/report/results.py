"""What a run hands to a report."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

from placement_lint.finding import Finding, Range, Severity
from placement_lint.report.style import Style

if TYPE_CHECKING:
    from placement_lint.config.settings import Settings


@dataclass(frozen=True)
class Crash:
    """An exception inside the tool itself, confined to one file and, where ``rule`` is known, one rule."""

    path: str
    rule: str | None
    error: str
    where: str

    def __str__(self) -> str:
        culprit = f"rule {self.rule}" if self.rule else "the analysis"
        return (
            f"internal error: {culprit} failed on {self.path}: {self.error} (at {self.where}).\n"
            "This is a bug in the tool, and findings may be missing for this file. "
            "Please report it with these lines and, if you can share it, the file."
        )


@dataclass(frozen=True)
class Provisional:
    """A finding that the other files of a run may take back.

    ``unless_tended`` is an attribute of a class: the file, the class and the name. One in a plain ``function`` of
    another file, named in the same way, is ``at_call`` instead where that function is also called without it.
    ``unless_needed``: a suppression comment without effect, unless a file that imports this one has a finding there.
    """

    finding: Finding
    unless_tended: tuple[str, str, str] | None = None
    at_call: Finding | None = None
    function: tuple[str, str, str] | None = None
    unless_needed: bool = False


@dataclass(frozen=True)
class Job:
    """What to look for, as plain data that can be sent to another process.

    ``roots`` are folders, beside that of the settings, from which the project's files import each other; ``exclude``
    are patterns for files that nothing is said of, relative to ``folder``, as all paths are: the working directory.
    """

    settings: Settings
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    extend_select: tuple[str, ...] = ()
    severity: Severity = Severity.INFO
    roots: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    folder: str = field(default_factory=os.getcwd)

    def absolute(self, path: str) -> str:
        return os.path.normpath(os.path.join(self.folder, path))


def digest(data: bytes) -> str:
    """A name for a content, by the hash that most processors compute in hardware."""
    return sha256(data).hexdigest()[:32]


class Read(NamedTuple):
    """A file that a result depends on, by its absolute path, with the digest of its content.

    Where not all of it counts, ``asked`` is what was asked there, and what was learnt has that ``fingerprint``
    (:meth:`placement_lint.project.unit.Unit.record`).
    """

    path: str
    digest: str
    asked: bytes | None = None
    fingerprint: int | None = None


@dataclass(frozen=True)
class Checked:
    """One file's share of a run.

    Findings may be about other files that it imports, and other files may take some back: ``reconcile`` makes one of
    what all of them say, for which ``provisional`` findings say on what they depend, ``needed`` are the comments of
    other files that suppressed something here, ``tended`` the attributes of classes that this file takes care of, and
    ``uses`` the plain functions of other files that it calls, each with the number of its own calls that lead there.
    ``reads`` are the files that the result depends on, its own first, and ``absent`` the absolute paths that were
    looked for and did not exist.
    """

    path: str
    findings: tuple[Finding, ...] = ()
    crashes: tuple[Crash, ...] = ()
    skipped: bool = False
    provisional: tuple[Provisional, ...] = ()
    needed: tuple[tuple[str, Range], ...] = ()
    tended: tuple[tuple[str, str, str], ...] = ()
    uses: tuple[tuple[tuple[str, str, str], int], ...] = ()
    reads: tuple[Read, ...] = ()
    absent: tuple[str, ...] = ()

    @property
    def contents(self) -> dict[str, str | None]:
        """By the paths of all that it depends on: the digest of the content, None for what did not exist."""
        return {**dict.fromkeys(self.absent), **{read.path: read.digest for read in self.reads}}


@dataclass(frozen=True)
class Summary:
    """``files`` were checked; ``skipped`` ones were not, because they are unreadable or ask to be skipped."""

    files: int
    skipped: int
    seconds: float
    cached: int = 0


@dataclass(frozen=True)
class Run:
    """``paths`` are all that was looked at, clean files included.

    ``known`` are findings that a baseline lists, ``fixed`` those that fixes have removed; None without either.
    ``texts`` are the sources that did not come from a file. ``results`` are those of the single files, by project, and
    ``shard`` says which part of a run they are, of how many. ``style`` is how to show it to people.
    """

    findings: tuple[Finding, ...]
    crashes: tuple[Crash, ...]
    summary: Summary
    paths: tuple[str, ...] = ()
    known: tuple[Finding, ...] | None = None
    fixed: tuple[Finding, ...] | None = None
    texts: Mapping[str, bytes] = field(default_factory=dict)
    results: Mapping[str, tuple[Checked, ...]] = field(default_factory=dict)
    shard: tuple[int, int] = (1, 1)
    style: Style = field(default_factory=Style)


def only(run: Run, paths: Collection[str]) -> Run:
    """What a run found in some of its files."""
    wanted = frozenset(paths)
    return replace(
        run,
        findings=tuple(finding for finding in run.findings if finding.path in wanted),
        paths=tuple(path for path in run.paths if path in wanted),
    )


def merged(runs: Iterable[Run]) -> Run:
    """One run of several over different files."""
    parts = tuple(runs)
    findings = (finding for run in parts for finding in run.findings)
    return Run(
        findings=tuple(sorted(findings, key=lambda finding: finding.sort_key)),
        crashes=tuple(crash for run in parts for crash in run.crashes),
        summary=Summary(
            files=sum(run.summary.files for run in parts),
            skipped=sum(run.summary.skipped for run in parts),
            seconds=sum(run.summary.seconds for run in parts),
            cached=sum(run.summary.cached for run in parts),
        ),
        paths=tuple(path for run in parts for path in run.paths),
        results={project: results for run in parts for project, results in run.results.items()},
    )
