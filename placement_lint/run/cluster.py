"""Checks files on a Dask cluster; imported only when it is used.

File contents are sent, not paths: a worker needs placement-lint, and none of the files. It gets the folders of the run
as they are; a file whose imports lead outside them is checked here instead, so that the result is the same.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from placement_lint import __version__
from placement_lint.checking.checker import Checker, Reading
from placement_lint.errors import UsageError
from placement_lint.project.files import SOURCES
from placement_lint.report.results import Checked, Job
from placement_lint.run.pool import Batch, batched

if TYPE_CHECKING:
    from distributed import Client

SCHEME = "dask://"
PATIENCE = 10  # seconds for a scheduler to answer


def check_on_cluster(paths: Sequence[str], checker: Checker, address: str) -> Iterator[Checked]:
    """Results as they complete. ``checker`` checks the files that workers cannot."""
    job = checker.job
    with _client(address) as client:
        folders = client.scatter(Folders.around(map(job.absolute, paths)), broadcast=True)
        executor = client.get_executor(pure=False)
        batches = {executor.submit(_check, job, batch, folders): batch for batch in batched(paths)}
        for future in as_completed(batches):
            for path, result in zip(batches[future], future.result(), strict=True):
                yield result or checker.check_file(path)


def _client(address: str) -> Client:
    if not address.startswith(SCHEME):
        raise UsageError(f"--executor is `processes` or {SCHEME}HOST:PORT, not `{address}`")
    try:
        from distributed import Client
    except ImportError:
        raise UsageError("--executor needs Dask: pip install 'placement-lint[dask]'") from None
    try:
        connect: Any = Client
        client: Client = connect(address.replace(SCHEME, "tcp://"), timeout=PATIENCE, set_as_default=False)
        client.wait_for_workers(1, timeout=PATIENCE)
        versions = client.run(_version)
    except (OSError, ValueError) as error:
        raise UsageError(f"no Dask scheduler with a worker answers at {address}: {error}") from None
    except ImportError:
        raise UsageError(f"the workers at {address} need placement-lint {__version__}") from None
    if strangers := {worker: version for worker, version in versions.items() if version != __version__}:
        worker, version = next(iter(strangers.items()))
        raise UsageError(f"the worker {worker} has placement-lint {version}; this is {__version__}")
    return client


def _version() -> str:
    return __version__


@dataclass(frozen=True)
class Folders:
    """Snapshot of folders: the names in each, and the contents of the scripts and notebooks."""

    names: Mapping[str, frozenset[str]]
    contents: Mapping[str, bytes]

    @staticmethod
    def around(files: Iterable[str]) -> Folders:
        """The folders of the files, and those on the paths to them from their common folder."""
        wanted = [os.path.dirname(file) for file in files]
        top = os.path.commonpath(wanted)
        folders = {folder for path in set(wanted) for folder in _between(top, path)}
        names = {folder: frozenset(os.listdir(folder)) for folder in folders}
        sources = (os.path.join(folder, name) for folder, inside in names.items() for name in inside)
        return Folders(names, {file: data for file in sources if (data := _content(file)) is not None})

    def read(self, path: str) -> bytes | None:
        """A file's content, None if there is none; raises LookupError if that is unknown here."""
        if path in self.contents:
            return self.contents[path]
        folder, name = os.path.split(path)
        while folder not in self.names:
            if folder == os.path.dirname(folder):
                raise LookupError(path)
            folder, name = os.path.split(folder)
        if name in self.names[folder]:
            raise LookupError(path)
        return None


def _between(top: str, folder: str) -> Iterator[str]:
    yield top
    while folder != top:
        yield folder
        folder = os.path.dirname(folder)


def _content(file: str) -> bytes | None:
    if not file.endswith(SOURCES):
        return None
    try:
        return Path(file).read_bytes()
    except OSError:
        return None


class _ShippedReading(Reading):
    """Reads the files that were sent; ``lost`` once another file was requested."""

    def __init__(self, folders: Folders) -> None:
        self.folders = folders
        self.lost = False

    def source(self, path: str) -> bytes | None:
        try:
            return self.folders.read(path)
        except LookupError:
            self.lost = True
            return None


# The threads of a worker share a recursion limit and a garbage collector.
_one_at_a_time = threading.Lock()


def _check(job: Job, batch: Batch, folders: Folders) -> list[Checked | None]:
    """In a worker: the results of some files, None for a file that needs files which were not sent."""
    reading = _ShippedReading(folders)
    with _one_at_a_time:
        checker = Checker(job, reading)
        return [_checked(checker, reading, path) for path in batch]


def _checked(checker: Checker, reading: _ShippedReading, path: str) -> Checked | None:
    reading.lost = False
    data = reading.source(checker.job.absolute(path))
    if data is None:
        return None
    checked = checker.check_content(data, path)
    return None if reading.lost else checked
