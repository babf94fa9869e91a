"""A progress bar for runs that take long enough to wonder."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock, Timer
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress

PATIENCE = 0.5  # seconds


@contextmanager
def progress(total: int, what: str = "Checking", wanted: bool = True) -> Iterator[Callable[[], None]]:
    """A function to call after each file or experiment.

    The bar appears on standard error if that is a terminal, once patience has run out.
    """
    if not wanted or not sys.stderr.isatty():
        yield lambda: None
        return
    bar = _Bar(total, what)
    try:
        yield bar.advance
    finally:
        bar.close()


class _Bar:
    """A timer shows it, so that it appears even while the first step takes long."""

    def __init__(self, total: int, what: str) -> None:
        self._total = total
        self._what = what
        self._done = 0
        self._closed = False
        self._shown: Progress | None = None
        self._lock = Lock()
        self._timer = Timer(PATIENCE, self._show)
        self._timer.daemon = True
        self._timer.start()

    def advance(self) -> None:
        self._done += 1
        with self._lock:
            if self._shown:
                self._shown.update(self._shown.task_ids[0], completed=self._done)

    def close(self) -> None:
        self._timer.cancel()
        with self._lock:
            self._closed = True
            if self._shown:
                self._shown.stop()

    def _show(self) -> None:
        from rich.console import Console
        from rich.progress import Progress

        with self._lock:
            if not self._closed:
                self._shown = Progress(console=Console(stderr=True), transient=True)
                self._shown.add_task(self._what, total=self._total, completed=self._done)
                self._shown.start()
