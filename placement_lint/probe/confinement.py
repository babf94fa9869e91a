"""Confinement of the user's program by Linux: limits on what a play can see, write, reach and use up.

A play runs in namespaces of its own (namespaces(7)), which a copy of the worker enters before anything of the program
runs:

- **Files** (mount_namespaces(7)): a root that is built for the play in a tmpfs. It has the system's libraries and
  programs, Python and its packages, all read-only; the folders from which the program imports, each as an overlay whose
  upper layer is in that tmpfs (overlayfs of the kernel); a minimal /etc and /dev, a /proc of its own. Entries with a
  leading dot at the top of the program's folders are empty, since a home folder may be one. What the program writes
  anywhere is thrown away with the tmpfs.
- **Processes** (pid_namespaces(7)): no other process can be seen or signalled. The first process, which supervises
  the play, takes all others with it when it ends, and ends when the worker does (prctl(2), PR_SET_PDEATHSIG).
- **Network** (network_namespaces(7)): a loopback device of its own, for ranks, and nothing else. System V IPC and the
  host's name are private as well.
- **Rights** (user_namespaces(7), capabilities(7)): none, no_new_privs, and no further user namespaces, so that nothing
  of this can be undone. Where the tool runs as root, a play has the identity of a user who owns nothing. A filter of
  system calls (seccomp(2)) refuses those that reach around namespaces.
- **Limits** (setrlimit(2)): sizes of files, number of processes and CPU time by the kernel; the memory of all
  processes together, their number and the time by the supervisor, several times a second.

All of it is the kernel's, by way of linux.py: no package on PyPI makes such namespaces, and programs that do
(bubblewrap, unshare) start a new process, which would import PyTorch again for each play.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import json
import os
import platform
import select
import signal
import site
import socket
import stat
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

with contextlib.suppress(ImportError):  # these are missing on other systems, which missing() says
    import resource

    from placement_lint.probe import linux

Answer = dict[str, Any]

GIB = 2**30
MEMORY = 4 * GIB  # of all processes of a play, beyond what PyTorch takes
FILES = GIB  # all that a play writes
MOST_FILES = 100_000
MOST_PROCESSES = 64
MOST_THREADS = 2 * MOST_PROCESSES  # those of all processes, which are threads as well
MOST_OPEN = 1024
MOST_SAID = 2**24  # bytes of an answer
START_LIMIT = 20.0  # seconds to try out whether a program can be confined
SUPERVISED = 5  # niceness of what is supervised, beside that of the supervisor
STRETCH = 4  # times its limit that a play may take where it has to wait for a processor
GRACE = 2.0  # seconds after which a play is ended whose supervisor does not end it
OLDEST_KERNEL = (5, 12)  # the first with mount_setattr(2); with overlays in user namespaces since 5.11

SYSTEM = ("/bin", "/gnu/store", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/sbin", "/usr")
SETTINGS = ("/etc/alternatives", "/etc/ld.so.cache", "/etc/localtime")
HARDWARE = ("/sys/devices/system/cpu", "/sys/devices/system/node")
GPU_HARDWARE = ("/sys", "/run/opengl-driver")
DEVICES = ("full", "null", "random", "urandom", "zero")
THE_SYSTEMS = ("/boot", "/dev", "/etc", "/proc", "/run", "/sys")
# Never shown as the folder of a program, though one may lie in it, or be started from it.
NOBODYS = frozenset((*THE_SYSTEMS, "/", "/home", "/tmp", "/var", "/var/tmp"))

# The environment: what Python, PyTorch and compilers need, and nothing that may be secret.
KNOWN_VARIABLES = frozenset(
    ("CC", "CONDA_PREFIX", "CXX", "HOME", "LANG", "LANGUAGE", "LD_LIBRARY_PATH", "LOGNAME", "PATH", "TZ", "USER",
     "VIRTUAL_ENV")
)  # fmt: skip
KNOWN_KINDS = ("CUDA_", "GLOO_", "KMP_", "LC_", "MKL_", "NCCL_", "NVIDIA_", "OMP_", "PYTHON", "PYTORCH_", "TORCH_")
OF_PLAYS = {
    "TMPDIR": "/tmp",
    "TORCHINDUCTOR_CACHE_DIR": "/tmp/torchinductor",
    "TORCHINDUCTOR_COMPILE_THREADS": "1",  # in the process itself, not in a pool of them
    "TRITON_CACHE_DIR": "/tmp/triton",
}


class Missing(Exception):
    """This system cannot confine a program; the message says what is missing."""


def environment() -> dict[str, str]:
    """Those of the present environment's variables that a play may see."""
    return {
        name: value
        for name, value in os.environ.items()
        if name in KNOWN_VARIABLES or any(name.startswith(kind) for kind in KNOWN_KINDS)
    }


