"""The command lines of the compared tools."""

from __future__ import annotations

import compileall
import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

OURS = "placement-lint"
CORES = os.cpu_count() or 1

# The command of each tool: with its default checks, on all cores if it supports that.
PEERS = {
    "TorchFix": ("torchfix", "--select", "ALL", "{sources}"),
    "flake8 + TorchFix": ("flake8", "--select", "TOR", f"--jobs={CORES}", "{sources}"),
    "flake8": ("flake8", "--extend-ignore", "TOR", f"--jobs={CORES}", "{sources}"),
    "Fixit": ("fixit", "--quiet", "lint", "{sources}"),
    "pylint": ("pylint", f"--jobs={CORES}", "--recursive=y", "--persistent=n", "--score=n", "{sources}"),
    "ruff, cold": ("ruff", "check", "--isolated", "--no-cache", "--quiet", "{sources}"),
    "ruff, warm": ("ruff", "check", "--isolated", "--cache-dir", "{cache}/ruff", "--quiet", "{sources}"),
}


@dataclass(frozen=True)
class Tool:
    name: str
    command: tuple[str, ...]

    def on(self, sources: Path, cache: Path) -> list[str]:
        return [part.format(sources=sources, cache=cache) for part in self.command]


def compile_ours() -> None:
    """Write the bytecode that pip writes when it installs the peers, but not for an editable install.

    Python would write it in the first run; with ``PYTHONDONTWRITEBYTECODE``, each process compiles again.
    """
    for package in ("placement_lint", "placement_lint.rules"):
        spec = find_spec(package)
        for folder in (spec.submodule_search_locations if spec is not None else None) or ():
            compileall.compile_dir(folder, quiet=1)


def installed(search: str | None) -> Iterator[Tool]:
    """This environment's placement-lint, and every peer found on ``search`` or on the path."""
    check = (sys.executable, "-m", "placement_lint", "check", "--isolated", "--format", "concise")
    yield Tool(f"{OURS}, cold", (*check, "--no-cache", "{sources}"))
    yield Tool(f"{OURS}, warm", (*check, "{sources}"))
    path = os.pathsep.join(filter(None, (search, str(Path(sys.executable).parent), os.environ.get("PATH"))))
    for name, (program, *arguments) in PEERS.items():
        if found := shutil.which(program, path=path):
            yield Tool(name, (found, *arguments))
