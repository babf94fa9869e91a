"""Where slices are played: a process of their own, whose doors to the machine are shut.

The process is a copy of a worker that has PyTorch in its memory already. It may compute, and write into its own folder.
What would read the user's files, write or delete outside of that folder, open a connection or start a process is
refused, and ends the slice. This keeps accidents from happening; it is no prison for code that means harm.
"""

from __future__ import annotations

import ast
import contextlib
import faulthandler
import json
import os
import sys
import sysconfig
import time
import traceback
import types
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

SCRIPT = "slice.py"

Answer = dict[str, Any]


class Refused(BaseException):
    """Something that a slice may not do. No ``except Exception`` of the program holds it up."""


# --- processes -------------------------------------------------------------------------------------------------


def apart(limit: float, play: Callable[[], Answer]) -> Answer:
    """What ``play`` answers in a copy of this process; where processes cannot be copied, in this one."""
    if not hasattr(os, "fork"):
        return play()
    reading, writing = os.pipe()
    began = time.monotonic()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _act(limit, play, writing)
    os.close(writing)
    with os.fdopen(reading, "r", encoding="utf-8") as stream:
        said = stream.read()
    _, status = os.waitpid(child, 0)
    try:
        answer: Answer = json.loads(said)
    except ValueError:
        late = time.monotonic() - began >= limit
        return {"unable": f"no end after {limit:g} s" if late else f"the process died ({_cause(status)})"}
    return answer


def _act(limit: float, play: Callable[[], Answer], writing: int) -> None:
    """The copy's whole life."""
    faulthandler.dump_traceback_later(limit, exit=True)
    try:
        said = json.dumps(play())
    except BaseException as error:
        said = json.dumps({"unable": f"{type(error).__name__}: {error}"})
    with os.fdopen(writing, "w", encoding="utf-8") as stream:
        stream.write(said)
    os._exit(0)


def _cause(status: int) -> str:
    import signal

    if os.WIFSIGNALED(status):
        return signal.Signals(os.WTERMSIG(status)).name
    return f"exit status {os.waitstatus_to_exitcode(status)}"


# --- playing -----------------------------------------------------------------------------------------------------


def played(text: str, watched: int, roots: list[str]) -> Answer:
    """Run a script as ``__main__`` in the present folder: what it raised and where, or that it came to its end.

    ``watched`` is the line of which the answer says whether it was reached. ``roots`` are the folders from which the
    script may import.
    """
    reached: list[int] = []
    script = types.ModuleType("__main__")
    script.__dict__.update(__file__=os.path.abspath(SCRIPT), __reached__=lambda: reached.append(watched))
    sys.modules["__main__"] = script
    sys.argv = [SCRIPT]
    sys.path[:] = [*roots, *sys.path]
    code = compile(_noting(ast.parse(text), watched), SCRIPT, "exec")
    os.environ["TMPDIR"] = os.getcwd()
    import tempfile

    tempfile.tempdir = os.getcwd()
    doors = _Doors(os.getcwd(), roots)
    sys.addaudithook(doors.watch)
    _forbid_processes()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec(code, script.__dict__)
        answer: Answer = {"saw": None}
    except Refused as reason:
        answer = {"unable": f"the slice {reason}"}
    except SystemExit as ending:
        answer = {"saw": None} if ending.code in (None, 0) else {"unable": f"the slice exits with {ending.code!r}"}
    except MemoryError:
        answer = {"unable": "out of memory"}
    except BaseException as error:
        answer = {
            "raised": [cls.__name__ for cls in type(error).__mro__],
            "message": str(error),
            "lines": _lines(error),
        }
    doors.open = True
    return {**answer, "reached": bool(reached)}


def _forbid_processes() -> None:
    """multiprocessing starts processes without an audit event."""

    def refuse(*_: Any) -> None:
        raise Refused("would start another process")

    with contextlib.suppress(ImportError):
        import _posixsubprocess

        _posixsubprocess.fork_exec = refuse  # type: ignore[assignment]