# --- whether it is to be had ---------------------------------------------------------------------------------------


@functools.cache
def missing() -> str | None:
    """What this system lacks to confine a program; None if it lacks nothing. It is tried out, in a new process."""
    if not sys.platform.startswith("linux"):
        return "Linux namespaces, but this is another system"
    if not linux.knows_this_machine():
        return f"x86-64 or AArch64, but this is {platform.machine()}"
    if _kernel() < OLDEST_KERNEL:
        return f"Linux {'.'.join(map(str, OLDEST_KERNEL))} or newer, but this is {platform.release()}"
    trial = [sys.executable, "-m", "placement_lint.probe.confinement"]
    done = subprocess.run(trial, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return done.stdout.strip() or None
    return (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]


def _try_out() -> None:
    """Say what is missing, if anything is."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            confined(View(work=folder), START_LIMIT, lambda watch: {})
        except Missing as reason:
            print(reason)


def _kernel() -> tuple[int, ...]:
    numbers = platform.release().split("-")[0].split(".")[:2]
    return tuple(int(number) for number in numbers if number.isdecimal())


def _why(error: OSError) -> str:
    """The missing feature if a step fails, with the system setting that forbids it, as far as it can be found."""
    forbidding = [
        (sentence, path)
        for path, value, sentence in (
            ("/proc/sys/kernel/unprivileged_userns_clone", "0", "unprivileged user namespaces"),
            ("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1", "user namespaces that AppArmor permits"),
            ("/proc/sys/user/max_user_namespaces", "0", "user namespaces"),
        )
        if _content(path) == value and os.geteuid() != 0
    ]
    for sentence, path in forbidding:
        return f"{sentence} (see {path}; {error.strerror})"
    return f"namespaces that this system or container permits ({error.strerror})"


def _content(path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""


# --- what is to be seen --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class View:
    """The part of the machine that a play sees beside the system and Python.

    ``roots`` are the program's folders, which it sees as overlays; ``folders`` are other folders of the machine, which
    it sees as empty; ``work`` is one that exists and is empty. It starts in ``here``, if that is visible. ``gpus`` are
    real ones.
    """

    work: str
    roots: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    here: str = ""
    gpus: bool = False

    @functools.cached_property
    def overlaid(self) -> tuple[str, ...]:
        """The program's folders without those that are in another of them."""
        # The worker runs in a folder around that of the play, and finds it on its path.
        imported = (folder for folder in _imported_from() if not _within(self.work, folder))
        own = {os.path.realpath(root) for root in (*self.roots, *imported) if os.path.isdir(root)}
        chosen: list[str] = []
        for folder in sorted(own - NOBODYS):
            # Entries with a leading dot are not shown in the other.
            hidden = any(part.startswith(".") for part in Path(folder).parts)
            if hidden or not any(_within(folder, other) for other in chosen):
                chosen.append(folder)
        return tuple(folder for folder in chosen if not any(_within(folder, other) for other in self.read_only))

    @property
    def read_only(self) -> tuple[str, ...]:
        """The system, Python and its packages."""
        return _outermost((*SYSTEM, *SETTINGS, *(GPU_HARDWARE if self.gpus else HARDWARE), *_python()))

    @property
    def spellings(self) -> tuple[str, ...]:
        """Paths by which the above may be called that lead through symbolic links."""
        return (*SYSTEM, *SETTINGS, *_python(), *_imported_from(), *self.roots)


@functools.cache
def _outermost(paths: tuple[str, ...]) -> tuple[str, ...]:
    chosen: list[str] = []
    for path in sorted({os.path.realpath(path) for path in paths if os.path.exists(path)}):
        if not any(_within(path, other) for other in chosen):
            chosen.append(path)
    return tuple(chosen)


def folders_named(*texts: str) -> tuple[str, ...]:
    """The folders of this machine that a program's strings speak of, as where it saves something."""
    named: set[str] = set()
    for text in texts:
        with contextlib.suppress(SyntaxError, ValueError):
            strings = {node.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant)}
            paths = {os.path.expanduser(value) for value in strings if isinstance(value, str) and "\0" not in value}
            absolute = {os.path.normpath(path) for path in paths if os.path.isabs(path)}
            named |= {place for path in absolute for place in (path, os.path.dirname(path)) if os.path.isdir(place)}
    return tuple(sorted(path for path in named if not any(_within(path, own) for own in THE_SYSTEMS)))


