"""Lexical scan of a text: comments, logical lines and bracket depth, without parsing it.

One regular expression skips strings, so that a ``#`` or a bracket inside a string is not mistaken for one. It works on
any text, including broken code and the syntax of other Python versions.
"""

from __future__ import annotations

import re
import string
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

_STRING = r"""'''[^'\\]*(?:(?:\\.|'(?!''))[^'\\]*)*''' | \"\"\"[^"\\]*(?:(?:\\.|"(?!""))[^"\\]*)*\"\"\"
    | '[^'\\\r\n]*(?:\\(?:\r\n|.)[^'\\\r\n]*)*' | "[^"\\\r\n]*(?:\\(?:\r\n|.)[^"\\\r\n]*)*\""""
_COMMENT = r"\#[^\r\n]*"
LEXEME = re.compile(
    rf"""(?P<string> {_STRING} )
    | (?P<comment> {_COMMENT} )
    | (?P<joined> \\(?:\r\n|\r|\n) )
    | (?P<newline> \r\n|\r|\n )
    | (?P<open> [(\[{{] )
    | (?P<close> [)\]}}] )""",
    re.VERBOSE | re.DOTALL,
)
# Quoted text, without the letters before it, and comments: a search is twice as fast without groups.
STRING_OR_COMMENT = re.compile(rf"{_COMMENT} | {_STRING}", re.VERBOSE | re.DOTALL)
# A text may have lone surrogates, which no other encoding accepts.
UTF_8 = ("utf-8", "surrogatepass")
NEWLINE = re.compile(r"\r\n|\r|\n")
_LINE_FEED = re.compile("\n")
# Separators of words; a number is a word. Bytes are split four times as fast as characters.
_PUNCTUATION = "".join(set(string.punctuation) - {"_"}).encode()
_SEPARATORS = bytes.maketrans(_PUNCTUATION, b" " * len(_PUNCTUATION))
_NO_BRACKETS = bytes(set(range(256)) - set(b"()[]{}"))
_ROUND_BRACKETS = bytes.maketrans(b"[]{}", b"()()")


@dataclass(frozen=True)
class Comment:
    """A comment with the position of its ``#``; ``leading`` if no code precedes it in the file."""

    text: str
    line: int
    column: int
    leading: bool


def split_lines(text: str) -> list[str]:
    """Lines as an editor counts them; form feeds and Unicode separators do not end one."""
    return NEWLINE.split(text) if "\r" in text else text.split("\n")


def newlines(text: str) -> Iterator[re.Match[str]]:
    """The line ends of a text; most texts have line feeds only, which are found faster than several kinds."""
    return (NEWLINE if "\r" in text else _LINE_FEED).finditer(text)


def lines_with_ends(text: str) -> list[str]:
    """The same lines, each with the characters that end it; nothing follows the last end."""
    ends = [0, *(newline.end() for newline in newlines(text)), len(text)]
    return [text[start:end] for start, end in pairwise(ends) if start < end]


def words_of(code: str) -> list[str]:
    """All names and keywords, and the words of short strings."""
    return code.encode(*UTF_8).translate(_SEPARATORS).decode(*UTF_8).split()


def brackets_left_open(code: str) -> int:
    """The number of brackets that it opens minus those that it closes."""
    brackets = code.encode(*UTF_8).translate(_ROUND_BRACKETS, _NO_BRACKETS)
    return 2 * brackets.count(b"(") - len(brackets)


class Scan:
    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def depth(self) -> tuple[int, int]:
        """The depth of nested brackets, and the offset of the innermost of them."""
        depth = deepest = where = 0
        for lexeme in LEXEME.finditer(self.text):
            if lexeme.lastgroup == "open":
                depth += 1
                if depth > deepest:
                    deepest, where = depth, lexeme.start()
            elif lexeme.lastgroup == "close":
                depth = max(0, depth - 1)
        return deepest, where

    def comments(self) -> Iterator[Comment]:
        starts = [0, *(newline.end() for newline in newlines(self.text))]
        done, leading = 0, True
        for found in STRING_OR_COMMENT.finditer(self.text):
            leading = leading and not self.text[done : found.start()].strip("\ufeff \t\f\r\n")
            if found[0].startswith("#"):
                line = bisect_right(starts, found.start())
                yield Comment(found.group(), line, found.start() - starts[line - 1] + 1, leading)
            else:
                leading = False
            done = found.end()

    @cached_property
    def logical_lines(self) -> dict[int, tuple[int, int]]:
        """For each physical line of a statement that spans several: the statement's first and last line."""
        spans: dict[int, tuple[int, int]] = {}
        first = line = 1
        depth = 0
        for lexeme in LEXEME.finditer(self.text):
            kind = lexeme.lastgroup
            depth = max(0, depth + (kind == "open") - (kind == "close"))
            if kind == "newline" and not depth:
                if line > first:
                    spans.update(dict.fromkeys(range(first, line + 1), (first, line)))
                first = line = line + 1
            else:
                line += len(NEWLINE.findall(lexeme.group()))
        if line > first:
            spans.update(dict.fromkeys(range(first, line + 1), (first, line)))
        return spans
