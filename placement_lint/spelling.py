"""Nearest known names, for messages about unknown ones."""

from __future__ import annotations

from collections.abc import Iterable

CLOSE = 0.75  # ratio of difflib: one of four letters may differ


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """ " (did you mean `x`?)" for the known name closest to ``word``, or nothing if none is close."""
    from difflib import get_close_matches

    spelled = {name.lower(): name for name in known}
    near = get_close_matches(word.lower(), list(spelled), n=1, cutoff=CLOSE)
    return f" (did you mean `{spelled[near[0]]}`?)" if near else ""