@functools.cache
def _python() -> tuple[str, ...]:
    """Where the interpreter, its packages and this one are."""
    named = [sys.prefix, sys.base_prefix, sys.exec_prefix, os.path.dirname(sys.executable)]
    named += [*sysconfig.get_paths().values(), *site.getsitepackages(), str(Path(__file__).parents[1])]
    if site.ENABLE_USER_SITE:
        named.append(site.getusersitepackages())
    if "torch" in sys.modules:
        named.append(str(Path(str(sys.modules["torch"].__file__)).parents[1]))
    return tuple(path for path in named if os.path.realpath(path) not in NOBODYS)


def _imported_from() -> tuple[str, ...]:
    """Other folders from which this process imports, by PYTHONPATH or packages that are installed as they lie."""
    return tuple(path for path in sys.path if os.path.isabs(path) and os.path.isdir(path))


def _within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


# --- who it is -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Identity:
    """The user and group as which a play runs, and the maps of its user namespace (user_namespaces(7))."""

    user: int
    group: int
    users: str
    groups: str
    is_own: bool

    @classmethod
    def chosen(cls) -> _Identity:
        """The present one; of root, that of the last user that there can be, to whom no file belongs."""
        users, groups = _ranges("uid_map"), _ranges("gid_map")
        if os.geteuid() != 0 or sum(count for _, count in users) == 1:
            user, group = os.geteuid(), os.getegid()
            return cls(user, group, f"{user} {user} 1", f"{group} {group} 1", True)
        return cls(_last(users), _last(groups), _same(users), _same(groups), False)

    def give(self, process: int) -> None:
        """Write the maps of a process in a new namespace, from outside of it."""
        files = Path(f"/proc/{process}")
        if self.is_own:
            (files / "setgroups").write_text("deny", encoding="ascii")
        (files / "gid_map").write_text(self.groups, encoding="ascii")
        (files / "uid_map").write_text(self.users, encoding="ascii")

    def take(self) -> None:
        if not self.is_own:
            os.setgroups([])
            os.setresgid(self.group, self.group, self.group)
            os.setresuid(self.user, self.user, self.user)

    def own(self, path: str) -> None:
        if not self.is_own:
            os.chown(path, self.user, self.group)

    def owning(self, path: str) -> int:
        """A user namespace that makes a folder and what its owner has in it this identity's."""
        owner = os.stat(path)
        return _owning(self, owner.st_uid, owner.st_gid)


@functools.cache
def _owning(identity: _Identity, user: int, group: int) -> int:
    """A user namespace in whose map the identity has the place of an owner."""
    ours, theirs = socket.socketpair()
    process = os.fork()
    if process == 0:
        with contextlib.suppress(OSError):
            linux.unshare(linux.NEW_USERS)
            theirs.send(b"\0")
            ours.close()
            theirs.recv(1)
        os._exit(0)
    theirs.close()
    with ours:
        try:
            ours.recv(1)
            places = Path(f"/proc/{process}")
            (places / "gid_map").write_text(_instead(group, identity.group), encoding="ascii")
            (places / "uid_map").write_text(_instead(user, identity.user), encoding="ascii")
            return os.open(places / "ns" / "user", os.O_RDONLY | os.O_CLOEXEC)
        finally:
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)


