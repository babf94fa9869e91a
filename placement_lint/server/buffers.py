"""The texts that are open in the editor, kept in sync with its messages."""

from __future__ import annotations

import logging
from functools import cached_property
from urllib.parse import unquote

from lsprotocol import types
from pygls.workspace import TextDocument, Workspace

from placement_lint.server.positions import Units
from placement_lint.source.scan import NEWLINE, split_lines

logger = logging.getLogger(__name__)


class Buffer(TextDocument):
    """A text with the protocol's line ends; form feeds and Unicode separators do not end a line."""

    @cached_property
    def units(self) -> Units:
        return Units(self.position_codec)

    @property
    def text_lines(self) -> list[str]:
        """The lines without line ends; there is always a last one."""
        return split_lines(self.source)

    def offset(self, position: types.Position) -> int:
        """The offset of a position in the text; beyond a line it is the line's end, beyond the text the text's."""
        start = 0
        for _ in range(position.line):
            newline = NEWLINE.search(self.source, start)
            if newline is None:
                return len(self.source)
            start = newline.end()
        newline = NEWLINE.search(self.source, start)
        line = self.source[start : newline.start() if newline else len(self.source)]
        return start + self.units.column(line, position.character)

    def _apply_incremental_change(self, change: types.TextDocumentContentChangePartial) -> None:
        start, end = sorted((self.offset(change.range.start), self.offset(change.range.end)))
        self._source = f"{self.source[:start]}{change.text}{self.source[end:]}"


class Buffers(Workspace):
    """The workspace; a change to a document that is not open is logged and otherwise ignored."""

    def _create_text_document(
        self,
        doc_uri: str,
        source: str | None = None,
        version: int | None = None,
        language_id: str | None = None,
    ) -> Buffer:
        return Buffer(
            doc_uri,
            source=source or "",
            version=version,
            language_id=language_id,
            sync_kind=self._sync_kind,
            position_codec=self._position_codec,
        )

    def update_text_document(
        self, text_doc: types.VersionedTextDocumentIdentifier, change: types.TextDocumentContentChangeEvent
    ) -> None:
        if self.buffer(text_doc.uri) is None:
            logger.warning("ignoring a change to %s, which is not open", text_doc.uri)
            return
        super().update_text_document(text_doc, change)

    def update_notebook_document(self, params: types.DidChangeNotebookDocumentParams) -> None:
        if self.get_notebook_document(notebook_uri=params.notebook_document.uri) is None:
            logger.warning("ignoring a change to %s, which is not open", params.notebook_document.uri)
            return
        super().update_notebook_document(params)

    def buffer(self, uri: str) -> Buffer | None:
        """The open text with that URI."""
        found = self.text_documents.get(unquote(uri))
        return found if isinstance(found, Buffer) else None
