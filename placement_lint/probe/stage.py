"""Where slices are played: processes of their own, which are copies of a worker that has PyTorch in its memory already.

Usually the operating system confines them (confinement.py), so that nothing which a slice does has an effect outside.
An audit hook (PEP 578) then only explains in plain words why there is no network. If the user lets a slice run
unconfined, the hook is the only protection: it refuses to read the user's files, to write or delete outside of the
folder of the slice, to open a connection and to start a process. That prevents accidents of Python code. Native code
raises no audit events, and malicious code can bypass the hook.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import faulthandler
import importlib.machinery
import json
import linecache
import multiprocessing.process
import os
import random
import re
import secrets
import selectors
import signal
import sys
import sysconfig
import tempfile
import time
import traceback
import types
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import torch

from placement_lint.probe.confinement import STRETCH, extended
from placement_lint.probe.leniency import Leniency

LIBRARIES = (os.path.dirname(os.__file__), os.path.dirname(os.path.dirname(torch.__file__)))
SCRIPT, ENTRY = "slice.py", "entry.py"
TICK = 0.05  # seconds between looks at what plays use up
SPARE = 0.5  # seconds before its limit at which a slice is interrupted
MOST_SAID = 2**24  # bytes of an answer
# Where a program is told that its ranks meet; here they meet in a file, and nothing has to look for a free port.
MEETING = {"MASTER_ADDR": "localhost", "MASTER_PORT": "29500"}

Answer = dict[str, Any]


class Late(BaseException):
    """The time of a slice is over. It says so itself, where it can, to say also how far it came."""


class Refused(BaseException):
    """Something that a slice may not do. No ``except Exception`` of the program holds it up."""


# --- processes -------------------------------------------------------------------------------------------------


def apart(limit: float, *plays: Callable[[], Answer], strain: Callable[[], str | None] = lambda: None) -> Answer:
    """The result of plays in copies of this process, one each: the first failure of any, else the answer of the first.

    All end as soon as ``strain`` names a resource that they use too much of. If processes cannot be copied, a single
    play runs in this process.
    """
    if not hasattr(os, "fork"):
        return plays[0]() if len(plays) == 1 else {"unable": "this system cannot play several ranks"}
    copies = [_Copy(limit, play) for play in plays]
    try:
        failure = _first_failure(copies, limit, strain)
        # A full resource makes a program fail in many ways.
        reason = strain() if failure else None
        return {"unable": reason} if reason else failure or copies[0].answer
    finally:
        for copy in copies:
            copy.end()


class _Copy:
    """A copy of this process that plays, and reports its result at the end.

    Its report begins with a word that the program does not know, so that output of the program to descriptors that it
    has not opened is not mistaken for the report.
    """

    def __init__(self, limit: float, play: Callable[[], Answer]) -> None:
        self.answer: Answer = {}
        self.word = secrets.token_hex().encode()
        self.heard = b""
        self.is_open = True
        self.reading, writing = os.pipe()
        self.process = os.fork()
        if self.process == 0:
            os.close(self.reading)
            _act(limit, play, writing, self.word)
        os.close(writing)
        os.set_blocking(self.reading, False)

    def hear(self) -> bool:
        """Whether it has come to an end, with an answer or without."""
        ended, status = os.waitpid(self.process, os.WNOHANG)
        self._listen()
        if ended:
            self.process = 0
            if not self.answer:
                self.answer = {"unable": f"the process died ({_cause(status)})", "ended": time.monotonic()}
        return bool(self.answer)

    def _listen(self) -> None:
        """Look for its answer among all that was written."""
        with contextlib.suppress(BlockingIOError):
            while part := os.read(self.reading, 2**20):
                *lines, self.heard = (self.heard + part).split(b"\n")
                for line in lines:
                    if line.startswith(self.word):
                        self.answer = json.loads(line[len(self.word) :])
                if len(self.heard) > MOST_SAID:
                    self.heard = b""
            self.is_open = False

    @property
    def waited(self) -> float:
        return waited(str(self.process))

    def end(self) -> None:
        os.close(self.reading)
        if self.process:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.process, signal.SIGKILL)
            os.waitpid(self.process, 0)


def waited(process: str = "self") -> float:
    """Seconds that a process was ready to run while others had the processor, where the system says so: proc(5)."""
    try:
        return int(Path(f"/proc/{process}/schedstat").read_text(encoding="ascii").split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0


def _first_failure(copies: list[_Copy], limit: float, strain: Callable[[], str | None]) -> Answer | None:
    """Other ranks wait for one that failed, or fail because it is gone."""
    began = time.monotonic()
    waiting = copies
    while waiting:
        with selectors.DefaultSelector() as selector:
            for copy in waiting:
                if copy.is_open:
                    selector.register(copy.reading, selectors.EVENT_READ)
            selector.select(TICK)
        waiting = [copy for copy in waiting if not copy.hear()]
        failures = [copy.answer for copy in copies if copy.answer and "saw" not in copy.answer]
        if failures:
            return min(failures, key=lambda answer: answer["ended"])
        if reason := strain():
            return {"unable": reason}
        if waiting and time.monotonic() >= began + extended(limit, max(copy.waited for copy in waiting)):
            return {"unable": f"did not end within {limit:g} s"}
    return None


def _act(limit: float, play: Callable[[], Answer], writing: int, word: bytes) -> None:
    """The copy's whole life."""
    # In case no other process ends this one. This is a thread of C, which no exception or lock of Python's can stop.
    faulthandler.dump_traceback_later(limit * STRETCH + TICK, exit=True)
    own = os.getpid()
    _interrupt_at(limit)
    try:
        answer = play()
    except BaseException as error:
        answer = {"unable": f"{type(error).__name__}: {error}"}
    if os.getpid() != own:  # a copy that the program has made of itself, and that went on
        os._exit(0)
    said = json.dumps({**answer, "ended": time.monotonic(), "waited": waited()}).encode()
    with os.fdopen(writing, "wb") as stream:
        stream.write(b"\n" + word + said + b"\n")
    os._exit(0)


