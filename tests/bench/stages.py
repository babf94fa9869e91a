"""The time that placement-lint spends in each stage, file by file in one process."""

from __future__ import annotations

import gc
import io
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import libcst as cst

from placement_lint.checking.checker import Checker, Job, Reading
from placement_lint.config.settings import Settings
from placement_lint.report.json import render
from placement_lint.run.engine import summarise

T = TypeVar("T")


class TimedReading(Reading):
    """A Reading that measures the time of each stage."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()

    def timed(self, stage: str, work: Callable[[], T]) -> T:
        begun = time.process_time()
        try:
            return work()
        finally:
            self.seconds[stage] += time.process_time() - begun

    def read(self, text: str) -> cst.Module:
        return self.timed("parse", lambda: super(TimedReading, self).read(text))

    def parse(self, text: str) -> cst.Module:
        return self.timed("parse", lambda: super(TimedReading, self).parse(text))

    def hear(self, *arguments: Any, **keywords: Any) -> Any:
        return self.timed("analyse", lambda: super(TimedReading, self).hear(*arguments, **keywords))

    def place(self, module: cst.Module, nodes: Sequence[cst.CSTNode]) -> Any:
        return self.timed("place", lambda: super(TimedReading, self).place(module, nodes))


def stages(sources: Path) -> dict[str, float]:
    """Seconds of processor time by stage; ``filter`` is the decision whether a file is parsed at all."""
    reading = TimedReading()
    checker = Checker(Job(Settings(root=sources)), reading)
    files = sorted(map(str, sources.rglob("*.py")))
    contents = reading.timed("read", lambda: {file: Path(file).read_bytes() for file in files})
    gc.collect()
    gc.freeze()
    begun = time.process_time()
    checked = [checker.check_bytes(data, file) for file, data in contents.items()]
    reading.seconds["filter"] = (
        time.process_time() - begun - sum(reading.seconds[stage] for stage in ("parse", "analyse", "place"))
    )
    run = reading.timed("link", lambda: summarise(checked, "."))
    reading.timed("report", lambda: render(run, io.StringIO()))
    return {
        stage: reading.seconds[stage] for stage in ("read", "filter", "parse", "analyse", "place", "link", "report")
    }
