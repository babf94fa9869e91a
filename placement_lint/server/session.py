"""What is open, what is known of it, and that whoever watches hears of it: analyses start here and end here."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import unquote

from placement_lint.baseline import read_baseline
from placement_lint.checker import Checked, Job
from placement_lint.config import Settings
from placement_lint.errors import UsageError
from placement_lint.finding import Finding, Verdict
from placement_lint.results import Run, Summary
from placement_lint.server.analysis import Analyse, Analysis, Mend
from placement_lint.server.analyst import PATIENT, URGENT, Analyst, Lost
from placement_lint.server.documents import Document
from placement_lint.server.settings import Configurations

logger = logging.getLogger(__name__)

# One edit is often several messages; whoever types on makes an analysis of the text in between worthless.
PAUSE = 0.02  # seconds

Probed = tuple[str, tuple[tuple[str, object], ...]]
"""What a verdict is about: the code and the facts of a finding, which survive an edit elsewhere."""


@dataclass
class Watched:
    """An open document, the analysis of its present text, and what is left of the last text that could be parsed."""

    document: Document
    work: asyncio.Task[None] | None = None
    analysis: Analysis | None = None
    legible: Analysis | None = None
    legible_lines: list[str] = field(default_factory=list)
    verdicts: dict[Probed, Verdict] = field(default_factory=dict)
    shown_in: set[str] = field(default_factory=set)

    @property
    def findings(self) -> list[Finding]:
        found = self.analysis.checked.findings if self.analysis else ()
        return [replace(finding, verdict=self.verdicts.get(about(finding))) for finding in found]


def about(finding: Finding) -> Probed:
    return finding.code, finding.facts


class Session:
    """``heard`` is called when a document's analysis is there, ``complain`` with what the user should read."""

    def __init__(self, heard: Callable[[Watched], None], complain: Callable[[str], None]) -> None:
        self.analyst = Analyst()
        self.configured = asyncio.Event()
        self.configurations = Configurations({})
        self._heard = heard
        self._complain = complain
        self._complaints: set[str] = set()
        self._open: dict[str, Watched] = {}

    # --- what is open --------------------------------------------------------------------------------------------

    def open(self, document: Document) -> None:
        self._open[unquote(document.uri)] = watched = Watched(document)
        self._begin(watched, pause=0.0)

    def changed(self, uri: str) -> None:
        if watched := self.watched(uri):
            self._begin(watched, PAUSE)

    def close(self, uri: str) -> Watched | None:
        watched = self._open.pop(unquote(uri), None)
        if watched and watched.work:
            watched.work.cancel()
        return watched

    def watched(self, uri: str) -> Watched | None:
        """The open document of that name, or that has a cell of that name."""
        if found := self._open.get(unquote(uri)):
            return found
        return next((each for each in self._open.values() if _has_part(each.document, uri)), None)

    def at_path(self, path: str) -> Watched | None:
        return next((each for each in self._open.values() if each.document.path == path), None)

    def __iter__(self) -> Iterator[Watched]:
        return iter(tuple(self._open.values()))

    def end(self) -> None:
        for watched in self:
            self.close(watched.document.uri)
        self.analyst.end()

    # --- settings ------------------------------------------------------------------------------------------------

    def configure(self, configurations: Configurations) -> None:
        """New settings: everything is looked at again."""
        self.configurations = configurations
        self._complaints.clear()
        self.configured.set()
        for watched in self:
            self._begin(watched, pause=0.0)

    def job(self, path: str) -> Job:
        """With a configuration that is broken, the file is checked as if it had none."""
        try:
            return self.configurations.job(path)
        except UsageError as error:
            self._complain_once(str(error))
            return Job(Settings(root=Path(path).parent))

    # --- analyses ------------------------------------------------------------------------------------------------

    async def current(self, watched: Watched) -> Analysis | None:
        """The analysis of the text as it is now; None where there is none to be had."""
        work = None
        while work is not watched.work:
            work = watched.work
            if work is not None:
                await asyncio.wait({work})
        return watched.analysis

    async def mended(self, watched: Watched, code: str | None) -> bytes:
        """The document after all safe fixes of a rule, or of all."""
        document = watched.document
        try:
            return await self.analyst.mend(Mend(document.path, document.data(), self.job(document.path), code))
        except Lost as error:
            logger.error("%s: %s", document.path, error)
            return document.data()

    async def checked(self, path: str) -> Checked | None:
        """A file that is not open, as it is on the disk; None if nothing can be said of it."""
        job = self.job(path)
        try:
            analysis = await self.analyst.analyse(Analyse(path, None, job, placements=False), PATIENT)
        except Lost as error:
            logger.error("%s: %s", path, error)
            return None
        return self._considered(analysis, job).checked

    def _begin(self, watched: Watched, pause: float) -> None:
        if watched.work is not None:
            watched.work.cancel()
        watched.work = asyncio.create_task(self._work(watched, pause))

    async def _work(self, watched: Watched, pause: float) -> None:
        document = watched.document
        await asyncio.sleep(pause)
        await self.configured.wait()
        job = self.job(document.path)
        data = document.data()
        try:
            if self._is_excluded(document.path):
                analysis = Analysis(Checked(document.path, skipped=True))
            else:
                analysis = await self.analyst.analyse(Analyse(document.path, data, job), URGENT)
        except Lost as error:
            logger.error("%s: %s", document.path, error)
            return
        watched.analysis = self._considered(analysis, job)
        if analysis.readable:
            watched.legible = analysis
            watched.legible_lines = document.program_lines()
        self._heard(watched)

    def _considered(self, analysis: Analysis, job: Job) -> Analysis:
        """Without what the project's baseline lists; what went wrong inside is said."""
        checked = analysis.checked
        for crash in checked.crashes:
            self._complain_once(str(crash))
        if job.settings.baseline is None:
            return analysis
        run = Run(checked.findings, (), Summary(1, 0, 0.0), (checked.path,))
        try:
            new, _ = read_baseline(str(job.settings.root / job.settings.baseline)).split(run)
        except UsageError as error:
            self._complain_once(str(error))
            return analysis
        return replace(analysis, checked=replace(checked, findings=new.findings))

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


def _has_part(document: Document, uri: str) -> bool:
    return any(unquote(buffer.uri) == unquote(uri) for buffer in document.parts.values())
