"""Room for deep recursion: long operator chains nest one syntax node a term."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

_thread = threading.local()

STACK_BYTES = 256 * 2**20  # reserved, and used only as far as the recursion goes
FRAMES = 20_000
# Python takes room for frames in pieces of 2,000 slots, and gives one back when the first frame in it returns, be it
# a thousand times. For a frame that says it needs more, it takes up to twice as much, and others have what is left.
SLOTS = 2**17 + 1


def with_deep_stack(work: Callable[[], T]) -> T:
    """The result of ``work``, run in a thread whose stack survives what the default one does not: this one, or anew."""
    if getattr(_thread, "is_deep", False):
        return work()
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        _thread.is_deep = True
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)

    run.__code__ = run.__code__.replace(co_stacksize=SLOTS)
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