def _instead(owner: int, other: int) -> str:
    """A map in which ``other`` has the place of ``owner``, and all below it but the owner their own."""
    ranges = ((0, 0, owner), (owner, other, 1), (owner + 1, owner + 1, other - owner - 1))
    return "\n".join(f"{first} {place} {count}" for first, place, count in ranges if count > 0)


def _ranges(name: str) -> list[tuple[int, int]]:
    lines = Path(f"/proc/self/{name}").read_text(encoding="ascii").splitlines()
    return [(int(first), int(count)) for first, _, count in map(str.split, lines)]


def _last(ranges: list[tuple[int, int]]) -> int:
    return max(first + count - 1 for first, count in ranges)


def _same(ranges: list[tuple[int, int]]) -> str:
    return "\n".join(f"{first} {first} {count}" for first, count in ranges)


# --- the root ------------------------------------------------------------------------------------------------------


@dataclass
class _Root:
    """The file system of a play while it is being built, in a tmpfs at ``base``."""

    view: View
    identity: _Identity
    base: str
    lent: Mapping[str, str]
    count: int = 0

    LAYERS = "/.layers"  # upper layers of overlays, and what hides entries; itself hidden in the end

    def build(self) -> None:
        limits = f"size={FILES},nr_inodes={MOST_FILES},mode=755"
        linux.mount(None, "/", None, linux.RECURSIVE | linux.PRIVATE)
        linux.mount("tmpfs", self.base, "tmpfs", linux.NO_SETUID | linux.NO_DEVICES, limits)
        self.identity.own(self.base)
        self._folder(self.LAYERS)
        overlaid = self.view.overlaid
        for path in sorted({*self.view.read_only, *overlaid}):
            (self._overlay if path in overlaid else self._bind)(path)
        for path in self.view.spellings:
            self._link(path)
        self._system()
        home = os.environ.get("HOME", "")
        for path in (*self.view.folders, self.view.work, *([home] if os.path.isabs(home) else [])):
            self._folder(path)
        linux.mount("tmpfs", self._at(self.LAYERS), "tmpfs", linux.READ_ONLY, "size=4k,mode=755")

    def enter(self) -> None:
        linux.make_root(self.base)
        Path("/proc/sys/user/max_user_namespaces").write_text("0", encoding="ascii")
        with os.scandir("/proc") as entries:
            shared = [entry.path for entry in entries if not entry.is_symlink() and not entry.name.isdecimal()]
        # Not all of /proc: a process may change what is its own there, as CUDA names its threads.
        flags = linux.READ_ONLY | linux.NO_SETUID | linux.NO_DEVICES | linux.NO_PROGRAMS
        for path in shared:
            linux.mount(path, path, None, linux.BIND)
            linux.mount(None, path, None, linux.REMOUNT | linux.BIND | flags)

    def _at(self, path: str) -> str:
        return self.base + path

    def _folder(self, path: str) -> None:
        """Make a folder with those that it is in, where there are none yet and one can be made."""
        done = self.base
        for part in Path(path).parts[1:]:
            done = os.path.join(done, part)
            if os.path.islink(done):  # leads elsewhere, once this is the root
                return
            with contextlib.suppress(FileExistsError, PermissionError):
                try:
                    os.mkdir(done)
                except OSError as error:
                    if error.errno == 30:  # EROFS
                        return
                    raise
                self.identity.own(done)

    def _file(self, path: str, text: str = "") -> None:
        self._folder(os.path.dirname(path))
        Path(self._at(path)).write_text(text, encoding="utf-8")

    def _bind(self, path: str, attributes: int = linux.READ_ONLY | linux.NO_SETUID) -> None:
        if os.path.isdir(path):
            self._folder(path)
        else:
            self._file(path)
        linux.mount(path, self._at(path), None, linux.BIND | linux.RECURSIVE)
        linux.restrict_mounts(self._at(path), attributes)

    def _overlay(self, path: str) -> None:
        """A folder of the program. Where the kernel can lay nothing over it, it is read-only."""
        self._folder(path)
        layer = f"{self.LAYERS}/{self.count}"
        self.count += 1
        for name in ("", "/lower", "/upper", "/work"):
            self._folder(layer + name)
        lower = self._at(f"{layer}/lower")
        try:
            linux.mount(self.lent.get(path, path), lower, None, linux.BIND)
            os.chdir(self._at(layer))  # paths in options are relative, so that none has a comma or colon
            linux.mount(
                "overlay",
                self._at(path),
                "overlay",
                linux.NO_SETUID | linux.NO_DEVICES,
                "lowerdir=lower,upperdir=upper,workdir=work,userxattr",
            )
            linux.unmount(lower)
        except OSError:
            self._bind(path)
        self._hide(path)

    def _hide(self, folder: str) -> None:
        """Put something empty over entries with a leading dot."""
        with os.scandir(self._at(folder)) as entries:
            hidden = [entry for entry in entries if entry.name.startswith(".") and not entry.is_symlink()]
        for entry in hidden:
            blank = f"{self.LAYERS}/{self.count}"
            self.count += 1
            if entry.is_dir():
                self._folder(blank)
            else:
                self._file(blank)
            linux.mount(self._at(blank), entry.path, None, linux.BIND)

    def _link(self, path: str) -> None:
        """The symbolic links on the way to something that is there."""
        walked = ""
        for part in Path(path).parts[1:]:
            walked += f"/{part}"
            if os.path.islink(walked) and not os.path.lexists(self._at(walked)):
                self._folder(os.path.dirname(walked))
                os.symlink(os.path.realpath(walked), self._at(walked))
                return

    def _system(self) -> None:
        for path in ("/tmp", "/dev/shm", "/var/tmp"):
            self._folder(path)
            os.chmod(self._at(path), 0o1777)
        for name in (*DEVICES, *(_nvidia() if self.view.gpus else ())):
            self._bind(f"/dev/{name}", linux.NO_SETUID | linux.NO_PROGRAMS)
        for name, target in (("fd", "fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")):
            os.symlink(f"/proc/self/{target}", self._at(f"/dev/{name}"))
        user, group = self.identity.user, self.identity.group
        home = os.environ.get("HOME") or "/"
        name = os.environ.get("USER") or "user"
        self._file("/etc/passwd", f"{name}:x:{user}:{group}::{home}:/bin/sh\n")
        self._file("/etc/group", f"{name}:x:{group}:\n")
        self._file("/etc/hosts", "127.0.0.1 localhost\n::1 localhost\n")
        self._file("/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n")
        self._folder("/proc")
        try:
            linux.mount("proc", self._at("/proc"), "proc", linux.NO_SETUID | linux.NO_DEVICES | linux.NO_PROGRAMS)
        except PermissionError as error:
            raise PermissionError(
                error.errno, "a container covers parts of /proc, and so forbids another one"
            ) from None


