"""Caches of facts about nodes: a question about a piece of code is answered once in the analysis of a file."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TypeVar

import libcst as cst

Node = TypeVar("Node", bound=cst.CSTNode)
Fact = TypeVar("Fact")

# Size of each cache: about the number of nodes that the analysis asks about in a few thousand lines.
_REMEMBERED = 8_192
_CLEARS: list[Callable[[], None]] = []


def remembered(fact: Callable[[Node], Fact]) -> Callable[[Node], Fact]:
    """The function with a cache, which :func:`forget` clears."""
    cached = lru_cache(_REMEMBERED)(fact)
    _CLEARS.append(cached.cache_clear)
    return cached


def forget() -> None:
    """Clear the caches, which keep trees alive."""
    for clear in _CLEARS:
        clear()
