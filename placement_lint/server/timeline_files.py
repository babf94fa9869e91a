"""Timelines as files in the user's cache folder, one for each source file, for a browser."""

from __future__ import annotations

from pathlib import Path

from platformdirs import user_cache_path

from placement_lint import writing
from placement_lint.report.results import digest


def write(path: str, page: str) -> Path:
    """Write the page for the source file at ``path`` and return its file; raises OSError."""
    folder = user_cache_path("placement-lint") / "timelines"
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{Path(path).stem}-{digest(path.encode())[:8]}.html"
    writing.write(file, page.encode(), durable=False)
    return file
