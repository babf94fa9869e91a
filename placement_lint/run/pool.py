"""Checks files in several processes; imported only when it is used."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import parent_process
from threading import Thread

from placement_lint.checking.checker import Checker, OneRun
from placement_lint.checking.stack import with_deep_stack
from placement_lint.project.files import size_of
from placement_lint.report.results import Checked, Crash, Job

# A batch has up to this many bytes; with few files, there are this many batches so that no process is idle.
BATCH_BYTES, FEWEST_BATCHES = 2**17, 8
# The garbage collector runs once this many objects were added: a check leaves almost no garbage.
_NEWS = 200_000
Batch = tuple[str, ...]

_checkers: list[Checker] = []  # the checker of this worker process


def check_in_processes(paths: Sequence[str], job: Job, workers: int) -> Iterator[Checked]:
    """Results as they complete. A file that kills its process costs only its own result."""
    pool = _pool(workers, job)
    try:
        batches = {pool.submit(_check, batch): batch for batch in batched(paths)}
        for future in as_completed(batches):
            yield from _results(batches[future], future, job)
    except BaseException:
        # Interrupted: do not wait for unfinished work.
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown()


def batched(paths: Sequence[str]) -> Iterator[Batch]:
    """Large files first, so that no process is left with one at the end; small ones together."""
    sizes = sorted(((size_of(path), path) for path in paths), reverse=True)
    most = min(BATCH_BYTES, sum(size for size, _ in sizes) // FEWEST_BATCHES)
    batch: list[str] = []
    room = most
    for size, path in sizes:
        if batch and size > room:
            yield tuple(batch)
            batch, room = [], most
        batch.append(path)
        room -= size
    if batch:
        yield tuple(batch)


def _pool(workers: int, job: Job) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(workers, initializer=_start_worker, initargs=(job,))


def _start_worker(job: Job) -> None:
    Thread(target=_end_with_parent, daemon=True).start()
    _checkers.append(Checker(job, OneRun()))
    gc.freeze()  # the existing objects are permanent: the collector should not traverse them
    gc.set_threshold(_NEWS)


def _end_with_parent() -> None:
    """Exit with the parent: a run that is killed does not notify its workers, which would wait for work forever."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _check(batch: Batch) -> list[Checked]:
    """Check a batch in one deep stack, which takes longer to make than a small file takes to check."""
    return with_deep_stack(lambda: [_checkers[-1].check_file(path) for path in batch])


def _results(batch: Batch, future: Future[list[Checked]], job: Job) -> list[Checked]:
    try:
        return future.result()
    except BrokenProcessPool:  # one of these files, or another: a process per file finds out
        return [_check_alone(path, job) for path in batch]


def _check_alone(path: str, job: Job) -> Checked:
    with _pool(1, job) as pool:
        try:
            (checked,) = pool.submit(_check, (path,)).result()
            return checked
        except BrokenProcessPool as error:
            return Checked(path, crashes=(Crash(path, None, f"the process died: {error}", "native code"),))
