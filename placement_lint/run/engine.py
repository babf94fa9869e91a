"""A run over many files: in this process, in several, or on other machines, with the same result."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from placement_lint.project.files import Selection, displayed, size_of
from placement_lint.report.results import Checked, Job, Run, Summary
from placement_lint.run.reconcile import reconciled

if TYPE_CHECKING:
    from placement_lint.project.importers import Importers
    from placement_lint.run.cache import Cache

FEW_BYTES = 2**16  # below this size, starting processes costs more than it saves
PROCESSES = "processes"


def check_files(
    selection: Selection,
    job: Job,
    jobs: int | None = None,
    advance: Callable[[], None] = lambda: None,
    cache: Cache | None = None,
    executor: str = PROCESSES,
) -> Run:
    """Check every selected file that the cache does not know, and call ``advance`` after each.

    ``executor`` is the place: processes of this machine, ``jobs`` or an automatic number, or ``dask://HOST:PORT``.
    """
    begun = time.perf_counter()
    paths = [displayed(file) for file in selection.files]
    known = {path: result for path in paths if cache and (result := cache.get(path))}
    fresh: dict[str, Checked] = {}
    for _ in known:
        advance()
    for result in _checked([path for path in paths if path not in known], job, jobs, executor):
        fresh[result.path] = result
        advance()
    if cache:
        cache.keep(fresh.values())
    results = known | fresh
    checked = [*_unlistable(selection, job), *(results[path] for path in paths)]
    elsewhere = ImportedElsewhere(job, paths)
    return summarise(checked, displayed(job.settings.root), elsewhere, time.perf_counter() - begun, len(known))


def check_text(data: bytes, path: str, job: Job) -> Run:
    """Check one text that does not come from a file."""
    from placement_lint.checking.checker import Checker

    begun = time.perf_counter()
    checked = [Checker(job).check_bytes(data, path)]
    elsewhere = ImportedElsewhere(job, [path])
    run = summarise(checked, displayed(job.settings.root), elsewhere, time.perf_counter() - begun)
    return replace(run, texts={path: data})


class ImportedElsewhere(Container[str]):
    """The files that are imported by files of a job's project outside the run; computed on the first query."""

    def __init__(self, job: Job, paths: Sequence[str]) -> None:
        self._job = job
        self._paths = paths

    def __contains__(self, path: object) -> bool:
        return self._importers.are_outside(str(path))

    @cached_property
    def _importers(self) -> Importers:
        from placement_lint.project.importers import Importers

        return Importers(self._job, self._paths)


def summarise(
    checked: Iterable[Checked],
    project: str,
    imported_elsewhere: Container[str] = (),
    seconds: float = 0.0,
    cached: int = 0,
) -> Run:
    """The run of a project's files, whose root is displayed as ``project``."""
    results = tuple(checked)
    skipped = sum(result.skipped for result in results)
    return Run(
        findings=tuple(reconciled(results, imported_elsewhere)),
        crashes=tuple(crash for result in results for crash in result.crashes),
        summary=Summary(len(results) - skipped, skipped, seconds, cached),
        paths=tuple(result.path for result in results),
        results={project: results},
    )


def _unlistable(selection: Selection, job: Job) -> Iterator[Checked]:
    if not selection.unlistable:
        return
    from placement_lint.checking.checker import Checker
    from placement_lint.source.text import Unreadable

    checker = Checker(job)
    for folder, reason in selection.unlistable:
        yield checker.unreadable(displayed(folder), Unreadable(f"the folder cannot be listed: {reason}"))


def _checked(paths: Sequence[str], job: Job, jobs: int | None, executor: str) -> Iterator[Checked]:
    """The results, in any order."""
    if not paths:
        return
    from placement_lint.checking.checker import Checker, OneRun

    checker = Checker(job, OneRun())  # imports modules that processes share, and rejects unknown rules
    workers = min(jobs or _default_jobs(paths), len(paths))
    if executor != PROCESSES:
        from placement_lint.run.cluster import check_on_cluster

        yield from check_on_cluster(paths, checker, executor)
    elif workers > 1:
        from placement_lint.run.pool import check_in_processes

        yield from check_in_processes(paths, job, workers)
    else:
        yield from map(checker.check_file, paths)


def _default_jobs(paths: Iterable[str]) -> int:
    return 1 if sum(map(size_of, paths)) < FEW_BYTES else os.cpu_count() or 1
