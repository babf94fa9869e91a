"""The oracles, which must hold for every program: no crash, bounded time and memory, and the same findings each way."""

from __future__ import annotations

import ast
import json
import os
import re
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random

import libcst as cst

from placement_lint.checking.checker import Checker, Reading
from placement_lint.config.settings import Settings
from placement_lint.finding import Finding
from placement_lint.report.results import Checked, Job
from placement_lint.run.engine import summarise
from placement_lint.server.analysis import Analyse, Analysis, Close
from placement_lint.server.worker import Worker
from placement_lint.source.parsing import parse

from .programs import Program
from .trees import tree_of

# Limit of CPU seconds for up to this many lines, proportional for longer programs; limit of additional megabytes.
SECONDS = 2.0
LINES = 500
MEGABYTES = 400
# A measurement above the limit is repeated before it counts: other processes may have slowed it down.
TRIES = 3
# Names from which the analysis draws conclusions.
SPEAKING = re.compile(r"rank|dev|gpu|cuda|node|world|model|net|opt|sched|load|batch|loss|_|.{9,}", re.IGNORECASE)


@dataclass(frozen=True)
class Failure:
    """A program's failure of an oracle; ``detail`` is equal for equal faults."""

    oracle: str
    detail: str

    def __str__(self) -> str:
        return f"{self.oracle}: {self.detail}"


def _most_megabytes() -> int:
    """The peak memory of the process, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def _forget_most() -> None:
    """Reset the peak memory of the process: the parser of libcst takes 400 MB for 200 nested brackets."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


class WithAllLayout(Reading):
    """A Reading that parses with libcst only."""

    def read(self, text: str) -> cst.Module:
        return parse(text)


class Examiner:
    """Checks programs sequentially, like the command line and the server; ``folder`` holds the batches."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._job = Job(Settings(root=folder), folder=str(folder))
        self._checker = Checker(self._job)
        self._thorough = Checker(self._job, WithAllLayout())
        self._worker = Worker()
        self._path = str(folder / "program.py")

    def failures(self, program: Program, random: Random) -> Iterator[Failure]:
        """All failures of a program; after a crash or a timeout, the other oracles are skipped."""
        _forget_most()
        before = _most_megabytes()
        first, seconds = self._measured(program.text)
        serious = [*_crashes("crash", first), *self._limits(program.text, seconds, before)]
        yield from serious
        if serious:
            return
        yield from _differences("again", first, self._check(program.text))
        yield from self._by_libcst(program.text, first)
        yield from self._edited(program, first)
        yield from self._with_a_comment(program.text, first, random)
        yield from self._renamed(program.text, first, random)

    def _check(self, text: str) -> Checked:
        return self._checker.check_bytes(text.encode(errors="surrogatepass"), self._path)

    def _measured(self, text: str) -> tuple[Checked, float]:
        begun = time.process_time()
        checked = self._check(text)
        return checked, time.process_time() - begun

    def _limits(self, text: str, seconds: float, before: int) -> Iterator[Failure]:
        if _most_megabytes() - before > MEGABYTES:
            yield Failure("memory", f"more than {MEGABYTES} MB")
        limit = SECONDS * max(1.0, text.count("\n") / LINES)
        if seconds > limit and all(self._measured(text)[1] > limit for _ in range(TRIES - 1)):
            yield Failure("time", f"more than {SECONDS:g} s for {LINES} lines")

    def _by_libcst(self, text: str, first: Checked) -> Iterator[Failure]:
        yield from _differences(
            "libcst", first, self._thorough.check_bytes(text.encode(errors="surrogatepass"), self._path)
        )

    def _edited(self, program: Program, first: Checked) -> Iterator[Failure]:
        """Differences to the server's worker, which analyses the previous text first."""
        self._worker.answer(Close(self._path))
        for text in (program.before, program.text):
            answer = self._worker.answer(Analyse(self._path, text.encode(errors="surrogatepass"), self._job))
            assert isinstance(answer, Analysis)
        yield from _differences("server", first, answer.checked)

    def _with_a_comment(self, text: str, first: Checked, random: Random) -> Iterator[Failure]:
        tree = tree_of(text)
        if tree is None or not tree.body or "\f" in text:
            return
        line = random.choice(tree.body).lineno
        lines = text.splitlines(keepends=True)
        if not lines[line - 1 : line] or lines[line - 1][:1].isspace():
            return
        commented = "".join((*lines[: line - 1], "# a comment\n", *lines[line - 1 :]))
        places = _places(first, lambda where: where + (where >= line))
        yield from _other_places("comment", places, self._check(commented))

    def _renamed(self, text: str, first: Checked, random: Random) -> Iterator[Failure]:
        names = _variables(text)
        if names:
            name = random.choice(names)
            renamed = re.sub(rf"\b{name}\b", f"{name}qq", text)
            yield from _other_places("rename", _places(first, lambda where: where), self._check(renamed))


