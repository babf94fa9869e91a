"""Files that are written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path


def write_new(folder: Path, stem: str, suffix: str, text: str) -> Path:
    """A new file ``stem.suffix``, or ``stem_2.suffix`` and so on where there is one already; raises OSError."""
    draft = folder / f".{stem}.{os.getpid()}.tmp"
    try:
        with draft.open("w", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
        return _named(draft, (folder / name for name in _names(stem, suffix)))
    finally:
        draft.unlink(missing_ok=True)


def _named(draft: Path, paths: Iterator[Path]) -> Path:
    """The file under the first of the names that nothing has."""
    for path in paths:
        try:
            os.link(draft, path)
        except FileExistsError:
            continue
        except OSError:  # a file system without hard links
            if path.exists():
                continue
            os.replace(draft, path)
        return path
    raise AssertionError


def _names(stem: str, suffix: str) -> Iterator[str]:
    yield f"{stem}{suffix}"
    yield from (f"{stem}_{number}{suffix}" for number in count(2))
