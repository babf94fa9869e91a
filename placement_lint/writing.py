"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from itertools import count
from pathlib import Path


def write_new(folder: Path, stem: str, suffix: str, text: str) -> Path:
    """A new file ``stem.suffix``, or ``stem_2.suffix`` and so on where there is one already; raises OSError."""
    path = _reserved(folder, stem, suffix)
    handle, name = tempfile.mkstemp(dir=folder, suffix=suffix)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
        os.chmod(name, path.stat().st_mode)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        path.unlink()
        raise
    return path


def _reserved(folder: Path, stem: str, suffix: str) -> Path:
    """An empty file under a name that was free."""
    for number in count(1):
        path = folder / (f"{stem}{suffix}" if number == 1 else f"{stem}_{number}{suffix}")
        try:
            path.touch(exist_ok=False)
        except FileExistsError:
            continue
        return path
    raise AssertionError
