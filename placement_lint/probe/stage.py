"""Where slices are played: a process of their own, whose doors to the machine are shut.

The process is a copy of a worker that has PyTorch in its memory already. It may compute, and write into its own folder.
What would read the user's files, write or delete outside of that folder, open a connection or start a process is
refused, and ends the slice. This keeps accidents from happening; it is no prison for code that means harm.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import faulthandler
import importlib.machinery
import json
import multiprocessing.process
import os
import selectors
import signal
import sys
import sysconfig
import time
import traceback
import types
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import torch

SCRIPT = "slice.py"

Answer = dict[str, Any]


class Refused(BaseException):
    """Something that a slice may not do. No ``except Exception`` of the program holds it up."""


# --- processes -------------------------------------------------------------------------------------------------


def apart(limit: float, *plays: Callable[[], Answer]) -> Answer:
    """What comes of plays in copies of this process, one each: the first failure of any, else what the first says.

    Where processes cannot be copied, a single one is played in this process.
    """
    if not hasattr(os, "fork"):
        return plays[0]() if len(plays) == 1 else {"unable": "this system cannot play several ranks"}
    copies = [_Copy(limit, play) for play in plays]
    try:
        return _first_failure(copies) or copies[0].answer
    finally:
        for copy in copies:
            copy.end()


class _Copy:
    """A copy of this process that plays, and says at its end what came of it."""

    def __init__(self, limit: float, play: Callable[[], Answer]) -> None:
        self.limit = limit
        self.began = time.monotonic()
        self.answer: Answer = {}
        reading, writing = os.pipe()
        self.process = os.fork()
        if self.process == 0:
            os.close(reading)
            _act(limit, play, writing)
        os.close(writing)
        self.stream = os.fdopen(reading, "r", encoding="utf-8")

    def hear(self) -> Answer:
        """Wait for its answer, if it is not there yet."""
        said = self.stream.readline()  # not all: workers that it leaves behind keep the pipe open
        try:
            self.answer = json.loads(said)
        except ValueError:
            _, status = os.waitpid(self.process, 0)
            late = time.monotonic() - self.began >= self.limit
            why = f"no end after {self.limit:g} s" if late else f"the process died ({_cause(status)})"
            self.answer = {"unable": why, "ended": time.monotonic()}
            self.process = 0
        return self.answer

    def end(self) -> None:
        self.stream.close()
        if self.process:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.process, signal.SIGKILL)
            os.waitpid(self.process, 0)


def _first_failure(copies: list[_Copy]) -> Answer | None:
    """Other ranks wait for one that failed, or fail because it is gone."""
    with selectors.DefaultSelector() as selector:
        for copy in copies:
            selector.register(copy.stream, selectors.EVENT_READ, copy)
        while selector.get_map():
            failures = []
            for key, _ in selector.select():
                selector.unregister(key.fileobj)
                if "saw" not in key.data.hear():
                    failures.append(key.data.answer)
            if failures:
                first: Answer = min(failures, key=lambda answer: answer["ended"])
                return first
    return None


def _act(limit: float, play: Callable[[], Answer], writing: int) -> None:
    """The copy's whole life."""
    faulthandler.dump_traceback_later(limit, exit=True)
    try:
        answer = play()
    except BaseException as error:
        answer = {"unable": f"{type(error).__name__}: {error}"}
    with os.fdopen(writing, "w", encoding="utf-8") as stream:
        stream.write(json.dumps({**answer, "ended": time.monotonic()}) + "\n")
    os._exit(0)


def _cause(status: int) -> str:
    if os.WIFSIGNALED(status):
        return signal.Signals(os.WTERMSIG(status)).name
    return f"exit status {os.waitstatus_to_exitcode(status)}"


# --- playing -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Play:
    """What is run: the script, or the program ``entry`` that gets the script when it imports the file ``home``.

    ``lines`` are those of the script of which the answer says whether they were reached. ``roots`` are the folders
    from which they may import.
    """

    text: str
    lines: list[int]
    roots: list[str]
    entry: str = ""
    home: str = ""


def played(play: Play, part: Part) -> Answer:
    """Run a script as ``__main__`` in the present folder: what it raised and where, or that it came to its end."""
    roots = play.roots
    reached: set[int] = set()
    script = types.ModuleType("__main__")
    script.__dict__.update(__file__=os.path.abspath(SCRIPT))
    builtins.__dict__["__reached__"] = reached.add
    sys.modules["__main__"] = script
    sys.argv = [SCRIPT]
    sys.path[:] = [*roots, *sys.path]
    code = compile(_noting(ast.parse(play.text), play.lines), SCRIPT, "exec")
    if play.entry:
        _lend(code, play.home)
        code = compile(play.entry, "entry.py", "exec")
    os.environ["TMPDIR"] = os.getcwd()
    os.environ.pop("PYTORCH_NVML_BASED_CUDA_CHECK", None)  # with it, to ask for GPUs would not start CUDA
    import tempfile

    tempfile.tempdir = os.getcwd()
    doors = _Doors(os.getcwd(), roots)
    sys.addaudithook(doors.watch)
    _forbid_processes()
    part.take(doors, starts_ranks=part.ranks > 1 or "init_process_group" in play.text)
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
    return {**answer, "reached": sorted(reached)}


