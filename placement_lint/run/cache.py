"""The result cache in the user's cache folder: a run checks only files that changed since an earlier run.

A result is valid as long as every file that it was made from is unchanged: the checked one, those that its imports
lead to, and those that were searched and did not exist. A file counts as unchanged if its size and modification time
are, else if its content is, or the answers to the queries of it.
One file holds the results of one kind of run (folder, settings, rules) by one installation. It is read and replaced as
a whole: concurrent runs at worst overwrite each other's new results, and a run that dies leaves the file unchanged.
"""

from __future__ import annotations

import os
import pickle
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from placement_lint import __version__, writing
from placement_lint.report.results import digest

if TYPE_CHECKING:
    from placement_lint.project.unit import Seen
    from placement_lint.report.results import Checked, Job, Read

Thing = TypeVar("Thing")

APP = "placement-lint"
SUFFIX = ".results"
# Results of one kind of run; the least recently used go first.
MOST_RESULTS = 100_000
# Bytes of all files together; the least recently used go first.
MOST_BYTES = 512 * 2**20
# A file that was modified this shortly before it was read may change again without a new modification time.
CLOCK_STEP = 2_000_000_000  # nanoseconds; FAT's
CHECKSUM = 16  # bytes


def folder() -> Path:
    import platformdirs

    return Path(platformdirs.user_cache_dir(APP, appauthor=False)) / "results"


def clear() -> int:
    """Remove all cache files; returns their number."""
    kept = list(folder().glob(f"*{SUFFIX}"))
    for file in kept:
        file.unlink(missing_ok=True)
    return len(kept)


@dataclass(frozen=True)
class Stamp:
    """The size and modification time of a file when its content was read."""

    modified: int
    size: int
    digest: str


@dataclass
class _Content:
    """The content of a cache file: ``installation`` made the ``results``, with rules from ``rule_sources``."""

    installation: str
    rule_sources: tuple[str, ...] = ()
    results: dict[str, Checked] = field(default_factory=dict)
    stamps: dict[str, Stamp] = field(default_factory=dict)


class Cache:
    """The results of one kind of run."""

    def __init__(self, job: Job, complain: Callable[[str], object]) -> None:
        self._complain = complain
        self._begun = time.time_ns()
        kind = pickle.dumps((job, sys.version_info[:2], __version__))
        self._file = folder() / f"{digest(kind)}{SUFFIX}"
        self._content = _valid(_read(self._file))
        self._seen: dict[str, str | None] = {}
        # files whose content has changed
        self._changed: dict[str, Seen | None] = {}
        # results that remain valid nevertheless
        self._renewed: dict[str, Checked] = {}

    @property
    def has_run(self) -> bool:
        """Whether such a run was made before, with rules that exist."""
        return self._content is not None

    def get(self, path: str) -> Checked | None:
        """The result of an earlier run for a file, if this run would find the same."""
        known = self._content.results.get(path) if self._content is not None else None
        if known is None or any(self._digest(path) is not None for path in known.absent):
            return None
        changed = [read for read in known.reads if self._digest(read.path) != read.digest]
        if not all(map(self._answers_the_same, changed)):
            return None
        if changed:
            known = self._renewed[path] = self._brought_up_to_date(known)
        return known

    def keep(self, results: Iterable[Checked]) -> None:
        """Store the results of this run; files with a crash are checked again."""
        fresh = _shared(result for result in (*self._renewed.values(), *results) if not result.crashes)
        if not fresh:
            with suppress(OSError):
                os.utime(self._file)
            return
        content = _valid(_read(self._file)) or _Content(*_installation())
        others = {path: result for path, result in content.results.items() if path not in fresh}
        content.results = dict([*others.items(), *fresh.items()][-MOST_RESULTS:])
        content.stamps = self._stamps(content, fresh.values())
        try:
            _write(self._file, content)
            _prune(self._file.parent)
        except OSError as error:
            self._complain(f"nothing can be kept in {self._file.parent}: {error.strerror}")

    def _digest(self, path: str) -> str | None:
        """The digest of a file's current content; None if it cannot be read."""
        if path not in self._seen:
            self._seen[path] = self._look(path)
        return self._seen[path]

    def _answers_the_same(self, read: Read) -> bool:
        """Whether a file with another content gives the same answers to the recorded queries.

        An error here occurs again when the file is checked, and is reported there.
        """
        if read.asked is not None:
            with suppress(Exception):
                now = self._now(read.path)
                return now is not None and now.fingerprint(read.asked) == read.fingerprint
        return False

    def _now(self, path: str) -> Seen | None:
        """The current state of a file; None if it changes during the read."""
        if path not in self._changed:
            from placement_lint.project.unit import seen

            now = seen(path, Path(path).read_bytes())
            self._changed[path] = now if now.digest == self._digest(path) else None
        return self._changed[path]

    def _brought_up_to_date(self, known: Checked) -> Checked:
        from dataclasses import replace

        reads = tuple(read._replace(digest=self._digest(read.path) or read.digest) for read in known.reads)
        return replace(known, reads=reads)

    def _look(self, path: str) -> str | None:
        try:
            status = os.stat(path)
            stamp = self._content.stamps.get(path) if self._content is not None else None
            if stamp is not None and (stamp.modified, stamp.size) == (status.st_mtime_ns, status.st_size):
                return stamp.digest
            return digest(Path(path).read_bytes())
        except OSError:
            return None

    def _stamps(self, content: _Content, fresh: Iterable[Checked]) -> dict[str, Stamp]:
        """The stamps of all files that results were made from; new ones for the files that this run has read."""
        looked_at = self._seen | {read.path: read.digest for result in fresh for read in result.reads}
        new = {path: stamp for path, made in looked_at.items() if made and (stamp := self._stamp(path, made))}
        needed = {read.path for result in content.results.values() for read in result.reads}
        return {path: stamp for path, stamp in (content.stamps | new).items() if path in needed}

    def _stamp(self, path: str, made: str) -> Stamp | None:
        with suppress(OSError):
            status = os.stat(path)
            if status.st_mtime_ns < self._begun - CLOCK_STEP:
                return Stamp(status.st_mtime_ns, status.st_size, made)
        return None


