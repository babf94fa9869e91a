"""Reports on all files of the workspace, for editors that pull them; unchanged files are not checked again."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeAlias
from urllib.parse import unquote

from lsprotocol import types

from placement_lint.errors import UsageError
from placement_lint.finding import Finding
from placement_lint.report.lsp import uri_of
from placement_lint.report.results import Job
from placement_lint.server.diagnostics import Diagnostics, result_id
from placement_lint.server.documents import path_of
from placement_lint.server.session import Session

Stamp = tuple[int, int]
Report: TypeAlias = "types.WorkspaceFullDocumentDiagnosticReport | types.WorkspaceUnchangedDocumentDiagnosticReport"


@dataclass(frozen=True)
class _Known:
    stamp: Stamp | None
    job: Job


class WorkspaceReports:
    """Keeps the analyses of all files of the workspace up to date, without repeating any that is valid."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._known: dict[str, _Known] = {}

    async def all(
        self, folders: list[str], diagnostics: Diagnostics, previous: Mapping[str, str]
    ) -> AsyncIterator[Report]:
        """One report for each file that is not open; ``previous`` are the results that the editor has, by URI.

        A file that no longer exists, or is open as a notebook whose cells have reports of their own, gets an empty
        report.
        """
        paths = [path for path in await asyncio.to_thread(self._paths, folders) if self._session.at_path(path) is None]
        self._forget_all_but(paths)
        for path in paths:
            await self._look_at(path)
        self._session.know_workspace()
        for path, findings in zip(paths, self._session.found_in(*paths), strict=True):
            yield _report(uri_of(path), diagnostics.of(findings), previous.get(uri_of(path)))
        known = set(paths)
        opened = {unquote(part.uri) for each in self._session for part in each.document.parts.values()}
        for uri, result in previous.items():
            if path_of(uri) not in known and unquote(uri) not in opened:
                yield _report(uri, [], result)

    async def of(self, path: str) -> list[Finding]:
        """The findings in one file on disk."""
        await self._look_at(path)
        (findings,) = self._session.found_in(path)
        return findings

    def _paths(self, folders: list[str]) -> list[str]:
        found: dict[str, None] = {}
        for folder in folders:
            with suppress(UsageError):  # a missing folder, or a broken configuration, which was reported
                found.update(dict.fromkeys(self._session.configurations.files(folder)))
        return list(found)

    def _forget_all_but(self, paths: Iterable[str]) -> None:
        for path in set(self._known).difference(paths):
            del self._known[path]
            self._session.elsewhere.pop(path, None)

    async def _look_at(self, path: str) -> None:
        now = _Known(_stamp(path), self._session.job(path))
        if self._known.get(path) != now or not self._session.is_current(path):
            await self._session.look_at(path)
            self._known[path] = now


def _report(uri: str, items: list[types.Diagnostic], previous: str | None) -> Report:
    result = result_id(items)
    if result == previous:
        return types.WorkspaceUnchangedDocumentDiagnosticReport(uri=uri, result_id=result)
    return types.WorkspaceFullDocumentDiagnosticReport(uri=uri, items=items, result_id=result)


def _stamp(path: str) -> Stamp | None:
    """The modification time and size of a file; None if it does not exist."""
    try:
        facts = os.stat(path)
    except OSError:
        return None
    return facts.st_mtime_ns, facts.st_size
