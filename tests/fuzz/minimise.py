"""Minimises a failing program: lines, statements and tokens are removed as long as it fails in the same way."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

from .mutation import TOKEN, pieces_of

Fails = Callable[[str], bool]


def minimised(text: str, fails: Fails, seconds: float) -> str:
    """The smallest failing program found in this time."""
    end = time.monotonic() + seconds
    before = ""
    while before != text and time.monotonic() < end:
        before = text
        text = _shrunk(text.splitlines(keepends=True), fails, end)
        text = _first(_without_statements(text), fails, end) or text
        text = _first(_shorter_expressions(text), fails, end) or text
        if len(text) < 2_000:
            text = _shrunk(TOKEN.findall(text), fails, end)
    return text


def _shrunk(parts: Sequence[str], fails: Fails, end: float) -> str:
    """The parts without as many as possible: remove halves first, then quarters, down to single parts."""
    size = max(1, len(parts) // 2)
    while True:
        place = 0
        while place < len(parts) and time.monotonic() < end:
            fewer = [*parts[:place], *parts[place + size :]]
            if fails("".join(fewer)):
                parts = fewer
            else:
                place += size
        if size == 1 or time.monotonic() >= end:
            return "".join(parts)
        size //= 2


def _first(candidates: Iterator[str], fails: Fails, end: float) -> str:
    """The first candidate that fails; empty if there is none."""
    return next((text for text in candidates if time.monotonic() < end and fails(text)), "")


def _without_statements(text: str) -> Iterator[str]:
    """The program with one statement replaced by ``pass``."""
    for begin, end in pieces_of(text).statements:
        statement = text[begin:end]
        indent = statement[: len(statement) - len(statement.lstrip())]
        if statement.strip() != "pass":
            yield f"{text[:begin]}{indent}pass{text[end:]}"


def _shorter_expressions(text: str) -> Iterator[str]:
    """The program with an expression replaced by ``0`` or by a part of it."""
    spans = pieces_of(text).expressions
    for begin, end in spans:
        if end - begin > 1:
            yield f"{text[:begin]}0{text[end:]}"
        for first, last in spans:
            if begin <= first and last <= end and last - first < end - begin:
                yield text[:begin] + text[first:last] + text[end:]
