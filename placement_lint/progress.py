"""A progress bar for runs that take long enough to wonder."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

PATIENCE = 1.0  # seconds


@contextmanager
def progress(total: int, what: str = "Checking") -> Iterator[Callable[[], None]]:
    """A function to call after each file or experiment; the bar appears on a terminal once patience runs out."""
    if not sys.stderr.isatty():
        yield lambda: None
        return
    with ExitStack() as stack:
        yield _Bar(total, what, stack).advance


class _Bar:
    def __init__(self, total: int, what: str, stack: ExitStack) -> None:
        self.total = total
        self.what = what
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
        task = bar.add_task(self.what, total=self.total)
        return lambda done: bar.update(task, completed=done)
