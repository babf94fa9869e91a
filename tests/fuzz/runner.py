"""Runs programs in separate processes: one that hangs or dies affects no other program."""

from __future__ import annotations

import multiprocessing
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from random import Random
from typing import Any

from .minimise import minimised
from .oracles import Examiner, Failure, batch_failures
from .programs import Program, program

# Programs that one process tries before a new one replaces it, because a process does not return used memory.
BATCH = 100
# CPU seconds for one program, after which its process is terminated.
PATIENCE = 60.0
ROOM = 6 * 2**30

_CONTEXT = multiprocessing.get_context("spawn")


@dataclass(frozen=True)
class Found:
    number: int
    program: Program
    failure: Failure


@dataclass(frozen=True)
class Batch:
    seed: int
    first: int
    count: int

    @property
    def numbers(self) -> range:
        return range(self.first, self.first + self.count)


class _Child:
    """A process that tries a batch, and the number of its current program."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.number = batch.first
        self.is_dead = False
        self.receiver, sender = _CONTEXT.Pipe(duplex=False)
        self.process = _CONTEXT.Process(target=_try_batch, args=(batch, sender), daemon=True)
        self.process.start()
        sender.close()

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.receiver.close()


def _try_batch(batch: Batch, sender: Connection) -> None:
    _limit_memory()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        examiner, texts = Examiner(folder), {}
        for number in batch.numbers:
            sender.send(number)
            signal.setitimer(signal.ITIMER_PROF, PATIENCE)
            made = program(batch.seed, number)
            failures = list(examiner.failures(made, Random(number)))
            for failure in failures:
                sender.send(Found(number, made, failure))
            if not failures:
                texts[number] = made.text
        signal.setitimer(signal.ITIMER_PROF, 0)
        for number, failure in batch_failures(texts, folder):
            sender.send(Found(number, program(batch.seed, number), failure))
    sender.send(None)


def _limit_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (ROOM, ROOM))
    sys.setrecursionlimit(10_000)


def tried(seed: int, first: int, programs: int | None, seconds: float | None, jobs: int) -> Iterator[int | Found]:
    """Try this many programs, or until the time is over; yields counts of finished programs, and the failures."""
    end = time.monotonic() + seconds if seconds is not None else float("inf")
    last = first + programs if programs is not None else sys.maxsize
    children: list[_Child] = []
    waiting = first
    while children or (waiting < last and time.monotonic() < end):
        while len(children) < jobs and waiting < last and time.monotonic() < end:
            count = min(BATCH, last - waiting)
            children.append(_Child(Batch(seed, waiting, count)))
            waiting += count
        for receiver in wait([child.receiver for child in children], timeout=1.0):
            child = next(child for child in children if child.receiver is receiver)
            said = _said(child)
            if isinstance(said, Found):
                yield said
            if said is None or child.is_dead:
                children.remove(child)
                child.end()
                tried_there = child.number + 1 - child.batch.first
                yield tried_there
                if tried_there < child.batch.count:
                    children.append(_Child(Batch(seed, child.number + 1, child.batch.count - tried_there)))


def _said(child: _Child) -> Any:
    """The next message of a process; None if it is done."""
    try:
        said = child.receiver.recv()
    except EOFError:
        child.is_dead = True
        child.process.join()
        failure = Failure("hang", f"more than {PATIENCE:g} s")
        if child.process.exitcode != -signal.SIGPROF:
            failure = Failure("death", f"the process ended with {child.process.exitcode}")
        return Found(child.number, program(child.batch.seed, child.number), failure)
    if isinstance(said, int):
        child.number = said
    return said


def reduced(found: Found, seconds: float) -> str:
    """The smallest program with the same failure that is found in this time."""
    receiver, sender = _CONTEXT.Pipe(duplex=False)
    process = _CONTEXT.Process(target=_reduce, args=(found, seconds, sender), daemon=True)
    process.start()
    sender.close()
    smallest = found.program.text
    end = time.monotonic() + 2 * seconds
    with suppress(EOFError):
        while receiver.poll(max(0.0, end - time.monotonic())):
            smallest = receiver.recv()
    process.kill()
    process.join()
    return smallest


def _reduce(found: Found, seconds: float, sender: Connection) -> None:
    """Send each smaller program that fails: this process may die before it finds the last one."""
    _limit_memory()
    with tempfile.TemporaryDirectory() as scratch:
        examiner = Examiner(Path(scratch))

        def fails(text: str) -> bool:
            made = Program(text, found.program.before if found.failure.oracle == "server" else "")
            if found.failure not in examiner.failures(made, Random(found.number)):
                return False
            sender.send(text)
            return True

        minimised(found.program.text, fails, seconds)
