"""Reports on all files of the workspace, for editors that ask for them; what has not changed is not checked again."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeAlias

from lsprotocol import types

from placement_lint.checker import Checked, Job
from placement_lint.errors import UsageError
from placement_lint.report.lsp import uri_of
from placement_lint.server.diagnostics import Diagnostics, result_id
from placement_lint.server.session import Session

Stamp = tuple[int, int]
Report: TypeAlias = "types.WorkspaceFullDocumentDiagnosticReport | types.WorkspaceUnchangedDocumentDiagnosticReport"


@dataclass(frozen=True)
class _Known:
    stamp: Stamp | None
    job: Job
    checked: Checked


class WorkspaceReports:
    """Keeps what was found in files that are not open."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._known: dict[str, _Known] = {}

    def forget(self) -> None:
        self._known.clear()

    async def all(
        self, folders: list[str], diagnostics: Diagnostics, previous: Mapping[str, str]
    ) -> AsyncIterator[Report]:
        """One report a file; ``previous`` are the results that the editor has, by URI."""
        for path in await asyncio.to_thread(self._paths, folders):
            if self._session.at_path(path) is None:
                report = await self.of(path, diagnostics, previous.get(uri_of(path)))
                if report is not None:
                    yield report

    async def of(self, path: str, diagnostics: Diagnostics, previous: str | None) -> Report | None:
        """The report on one file as it is on the disk."""
        checked = await self._checked(path)
        if checked is None:
            return None
        items = diagnostics.of(checked.findings)
        result = result_id(items)
        if result == previous:
            return types.WorkspaceUnchangedDocumentDiagnosticReport(uri=uri_of(path), result_id=result)
        return types.WorkspaceFullDocumentDiagnosticReport(uri=uri_of(path), items=items, result_id=result)

    def _paths(self, folders: list[str]) -> list[str]:
        found: dict[str, None] = {}
        for folder in folders:
            with suppress(UsageError):  # a folder that is gone, or a configuration that has been complained about
                found.update(dict.fromkeys(self._session.configurations.files(folder)))
        return list(found)

    async def _checked(self, path: str) -> Checked | None:
        job, stamp = self._session.job(path), _stamp(path)
        known = self._known.get(path)
        if known is not None and known.stamp == stamp and known.job == job:
            return known.checked
        checked = await self._session.checked(path)
        if checked is not None:
            self._known[path] = _Known(stamp, job, checked)
        return checked


def _stamp(path: str) -> Stamp | None:
    """What changes when a file is written."""
    try:
        facts = os.stat(path)
    except OSError:
        return None
    return facts.st_mtime_ns, facts.st_size
