"""Many files to one run: in this process or in several, the result is the same."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from placement_lint.checker import Checked, Checker, Job
from placement_lint.files import Selection
from placement_lint.placing import displayed
from placement_lint.reconcile import reconciled
from placement_lint.results import Run, Summary
from placement_lint.source.text import Unreadable

FEW_FILES = 24  # below this, starting processes costs more than it brings


def check_files(
    selection: Selection, job: Job, jobs: int | None = None, advance: Callable[[], None] = lambda: None
) -> Run:
    """Check every selected file, in several processes where that pays; ``advance`` is called after each."""
    begun = time.perf_counter()
    checked = []
    for result in _results(selection, Checker(job), jobs):
        checked.append(result)
        advance()
    return summarise(checked, begun)


def check_text(data: bytes, path: str, job: Job) -> Run:
    """Check one text that does not come from a file."""
    begun = time.perf_counter()
    run = summarise([Checker(job).check_bytes(data, path)], begun)
    return replace(run, texts={path: data})


def summarise(checked: Iterable[Checked], begun: float) -> Run:
    results = tuple(checked)
    skipped = sum(result.skipped for result in results)
    return Run(
        findings=tuple(reconciled(results)),
        crashes=tuple(crash for result in results for crash in result.crashes),
        summary=Summary(len(results) - skipped, skipped, time.perf_counter() - begun),
        paths=tuple(result.path for result in results),
    )


def _results(selection: Selection, checker: Checker, jobs: int | None) -> Iterator[Checked]:
    for folder, reason in selection.unlistable:
        yield checker.unreadable(displayed(folder), Unreadable(f"the folder cannot be listed: {reason}"))
    paths = [displayed(file) for file in selection.files]
    workers = min(jobs or _default_jobs(len(paths)), len(paths))
    if workers > 1:
        from placement_lint.pool import check_in_processes

        yield from check_in_processes(paths, checker.job, workers)
    else:
        yield from map(checker.check_file, paths)


def _default_jobs(files: int) -> int:
    return 1 if files < FEW_FILES else os.cpu_count() or 1
