"""Public packages to measure on: pinned, fetched once, unpacked, never installed."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

PINNED = ("timm==1.0.22", "transformers==4.57.1")


def unpacked(requirement: str, folder: Path) -> Path:
    """The sources of a pinned requirement below ``folder``, from its wheel."""
    sources = folder / requirement.replace("==", "-")
    if not sources.exists():
        wheels = folder / "wheels"
        wheels.mkdir(parents=True, exist_ok=True)
        command = (sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:")
        subprocess.run((*command, "--dest", wheels, requirement), check=True)
        name, _, version = requirement.partition("==")
        (wheel,) = wheels.glob(f"{name.replace('-', '_')}-{version}-*.whl")
        partial = sources.with_suffix(".partial")
        zipfile.ZipFile(wheel).extractall(partial)
        partial.rename(sources)
    return sources


def size(folder: Path) -> tuple[int, int]:
    """The number of Python files, and of their lines."""
    files = sorted(folder.rglob("*.py"))
    return len(files), sum(file.read_bytes().count(b"\n") for file in files)
