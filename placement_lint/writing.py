"""Atomic writes of files: a reader finds the old content or the new one, never a part."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import BinaryIO


@contextmanager
def replacing(path: Path, durable: bool = True) -> Iterator[BinaryIO]:
    """A stream whose content becomes the file at ``path`` when the block ends without an exception; raises OSError.

    Links are followed and permissions are kept. Devices (``/dev/stdout``) and pipes are written directly.
    Without ``durable`` the content may be lost if the machine stops, which a cache can afford.
    """
    if _is_device(path):
        with path.open("wb") as stream:
            yield stream
        return
    target = Path(os.path.realpath(path))
    with _draft(target.parent) as draft:
        with draft.open("xb") as stream:
            yield stream
            if durable:
                stream.flush()
                os.fsync(stream.fileno())
        if target.exists():
            shutil.copymode(target, draft)
        os.replace(draft, target)


def write(path: Path, data: bytes, durable: bool = True) -> None:
    """Replace the content of a file; raises OSError."""
    with replacing(path, durable) as stream:
        stream.write(data)


def write_new(folder: Path, stem: str, suffix: str, text: str) -> Path:
    """Create ``stem.suffix``, or ``stem_2.suffix`` and so on if that exists; raises OSError."""
    with _draft(folder) as draft:
        draft.write_bytes(text.encode())
        return _named(draft, (folder / name for name in _names(stem, suffix)))


def _is_device(path: Path) -> bool:
    """Whether it cannot be replaced; ``/dev/stdout`` may lead to a regular file with other content."""
    return path.parts[:2] == ("/", "dev") or (path.exists() and not path.is_file())


@contextmanager
def _draft(folder: Path) -> Iterator[Path]:
    """The path of a temporary file in that folder, which is removed if it still exists afterwards."""
    draft = folder / f".{os.urandom(8).hex()}.tmp"
    try:
        yield draft
    finally:
        draft.unlink(missing_ok=True)


def _named(draft: Path, paths: Iterator[Path]) -> Path:
    """Rename the file to the first of the paths that does not exist yet."""
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