def _noting(tree: ast.Module, line: int) -> ast.Module:
    """The program with a note before each statement of a line."""

    class Noter(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> Any:
            node = self.generic_visit(node)
            if isinstance(node, ast.stmt) and node.lineno == line:
                note = ast.parse("__reached__()").body[0]
                for part in ast.walk(note):
                    if hasattr(part, "lineno"):
                        part.lineno = part.end_lineno = line  # type: ignore[attr-defined]
                return [note, node]
            return node

    noted: ast.Module = ast.fix_missing_locations(Noter().visit(tree))
    return noted


def _lines(error: BaseException) -> list[int]:
    """The script's own lines through which an exception came, those of a replica's thread included."""
    import re

    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == SCRIPT]
    lines += [int(found[1]) for found in re.finditer(rf'File "{re.escape(SCRIPT)}", line (\d+)', str(error))]
    return [line for line in lines if line is not None]


# --- doors ---------------------------------------------------------------------------------------------------------

WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
CONNECTS = {"socket.connect", "socket.bind", "socket.sendto", "socket.getaddrinfo", "urllib.Request"}
STARTS = {"subprocess.Popen", "os.system", "os.posix_spawn", "os.exec", "os.fork", "os.forkpty", "os.spawn",
          "pty.spawn", "os.startfile"}  # fmt: skip
CHANGES = {"os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.link", "os.symlink", "os.truncate", "os.chmod",
           "os.chown", "os.utime", "shutil.rmtree", "shutil.move", "shutil.copyfile", "os.chdir"}  # fmt: skip
IMPORTED = (".py", ".pyc", ".so", ".pyd", ".json", ".typed")


class _Doors:
    """An audit hook (PEP 578) that says no."""

    def __init__(self, folder: str, roots: list[str]) -> None:
        self.open = False
        self.folder = os.path.realpath(folder)
        paths = sysconfig.get_paths()
        own = (sys.prefix, sys.base_prefix, *(paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")))
        system = ("/proc", "/sys", "/dev", "/etc", "/usr/lib", "/usr/share", "/lib")
        libraries = (os.path.dirname(os.path.dirname(torch.__file__)), str(Path(__file__).parents[2]))
        self.readable = tuple(map(os.path.realpath, (*own, *system, *libraries)))
        self.roots = tuple(map(os.path.realpath, roots))

    def watch(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.open:
            return
        if event == "open":
            self._opening(*arguments[:3])
        elif event in CONNECTS and not (event == "socket.connect" and isinstance(arguments[1], (str, bytes))):
            raise Refused("would open a network connection")
        elif event in STARTS:
            raise Refused("would start another process")
        elif event == "os.kill" and arguments[0] != os.getpid():
            raise Refused("would end another process")
        elif event in CHANGES:
            for path in arguments:
                if isinstance(path, (str, bytes, os.PathLike)) and not self._inside(path):
                    raise Refused(f"would change {os.fsdecode(path)}")

    def _opening(self, path: Any, mode: str | None, flags: int) -> None:
        if not isinstance(path, (str, bytes, os.PathLike)):
            return  # a file that is open already
        if self._inside(path):
            return
        name = os.path.realpath(os.fsdecode(path))
        if name == os.devnull or name.startswith("/dev/"):
            return
        if (mode and set(mode) & set("wax+")) or flags & WRITES:
            raise Refused(f"would write {os.fsdecode(path)}")
        if _under(name, self.readable) or (_under(name, self.roots) and name.endswith(IMPORTED)):
            return
        if os.path.exists(name):
            raise Refused(f"would read {os.fsdecode(path)}")

    def _inside(self, path: Any) -> bool:
        return _under(os.path.realpath(os.fsdecode(path)), (self.folder,))


def _under(name: str, folders: tuple[str, ...]) -> bool:
    return any(name == folder or name.startswith(folder + os.sep) for folder in folders)
