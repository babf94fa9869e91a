"""The cost of a run after one file has changed: that file is checked again, and the files that use the change."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.bench.measure import cost_of
from tests.bench.tools import OURS, Tool, compile_ours

_RETURN = re.compile(r"\n([ ]+)return\b")
# Tolerance: the limit is this factor times the cost of an unchanged run and of a check of the file alone.
SLACK = 1.5


def _in_a_function(text: str) -> str:
    """The text with another statement before its middle ``return``; unchanged if there is no ``return``."""
    found = list(_RETURN.finditer(text))
    if not found:
        return text
    middle = found[len(found) // 2]
    return f"{text[: middle.start()]}\n{middle[1]}print('changed'){text[middle.start() :]}"


EDITS: Mapping[str, Callable[[str], str]] = {
    "a comment above all": lambda text: f"# changed\n{text}",
    "another function": lambda text: f"{text}\n\ndef added(x):\n    return x + 1\n",
    "a line in a function": _in_a_function,
}


@dataclass(frozen=True)
class Change:
    """Wall-clock seconds of the run after an edit of a file, and their limit."""

    file: Path
    edit: str
    wall: float
    limit: float

    @property
    def share(self) -> float:
        return self.wall / self.limit


def changes(tools: Mapping[str, Tool], sources: Path, sample: int, scratch: Path) -> Iterator[Change]:
    """Edit a sample of the files one by one, each time with a cache of the unchanged sources."""
    cold, warm = tools[f"{OURS}, cold"], tools[f"{OURS}, warm"]
    copy, known, cache = (scratch / name for name in ("sources", "known", "cache"))
    shutil.copytree(sources, copy)
    compile_ours()

    def seconds(tool: Tool, place: Path, folder: Path) -> float:
        return cost_of(tool.on(place, folder), {"XDG_CACHE_HOME": str(folder)}).wall

    seconds(warm, copy, known)
    unchanged = min(seconds(warm, copy, known) for _ in range(3))
    files = sorted(file for file in copy.rglob("*.py") if file.stat().st_size)
    for file in files[:: max(1, len(files) // sample)]:
        limit = SLACK * (unchanged + min(seconds(cold, file, known) for _ in range(2)))
        content, status = file.read_bytes(), file.stat()
        edited = {name: edit(content.decode()).encode() for name, edit in EDITS.items()}
        for name in [name for name in EDITS if edited[name] != content]:
            file.write_bytes(edited[name])
            shutil.copytree(known, cache)
            yield Change(file.relative_to(copy), name, seconds(warm, copy, cache), limit)
            shutil.rmtree(cache)
            file.write_bytes(content)
            os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
