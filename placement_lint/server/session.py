"""The open documents and their analyses: starts an analysis after an edit and publishes its result."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import unquote

from placement_lint.config.settings import Settings
from placement_lint.errors import UsageError
from placement_lint.finding import Finding, Verdict
from placement_lint.project.finder import read_from_disk
from placement_lint.project.importers import Everything
from placement_lint.report.results import Checked, Job, Run, Summary, digest
from placement_lint.run.baseline import read_baseline
from placement_lint.run.reconcile import reconciled
from placement_lint.server.analysis import Analyse, Analysis, Draw, Locate, Mend, Placed
from placement_lint.server.analyst import PATIENT, URGENT, Analyst, Lost
from placement_lint.server.documents import Document
from placement_lint.server.launch import Process
from placement_lint.server.settings import Configurations

logger = logging.getLogger(__name__)

# One edit is often several messages, and an analysis of an intermediate text is wasted.
PAUSE = 0.005  # seconds
# Files that import an edited file are analysed after a pause in the edits, or when the file is saved.
QUIET = 0.5

Probed = tuple[str, tuple[tuple[str, object], ...]]
"""The subject of a verdict: the code and the facts of a finding, which do not change with edits elsewhere."""


@dataclass
class Legible:
    """A text that could be parsed, and its placements, once they were requested."""

    digest: str
    lines: list[str]
    placed: tuple[Placed, ...] = ()


@dataclass
class Watched:
    """An open document, the analysis of its current text, and the last of its texts that could be parsed.

    ``located`` is the last text whose placements are known. ``found`` are its findings, from the analyses of all
    files.
    """

    document: Document
    work: asyncio.Task[None] | None = None
    analysis: Analysis | None = None
    found: list[Finding] = field(default_factory=list)
    legible: Legible | None = None
    located: Legible | None = None
    verdicts: dict[Probed, Verdict] = field(default_factory=dict)
    shown_in: set[str] = field(default_factory=set)

    @property
    def findings(self) -> list[Finding]:
        return [replace(finding, verdict=self.verdicts.get(about(finding))) for finding in self.found]


def about(finding: Finding) -> Probed:
    return finding.code, finding.facts


class Session:
    """The open documents; ``heard`` is called with new results of a document, ``complain`` with messages for the user.

    ``heard`` also gets whether the results are new without an edit of the document itself. ``elsewhere`` are the
    results of files that are not open.
    """

    def __init__(
        self, heard: Callable[[Watched, bool], None], complain: Callable[[str], None], worker: Process | None
    ) -> None:
        self.analyst = Analyst(worker)
        self.configured = asyncio.Event()
        self.configurations = Configurations({})
        self._heard = heard
        self._complain = complain
        self._complaints: set[str] = set()
        self.elsewhere: dict[str, Checked] = {}
        self._knows_workspace = False
        self._open: dict[str, Watched] = {}

    # --- open documents ------------------------------------------------------------------------------------------

    def open(self, document: Document) -> None:
        self.elsewhere.pop(document.path, None)
        if (known := self._open.get(unquote(document.uri))) and known.work:
            known.work.cancel()
        self._open[unquote(document.uri)] = watched = Watched(document)
        self._begin(watched, pause=0.0)

    def changed(self, uri: str) -> None:
        if watched := self.watched(uri):
            self._begin(watched, PAUSE)

    def close(self, uri: str) -> Watched | None:
        watched = self._open.pop(unquote(uri), None)
        if watched and watched.work:
            watched.work.cancel()
        if watched:
            self._settling = asyncio.ensure_future(self._closed(watched))
        return watched

    def changed_on_disk(self, paths: Iterable[str]) -> None:
        """Analyse again all documents that depend on one of these files, or on its absence."""
        for path in paths:
            self._refresh_dependents(path, pause=0.0)

    def watched(self, uri: str) -> Watched | None:
        """The open document with that URI, or with a cell of that URI."""
        if found := self._open.get(unquote(uri)):
            return found
        return next((each for each in self._open.values() if _has_part(each.document, uri)), None)

    def at_path(self, path: str) -> Watched | None:
        return next((each for each in self._open.values() if each.document.path == path), None)

    def __iter__(self) -> Iterator[Watched]:
        return iter(tuple(self._open.values()))

    def end(self) -> None:
        for watched in self:
            if watched.work is not None:
                watched.work.cancel()
        self.analyst.end()

    # --- settings ------------------------------------------------------------------------------------------------

    def configure(self, configurations: Configurations) -> None:
        """Use new settings: all documents are analysed again."""
        self.configurations = configurations
        self._complaints.clear()
        self.configured.set()
        for watched in self:
            self._begin(watched, pause=0.0)

    def job(self, path: str) -> Job:
        """The settings for a file; if its configuration is broken, the defaults."""
        try:
            return self.configurations.job(path)
        except UsageError as error:
            self._complain_once(str(error))
            return Job(Settings(root=Path(path).parent))

    # --- analyses ------------------------------------------------------------------------------------------------

    async def current(self, watched: Watched) -> Analysis | None:
        """The analysis of the current text; None if there is none."""
        work = None
        while work is not watched.work:
            work = watched.work
            if work is not None:
                await asyncio.wait({work})
        return watched.analysis

    async def locate(self, watched: Watched) -> None:
        """Update the placements of the current text, or of the last one that could be parsed."""
        await self.current(watched)
        legible = watched.legible
        if legible is watched.located or legible is None:
            return
        try:
            placed = await self.analyst.locate(Locate(watched.document.path, legible.digest))
        except Lost as error:
            logger.error("%s: %s", watched.document.path, error)
            return
        if placed is not None:
            legible.placed, watched.located = placed, legible

    async def mended(self, watched: Watched, code: str | None) -> bytes:
        """The document after all safe fixes of a rule, or of all."""
        document = watched.document
        request = Mend(document.path, document.data(), self.job(document.path), document.is_notebook, code)
        try:
            return await self.analyst.mend(request)
        except Lost as error:
            logger.error("%s: %s", document.path, error)
            return document.data()

    async def drawn(self, watched: Watched) -> str:
        """The timeline page of the document; raises UsageError or Lost."""
        document = watched.document
        return await self.analyst.draw(Draw(document.path, document.data(), self.job(document.path)))

    async def look_at(self, path: str) -> None:
        """Analyse a file that is not open, from disk."""
        try:
            analysis = await self.analyst.analyse(Analyse(path, None, self.job(path)), PATIENT)
        except Lost as error:
            logger.error("%s: %s", path, error)
            return
        if self.at_path(path) is None:
            self.elsewhere[path] = analysis.checked
            self._report_crashes(analysis.checked)

    def is_current(self, path: str) -> bool:
        """Whether the result of a file that is not open is still valid for the files that it depends on."""
        known = self.elsewhere.get(path)
        return known is not None and all(self._digest(file) == content for file, content in known.contents.items())

    def know_workspace(self) -> None:
        """Record that all files of the workspace are open or have been analysed."""
        if not self._knows_workspace:
            self._knows_workspace = True
            self._settle()

    def found_in(self, *paths: str) -> list[list[Finding]]:
        """The findings in some files from all analysed files, without those that the projects' baselines list."""
        of_path: dict[str, list[Finding]] = {}
        results = [*self.elsewhere.values(), *(each.analysis.checked for each in self if each.analysis)]
        for finding in reconciled(results, () if self._knows_workspace else Everything()):
            of_path.setdefault(finding.path, []).append(finding)
        return [self._unknown(of_path.get(path, []), path) for path in paths]

    def _begin(self, watched: Watched, pause: float, edited: bool = True) -> None:
        if watched.work is not None:
            watched.work.cancel()
        watched.work = asyncio.create_task(self._work(watched, pause, edited))
        watched.work.add_done_callback(_note_failure)

    async def _work(self, watched: Watched, pause: float, edited: bool) -> None:
        document = watched.document
        await asyncio.sleep(pause)
        await self.configured.wait()
        job = self.job(document.path)
        data = document.data()
        excluded = self._is_excluded(document.path)
        try:
            if excluded:
                analysis = Analysis(Checked(document.path, skipped=True))
            else:
                analysis = await self.analyst.analyse(Analyse(document.path, data, job, document.is_notebook), URGENT)
        except Lost as error:
            logger.error("%s: %s", document.path, error)
            return
        watched.analysis = analysis
        self._report_crashes(analysis.checked)
        if excluded:
            watched.legible = watched.located = None
        elif analysis.readable:
            watched.legible = Legible(digest(data), document.program_lines())
        self._settle(watched, edited)
        self._refresh_dependents(document.path, QUIET)

    def _settle(self, cause: Watched | None = None, edited: bool = False) -> None:
        """Publish new findings, in the analysed document and in others that they concern."""
        opened = list(self)
        for watched, found in zip(opened, self.found_in(*(each.document.path for each in opened)), strict=True):
            if watched is cause or (watched.analysis and found != watched.found):
                watched.found = found
                self._heard(watched, watched is not cause or not edited)

    def _refresh_dependents(self, path: str, pause: float) -> None:
        """Analyse again the documents that depend on a file whose content has changed."""
        now: str | None = None
        for watched in self:
            reads = watched.analysis.checked.contents if watched.analysis else {}
            if path in reads and watched.document.path != path:
                now = now or self._digest(path)
                if reads[path] != now:
                    self._begin(watched, pause, edited=False)

    def _digest(self, path: str) -> str | None:
        watched = self.at_path(path)
        data = watched.document.data() if watched else read_from_disk(path)
        return digest(data) if data is not None else None

    async def _closed(self, watched: Watched) -> None:
        """Use the file on disk again, for all documents that depend on it."""
        path = watched.document.path
        with suppress(Lost):
            await self.analyst.close(path)
        self._refresh_dependents(path, pause=0.0)
        self._settle()

    def _report_crashes(self, checked: Checked) -> None:
        for crash in checked.crashes:
            self._complain_once(str(crash))

    def _unknown(self, findings: list[Finding], path: str) -> list[Finding]:
        """The findings that the project's baseline does not list."""
        settings = self.job(path).settings
        if settings.baseline is None or not findings:
            return findings
        run = Run(tuple(findings), (), Summary(1, 0, 0.0), (path,))
        try:
            return list(read_baseline(str(settings.root / settings.baseline)).split(run)[0].findings)
        except UsageError as error:
            self._complain_once(str(error))
            return findings

    def _is_excluded(self, path: str) -> bool:
        try:
            return self.configurations.excludes(path)
        except UsageError as error:
            self._complain_once(str(error))
            return False

    def _complain_once(self, message: str) -> None:
        if message not in self._complaints:
            self._complaints.add(message)
            self._complain(message)


def _note_failure(work: asyncio.Task[None]) -> None:
    if not work.cancelled() and (error := work.exception()) is not None:
        logger.error("an analysis could not be made use of", exc_info=error)


def _has_part(document: Document, uri: str) -> bool:
    return any(unquote(buffer.uri) == unquote(uri) for buffer in document.parts.values())
