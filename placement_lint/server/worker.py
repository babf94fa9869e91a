"""The worker process: answers requests for analyses until there are no more.

It uses the message format of frames.py, on standard input and output.
"""

from __future__ import annotations

import gc
import itertools
import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from placement_lint import registry
from placement_lint.checking.checker import Checker
from placement_lint.fix.fixes import Fixer
from placement_lint.project.files import displayed
from placement_lint.report.results import digest
from placement_lint.report.static_timeline import timeline_page
from placement_lint.server import rule_pages
from placement_lint.server.analysis import Analyse, Analysis, Close, Draw, Locate, Mend, Request, absolute
from placement_lint.server.frames import packed, read
from placement_lint.server.reading import AmongOpenTexts, Draft, LiveReading, OpenTexts

# The collector's generations; the old one is collected after every ``SELDOM`` answers.
YOUNG, OLD = 1, 2
SELDOM = 50


class Worker:
    """Answers requests. Apart from the open texts, its state only saves time."""

    def __init__(self) -> None:
        self._texts = OpenTexts()
        self._drafts: dict[str, Draft] = {}
        # for each open text, the last version that could be parsed, with its digest
        self._legible: dict[str, tuple[str, LiveReading]] = {}
        self._written: set[str] = set()

    def answer(self, request: Request) -> object:
        if isinstance(request, Close):
            self._texts.drop(request.path)
            self._drafts.pop(request.path, None)
            self._legible.pop(request.path, None)
            return None
        if isinstance(request, Locate):
            known, reading = self._legible.get(request.path, ("", None))
            return reading.placed() if reading is not None and known == request.digest else None
        # Findings name other files relative to the working directory.
        with suppress(OSError):
            os.chdir(request.job.settings.root)
        request = replace(request, job=replace(request.job, folder=os.getcwd()))
        if isinstance(request, Draw):
            return timeline_page(displayed(Path(request.path)), request.job, request.data)
        return self._analysis(request) if isinstance(request, Analyse) else self._mended(request)

    def _analysis(self, request: Analyse) -> Analysis:
        path = displayed(Path(request.path))
        if request.data is None:
            analysis = Analysis(absolute(Checker(request.job, AmongOpenTexts(self._texts)).check_file(path)))
        else:
            self._texts.keep(request.path, request.data)
            draft = self._drafts.setdefault(request.path, Draft())
            reading = LiveReading(self._texts, draft, request.is_notebook)
            analysis = Analysis(absolute(Checker(request.job, reading).check_bytes(request.data, path)))
            if analysis.readable:
                self._legible[request.path] = digest(request.data), reading
        self._write_pages(finding.code for finding in analysis.checked.findings)
        return analysis

    def _mended(self, request: Mend) -> bytes:
        reading = AmongOpenTexts(self._texts, request.is_notebook)
        fixer = Fixer(request.job, unsafe=False, code=request.code, reading=reading)
        return fixer.fix(request.data, displayed(Path(request.path))).after

    def _write_pages(self, codes: Iterable[str]) -> None:
        """Write the pages of rules here, where the rules are loaded; the server only names the pages."""
        for code in set(codes) - self._written:
            rule_pages.write(registry.find_rule(code))
            self._written.add(code)


def main() -> None:
    requests, answers = sys.stdin.buffer, _answers()
    worker = Worker()
    registry.all_rules()
    gc.freeze()  # the existing objects are permanent: the collector should not traverse them
    gc.disable()  # it runs between requests
    answers.write(packed(None))
    answers.flush()
    for number in itertools.count(1):
        try:
            request = read(requests)
        except EOFError:
            return
        try:
            answer = worker.answer(request)
        except Exception as error:
            answer = error
        answers.write(packed(answer))
        answers.flush()
        gc.collect(OLD if number % SELDOM == 0 else YOUNG)


def _answers() -> BinaryIO:
    """Standard output for answers alone: output of rules goes to standard error."""
    kept = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return os.fdopen(kept, "wb")
