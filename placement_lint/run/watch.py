"""Repeats work whenever one of some files changes; it polls the file system, which works everywhere."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path

PAUSE = 0.5  # seconds

State = dict[Path, tuple[int, int]]


def forever() -> bool:
    return True


def repeat_on_change(
    work: Callable[[], None],
    files: Callable[[], Iterable[Path]],
    pause: float = PAUSE,
    wanted: Callable[[], bool] = forever,
) -> None:
    """Work, wait for a change, and repeat; a change during the work counts."""
    while wanted():
        before = _state(files())
        work()
        while wanted() and _state(files()) == before:
            time.sleep(pause)


def _state(files: Iterable[Path]) -> State:
    state: State = {}
    for file in files:
        try:
            facts = os.stat(file)
        except OSError:
            continue
        state[file] = (facts.st_mtime_ns, facts.st_size)
    return state
