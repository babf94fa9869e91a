"""Room for deep recursion: long operator chains nest one syntax node per term."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

_thread = threading.local()

STACK_BYTES = 256 * 2**20  # reserved, and used only as far as the recursion goes
FRAMES = 20_000
# Python allocates frames in chunks of 2,000 slots, and frees a chunk when its first frame returns, even a thousand
# times. A frame that declares a larger size gets a chunk of up to twice that size; later frames use the rest of it.
SLOTS = 2**17 + 1


def with_deep_stack(work: Callable[[], T]) -> T:
    """The result of ``work``, run in a thread with a deep stack: the current one if it has one, else a new one."""
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