def _nvidia() -> Iterator[str]:
    """The devices by which the driver's libraries reach real GPUs."""
    for folder, _, names in os.walk("/dev"):
        for name in names:
            path = os.path.join(folder, name)
            if "nvidia" in path and stat.S_ISCHR(os.stat(path).st_mode):
                yield os.path.relpath(path, "/dev")


# --- limits --------------------------------------------------------------------------------------------------------


def _limit(seconds: float) -> None:
    """setrlimit(2); the number of processes only where the kernel counts those of the user namespace alone."""
    cores = os.cpu_count() or 1
    limits = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_CPU: int(seconds + GRACE) * cores,
        resource.RLIMIT_FSIZE: FILES,
        resource.RLIMIT_NOFILE: MOST_OPEN,
        **({resource.RLIMIT_NPROC: MOST_THREADS} if _kernel() >= (5, 14) else {}),
    }
    for what, most in limits.items():
        _, hard = resource.getrlimit(what)
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(what, (most, most))


def extended(limit: float, lost: float) -> float:
    """A limit on a machine that is busy with other things."""
    return min(limit + lost, limit * STRETCH)


@dataclass
class Watch:
    """What a play uses up, as its supervisor sees it."""

    own: int = field(default_factory=lambda: _taken("1"))

    def strain(self) -> str | None:
        """The limit that is exceeded now, None if none is."""
        processes = [name for name in os.listdir("/proc") if name.isdecimal() and name != "1"]
        if len(processes) > MOST_PROCESSES:
            return f"started more than {MOST_PROCESSES} processes"
        # Shared memory is counted once only if the sum without that is too large: computing it takes time.
        taken = sum(max(0, _taken(process) - self.own) for process in processes)
        if taken > MEMORY and sum(map(_share, processes)) > MEMORY + self.own:
            return f"used more than {MEMORY // GIB} GiB of memory"
        written = os.statvfs("/")
        if written.f_bavail == 0:
            return f"wrote more than {FILES // GIB} GiB"
        return f"wrote more than {MOST_FILES} files" if written.f_favail == 0 else None


