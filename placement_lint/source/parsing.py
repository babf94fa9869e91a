"""From text to a syntax tree, with every way this can fail turned into a clear message."""

from __future__ import annotations

import ast
import re
import warnings
from typing import TYPE_CHECKING

from placement_lint.source.scan import Scan, split_lines
from placement_lint.source.text import Unreadable

if TYPE_CHECKING:
    import libcst as cst

# CPython's own tokenizer refuses more; libcst's native parser would exhaust the stack and kill the process.
MOST_NESTED_BRACKETS = 200
PLACE = re.compile(r"error at (\d+):(\d+)")


def parse(text: str) -> cst.Module:
    """The tree of a text, or :class:`Unreadable` with the place and the reason."""
    import libcst as cst

    refuse_deep_nesting(text)
    try:
        return cst.parse_module(text)
    except cst.ParserSyntaxError as error:
        # Python's own message names the mistake, where libcst lists the tokens it expected.
        raise syntax_error(text) or _beyond_the_parser(error) from None
    except RecursionError:
        raise Unreadable("an expression is nested too deeply to be analysed") from None


def check_syntax(text: str) -> None:
    """Raise :class:`Unreadable` unless the text is Python, at an eighth of what :func:`parse` costs."""
    refuse_deep_nesting(text)
    if syntax_error(text):
        parse(text)  # syntax newer than the running Python is no error


def syntax_error(text: str) -> Unreadable | None:
    """What the running Python itself says against the text."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text.removeprefix("\ufeff"))
    except SyntaxError as error:
        return Unreadable(f"{error.msg}", error.lineno or 1, max(error.offset or 1, 1))
    except (RecursionError, MemoryError):
        return Unreadable("an expression is nested too deeply to be analysed")
    except ValueError as error:
        return Unreadable(str(error))
    return None


def _beyond_the_parser(error: cst.ParserSyntaxError) -> Unreadable:
    """For the rare text that Python accepts and libcst does not; only its message knows the place."""
    place = PLACE.search(error.message)
    line, column = (int(place[1]), int(place[2]) + 1) if place else (error.raw_line, error.raw_column + 1)
    return Unreadable("Python accepts this line, but libcst cannot parse it", line, column)


def refuse_deep_nesting(text: str) -> None:
    depth, offset = Scan(text).depth
    if depth > MOST_NESTED_BRACKETS:
        lines = split_lines(text[:offset])
        raise Unreadable(
            f"brackets are nested {depth:,} deep; Python itself refuses more than {MOST_NESTED_BRACKETS}",
            len(lines),
            len(lines[-1]) + 1,
        )
