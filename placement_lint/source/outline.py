"""The top level of a text, without parsing it: the positions of its definitions, and the rest as source text.

The inside of definitions takes most of the time of Python's parser, and is not needed to know the names that a file
binds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from placement_lint.source.scan import STRING_OR_COMMENT, brackets_left_open, split_lines, words_of

# Text in the first column, after a newline, begins a statement, or continues one.
_START = re.compile(r"\n[^\s)\]}]")
_GOES_ON = re.compile(r"(?:else|elif|except|finally)\b")
_DEFINITION = re.compile(r"^(?P<kind>(?:async[ \t]+)?def|class)[ \t]+(?P<name>\w+)", re.MULTILINE)
_CLASS = re.compile(r"^class\b", re.MULTILINE)
# The header ends with a colon; there may be others in brackets.
_BASES = re.compile(
    r"^class[ \t]+\w+[ \t]*(?:\[[^\]]*\][ \t]*)?\((?P<bases>(?:[^:#\[{]|\[[^\]]*\]|\{[^}]*\}|\#[^\n]*)*)\)[ \t]*:",
    re.MULTILINE,
)
_IMPORT = re.compile(r"(?:from|import)\b")
# Size of the cache of outlines, in files: the check of a file and the import of its names may share an outline.
_REMEMBERED = 16
_EMPTY = {"def": "def {}(): ...", "class": "class {}: ..."}


@dataclass(frozen=True)
class Definition:
    """A function or class of the top level: its first line and its last, its text and its code.

    The lines and the code are with its decorators, the text is not.
    """

    name: str
    first: int
    last: int
    text: str
    code: str


@dataclass(frozen=True)
class Outline:
    """A text with its definitions emptied and the rest in place; and the definitions, by the lines of their names.

    ``statements`` are neither definitions nor imports. With the ``decorators`` of functions, but not those of classes,
    they are all the code that runs when the file is executed. ``code`` is the code of the whole text.
    """

    text: str
    code: str
    definitions: Mapping[int, Definition]
    decorators: Sequence[str]
    statements: Sequence[str]


@lru_cache(_REMEMBERED)
def outlined(text: str) -> Outline:
    """The outline of a text; it is arbitrary if Python cannot parse the text."""
    lines = split_lines(text)
    if "\f" in text:  # at the beginning of a line it is not indentation
        lines = [line.replace("\f", "") for line in lines]
    definitions: dict[int, Definition] = {}
    decorators: list[str] = []
    statements: list[str] = []
    whole = code_of("\n".join(lines))
    for first, code in _statements(whole):
        last = first + code.rstrip().count("\n")
        found = _DEFINITION.search(code) if code[0] == "@" else _DEFINITION.match(code)
        if found is not None:
            line = first + code.count("\n", 0, found.start())
            decorators += lines[first - 1 : line - 1] if found["kind"] != "class" else []
            own = "\n".join(lines[line - 1 : last])
            definitions[line] = Definition(found["name"], first, last, own, code)
            empty = _EMPTY[found["kind"].split()[-1]].format(found["name"])
            lines[line - 1 : last] = [empty, *[""] * (last - line)]
        elif not _IMPORT.match(code):
            statements.append("\n".join(lines[first - 1 : last]))
    return Outline("\n".join(lines), whole, definitions, decorators, statements)


def defines_class(statement: str) -> bool:
    return _in_class(_CLASS, statement) is not None


def bases_of(definition: str) -> frozenset[str]:
    """All names in the bases of a class definition; empty if it is not a class."""
    found = _in_class(_BASES, definition)
    return frozenset(words_of(found["bases"])) if found is not None else frozenset()


def _in_class(pattern: re.Pattern[str], statement: str) -> re.Match[str] | None:
    """The match of a pattern in a class definition, which begins with ``class`` or with a decorator."""
    if statement.startswith("class"):
        return pattern.match(statement)
    return pattern.search(statement) if statement.startswith("@") else None


def code_of(text: str) -> str:
    """The text without comments, and with empty strings; line numbers are unchanged."""
    return STRING_OR_COMMENT.sub(_emptied, text)


def _emptied(found: re.Match[str]) -> str:
    literal = found[0]
    if literal[0] == "#":
        return ""
    # The line on which a string ends must not look like the beginning of a statement.
    return '""' if "\n" not in literal else '"""' + "\n" * literal.count("\n") + ' """'


def _statements(code: str) -> Iterator[tuple[int, str]]:
    """The statements of the top level, each from its first line to the next statement."""
    bounds = [*(found.start() for found in _START.finditer(f"\n{code}")), len(code)]
    begin, depth = bounds[0], 0
    line = 1 + code.count("\n", 0, begin)
    for start, end in pairwise(bounds):
        part = code[start:end]
        depth += brackets_left_open(part)
        if not depth and part[0] != "@" and part.rstrip()[-1] != "\\" and not _GOES_ON.match(code, end):
            yield line, code[begin:end]
            line += code.count("\n", begin, end)
            begin = end