def _taken(process: str) -> int:
    """Bytes of memory that a process has in use, without files that the kernel could read again: proc_pid_status(5)."""
    return _summed(f"/proc/{process}/status", ("RssAnon:", "RssShmem:"))


def _share(process: str) -> int:
    """The same, of what it shares with others its part: proc_pid_smaps(5)."""
    return _summed(f"/proc/{process}/smaps_rollup", ("Pss_Anon:", "Pss_Shmem:")) or _taken(process)


def _summed(path: str, names: Sequence[str]) -> int:
    try:
        lines = Path(path).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:  # it has ended, or does not let others look into it
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(tuple(names)))


def join() -> None:
    """To be called first in each process that the supervisor starts.

    Unlike the supervisor, they may inspect each other, and they yield to it if both need the processor.
    """
    linux.set_dumpable(True)
    os.nice(SUPERVISED)


# --- carrying out --------------------------------------------------------------------------------------------------


def confined(view: View, limit: float, act: Callable[[Watch], Answer]) -> Answer:
    """The answer of ``act``, which runs in a confined copy of this process. :class:`Missing` if it cannot be confined.

    This process must not have other threads that hold locks which the copy needs.
    """
    identity = _Identity.chosen()
    if not identity.is_own:
        for path in view.overlaid:
            identity.owning(path)  # is known then to all copies of this process
    ours, theirs = socket.socketpair()
    reading, writing = os.pipe()
    outer = os.fork()
    if outer == 0:
        _enter(view, identity, limit, act, theirs, writing)
    theirs.close()
    os.close(writing)
    supervisor = None
    try:
        with ours:
            supervisor = _admit(ours, outer, identity)
        answer = _heard(reading, limit * STRETCH + GRACE)
    finally:
        os.close(reading)
        if supervisor is not None:
            _end(supervisor)
        with contextlib.suppress(ProcessLookupError):
            os.kill(outer, signal.SIGKILL)
        os.waitpid(outer, 0)
    if answer is None:
        return {"unable": f"did not end within {limit:g} s"}
    if "missing" in answer:
        raise Missing(answer["missing"])
    return answer


def _admit(conversation: socket.socket, outer: int, identity: _Identity) -> int | None:
    """Give the copy its maps of users; a descriptor of the supervisor that it starts (pidfd_open(2))."""
    if not conversation.recv(1):
        return None
    try:
        identity.give(outer)
    except OSError as error:
        conversation.send(str(error.strerror).encode())
        return None
    conversation.send(b"\0")
    _, descriptors, _, _ = socket.recv_fds(conversation, 1, 1)
    return descriptors[0] if descriptors else None


def _heard(reading: int, limit: float) -> Answer | None:
    """The answer, None if there is none in time. After standard input is closed, the answer is not awaited."""
    end = time.monotonic() + limit
    said = b""
    poll = select.poll()
    poll.register(reading, select.POLLIN)
    poll.register(0, 0)
    while (left := end - time.monotonic()) > 0 and len(said) <= MOST_SAID:
        ready = dict(poll.poll(left * 1000))
        if reading in ready:
            part = os.read(reading, 65536)
            if not part:
                break
            said += part
        elif ready:
            return {"unable": "interrupted"}
    else:
        return None
    try:
        answer: Answer = json.loads(said)
    except ValueError:
        return {"unable": "the process that supervises it died"}
    return answer


def _end(supervisor: int) -> None:
    """Returns when all processes of the namespace are gone."""
    with contextlib.suppress(ProcessLookupError):
        linux.send_signal(supervisor, signal.SIGKILL)
    select.select([supervisor], [], [])
    os.close(supervisor)


