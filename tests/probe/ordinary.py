"""Start a command as an ordinary user: ``python ordinary.py UID FOLDERS COMMAND…``, as root.

Python and the tested files may be in folders that only root can enter. So the command gets a mount namespace in which
``FOLDERS``, Python and the current folder are accessible, and nothing else in closed folders exists.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import torch

import placement_lint
from placement_lint.probe import linux


def closed(path: Path) -> Path | None:
    """The outermost folder on the way that others may not pass."""
    return next((folder for folder in reversed(path.parents) if not folder.stat().st_mode & 0o1), None)


def main(user: int, folders: list[str], command: list[str]) -> None:
    linux.unshare(linux.NEW_MOUNTS)
    linux.mount(None, "/", None, linux.RECURSIVE | linux.PRIVATE)
    here = os.getcwd()
    package, pytorch = str(Path(placement_lint.__file__).parent), str(Path(torch.__file__).parents[1])
    needed = {*folders, here, sys.prefix, sys.base_prefix, package, pytorch, *sys.path}
    hidden = {path: closed(path) for path in map(Path, sorted(needed)) if path.is_dir()}
    stage = Path(tempfile.mkdtemp(dir="/var/tmp"))
    linux.mount("tmpfs", str(stage), "tmpfs", 0)
    kept = {}
    for path, where in hidden.items():
        if where is not None:
            kept[path] = stage / str(len(kept))
            kept[path].mkdir()
            linux.mount(str(path), str(kept[path]), None, linux.BIND | linux.RECURSIVE)
    for where in {where for where in hidden.values() if where is not None}:
        linux.mount("tmpfs", str(where), "tmpfs", 0, "mode=755")
    for path, copy in kept.items():
        path.mkdir(parents=True, exist_ok=True)
        linux.mount(str(copy), str(path), None, linux.BIND | linux.RECURSIVE)
    linux.unmount(str(stage))
    stage.rmdir()
    os.chown(here, user, user)
    os.chdir(here)
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    os.execv(command[0], command)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2].split(os.pathsep), sys.argv[3:])
