"""Python's own tree of a text that may not be valid Python."""

from __future__ import annotations

import ast
import warnings


def tree_of(text: str) -> ast.Module | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
