"""The results of a run, which are the input of a report."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

from placement_lint.finding import Finding, Range, Severity
from placement_lint.project.saved_states import SavedState, StateFile
from placement_lint.report.style import Style

if TYPE_CHECKING:
    from placement_lint.config.settings import Settings


@dataclass(frozen=True)
class Crash:
    """An exception inside the tool itself, confined to one file and, if ``rule`` is known, to one rule."""

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
    """A finding that the other files of a run may withdraw.

    ``unless_tended`` is an attribute of a class: the file, the class and the name. A finding in a plain ``function`` of
    another file, named in the same way, moves ``at_call`` if that function is also called without the finding.
    ``unless_needed``: a suppression comment without effect, unless a file that imports this one has a finding there.
    ``if_saved``: it is not among the findings of its file, and becomes one if a program of the run saves such a state.
    ``unless_on_cpu``: what the programs of the run save in files of such a name is all on the CPU, or one of them loads
    there what it saves without a tensor on a GPU.
    """

    finding: Finding
    unless_tended: tuple[str, str, str] | None = None
    at_call: Finding | None = None
    function: tuple[str, str, str] | None = None
    unless_needed: bool = False
    if_saved: StateFile | None = None
    unless_on_cpu: str | None = None

    @property
    def is_conditional(self) -> bool:
        unless = self.unless_tended or self.unless_needed or self.unless_on_cpu is not None
        return bool(unless or self.at_call or self.if_saved)


@dataclass(frozen=True)
class Job:
    """The settings of a check, as plain data that can be sent to another process.

    ``roots`` are folders, beside that of the settings, from which the project's files import each other; ``exclude``
    are patterns for files that are not reported on, relative to ``folder``, as all paths are: the working directory.
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
    """The digest of a content, by the hash that most processors compute in hardware."""
    return sha256(data).hexdigest()[:32]


class Read(NamedTuple):
    """A file that a result depends on, by its absolute path, with the digest of its content.

    If only a part of it matters, ``asked`` are the queries of it, and the answers have that ``fingerprint``
    (:meth:`placement_lint.project.unit.Unit.record`).
    """

    path: str
    digest: str
    asked: bytes | None = None
    fingerprint: int | None = None


@dataclass(frozen=True)
class Checked:
    """The result of the check of one file in a run.

    Findings may be in other files that it imports, and other files may withdraw some: ``reconcile`` combines all
    results. It uses the conditions of ``provisional`` findings, the ``needed`` comments of other files that suppressed
    something here, the ``tended`` attributes of classes that this file handles, and the plain functions of other files
    that it ``uses``, each with the number of its own calls that lead there, the state dicts ``saved`` in files, and the
    ``harmless`` loads of what it saves without a tensor on a GPU.
    ``refused`` is the number of calls of functions that lack of budget left unanalysed. ``reads`` are the files that
    the result depends on, its own first, and ``absent`` the absolute paths that were searched and did not exist.
    """

    path: str
    findings: tuple[Finding, ...] = ()
    crashes: tuple[Crash, ...] = ()
    skipped: bool = False
    provisional: tuple[Provisional, ...] = ()
    needed: tuple[tuple[str, Range], ...] = ()
    tended: tuple[tuple[str, str, str], ...] = ()
    uses: tuple[tuple[tuple[str, str, str], int], ...] = ()
    refused: int = 0
    saved: tuple[SavedState, ...] = ()
    harmless: tuple[tuple[str, Range], ...] = ()
    reads: tuple[Read, ...] = ()
    absent: tuple[str, ...] = ()

    @property
    def contents(self) -> dict[str, str | None]:
        """The digest of the content of each file that it depends on, by its path; None for files that did not exist."""
        return {**dict.fromkeys(self.absent), **{read.path: read.digest for read in self.reads}}


@dataclass(frozen=True)
class Summary:
    """``files`` were checked; ``skipped`` ones were not, as they are unreadable or have a ``skip-file`` comment."""

    files: int
    skipped: int
    seconds: float
    cached: int = 0


@dataclass(frozen=True)
class Run:
    """The result of a run; ``paths`` are all checked files, including clean ones.

    ``known`` are findings that a baseline lists, ``fixed`` those that fixes have removed; None without either.
    ``texts`` are the sources that did not come from a file. ``results`` are those of the single files, by project, and
    ``shard`` is the number of this part of a run and the number of all parts. ``style`` is for reports to people.
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
    """The part of a run about some of its files."""
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
