"""Findings as the protocol's diagnostics, each for the text that contains it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

from lsprotocol import types
from pygls.protocol import default_converter

from placement_lint.finding import Finding, Range, Step
from placement_lint.report.lines import Lines
from placement_lint.report.lsp import as_range, diagnostic, uri_of
from placement_lint.server import rule_pages
from placement_lint.server.positions import Units
from placement_lint.server.session import Session

CONVERTER = default_converter()  # type: ignore[no-untyped-call]


class Diagnostics:
    """Converts findings to diagnostics, with positions in the editor's units."""

    def __init__(self, session: Session, units: Units) -> None:
        self._session = session
        self._units = units

    def of(self, findings: Iterable[Finding]) -> list[types.Diagnostic]:
        parts = {each.document.path: each.document.parts for each in self._session}
        on_disk = Lines({})

        @cache
        def lines_of(path: str, cell: int | None) -> list[str]:
            part = parts.get(path, {}).get(cell)
            return part.text_lines if part is not None else on_disk.of(path, cell)

        def locate(thing: Finding | Step) -> dict[str, Any]:
            return {
                "uri": self.uri(thing.path, thing.cell),
                "range": as_range(lines_of(thing.path, thing.cell), thing.range, self._units.width),
            }

        return [
            self._linked(CONVERTER.structure(diagnostic(each, locate), types.Diagnostic), each) for each in findings
        ]

    def uri(self, path: str, cell: int | None) -> str:
        """The editor's URI of a file, or of the cell of an open notebook."""
        watched = self._session.at_path(path)
        if watched is None:
            return uri_of(path)
        part = watched.document.parts.get(cell)
        return part.uri if part is not None else watched.document.uri

    def _linked(self, shown: types.Diagnostic, finding: Finding) -> types.Diagnostic:
        """The diagnostic with the address of its rule's page."""
        address = rule_pages.address(finding.code, finding.name)
        if address is not None:
            shown.code_description = types.CodeDescription(address)
        return shown


def result_id(diagnostics: Sequence[types.Diagnostic]) -> str:
    """An id that is equal for equal diagnostics, so that an editor does not receive them again."""
    data = json.dumps([CONVERTER.unstructure(each) for each in diagnostics], sort_keys=True, default=str)
    return hashlib.sha256(data.encode()).hexdigest()[:16]


def touches(one: Range, other: Range) -> bool:
    """Whether two ranges overlap, or meet in a point."""
    first, second = sorted((one, other))
    return (second.line, second.column) <= (first.end_line, first.end_column)