def _shared(results: Iterable[Checked]) -> dict[str, Checked]:
    """The same results with equal paths and reads as one object, so that each is stored once."""
    from dataclasses import replace

    known: dict[object, Any] = {}

    def shared(thing: Thing) -> Thing:
        one: Thing = known.setdefault(thing, thing)
        return one

    def shared_read(read: Read) -> Read:
        return known.get(read) or shared(read._replace(path=shared(read.path)))

    return {
        result.path: replace(
            result, reads=tuple(map(shared_read, result.reads)), absent=tuple(map(shared, result.absent))
        )
        for result in results
    }


# --- the installation --------------------------------------------------------------------------------------


def _installation() -> tuple[str, tuple[str, ...]]:
    """The fingerprint of the installation that makes the results of this run, and the sources of its rules."""
    from placement_lint.registry import rule_sources

    sources = rule_sources()
    return _fingerprint(sources), sources


def _fingerprint(rule_sources: Iterable[str]) -> str:
    """A digest that changes with the tool, with the installed distributions, and with the sources of any rule."""
    files = [file for root in (str(Path(__file__).parents[1]), *rule_sources) for file in _sources(root)]
    return digest(repr((sys.version, _installed(), sorted(files))).encode())


def _installed() -> list[str]:
    """The distributions on the path, by the names and versions of their metadata."""
    found: list[str] = []
    for entry in sys.path:
        with suppress(OSError):
            found.extend(name for name in os.listdir(entry or ".") if name.endswith((".dist-info", ".egg-info")))
    return sorted(found)


def _sources(root: str) -> Iterator[tuple[str, int, int]]:
    """The Python files at or below a path, each with its modification time and size."""
    files = [root] if os.path.isfile(root) else _files_below(root)
    for file in files:
        with suppress(OSError):
            status = os.stat(file)
            yield file, status.st_mtime_ns, status.st_size


def _files_below(folder: str) -> Iterator[str]:
    for place, _, names in os.walk(folder):
        yield from (os.path.join(place, name) for name in names if name.endswith(".py"))


# --- files ---------------------------------------------------------------------------------------------------


def _read(file: Path) -> _Content | None:
    """The content of a cache file; None if it is missing or damaged."""
    try:
        data = file.read_bytes()
    except OSError:
        return None
    checksum, packed = data[:CHECKSUM], data[CHECKSUM:]
    if checksum != _checksum(packed):
        return None
    try:
        content = pickle.loads(packed)
    except Exception:  # written by another version
        return None
    return content if isinstance(content, _Content) else None


def _checksum(packed: bytes) -> bytes:
    return sha256(packed).digest()[:CHECKSUM]


def _valid(content: _Content | None) -> _Content | None:
    current = content is not None and content.installation == _fingerprint(content.rule_sources)
    return content if current else None


def _write(file: Path, content: _Content) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    packed = pickle.dumps(content, protocol=5)
    writing.write(file, _checksum(packed) + packed, durable=False)


def _ages(kept: Path) -> Iterator[tuple[float, int, Path]]:
    """The last use and the size of each file; another run may remove one meanwhile."""
    for file in kept.iterdir():
        with suppress(FileNotFoundError):
            status = file.stat()
            yield status.st_mtime, status.st_size, file


def _prune(kept: Path) -> None:
    """Remove the least recently used files past the bound, and unfinished files of runs that died."""
    files = sorted(_ages(kept))
    excess = sum(size for _, size, _ in files) - MOST_BYTES
    for modified, size, file in files:
        if excess > 0 or (not file.name.endswith(SUFFIX) and modified < time.time() - 3600):
            file.unlink(missing_ok=True)
            excess -= size
