"""Positions in the protocol: from 0, in the character units that were agreed on with the editor."""

from __future__ import annotations

from collections.abc import Sequence

from lsprotocol import types
from pygls.workspace import PositionCodec

from placement_lint.finding import Range


class Units:
    """Translates between characters and the units of a position encoding (UTF-16 unless agreed otherwise)."""

    def __init__(self, codec: PositionCodec) -> None:
        self._codec = codec

    def width(self, text: str) -> int:
        return len(text) if text.isascii() else int(self._codec.client_num_units(text))

    def column(self, line: str, units: int) -> int:
        """The number of characters that ``units`` units of a line cover, including a partly covered one. From 0."""
        if line.isascii():
            return min(units, len(line))
        for index, character in enumerate(line):
            if units <= 0:
                return index
            units -= self.width(character)
        return len(line)

    def position(self, lines: Sequence[str], line: int, column: int) -> types.Position:
        """The position of a line and column that count from 1."""
        before = lines[line - 1][: column - 1] if 0 < line <= len(lines) else ""
        return types.Position(line - 1, self.width(before))

    def range(self, lines: Sequence[str], place: Range) -> types.Range:
        return types.Range(
            self.position(lines, place.line, place.column), self.position(lines, place.end_line, place.end_column)
        )

    def place(self, lines: Sequence[str], position: types.Position) -> tuple[int, int]:
        """The line and column, from 1; a position beyond the text is its end, as the protocol requires."""
        if position.line >= len(lines):
            return len(lines), len(lines[-1]) + 1 if lines else 1
        return position.line + 1, self.column(lines[position.line], position.character) + 1
