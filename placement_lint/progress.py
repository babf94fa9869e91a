"""A progress bar for runs that take long enough to wonder."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

PATIENCE = 1.0  # seconds


@contextmanager
def progress(total: int) -> Iterator[Callable[[], None]]:
    """A function to call after each file; the bar appears on a terminal once patience runs out."""
    if not sys.stderr.isatty():
        yield lambda: None
        return
    with ExitStack() as stack:
        yield _Bar(total, stack).advance


class _Bar:
    def __init__(self, total: int, stack: ExitStack) -> None:
        self.total = total
        self.done = 0
        self.stack = stack
        self.due = time.monotonic() + PATIENCE
        self.update: Callable[[int], None] | None = None

    def advance(self) -> None:
        self.done += 1
        if self.update is None and time.monotonic() > self.due:
            self.update = self._show()
        if self.update:
            self.update(self.done)

    def _show(self) -> Callable[[int], None]:
        from rich.console import Console
        from rich.progress import Progress

        bar = self.stack.enter_context(Progress(console=Console(stderr=True), transient=True))
        task = bar.add_task("Checking", total=self.total)
        return lambda done: bar.update(task, completed=done)