def _interrupt_at(limit: float) -> None:
    """Interrupt this process shortly before its limit, unless the program has other plans with the signal."""

    began, before = time.monotonic(), waited()

    def interrupt(*_: object) -> None:
        left = began + extended(limit, waited() - before) - spare - time.monotonic()
        if left <= TICK:
            raise Late(f"did not end within {limit:g} s")
        signal.setitimer(signal.ITIMER_REAL, left)

    if hasattr(signal, "setitimer"):
        spare = min(SPARE, limit / 2)
        signal.signal(signal.SIGALRM, interrupt)
        signal.setitimer(signal.ITIMER_REAL, limit - spare)


def _cause(status: int) -> str:
    if os.WIFSIGNALED(status):
        return signal.Signals(os.WTERMSIG(status)).name
    return f"exit status {os.waitstatus_to_exitcode(status)}"


# --- playing -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Play:
    """The script to run, or the program ``entry`` that gets the script when it imports the file ``home``.

    ``lines`` are the lines of the script whose execution the answer reports. ``roots`` are the folders from which they
    may import, ``beside`` is that of the script's file, else the first of them, ``folder`` one of its own. A
    ``lenient`` play passes over statements that fail for an unrelated reason, but not at the lines that are ``kept``,
    and never over a symptom. ``lent`` are texts of other files. The program is called with ``argv``.
    """

    text: str
    lines: list[int]
    roots: list[str]
    folder: str
    confined: bool
    entry: str = ""
    home: str = ""
    lenient: bool = False
    kept: list[int] = field(default_factory=list)
    symptoms: list[tuple[str, str]] = field(default_factory=list)
    lent: list[tuple[str, str]] = field(default_factory=list)
    argv: list[str] = field(default_factory=list)
    beside: str = ""


