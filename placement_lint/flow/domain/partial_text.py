"""Texts that are known in part, such as the name of a file in a folder that an option gives."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping, Sequence
from string import Formatter

from placement_lint.flow.api.bounds import LONGEST_TEXT
from placement_lint.flow.domain import folding
from placement_lint.flow.domain.values import Const, Symbol, Value
from placement_lint.project.saved_states import HOLE

__all__ = (
    "HOLE", "STAMP", "concatenated", "formatted", "is_of_this_run", "is_text", "joined", "letters", "path", "percent",
)  # fmt: skip

# A hole for what is different in each run, such as the time.
STAMP = f"{HOLE}\1{HOLE}"


def letters(value: Value | None) -> str:
    """The text of a value, with holes for what is unknown; an option has its default."""
    if isinstance(value, Symbol):
        return value.letters or letters(value.preferred)
    if not isinstance(value, Const) or not isinstance(value.value, (str, int)):
        return HOLE
    text = folding.field(value.value)
    return HOLE if text is None else text


def is_text(value: Value) -> bool:
    if isinstance(value, Symbol):
        return bool(value.letters) or (value.preferred is not None and is_text(value.preferred))
    return isinstance(value, Const) and isinstance(value.value, str)


def surely_has(text: Symbol, part: str) -> bool:
    """Whether a text has a part, whatever its holes are."""
    return any(part in known for known in text.letters.split(HOLE)) if part else False


def begins_with(text: Symbol, start: str) -> bool | None:
    """Whether a text starts with another one; None if that depends on what is unknown."""
    known = text.letters.partition(HOLE)[0]
    return True if known.startswith(start) else None if start.startswith(known) else False


def is_of_this_run(text: str) -> bool:
    """Whether a part of a text is different in each run: no earlier run has made a file of this name."""
    return STAMP in text


def joined(parts: Iterable[str]) -> str:
    text = "".join(parts)
    return text if len(text) <= LONGEST_TEXT else HOLE


def concatenated(values: Iterable[Value]) -> str:
    """``folder + "/best.pth"``"""
    return joined(map(letters, values))


def percent(text: str, values: Sequence[Value]) -> str:
    """``"%s/best.pth" % folder``"""
    before, *fields = text.replace("%%", HOLE).split("%")
    given = [*map(letters, values), *[HOLE] * len(fields)]
    # a field with a width or precision may look otherwise
    plain = (
        (value if field[:1] in ("s", "d") else HOLE) + field[1:] if field[:1].isalpha() else HOLE
        for field, value in zip(fields, given, strict=False)
    )
    return joined((before, *plain))


def formatted(text: str, values: Sequence[Value], named: Mapping[str, Value]) -> str:
    """``"{}/best.pth".format(folder)``"""
    parts: list[str] = []
    given = {**{str(place): value for place, value in enumerate(values)}, **named}
    try:
        for place, (literal, name, specification, _) in enumerate(Formatter().parse(text)):
            parts.append(literal)
            if name is not None:
                parts.append(HOLE if specification else letters(given.get(name or str(place))))
    except ValueError:
        return HOLE
    return joined(parts)


def path(parts: Sequence[Value]) -> str:
    """``os.path.join(folder, "best.pth")``"""
    return joined((posixpath.join(*map(letters, parts)),)) if parts else HOLE
