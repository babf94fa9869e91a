"""The text of a definition: its words, its brackets, its methods; without comments, docstrings and messages."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property
from typing import TypeVar

_WORD = re.compile(r"[^\W\d]\w*")
_BRACKET = re.compile(r"(?P<open>[(\[{])|[)\]}]")
_CLASS = re.compile(r"(?:@.*\s+)*class\b")
# With its decorators, as far as each of them stands in one line.
_METHOD = re.compile(
    r"(?:^[ \t]+@.*\n(?:[ \t]*\n)*)*^(?P<indent>[ \t]+)(?:async[ \t]+)?def[ \t]+(?P<name>\w+)", re.MULTILINE
)
_OWN = re.compile(r"\bself\.(\w+)")
# Comments, docstrings and messages; what is inside an f-string is code.
_PROSE = re.compile(
    r"""\#[^\r\n]* | (?P<prefix>\b[a-zA-Z]{1,2})?
    (?: '''(?:[^'\\]|\\.|'(?!''))*''' | \"\"\"(?:[^"\\]|\\.|"(?!""))*\"\"\"
    | '(?:[^'\\\n]|\\.)*' | "(?:[^"\\\n]|\\.)*" )""",
    re.DOTALL | re.VERBOSE,
)

Kind = TypeVar("Kind", bound="Text")


def without_prose(text: str) -> str:
    """The code of a text."""
    return _PROSE.sub(lambda found: "" if _is_prose(found) else found[0], text)


def _is_prose(found: re.Match[str]) -> bool:
    is_formatted = found["prefix"] is not None and "f" in found["prefix"].lower()
    return not is_formatted and (found[0].startswith("#") or " " in found[0] or "\n" in found[0])


def words_of(code: str) -> list[str]:
    """All names and keywords, and the words of short strings."""
    return _WORD.findall(code)


def attributes_of_self(code: str) -> list[str]:
    """What it asks of ``self``."""
    return _OWN.findall(code)


def end_of(code: str, opened: re.Match[str]) -> int:
    """Where the brackets end of which a match ends with the first."""
    depth = 1
    for bracket in _BRACKET.finditer(code, opened.end()):
        depth += 1 if bracket["open"] else -1
        if not depth:
            return bracket.end()
    return len(code)


def outline(code: str) -> str:
    """The code without what is between brackets."""
    kept, depth, start = [], 0, 0
    for bracket in _BRACKET.finditer(code):
        if bracket["open"]:
            if not depth:
                kept.append(code[start : bracket.end()])
            depth += 1
        elif depth:
            depth -= 1
            start = bracket.start()
    return "".join((*kept, code[start:])) if not depth else "".join(kept)


class Text:
    """A definition, by its ``code``."""

    def __init__(self, code: str) -> None:
        self.code = code

    @property
    def is_class(self) -> bool:
        return _CLASS.match(self.code) is not None

    @cached_property
    def words(self) -> set[str]:
        return set(words_of(self.code))

    def has(self, *words: str) -> bool:
        """Whether one of these words is said."""
        return not self.words.isdisjoint(words)

    def inside(self, opened: re.Match[str]) -> str:
        """What is between the brackets of which a match ends with the first: the arguments of a call."""
        return self.code[opened.end() : end_of(self.code, opened) - 1]

    @cached_property
    def methods(self) -> dict[str, str]:
        """By its name, the text of each method of a class, with the functions inside."""
        found = list(_METHOD.finditer(self.code))
        outermost = min((len(each["indent"]) for each in found), default=0)
        starts = [each for each in found if len(each["indent"]) == outermost]
        ends = [*(each.start() for each in starts), len(self.code)][1:]
        methods: dict[str, str] = {}
        for each, end in zip(starts, ends, strict=True):
            methods[each["name"]] = methods.get(each["name"], "") + self.code[each.start() : end]
        return methods

    def reached_from(self, names: Iterable[str]) -> Iterable[str]:
        """The texts of the methods of these names, and of all that they call of the same class."""
        waiting = list(names)
        reached: dict[str, str] = {}
        while waiting:
            name = waiting.pop()
            if name in self.methods and name not in reached:
                reached[name] = self.methods[name]
                waiting += attributes_of_self(self.methods[name])
        return reached.values()

    def run_by(self, method: str) -> str:
        """What runs when a method is called."""
        return "\n".join(self.reached_from((method,)))

    @property
    def before_methods(self) -> str:
        """What has run before any other method does: what stands before all of them, and ``__init__``."""
        first = _METHOD.search(self.code)
        head = self.code[: first.start()] if first is not None else self.code
        return "\n".join((head, *self.reached_from(("__init__",))))