def _enter(
    view: View,
    identity: _Identity,
    limit: float,
    act: Callable[[Watch], Answer],
    conversation: socket.socket,
    writing: int,
) -> NoReturn:
    """The life of the copy that enters the namespaces: only its children are in that of processes."""
    try:
        lent = _lent(view, identity)
        _keep_descriptors(conversation.fileno(), writing)
        linux.unshare(
            linux.NEW_USERS
            | linux.NEW_MOUNTS
            | linux.NEW_PROCESSES
            | linux.NEW_IPC
            | linux.NEW_NETWORK
            | linux.NEW_HOSTNAME
        )
        linux.die_with_parent(signal.SIGKILL)
        conversation.send(b"\0")
        reply = conversation.recv(256)
        if reply != b"\0":
            raise PermissionError(1, f"uid_map: {reply.decode()}")
        inner = os.fork()
        if inner == 0:
            conversation.close()
            _supervise(view, identity, lent, limit, act, writing)
        os.close(writing)
        socket.send_fds(conversation, [b"\0"], [linux.process_descriptor(inner)])
        os.waitpid(inner, 0)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.write(writing, json.dumps({"missing": _why(error)}).encode())
    finally:
        os._exit(0)


def _supervise(
    view: View,
    identity: _Identity,
    lent: Mapping[str, str],
    limit: float,
    act: Callable[[Watch], Answer],
    writing: int,
) -> NoReturn:
    """The life of the first process in the namespace of processes."""
    answer: Answer = {}
    try:
        linux.die_with_parent(signal.SIGKILL)
        _build(view, identity, lent)
        _surrender(identity, limit, view.gpus)
        watch = Watch()
    except OSError as error:
        answer = {"missing": f"namespaces that this system or container permits ({error.strerror})"}
    if not answer:
        try:
            answer = act(watch)
        except BaseException as error:
            answer = {"unable": f"{type(error).__name__}: {error}"}
    with os.fdopen(writing, "wb") as stream:
        stream.write(json.dumps(answer).encode())
    os._exit(0)


def _lent(view: View, identity: _Identity) -> dict[str, str]:
    """Where the program's folders are mounted as folders of the identity's, if that is not who owns them."""
    if identity.is_own:
        return {}
    linux.unshare(linux.NEW_MOUNTS)
    linux.mount(None, "/", None, linux.RECURSIVE | linux.PRIVATE)
    places = {}
    for number, path in enumerate(view.overlaid):
        place = os.path.join(view.work, str(number))
        os.mkdir(place)
        with contextlib.suppress(OSError):  # not every file system can do so; then owners are who they are
            linux.mount_with_owners(path, place, identity.owning(path))
            places[path] = place
    return places


def _build(view: View, identity: _Identity, lent: Mapping[str, str]) -> None:
    with contextlib.suppress(OSError):  # if memory is short, plays go first
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    base = os.path.join(os.path.realpath(view.work), "root")
    os.mkdir(base)
    root = _Root(view, identity, base, lent)
    root.build()
    root.enter()
    os.chdir(view.here if view.here and os.path.isdir(view.here) else view.work)
    os.environ.update(OF_PLAYS)


def _surrender(identity: _Identity, limit: float, gpus: bool) -> None:
    """Give up all rights."""
    socket.sethostname("localhost")
    linux.start_loopback()
    _limit(limit)
    linux.bound_capabilities()
    identity.take()
    linux.drop_capabilities()
    linux.filter_calls(memory_files=gpus)  # libraries of the driver use them
    linux.die_with_parent(signal.SIGKILL)
    linux.set_dumpable(False)
    for number in signal.valid_signals():
        with contextlib.suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_DFL)


def _keep_descriptors(*kept: int) -> None:
    """Close all others, and let nothing come in or go out by the standard ones."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(nowhere, standard)
    for descriptor in map(int, os.listdir("/proc/self/fd")):
        if descriptor > 2 and descriptor not in kept:
            with contextlib.suppress(OSError):  # the one of the list itself
                os.close(descriptor)


if __name__ == "__main__":
    _try_out()
