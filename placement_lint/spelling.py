"""Nearest known names, for messages about unknown ones."""

from __future__ import annotations

from collections.abc import Iterable


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """ " (did you mean `x`?)" for the known name nearest to ``word``, or nothing if none is near."""
    from difflib import get_close_matches

    spelled = {name.lower(): name for name in known}
    near = get_close_matches(word.lower(), list(spelled), n=1, cutoff=0.5)
    return f" (did you mean `{spelled[near[0]]}`?)" if near else ""
