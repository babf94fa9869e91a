"""Texts and files of text that are what the program takes them for."""

from __future__ import annotations

import io
import sys
from typing import Any

from placement_lint.probe.standins.callers import unpacked


class Word(str):
    """Text that is the first other text with which it is compared, as the name of something to choose."""

    meant: str | None = None

    def __eq__(self, other: Any) -> bool:
        if self.meant is None and isinstance(other, str):
            self.meant = str(other)
        return bool(self.meant == other)

    def __ne__(self, other: Any) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(str(self))

    def lower(self) -> Any:
        return self

    def upper(self) -> Any:
        return self

    def strip(self, *given: Any) -> Any:
        return self


class Named(str):
    """The name of a file that is of the kind which is asked for."""

    def endswith(self, *given: Any) -> bool:
        return True

    def find(self, *given: Any) -> int:
        return max(0, super().find(*given))


class Line(str):
    """Text that has as many parts as are asked for, which are numbers as well."""

    def strip(self, *given: Any) -> Any:
        return Line(super().strip(*given))

    rstrip = strip

    def split(self, *given: Any, **named: Any) -> Any:
        parts = super().split(*given, **named)
        count = unpacked(sys._getframe(1))
        return [Line(str(self).split()[-1])] * count if count and len(parts) != count else Parts(parts)


class Parts(list):  # type: ignore[type-arg]
    """A list that has any item."""

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, int) and not -len(self) <= key < len(self):
            return Line("0")
        return super().__getitem__(key)


class TextFile(io.StringIO):
    """A file that is not there."""

    def __next__(self) -> Any:
        return Line(super().__next__())

    def readline(self, *given: Any) -> Any:
        return Line(super().readline(*given))

    def readlines(self, *given: Any) -> Any:
        return [Line(line) for line in super().readlines(*given)]

    def read(self, *given: Any) -> Any:
        return Line(super().read(*given))


class ByteFile(io.BytesIO):
    """The same, as bytes."""
