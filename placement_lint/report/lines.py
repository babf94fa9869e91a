"""The lines of the files of a report, read on demand."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from placement_lint.source.notebook import NOTEBOOK, OtherLanguage, read_notebook
from placement_lint.source.scan import split_lines
from placement_lint.source.text import Unreadable, decode


class Lines:
    """A lookup of lines; ``texts`` did not come from a file. A file that can no longer be read has no lines."""

    def __init__(self, texts: Mapping[str, bytes]) -> None:
        self._texts = texts
        self._lines: dict[tuple[str, int | None], list[str]] = {}

    def of(self, path: str, cell: int | None = None) -> list[str]:
        if (path, cell) not in self._lines:
            with suppress(OSError, Unreadable, OtherLanguage):
                self._lines |= self._read(path)
        return self._lines.setdefault((path, cell), [])

    def _read(self, path: str) -> dict[tuple[str, int | None], list[str]]:
        data = self._texts[path] if path in self._texts else Path(path).read_bytes()
        if not path.endswith(NOTEBOOK):
            return {(path, None): split_lines(decode(data))}
        cells = read_notebook(data).cells
        return {(path, cell.number): split_lines(cell.source) for cell in cells}
