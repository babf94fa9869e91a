"""A Jupyter notebook as one program: its code cells below one another, magics and shell lines made Python.

Every line of a cell stays one line of the program, so that a place in the program is a place in a cell.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from placement_lint.finding import Finding, Range
from placement_lint.source.scan import LEXEME, NEWLINE
from placement_lint.source.text import Unreadable

NOTEBOOK = ".ipynb"
# What IPython itself calls for a magic; nothing is known of its result.
OPAQUE = "get_ipython()"
# Cell magics that run their cell in the notebook's own namespace; under any other nothing of it is Python of ours.
RUN_AS_PYTHON = frozenset({"capture", "debug", "prun", "time"})
CELL_MAGIC = re.compile(r"\s*%%(?P<name>\w+)")
# `%time statement` runs the statement here. `pass;` takes as many columns, so that the rest keeps its own.
TIMED = re.compile(r"(?P<indent>[ \t]*)%time(?=[ \t]+\S)")
# A magic or a shell line; `pip install torch` and its like need no sign before them, and `torch?` has it behind.
ESCAPED = re.compile(
    r"""
    (?P<kept> [ \t]*
        (?: [\w.,\ \t\[\]()'"*]+ =[ \t]* (?=[!%]) )? )   # `files = !ls` binds its names all the same
    (?: [!%?] [^\r\n\\]* (?: \\(?:\r\n|\r|\n|.) [^\r\n\\]* )*
      | (?: pip | conda | mamba | uv | cd ) [ \t]+ (?! (?:in|is|if|and|or|not|for) \b ) [\w.~/-][^\r\n]*
      | [\w.*%]+ [ \t]* \?\??[ \t]* (?=[\r\n]|\Z) )
    """,
    re.VERBOSE,
)


class OtherLanguage(Exception):
    """The notebook's cells are not Python."""


@dataclass(frozen=True)
class Cell:
    """A code cell, its number among all cells from 1, and the line of the program at which it begins."""

    number: int
    source: str
    line: int


@dataclass(frozen=True)
class Notebook:
    cells: tuple[Cell, ...]

    @cached_property
    def program(self) -> str:
        return "".join(f"{as_python(cell.source)}\n" for cell in self.cells)

    def cell_at(self, line: int) -> Cell:
        """The cell that a line of the program comes from."""
        return self.cells[max(bisect_right(self.cells, line, key=lambda cell: cell.line) - 1, 0)]

    def placed(self, finding: Finding, path: str) -> Finding:
        """A finding about the program, which is the notebook's at ``path``, as one about its cells."""
        if not self.cells:
            return finding
        trace = tuple(replace(step, **self._place(step.range)) if step.path == path else step for step in finding.trace)
        finding = replace(finding, trace=trace)
        if finding.path != path:
            return finding
        if fix := finding.fix:
            fix = replace(fix, edits=tuple(replace(edit, **self._place(edit.range)) for edit in fix.edits))
        return replace(finding, fix=fix, **self._place(finding.range))

    def _place(self, place: Range) -> dict[str, Any]:
        cell = self.cell_at(place.line)
        above = cell.line - 1
        lines = Range(place.line - above, place.column, place.end_line - above, place.end_column)
        return {"cell": cell.number, "range": lines}


def read_notebook(data: bytes) -> Notebook:
    """The code cells of a notebook; :class:`OtherLanguage` if they are not Python."""
    content = _content(data)
    if _language(content) != "python":
        raise OtherLanguage
    cells = content.get("cells")
    if not isinstance(cells, list):
        raise Unreadable("this is no notebook of format 4: upgrade it with `jupyter nbconvert --to notebook`")
    try:
        return Notebook(tuple(_code_cells(cells)))
    except (AttributeError, TypeError):
        raise Unreadable("a cell of this notebook is not made as format 4 wants it") from None


def as_python(source: str) -> str:
    """The text of a cell as Python of the same number of lines."""
    magic = CELL_MAGIC.match(source)
    if magic and magic["name"] not in RUN_AS_PYTHON:
        return "\n".join("" for _ in NEWLINE.split(source))
    parts, position = [], 0
    while position < len(source):
        end, text = _statement(source, position)
        parts.append(text)
        position = end
    return "".join(parts)


def _statement(source: str, start: int) -> tuple[int, str]:
    """Where the statement that begins at ``start`` ends, and the Python for it."""
    if timed := TIMED.match(source, start):
        end, rest = _python(source, timed.end())
        return end, f"{timed['indent']}pass;{rest}"
    if escaped := ESCAPED.match(source, start):
        breaks = "".join(f"\\{newline}" for newline in NEWLINE.findall(escaped.group()))
        return escaped.end(), f"{escaped['kept']}{OPAQUE} {breaks}".rstrip(" ")
    return _python(source, start)


def _python(source: str, start: int) -> tuple[int, str]:
    """The text up to the end of the line on which no bracket or string is open."""
    depth = 0
    for lexeme in LEXEME.finditer(source, start):
        kind = lexeme.lastgroup
        depth = max(0, depth + (kind == "open") - (kind == "close"))
        if kind == "newline" and not depth:
            return lexeme.end(), source[start : lexeme.end()]
    return len(source), source[start:]


def _content(data: bytes) -> dict[str, Any]:
    try:
        content = json.loads(data)
    except json.JSONDecodeError as error:
        raise Unreadable(f"this is no notebook: {error.msg}", error.lineno, error.colno) from None
    except (UnicodeDecodeError, RecursionError) as error:
        raise Unreadable(f"this is no notebook: {error}") from None
    if not isinstance(content, dict):
        raise Unreadable("this is no notebook: JSON, but no object")
    return content


def _language(content: dict[str, Any]) -> str:
    """What the notebook says of its cells; one that says nothing is Python."""
    metadata = content.get("metadata")
    for section, key in (("kernelspec", "language"), ("language_info", "name")):
        part = metadata.get(section) if isinstance(metadata, dict) else None
        if isinstance(part, dict) and part.get(key):
            return str(part[key]).lower()
    return "python"


def _code_cells(cells: Iterable[dict[str, Any]]) -> Iterator[Cell]:
    line = 1
    for number, cell in enumerate(cells, start=1):
        if cell.get("cell_type") == "code":
            source = "".join(cell.get("source", ""))
            yield Cell(number, source, line)
            line += len(NEWLINE.findall(source)) + 1
