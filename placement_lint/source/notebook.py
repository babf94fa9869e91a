"""A Jupyter notebook as one program: its code cells in sequence, with magics and shell lines translated to Python.

Every line of a cell stays one line of the program, so that a position in the program is a position in a cell.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from placement_lint.finding import Finding, Range
from placement_lint.source.scan import LEXEME, NEWLINE, lines_with_ends
from placement_lint.source.text import Unreadable

NOTEBOOK = ".ipynb"
# The call that IPython itself makes for a magic; its result is unknown.
OPAQUE = "get_ipython()"
# Cell magics that run their cell in the notebook's own namespace; cells of other magics are not Python code to check.
RUN_AS_PYTHON = frozenset({"capture", "debug", "prun", "time"})
CELL_MAGIC = re.compile(
    r"(?P<above>(?:[ \t]*(?:\r\n|\r|\n))*)%%(?!\w*\?)(?P<name>\w*)[^\r\n]*(?P<newline>\r\n|\r|\n|\Z)"
)
# `%time statement` runs the statement here. `pass;` has the same width, so that the rest keeps its columns.
TIMED = re.compile(r"(?P<indent>[ \t]*)%time(?=[ \t]+\S)")
# The rest of the line, and of lines that a backslash joins to it.
_REST = r"[^\r\n\\]* (?: \\(?:\r\n|\r|\n|.) [^\r\n\\]* )*"
# A statement that IPython does not read as Python: a magic or a shell line, a request for help, a call without brackets
# (`/f a`, `,f a`, `;f a`), or a magic without its sign, such as `pip install torch`.
ESCAPED = re.compile(
    rf"""
    (?P<kept> [ \t]* )
    (?: [!%?,;/] {_REST}
      | (?: pip | conda | mamba | uv | cd ) [ \t]+ (?! (?:in|is|if|and|or|not|for) \b ) [\w.~/-][^\r\n]* )
    """,
    re.VERBOSE,
)
# After the sign of an assignment: `files = !ls` and `x = %magic` bind their names.
ASSIGNED = re.compile(rf"(?P<kept> (?: [ \t] | \\(?:\r\n|\r|\n) )* ) (?: ! | %[ \t]*[^\W\d] ) {_REST}", re.VERBOSE)
# `torch.nn?` and `x = torch.nn??`
HELP = re.compile(r"%{0,2}(?!\d)[\w*]+(?:\.(?!\d)[\w*]+|\[-?[0-9]+\])*\?\??[ \t]*\Z")
LEXEMES = re.compile(rf"{LEXEME.pattern} | (?P<assign> (?<![=!<>+\-*/%&|^@:]) = (?!=) )", re.VERBOSE | re.DOTALL)
# Text copied from a terminal: its first prompt, and the prompts of its lines.
PROMPTS = (
    (re.compile(r"[ \t]*>>>(?=[ \t\r\n]|\Z)"), re.compile(r"[ \t]*(?:>>>|\.\.\.)(?:[ \t]|(?=[\r\n]|\Z))")),
    (re.compile(r"In \[\d+\]: "), re.compile(r"In \[\d+\]: |[ \t]*\.{3,}: ?")),
)


class OtherLanguage(Exception):
    """The notebook's cells are not Python."""


@dataclass(frozen=True)
class Cell:
    """A code cell, its number among all cells from 1, and the line of the program at which it begins."""

    number: int
    source: str
    line: int

    @cached_property
    def margins(self) -> tuple[int, ...]:
        """The number of characters that IPython removes from the beginning of each line: prompts and indentation."""
        return tuple(_margins(self.source))


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
        """A finding about the program, which is the notebook at ``path``, as a finding about its cells."""
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
        number, there = self.in_cell(place)
        return {"cell": number, "range": there}

    def in_cell(self, place: Range) -> tuple[int, Range]:
        """The number of the cell that contains a position of the program, and the position there."""
        cell = self.cell_at(place.line)
        first, last = place.line - cell.line, place.end_line - cell.line
        margin, end_margin = (cell.margins[line] if line < len(cell.margins) else 0 for line in (first, last))
        return cell.number, Range(first + 1, place.column + margin, last + 1, place.end_column + end_margin)

    def in_program(self, number: int, line: int, column: int) -> tuple[int, int]:
        """The line and column of the program for those of a cell."""
        cell = next((cell for cell in self.cells if cell.number == number), None)
        if cell is None:
            return line, column
        margin = cell.margins[line - 1] if line <= len(cell.margins) else 0
        return cell.line - 1 + line, max(1, column - margin)


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
    """The text of a cell as Python with the same number of lines, without the prefixes that IPython removes."""
    lines = zip(lines_with_ends(source), _margins(source), strict=True)
    return _translated("".join(line[margin:] for line, margin in lines))