def played(play: Play, part: Part) -> Answer:
    """Run a script as ``__main__`` in the present folder: what it raised and where, or that it came to its end."""
    roots = play.roots
    reached, left = Counter[int](), Counter[int]()
    script = types.ModuleType("__main__")
    # Beside the file of the user's are the files that it reads by way of its name.
    beside = play.beside or next(iter(roots), "")
    script.__dict__.update(__file__=os.path.join(beside if play.confined and beside else play.folder, SCRIPT))
    builtins.__dict__["__reached__"] = lambda line: reached.update((line,))
    builtins.__dict__["__left__"] = lambda line: left.update((line,))
    sys.modules["__main__"] = script
    sys.argv = [SCRIPT, *play.argv]
    sys.path[:] = [*roots, *sys.path]
    _join_package(script, play.entry or play.text, beside)
    for name, text in ((SCRIPT, play.text), (ENTRY, play.entry)):
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)  # for TorchScript
    tree, entry = _noting(ast.parse(play.text), play.lines), ast.parse(play.entry)
    leniency = Leniency(tuple(roots), LIBRARIES, tuple((kind, words) for kind, words in play.symptoms))
    if play.lenient:
        leniency.install()
        tree, entry = leniency.lenient(tree, play.kept), leniency.lenient(entry)
    for path, text in play.lent:
        other = ast.parse(text)
        _lend(compile(leniency.lenient(other) if play.lenient else other, path, "exec"), path)
    code = compile(tree, SCRIPT, "exec")
    if play.entry:
        _lend(code, play.home)
        code = compile(entry, ENTRY, "exec")
    _seed(part.rank)
    os.environ.pop("PYTORCH_NVML_BASED_CUDA_CHECK", None)  # with it, to ask for GPUs would not start CUDA
    doors = _Doors() if play.confined else _Guard(play.folder, roots)
    sys.addaudithook(doors.watch)
    part.take(play.folder, doors, starts_ranks=part.ranks > 1 or "init_process_group" in play.text)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec(code, script.__dict__)
        answer: Answer = {"saw": None}
    except Late as reason:
        answer = {"unable": str(reason), "late": True}
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
            "entered": _entered(error),
        }
        if lacking := _lacking(error):
            answer["package"] = lacking
    doors.open = True
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, 0)
    return {
        **answer,
        "reached": sorted(reached),
        "times": list(reached.items()),
        "left": list(left.items()),
        "stood_in": sorted({*script.__dict__.get("stood_in", ()), *leniency.passed}),
    }


# What Python and libraries say of a name that a module has not; not all of them say it in the exception's attributes.
NO_NAME = re.compile(
    r"cannot import name '(?P<imported>\w+)' from '(?P<source>[\w.]+)'"
    r"|module '(?P<module>[\w.]+)' has no attribute '(?P<attribute>\w+)'"
)


def _lacking(error: BaseException) -> str | None:
    """A package that is not there, or ``module:name`` where a module has no such name, or no longer.

    Modules of the program that would have to be compiled, or are none in this version of Python, are not there either.
    """
    if isinstance(error, ModuleNotFoundError):
        return error.name
    if isinstance(error, SyntaxError) and error.filename:
        return _module_in(error.filename)
    found = NO_NAME.match(str(error)) if isinstance(error, (ImportError, AttributeError)) else None
    if found is None:
        return None
    module, name = found["module"] or found["source"], found["attribute"] or found["imported"]
    file = getattr(sys.modules.get(module), "__file__", None) or ""
    if file.startswith(LIBRARIES) or module in sys.builtin_module_names:
        return f"{module}:{name}"
    if not found["imported"] or module not in sys.modules:
        return None
    return f"{module}.{name}" if hasattr(sys.modules[module], "__path__") else f"{module}:{name}"


def _module_in(path: str) -> str | None:
    """The name by which a file that an import found is imported."""
    for folder in sys.path:
        if path.endswith(".py") and os.path.isabs(path) and _under(path, (folder,)):
            return os.path.relpath(path, folder).removesuffix(".py").replace(os.sep, ".")
    return None


def _seed(rank: int) -> None:
    """Let a program draw the same random numbers each time, also where it asks the system for them."""
    random.seed(rank)
    random.__dict__["_urandom"] = os.urandom = random.Random(rank).randbytes
    with contextlib.suppress(ImportError):
        import numpy

        numpy.random.seed(rank)


def _join_package(script: types.ModuleType, text: str, folder: str) -> None:
    """Make a script part of the package that its folder is in, where it has relative imports."""
    levels = [node.level for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom) and node.level]
    if not levels or not folder:
        return
    parts = list[str]()
    while len(parts) < max(levels) or os.path.exists(os.path.join(folder, "__init__.py")):
        folder, name = os.path.split(folder)
        if not name:
            break
        parts.insert(0, name)
    script.__package__ = ".".join(parts)
    sys.path.append(folder)


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

    def take(self, folder: str, doors: _Doors, starts_ranks: bool) -> None:
        os.environ |= self._launched() if self.ranks > 1 else MEETING
        _meet_in_file(folder, self.rank, self.ranks)
        _play_started(self.local, doors, starts_ranks)

    def _launched(self) -> dict[str, str]:
        """What ``torchrun`` tells a process of itself."""
        there = self.ranks // self.nodes
        told = {
            "RANK": self.rank, "LOCAL_RANK": self.local, "WORLD_SIZE": self.ranks, "LOCAL_WORLD_SIZE": there,
            "GROUP_RANK": self.rank // there,
        }  # fmt: skip
        return MEETING | {name: str(value) for name, value in told.items()}


