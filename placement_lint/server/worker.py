"""The process that analyses: a request in, an answer out, until there are no more.

``python -m placement_lint.server.worker`` speaks as frames.py says, on standard input and output.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterable
from dataclasses import replace
from typing import BinaryIO

from placement_lint import registry
from placement_lint.checker import Checker
from placement_lint.fixes import Fixer
from placement_lint.server import rule_pages
from placement_lint.server.analysis import Analyse, Analysis, Mend, Request
from placement_lint.server.frames import packed, read
from placement_lint.server.reading import LiveReading


class Worker:
    """Answers requests; what it keeps between them only saves time."""

    def __init__(self) -> None:
        self._written: set[str] = set()

    def answer(self, request: Request) -> object:
        if isinstance(request, Analyse):
            return self._analyse(request)
        if isinstance(request, Mend):
            return Fixer(request.job, unsafe=False, code=request.code).fix(request.data, request.path).after
        return None

    def _analyse(self, request: Analyse) -> Analysis:
        reading = LiveReading() if request.placements else None
        checker = Checker(request.job, reading)
        if request.data is None:
            checked = checker.check_file(request.path)
        else:
            checked = checker.check_bytes(request.data, request.path)
        # The editor is told of one file at a time; what is about another one is told when that is asked for.
        own = tuple(finding for finding in checked.findings if finding.path == checked.path)
        checked = replace(checked, findings=own)
        self._write_pages(finding.code for finding in checked.findings)
        return Analysis(checked, reading.placed() if reading else ())

    def _write_pages(self, codes: Iterable[str]) -> None:
        """The rules are loaded here; the server only names their pages."""
        for code in set(codes) - self._written:
            rule_pages.write(registry.find_rule(code))
            self._written.add(code)


def main() -> None:
    requests, answers = sys.stdin.buffer, _answers()
    worker = Worker()
    registry.all_rules()
    gc.freeze()  # what is there now, stays: the collector need not look at it again and again
    answers.write(packed(None))
    answers.flush()
    while True:
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


def _answers() -> BinaryIO:
    """Standard output for answers alone: what a rule prints goes to standard error."""
    kept = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return os.fdopen(kept, "wb")


if __name__ == "__main__":
    main()