def _margins(source: str) -> Iterator[int]:
    """For each line the length of its prompt, if it has one, and of the first line's indentation."""
    lines = lines_with_ends(source)
    code = dict(_lines_outside_strings(lines, source)) if any(sign in source for sign in (">>>", "In [")) else {}
    prompts = [every for begin, every in PROMPTS if any(map(begin.match, code.values()))]
    removed = [
        next((found.end() for every in prompts if number in code and (found := every.match(line))), 0)
        for number, line in enumerate(lines)
    ]
    shown = [line[length:] for line, length in zip(lines, removed, strict=True)]
    text = next((line for line in shown if line.strip()), "")
    indent = text[: len(text) - len(text.lstrip(" \t"))]
    for line, length in zip(shown, removed, strict=True):
        yield length + (len(indent) if line.startswith(indent) else 0)


def _lines_outside_strings(lines: Sequence[str], source: str) -> Iterator[tuple[int, str]]:
    """The lines that do not begin inside a string, by their index."""
    inside: set[int] = set()
    number = 0
    for lexeme in LEXEME.finditer(source):
        breaks = len(NEWLINE.findall(lexeme.group()))
        if lexeme.lastgroup == "string":
            inside.update(range(number + 1, number + 1 + breaks))
        number += breaks
    return ((number, line) for number, line in enumerate(lines) if number not in inside)


def _translated(source: str) -> str:
    """Translate each statement; a cell magic runs the cell below it, or the cell is not Python of the notebook."""
    magic = CELL_MAGIC.match(source)
    if magic and magic["name"] not in RUN_AS_PYTHON:
        return "\n".join("" for _ in NEWLINE.split(source))
    if magic:
        return f"{magic['above']}{OPAQUE}{magic['newline']}{_translated(source[magic.end() :])}"
    parts, position = [], 0
    while position < len(source):
        position, text = _statement(source, position)
        parts.append(text)
    return "".join(parts)


def _statement(source: str, start: int) -> tuple[int, str]:
    """The end of the statement that begins at ``start``, and its Python translation."""
    if timed := TIMED.match(source, start):
        end, rest = _statement(source, timed.end())
        return end, f"{timed['indent']}pass;{rest}"
    if escaped := ESCAPED.match(source, start):
        return escaped.end(), f"{escaped['kept']}{_opaque(escaped.group())}"
    return _python(source, start)


def _python(source: str, start: int) -> tuple[int, str]:
    """The text up to the end of the line on which no bracket or string is open."""
    depth, assigns, code_end = 0, 0, start
    for lexeme in LEXEMES.finditer(source, start):
        kind = lexeme.lastgroup
        depth = max(0, depth + (kind == "open") - (kind == "close"))
        if kind == "assign" and not depth:
            assigns += 1
            if assigns == 1 and (assigned := ASSIGNED.match(source, lexeme.end())):
                kept = source[start : lexeme.end()] + assigned["kept"]
                return assigned.end(), kept + _opaque(source[assigned.end("kept") : assigned.end()])
        if kind == "comment":
            code_end = lexeme.end()
        if kind == "newline" and not depth:
            return lexeme.end(), _unless_help(source[start : lexeme.start()], code_end - start) + lexeme.group()
    return len(source), _unless_help(source[start:], code_end - start)


def _unless_help(statement: str, comment_end: int) -> str:
    """A statement, unless it asks for help; ``comment_end`` is where its last comment ends."""
    found = HELP.search(statement)
    if found is None or found.start() < comment_end:
        return statement
    indent = statement[: len(statement) - len(statement.lstrip(" \t"))]
    return f"{indent}{_opaque(statement)}"


def _opaque(statement: str) -> str:
    """A call with an unknown result, with as many lines as a statement."""
    return f"{OPAQUE[:-1]}{''.join(NEWLINE.findall(statement))}{OPAQUE[-1:]}"


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
    """The language of the cells by the notebook's metadata; Python if there is none."""
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
