"""The text of a definition: its words, its brackets, its methods; without comments, docstrings and messages."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property, lru_cache
from typing import TypeVar

from placement_lint.source.scan import STRING_OR_COMMENT, words_of

# A search is fast if each match begins with one of a few letters: the text before these is checked afterwards, and a
# match at the beginning of a line includes the end of the line before.
_BRACKET = re.compile(r"[()\[\]{}]")
_CLASS = re.compile(r"\s*(?:@.*\s+)*class\b")
_DECORATOR = re.compile(r"[ \t]+@")
_DEF = re.compile(r"def[ \t]+(?=\w)")
# With its decorators, if each of them is on one line.
_METHOD = re.compile(r"\n(?:[ \t]+@.*\n(?:[ \t]*\n)*)*(?P<indent>[ \t]+)(?:async[ \t]+)?def[ \t]+(?P<name>\w+)")
_PREFIX = re.compile(r"\b[a-zA-Z]{1,2}$")
# Names of classes in type tests and annotations only: isinstance(x, (A, B)), -> A:, x: A[B, C] | None
_CLASS_ASKED = re.compile(r"\bisinstance\(\s*[\w.\[\]]+\s*,(?:[^()]|\([^()]*\))*\)")
_CLASS_RETURNED = re.compile(r"->[^:\n]*:")
_HEADER = re.compile(r"\bdef[ \t]+\w+\(")
_SUBSCRIPT = r"\[(?:[^\[\]]|\[(?:[^\[\]]|\[(?:[^\[\]]|\[[^\[\]]*\])*\])*\])*\]"
_CLASS_ANNOTATED = re.compile(rf"(?<![^(,])(\s*\*{{0,2}}\w+\s*):(?:[\w.|\s\"']|{_SUBSCRIPT})+")

# Size of the cache of the attributes that methods read.
_METHODS_REMEMBERED = 1_024

Kind = TypeVar("Kind", bound="Text")


def at_word(name: str) -> str:
    """The pattern of a name at the beginning of a word."""
    return rf"{name}(?<!\w{name})"


_OWN = re.compile(rf"{at_word('self')}\.(\w+)")


def without_prose(text: str) -> str:
    """The code of a text: without comments, docstrings and messages; code inside an f-string is kept."""
    return _without(text, lambda literal: " " in literal or "\n" in literal)


def without_strings(text: str) -> str:
    """The same without any string."""
    return _without(text, lambda _: True)


def _without(text: str, is_prose: Callable[[str], bool]) -> str:
    kept, end = [], 0
    for found in STRING_OR_COMMENT.finditer(text):
        literal = found[0]
        if literal[0] == "#" or is_prose(literal):
            prefix = _PREFIX.search(text, max(0, found.start() - 2), found.start()) if literal[0] != "#" else None
            if prefix is None or "f" not in prefix[0].lower():
                kept.append(text[end : prefix.start() if prefix is not None else found.start()])
                end = found.end()
    return "".join((*kept, text[end:]))


@lru_cache(_METHODS_REMEMBERED)
def attributes_of_self(code: str) -> tuple[str, ...]:
    """The attributes of ``self`` that it uses."""
    return tuple(_OWN.findall(code))


def end_of(code: str, opened: re.Match[str]) -> int:
    """The end of the brackets whose opening bracket ends the match."""
    depth = 1
    for bracket in _BRACKET.finditer(code, opened.end()):
        depth += 1 if bracket[0] in "([{" else -1
        if not depth:
            return bracket.end()
    return len(code)


def _methods_in(code: str) -> Iterator[re.Match[str]]:
    """The first lines of the functions in the code, from their decorators on."""
    for found in _DEF.finditer(code):
        method = _METHOD.match(code, _before_decorators(code, code.rfind("\n", 0, found.start())))
        if method is not None and method.start("name") == found.end():
            yield method


def _before_decorators(code: str, line: int) -> int:
    """The newline before the one-line decorators of a line; the newline before the line if it has none."""
    first = line
    while line > 0:
        above = code.rfind("\n", 0, line)
        text = code[above + 1 : line]
        if _DECORATOR.match(text) is not None:
            first = above
        elif text.strip(" \t"):
            break
        line = above
    return first


def outline(code: str) -> str:
    """The code without the text between brackets."""
    kept, depth, start = [], 0, 0
    for bracket in _BRACKET.finditer(code):
        if bracket[0] in "([{":
            if not depth:
                kept.append(code[start : bracket.end()])
            depth += 1
        elif depth:
            depth -= 1
            start = bracket.start()
    return "".join((*kept, code[start:])) if not depth else "".join(kept)


def without_classes_asked(code: str) -> str:
    """The code without the names of classes that are only used in type tests and annotations.

    These lead to no finding: an annotated value, or one of that class by a test, is as unknown as before.
    """
    code = _CLASS_RETURNED.sub(":", _CLASS_ASKED.sub("", code))
    kept, end = [], 0
    for header in _HEADER.finditer(code):
        if header.start() >= end:
            kept.append(code[end : header.end()])
            end = end_of(code, header)
            kept.append(_without_annotations(code[header.end() : end]))
    return "".join((*kept, code[end:]))


def _without_annotations(parameters: str) -> str:
    """The parameters without annotations; unchanged if a lambda or a dict has other colons."""
    return parameters if "lambda" in parameters or "{" in parameters else _CLASS_ANNOTATED.sub(r"\1", parameters)


class Text:
    """The text of a definition, its ``code``: each line begins after a newline."""

    def __init__(self, code: str) -> None:
        self.code = f"\n{code}"

    @property
    def is_class(self) -> bool:
        return _CLASS.match(self.code) is not None

    @cached_property
    def words(self) -> set[str]:
        return set(words_of(self.code))

    @cached_property
    def used(self) -> set[str]:
        """Its words, without those in type tests and annotations only."""
        return set(words_of(without_classes_asked(self.code)))

    def has(self, *words: str) -> bool:
        """Whether one of these words occurs."""
        return not self.words.isdisjoint(words)

    def each(self, pattern: re.Pattern[str], words: Iterable[str]) -> Iterator[re.Match[str]]:
        """The matches of a pattern that matches each of these words followed by a bracket."""
        for word in self.words.intersection(words):
            found = (pattern.match(self.code, each.start()) for each in re.finditer(rf"{word}\(", self.code))
            yield from filter(None, found)

    def inside(self, opened: re.Match[str]) -> str:
        """The text between the brackets whose opening bracket ends the match: the arguments of a call."""
        return self.code[opened.end() : end_of(self.code, opened) - 1]

    @property
    def headers(self) -> Iterator[str]:
        """The parameters of each function in it."""
        return map(self.inside, _HEADER.finditer(self.code))

    @cached_property
    def head(self) -> str:
        """The text before all methods."""
        first = next(_methods_in(self.code), None)
        return self.code[: first.start()] if first is not None else self.code

    @cached_property
    def methods(self) -> dict[str, str]:
        """By its name, the text of each method of a class, with the functions inside."""
        found = list(_methods_in(self.code))
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

    @cached_property
    def run_later(self) -> dict[str, str]:
        """The methods that may run outside of ``__init__``, with their texts."""
        built = self.reached_from(("__init__",))
        later = self.reached_from([name for name, method in self.methods.items() if method not in built])
        return {name: method for name, method in self.methods.items() if method in later or method not in built}

    def run_by(self, method: str) -> str:
        """The code that runs when a method is called."""
        return "\n".join(self.reached_from((method,)))

    @property
    def before_methods(self) -> str:
        """The code that runs before any other method: the text before all methods, and ``__init__``."""
        return "\n".join((self.head, *self.reached_from(("__init__",))))
