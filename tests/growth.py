"""Measures how time grows with the size of the input, independently of the machine."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

_TRIES = 3


def grows_faster_than_its_size(work: Callable[[str], object], text_of: Callable[[int], str], size: int) -> bool:
    """Whether the time of ``work`` grows clearly faster than the size of the text.

    ``text_of(n)`` has ``n`` parts. ``size`` parts are compared with eight times as many: linear work takes up to 8
    times as long, quadratic work up to 64 times. Other processes may distort a measurement, so it counts only if it is
    the same each time. The texts differ each time because readings are cached.
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
