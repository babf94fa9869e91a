"""Measures how time grows with the size of the input, independently of the machine."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

_TRIES = 3


def grows_faster_than_its_size(work: Callable[[str], object], text_of: Callable[[int], str], size: int) -> bool:
    """Whether ``work`` takes more time for a longer text than the text is longer, and clearly more.

    ``text_of(n)`` has ``n`` parts. ``size`` parts are compared with eight times as many: what is linear takes up to 8
    times as long, what is quadratic up to 64 times. A measurement may be off where a machine is busy with other work,
    so it counts only if it is the same each time; texts differ each time, since readings are remembered.
    """
    limit = math.sqrt(8 * 64)
    return all(
        _seconds(work, text_of(8 * size + attempt)) > limit * _seconds(work, text_of(size + attempt))
        for attempt in range(_TRIES)
    )


def _seconds(work: Callable[[str], object], text: str) -> float:
    begun = time.process_time()
    work(text)
    return time.process_time() - begun
