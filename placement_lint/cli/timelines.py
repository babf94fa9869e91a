"""The files that ``run`` writes about where tensors were."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

from placement_lint.errors import UsageError
from placement_lint.simulate.timeline import Timeline
from placement_lint.simulate.timeline_page import timeline_page
from placement_lint.simulate.trace_file import trace_file
from placement_lint.writing import write

Renderer = Callable[[Timeline, str], str]


def timeline_files(page: str | None, trace: str | None) -> dict[Path, Renderer]:
    """What to write where; raises UsageError for places where nothing can be written, before the program runs."""
    wanted: list[tuple[str | None, Renderer]] = [(page, timeline_page), (trace, trace_file)]
    files: dict[Path, Renderer] = {}
    for name, renderer in wanted:
        if name is None:
            continue
        # The program may change the working directory.
        path = Path(name).absolute()
        if not path.parent.is_dir():
            raise UsageError(f"cannot write {name}: No such file or directory")
        if path in files:
            raise UsageError(f"--timeline and --trace-file would both be written to {name}")
        files[path] = renderer
    return files


def write_timeline_files(files: dict[Path, Renderer], timeline: Timeline, program: str) -> None:
    for path, renderer in files.items():
        try:
            write(path, renderer(timeline, program).encode())
        except OSError as error:
            raise UsageError(f"cannot write {path}: {error.strerror or error}") from None
        click.echo(f"wrote {path}", err=True)
