"""Where reports go: which format to which file, and at most one to standard output."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from io import TextIOWrapper
from pathlib import Path
from typing import TextIO

from placement_lint.errors import UsageError
from placement_lint.report.formats import render
from placement_lint.report.results import Run
from placement_lint.writing import replacing


@dataclass(frozen=True)
class Output:
    """``NAME`` or ``NAME:FILE``; without a file it is standard output."""

    form: str
    file: str | None = None


def destinations(asked: Sequence[Output], rest: str | None, statistics: bool) -> list[Output]:
    """Every report with its place; ``rest`` is the file for those that name none."""
    outputs = [Output(output.form, output.file or rest) for output in asked]
    place, times = Counter(output.file for output in outputs).most_common(1)[0]
    if times > 1:
        where = place or "standard output"
        raise UsageError(f"{times} formats would be written to {where}: give each a file, --format NAME:FILE")
    if statistics:
        _refuse_uncountable(outputs)
    return outputs


def write_report(run: Run, output: Output, statistics: bool) -> None:
    if output.file:
        run = replace(run, style=replace(run.style, color="never"))
    with _opened(output.file) as stream:
        if statistics:
            from placement_lint.report.statistics import RENDERERS

            RENDERERS[output.form](run, stream)
        else:
            render(output.form, run, stream)


def _refuse_uncountable(outputs: Sequence[Output]) -> None:
    from placement_lint.report.statistics import RENDERERS

    for output in outputs:
        if output.form not in RENDERERS:
            raise UsageError(f"--statistics has no format {output.form}, only {', '.join(RENDERERS)}")


@contextmanager
def _opened(file: str | None) -> Iterator[TextIO]:
    if file is None:
        if isinstance(sys.stdout, TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")
        yield sys.stdout
        return
    try:
        with replacing(Path(file)) as content:
            stream = TextIOWrapper(content, encoding="utf-8", errors="backslashreplace")
            yield stream
            stream.detach()
    except OSError as error:
        raise UsageError(f"cannot write {file}: {error.strerror or error}") from None