def _lend(code: types.CodeType, home: str) -> None:
    """Whoever imports the file gets this code."""
    loader: Any = importlib.machinery.SourceFileLoader
    get_code = loader.get_code

    def lent(self: Any, name: str) -> types.CodeType | None:
        same = os.path.realpath(self.get_filename(name)) == os.path.realpath(home)
        return code if same else get_code(self, name)

    loader.get_code = lent


@dataclass(frozen=True)
class Part:
    """Which of the ranks that play a script this process is."""

    rank: int = 0
    ranks: int = 1
    nodes: int = 1

    @property
    def local(self) -> int:
        return self.rank % (self.ranks // self.nodes)

    def take(self, doors: _Doors, starts_ranks: bool) -> None:
        if self.ranks > 1:
            os.environ.update(self._launched())
        _meet_in_file(self.rank, self.ranks)
        _play_started(self.local, doors, starts_ranks)

    def _launched(self) -> dict[str, str]:
        """What ``torchrun`` tells a process of itself."""
        there = self.ranks // self.nodes
        told = {
            "RANK": self.rank, "LOCAL_RANK": self.local, "WORLD_SIZE": self.ranks, "LOCAL_WORLD_SIZE": there,
            "GROUP_RANK": self.rank // there, "MASTER_ADDR": "localhost", "MASTER_PORT": 29500,
        }  # fmt: skip
        return {name: str(value) for name, value in told.items()}


def _meet_in_file(rank: int, ranks: int) -> None:
    """However a program would have its processes find each other: they do so in a file of their folder."""
    dist: Any = torch.distributed
    start = dist.init_process_group
    # A program may leave one group and join another, which must not find what the first has left in the file.
    meetings = count()

    def meet(backend: str | None = None, init_method: str | None = None, *_: Any, **options: Any) -> None:
        own = {"store": dist.FileStore(f"ranks{next(meetings)}", ranks), "rank": rank, "world_size": ranks}
        start(backend, **{**options, **own})

    dist.init_process_group = dist.distributed_c10d.init_process_group = meet


def _play_started(local: int, doors: _Doors, starts_ranks: bool) -> None:
    """What a program starts as its ranks is played here, if it is this one; workers of a loader are started."""
    mp: Any = torch.multiprocessing
    process: Any = multiprocessing.process.BaseProcess
    begin, wait, number = process.start, process.join, count()

    def start(started: Any) -> None:
        if getattr(started._target, "__module__", "").startswith("torch.utils.data."):
            doors.start_worker(lambda: begin(started))
        elif not starts_ranks:
            raise Refused("would start another process")
        elif next(number) == local:
            started.run()

    def join(started: Any, timeout: float | None = None) -> None:
        if started._popen is not None:
            wait(started, timeout)

    def spawn(function: Callable[..., object], args: tuple[Any, ...] = (), *_: Any, **__: Any) -> None:
        if not starts_ranks:
            raise Refused("would start another process")
        torch.cuda.set_device(0)  # that is where a process begins
        function(local, *args)

    process.start, process.join, mp.spawn = start, join, spawn


def _forbid_processes() -> None:
    """multiprocessing starts processes without an audit event."""

    def refuse(*_: Any) -> None:
        raise Refused("would start another process")

    with contextlib.suppress(ImportError):
        import _posixsubprocess

        _posixsubprocess.fork_exec = refuse  # type: ignore[assignment]


def _noting(tree: ast.Module, lines: list[int]) -> ast.Module:
    """The program with a note before each statement of these lines."""

    class Noter(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> Any:
            node = self.generic_visit(node)
            if isinstance(node, ast.stmt) and node.lineno in lines:
                note = ast.parse(f"__reached__({node.lineno})").body[0]
                for part in ast.walk(note):
                    if hasattr(part, "lineno"):
                        part.lineno = part.end_lineno = node.lineno  # type: ignore[attr-defined]
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
LOCAL = {"socket.connect", "socket.bind"}  # where the address is a file, by which processes share tensors
STARTS = {"subprocess.Popen", "os.system", "os.posix_spawn", "os.exec", "os.fork", "os.forkpty", "os.spawn",
          "pty.spawn", "os.startfile"}  # fmt: skip
CHANGES = {"os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.link", "os.symlink", "os.truncate", "os.chmod",
           "os.chown", "os.utime", "shutil.rmtree", "shutil.move", "shutil.copyfile", "os.chdir"}  # fmt: skip
IMPORTED = (".py", ".pyc", ".so", ".pyd", ".json", ".typed")


class _Doors:
    """An audit hook (PEP 578) that says no."""

    def __init__(self, folder: str, roots: list[str]) -> None:
        self.open = False
        self.starting = False
        self.workers: set[int] = set()
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
        elif event in CONNECTS and not (event in LOCAL and isinstance(arguments[1], (str, bytes))):
            raise Refused("would open a network connection")
        elif event in STARTS and not (event == "os.fork" and self.starting):
            raise Refused("would start another process")
        elif event == "os.kill" and arguments[0] not in (os.getpid(), *self.workers):
            raise Refused("would end another process")
        elif event in CHANGES:
            for path in arguments:
                if isinstance(path, (str, bytes, os.PathLike)) and not self._inside(path):
                    raise Refused(f"would change {os.fsdecode(path)}")

    def start_worker(self, start: Callable[[], None]) -> None:
        """A copy of this process, with the same doors."""
        before = set(multiprocessing.active_children())
        self.starting = True
        try:
            start()
        finally:
            self.starting = False
        self.workers |= {child.pid for child in set(multiprocessing.active_children()) - before if child.pid}

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
