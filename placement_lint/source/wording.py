"""How a program words something."""

from __future__ import annotations

from functools import lru_cache

import libcst as cst

# How many texts are remembered: about those that the analysis asks for of a few thousand lines.
_REMEMBERED = 8_192


def source_text(source: str | cst.CSTNode) -> str:
    """A node's source without the whitespace and comments around it; generated only where somebody reads it."""
    return source if isinstance(source, str) else _code(source)


@lru_cache(_REMEMBERED)
def _code(node: cst.CSTNode) -> str:
    return _MODULE.code_for_node(node).strip()


_MODULE = cst.Module([])


def forget() -> None:
    """Let go of the trees whose texts are remembered."""
    _code.cache_clear()
