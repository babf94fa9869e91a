"""Open documents: a script, or a notebook with its cells, which is checked as one program."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar
from urllib.parse import unquote, urlsplit

from lsprotocol import types
from pygls.uris import to_fs_path

from placement_lint.finding import Range
from placement_lint.server.buffers import Buffer, Buffers
from placement_lint.source.notebook import Notebook, read_notebook
from placement_lint.source.scan import split_lines
from placement_lint.source.text import Unreadable, encoding_of

PYTHON = "python"


class Document(ABC):
    """An open document; ``uri`` is its name in the editor, ``path`` its name in the rest of the tool.

    A script may have the path of a notebook: JupyterLab sends the code cells of one as a single Python text.
    """

    is_notebook: ClassVar[bool]

    def __init__(self, uri: str, buffers: Buffers) -> None:
        self.uri = uri
        self.path = path_of(uri)
        self._buffers = buffers

    @property
    @abstractmethod
    def parts(self) -> Mapping[int | None, Buffer]:
        """Its texts by the number of the cell; empty once it is closed."""

    @abstractmethod
    def data(self) -> bytes:
        """The content that the file would have if it were saved."""

    @abstractmethod
    def program_lines(self) -> list[str]:
        """The lines of the program, with the cells of a notebook in sequence."""

    @abstractmethod
    def in_program(self, uri: str, line: int, column: int) -> tuple[int, int]:
        """A position in one of its texts as a position in the whole program."""

    @abstractmethod
    def in_part(self, place: Range) -> tuple[int | None, Range]:
        """The reverse: the number of the cell, and the place there."""

    def part(self, uri: str) -> tuple[int | None, Buffer]:
        """The text with that URI; ``KeyError`` if it does not belong to this document."""
        for number, buffer in self.parts.items():
            if unquote(buffer.uri) == unquote(uri):
                return number, buffer
        raise KeyError(uri)


class Script(Document):
    is_notebook = False

    @property
    def parts(self) -> Mapping[int | None, Buffer]:
        buffer = self._buffers.buffer(self.uri)
        return {None: buffer} if buffer is not None else {}

    def data(self) -> bytes:
        return as_saved("".join(buffer.source for buffer in self.parts.values()))

    def program_lines(self) -> list[str]:
        return [line for buffer in self.parts.values() for line in buffer.text_lines]

    def in_program(self, uri: str, line: int, column: int) -> tuple[int, int]:
        return line, column

    def in_part(self, place: Range) -> tuple[None, Range]:
        return None, place


class OpenNotebook(Document):
    is_notebook = True

    @property
    def parts(self) -> Mapping[int | None, Buffer]:
        notebook = self._buffers.get_notebook_document(notebook_uri=self.uri)
        cells = enumerate(notebook.cells if notebook else (), start=1)
        found = {number: self._buffers.buffer(cell.document) for number, cell in cells if is_code(cell)}
        return {number: buffer for number, buffer in found.items() if buffer is not None and is_python(buffer)}

    def data(self) -> bytes:
        """The notebook as JSON; other cells are included without content, so that the cell numbers stay the same."""
        parts = self.parts
        count = max((number for number in parts if number), default=0)
        cells = [
            {"cell_type": "code", "source": parts[number].source}
            if number in parts
            else {"cell_type": "markdown", "source": ""}
            for number in range(1, count + 1)
        ]
        return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4}).encode()

    @property
    def _program(self) -> Notebook:
        return read_notebook(self.data())

    def program_lines(self) -> list[str]:
        return split_lines(self._program.program)

    def in_program(self, uri: str, line: int, column: int) -> tuple[int, int]:
        number, _ = self.part(uri)
        return self._program.in_program(number or 0, line, column)

    def in_part(self, place: Range) -> tuple[int | None, Range]:
        program = self._program
        return program.in_cell(place) if program.cells else (None, place)


def path_of(uri: str) -> str:
    """The file path of a URI; an unsaved document has a path of its own that does not exist."""
    return to_fs_path(uri) or f"/{urlsplit(uri).scheme}/{unquote(urlsplit(uri).path).lstrip('/')}"


def is_code(cell: types.NotebookCell) -> bool:
    return cell.kind is types.NotebookCellKind.Code


def is_python(buffer: Buffer) -> bool:
    """Whether the editor treats it as Python; without a language, the file name decides."""
    return buffer.language_id == PYTHON if buffer.language_id else buffer.path.endswith(".py")


def as_saved(text: str) -> bytes:
    """A text in its declared encoding, or in UTF-8 if that cannot represent it."""
    data = text.encode("utf-8", "surrogatepass")
    try:
        return text.encode(encoding_of(data))
    except (Unreadable, UnicodeEncodeError, LookupError):
        return data