def _meet_in_file(folder: str, rank: int, ranks: int) -> None:
    """However a program would have its processes find each other: they do so in a file of their folder."""
    dist: Any = torch.distributed
    start = dist.init_process_group
    # A program may leave one group and join another, which must not find what the first has left in the file.
    meetings = count()

    def meet(backend: str | None = None, init_method: str | None = None, *_: Any, **options: Any) -> None:
        store = dist.FileStore(os.path.join(folder, f"ranks{next(meetings)}"), ranks)
        own = {"store": store, "rank": rank, "world_size": ranks}
        start(backend, **{**options, **own})

    dist.init_process_group = dist.distributed_c10d.init_process_group = meet


def _play_started(local: int, doors: _Doors, starts_ranks: bool) -> None:
    """Play the rank here that has this local number, if the program starts its ranks; start workers of a loader."""
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


def _noting(tree: ast.Module, lines: list[int]) -> ast.Module:
    """The program with a note before each statement of these lines, and one after those that it goes on from."""

    class Noter(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> Any:
            node = self.generic_visit(node)
            if not isinstance(node, ast.stmt) or node.lineno not in lines:
                return node
            before, after = (_note(name, node.lineno) for name in ("__reached__", "__left__"))
            return [before, node, after] if isinstance(node, GOING_ON) else [before, node]

    noted: ast.Module = ast.fix_missing_locations(Noter().visit(tree))
    return noted


GOING_ON = (ast.Expr, ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Delete, ast.Import)


def _note(name: str, line: int) -> ast.stmt:
    note = ast.parse(f"{name}({line})").body[0]
    for part in ast.walk(note):
        if hasattr(part, "lineno"):
            part.lineno = part.end_lineno = line  # type: ignore[attr-defined]
    return note


def _entered(error: BaseException) -> list[int]:
    """The lines of the entry through which an exception came since it was last in the script."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename in (SCRIPT, ENTRY)]
    last = max((number for number, frame in enumerate(frames) if frame.filename == SCRIPT), default=-1)
    return [frame.lineno for frame in frames[last + 1 :] if frame.lineno is not None]


def _lines(error: BaseException) -> list[int]:
    """The script's own lines through which an exception came, those of a replica's thread included."""

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
    """An audit hook (PEP 578) for a slice that is confined: says in plain words what there is not."""

    def __init__(self) -> None:
        self.open = False
        tempfile.tempdir = None  # what it was when PyTorch was imported

    def watch(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.open:
            self._pass(event, arguments)

    def start_worker(self, start: Callable[[], None]) -> None:
        """A copy of this process, with the same doors."""
        start()

    def _pass(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in CONNECTS and not (event in LOCAL and isinstance(arguments[1], (str, bytes))):
            raise Refused("would open a network connection")


class _Guard(_Doors):
    """An audit hook for a slice that nothing else confines."""

    def __init__(self, folder: str, roots: list[str]) -> None:
        super().__init__()
        os.environ["TMPDIR"] = folder
        _forbid_processes()
        self.starting = False
        self.workers: set[int] = set()
        self.folder = os.path.realpath(folder)
        paths = sysconfig.get_paths()
        own = (sys.prefix, sys.base_prefix, *(paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")))
        system = ("/proc", "/sys", "/dev", "/etc", "/usr/lib", "/usr/share", "/lib")
        libraries = (os.path.dirname(os.path.dirname(torch.__file__)), str(Path(__file__).parents[2]))
        self.readable = tuple(map(os.path.realpath, (*own, *system, *libraries)))
        self.roots = tuple(map(os.path.realpath, roots))

    def _pass(self, event: str, arguments: tuple[Any, ...]) -> None:
        super()._pass(event, arguments)
        if event == "open":
            self._opening(*arguments[:3])
        elif event in STARTS and not (event == "os.fork" and self.starting):
            raise Refused("would start another process")
        elif event == "os.kill" and arguments[0] not in (os.getpid(), *self.workers):
            raise Refused("would end another process")
        elif event in CHANGES:
            for path in arguments:
                if isinstance(path, (str, bytes, os.PathLike)) and not self._inside(path):
                    raise Refused(f"would change {os.fsdecode(path)}")

    def start_worker(self, start: Callable[[], None]) -> None:
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


def _forbid_processes() -> None:
    """multiprocessing starts processes without an audit event."""

    def refuse(*_: Any) -> None:
        raise Refused("would start another process")

    with contextlib.suppress(ImportError):
        import _posixsubprocess

        _posixsubprocess.fork_exec = refuse  # type: ignore[assignment]


def _under(name: str, folders: tuple[str, ...]) -> bool:
    return any(name == folder or name.startswith(folder + os.sep) for folder in folders)
