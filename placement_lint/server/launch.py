"""Start of the worker, in a module by itself: it gets ready while the server still loads its libraries."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TypeAlias

from placement_lint import __file__ as package

Process: TypeAlias = "subprocess.Popen[bytes]"

# Not with `-m`: that puts the working directory on the import path, where a project's files would shadow libraries.
START = "import sys; sys.path[:] = [*filter(None, sys.path), sys.argv[1]]; from placement_lint.server import worker"
COMMAND = (sys.executable, "-c", f"{START}; worker.main()", str(Path(package).parents[1]))


def launch() -> Process:
    return subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
