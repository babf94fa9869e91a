"""Checking files in several processes; imported only when it is used."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

from placement_lint.checker import Checked, Checker, Job
from placement_lint.results import Crash

_checkers: list[Checker] = []  # the one of this worker process


def check_in_processes(paths: Sequence[str], job: Job, workers: int) -> Iterator[Checked]:
    """Results in the order of the paths. A file that kills its process costs only its own result."""
    pool = _pool(workers, job)
    try:
        futures = [pool.submit(_check, path) for path in paths]
        yield from (_result(path, future, job) for path, future in zip(paths, futures, strict=True))
    except BaseException:
        # Interrupted: what is left undone is not waited for.
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown()


def _pool(workers: int, job: Job) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(workers, initializer=_start_worker, initargs=(job,))


def _start_worker(job: Job) -> None:
    _checkers.append(Checker(job))
    gc.freeze()  # what is there now, stays: the collector need not look at it again and again


def _check(path: str) -> Checked:
    return _checkers[-1].check_file(path)


def _result(path: str, future: Future[Checked], job: Job) -> Checked:
    try:
        return future.result()
    except BrokenProcessPool:  # by this file or by another one: a process of its own will tell
        return _check_alone(path, job)


def _check_alone(path: str, job: Job) -> Checked:
    with _pool(1, job) as pool:
        try:
            return pool.submit(_check, path).result()
        except BrokenProcessPool as error:
            return Checked(path, crashes=(Crash(path, None, f"the process died: {error}", "native code"),))
