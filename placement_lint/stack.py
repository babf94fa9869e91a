"""Room for deep recursion: long operator chains nest one syntax node a term."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

STACK_BYTES = 256 * 2**20  # reserved, and used only as far as the recursion goes
FRAMES = 20_000


def with_deep_stack(work: Callable[[], T]) -> T:
    """The result of ``work``, run in a thread whose stack survives what the default one does not."""
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)

    limit, size = sys.getrecursionlimit(), threading.stack_size(STACK_BYTES)
    sys.setrecursionlimit(max(limit, FRAMES))
    try:
        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        thread.join()
    finally:
        threading.stack_size(size)
        sys.setrecursionlimit(limit)
    if errors:
        raise errors[0]
    return results[0]