def _crashes(oracle: str, checked: Checked) -> Iterator[Failure]:
    for crash in checked.crashes:
        place = "/".join(Path(crash.where).parts[-2:])
        yield Failure(oracle, f"{crash.error.partition(':')[0]} at {place}")


def _said(checked: Checked) -> Sequence[Finding]:
    return summarise([checked], "").findings


def _keys(checked: Checked) -> set[tuple[object, ...]]:
    return {(one.code, one.range, one.message) for one in _said(checked)}


def _differences(oracle: str, first: Checked, other: Checked) -> Iterator[Failure]:
    yield from _crashes(f"crash ({oracle})", other)
    if not other.crashes and _keys(first) != _keys(other):
        yield Failure(oracle, _named(str(key[0]) for key in _keys(first) ^ _keys(other)))


def _places(checked: Checked, moved: Callable[[int], int]) -> set[tuple[str, int]]:
    return {(one.code, moved(one.range.line)) for one in _said(checked)}


def _other_places(oracle: str, expected: set[tuple[str, int]], other: Checked) -> Iterator[Failure]:
    yield from _crashes(f"crash ({oracle})", other)
    found = _places(other, lambda where: where)
    if not other.crashes and found != expected:
        yield Failure(oracle, _named(code for code, _ in found ^ expected))


def _named(codes: Iterator[str]) -> str:
    return ", ".join(sorted(set(codes)))


def _variables(text: str) -> Sequence[str]:
    """Names that are only variables of the program, so that renaming them changes no finding."""
    tree = tree_of(text)
    if tree is None:
        return ()
    counts: dict[str, int] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            counts[node.id] = counts.get(node.id, 0) + 1
    stored = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return [
        name
        for name in sorted(stored)
        if not SPEAKING.search(name) and len(re.findall(rf"\b{name}\b", text)) == counts[name]
    ]


# --- the command line ------------------------------------------------------------------------------------------

_RUNS: Mapping[str, Sequence[str]] = {
    "one process": ("--no-cache", "--jobs", "1"),
    "two processes": ("--jobs", "2"),
    "cached": ("--jobs", "1"),
}


def batch_failures(texts: Mapping[int, str], folder: Path) -> Iterator[tuple[int, Failure]]:
    """Failures of many programs in runs of the command line: in one process, in two, and from the cache."""
    sources = folder / "batch"
    sources.mkdir()
    for number, text in texts.items():
        (sources / f"p{number}.py").write_bytes(text.encode(errors="surrogatepass"))
    runs = {name: _run(options, sources, folder) for name, options in _RUNS.items()}
    expected = runs["one process"]
    for name, found in runs.items():
        for number in {number for number, *_ in found ^ expected}:
            yield number, Failure(f"command line, {name}", "other findings than in one process")


def _run(options: Sequence[str], sources: Path, folder: Path) -> set[tuple[int, str]]:
    command = [sys.executable, "-m", "placement_lint", "check", "--format", "json", "--exit-zero", *options]
    environment = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache")}
    done = subprocess.run(command, cwd=sources, env=environment, capture_output=True, text=True, check=False)
    try:
        report = json.loads(done.stdout)
    except ValueError:
        raise AssertionError(f"the command line fails: {done.stderr[-1000:]}") from None
    return {(int(one["path"][1:-3]), json.dumps(one, sort_keys=True)) for one in report["findings"]}
