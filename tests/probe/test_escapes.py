"""Programs that try to escape the sandbox change, read, reach and leave nothing outside it."""

from __future__ import annotations

import ast
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from placement_lint.probe import confinement
from placement_lint.probe.sandbox import Sandbox, Script

HERE = Path(__file__).parent
ORDINARY = 54321  # a user who owns nothing here
LIMIT = 10.0

pytestmark = pytest.mark.skipif(confinement.missing() is not None, reason="the system cannot confine programs")

is_root = hasattr(os, "geteuid") and os.geteuid() == 0
IDENTITIES = ["the user", *(["an ordinary user"] if is_root else [])]


@dataclass
class Outside:
    """A machine with private files: ``project`` alone is the program's."""

    folder: Path
    secret: str = field(default_factory=lambda: secrets.token_hex(16))

    def __post_init__(self) -> None:
        self.files = {
            "home/.ssh/key": self.secret,
            "home/project/.env": self.secret,
            "home/project/train.py": "# the program\n",
            "home/project/data.txt": "some data\n",
            "home/notes.txt": self.secret,
            "elsewhere/best.pt": self.secret,
        }
        for name, text in self.files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        (self.project / "link").symlink_to(self.precious)
        (self.project / "way").symlink_to(self.precious.parent)
        self.shared = Path("/dev/shm") / f"placement-lint-{self.secret[:8]}"
        self.shared.write_text(self.secret)
        self.kept = self.state()

    @property
    def project(self) -> Path:
        return self.folder / "home" / "project"

    @property
    def precious(self) -> Path:
        return self.folder / "elsewhere" / "best.pt"

    def state(self) -> dict[str, tuple[Any, ...]]:
        paths = [*self.folder.rglob("*"), self.shared]
        return {str(path): self._of(path) for path in sorted(paths)}

    def _of(self, path: Path) -> tuple[Any, ...]:
        status = path.lstat()
        content = path.read_bytes() if path.is_file() else b""
        return status.st_mode, status.st_uid, status.st_nlink, status.st_mtime_ns, content

    def give(self, user: int) -> None:
        for path in [self.folder, *self.folder.rglob("*"), self.shared]:
            os.chown(path, user, user, follow_symlinks=False)
        self.kept = self.state()


@dataclass
class Prison:
    """A sandbox, and how to look whether anything of a play came out of it."""

    box: Sandbox
    outside: Outside

    def play(self, text: str, limit: float = LIMIT, ranks: int = 1) -> dict[str, Any]:
        text = "\n".join((*self.given(self.outside), f"tool, worker = {os.getpid()}, {self.worker}", text))
        script = Script(text, (1,), (str(self.outside.project),), limit=limit, ranks=ranks)
        answer = dict(self.box.play(script, 2))
        self._assert_unharmed()
        assert self.outside.secret not in json.dumps(answer)
        return answer

    @staticmethod
    def given(outside: Outside) -> Iterator[str]:
        """What a program knows of where it is."""
        yield f"precious, project = {str(outside.precious)!r}, {str(outside.project)!r}"
        yield f"home, shared = {str(outside.folder / 'home')!r}, {str(outside.shared)!r}"

    @property
    def worker(self) -> int:
        (worker,) = self.box._workers.values() if self.box._workers else (None,)
        return worker.process.pid if worker else 1

    def _assert_unharmed(self) -> None:
        assert self.outside.state() == self.outside.kept
        (worker,) = self.box._workers.values()
        assert worker.process.poll() is None
        assert list(_descendants(worker.process.pid)) == []
        assert [name for name in os.listdir(worker.folder.name) if not name.startswith("torchinductor")] == []


def _descendants(process: int) -> Iterator[int]:
    for children in Path(f"/proc/{process}/task").glob("*/children"):
        for child in map(int, children.read_text().split()):
            yield child
            yield from _descendants(child)


@pytest.fixture(scope="module", params=IDENTITIES)
def prison(request: pytest.FixtureRequest) -> Iterator[Prison]:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        outside = Outside(Path(folder).resolve())
        patch.setenv("HOME", str(outside.folder / "home"))
        patch.setenv("API_TOKEN", outside.secret)
        patch.chdir(outside.project)
        if request.param != "the user":
            outside.give(ORDINARY)
            command = (sys.executable, str(HERE / "ordinary.py"), str(ORDINARY), folder)
            patch.setattr("placement_lint.probe.sandbox.COMMAND", (*command, sys.executable, "-m", WORKER))
        with Sandbox() as box:
            yield Prison(box, outside)
        outside.shared.unlink()


WORKER = "placement_lint.probe.worker"

# What a program may try against files. Each says what came of it; what it raises counts as nothing.
ON_FILES = {
    "torch.save": "import torch\ntorch.save({}, precious)",
    "torch.save in its own folder": "import torch\ntorch.save({}, project + '/data.txt')",
    "numpy.save": "import numpy\nwith open(precious, 'wb') as file: numpy.save(file, numpy.ones(3))",
    "torch.from_file": "import torch\ntorch.from_file(precious, shared=True, size=8, dtype=torch.uint8).fill_(1)",
    "torch.from_file in its own folder": """
import torch
torch.from_file(project + "/data.txt", shared=True, size=8, dtype=torch.uint8).fill_(1)""",
    "a mapped file": """
import mmap
with open(project + "/data.txt", "r+b") as file:
    mmap.mmap(file.fileno(), 0)[:4] = b"gone"
""",
    "a folder's descriptor": """
import os
folder = os.open(os.path.dirname(precious), os.O_DIRECTORY)
os.write(os.open("best.pt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, dir_fd=folder), b"gone")
os.unlink("best.pt", dir_fd=folder)
""",
    "inherited descriptors": """
import os
for number in range(1, 1024):
    for name in ("best.pt", precious.lstrip("/")):
        try:
            os.write(os.open(name, os.O_WRONLY | os.O_TRUNC, dir_fd=number), b"gone")
        except OSError:
            pass
""",
    "the C library": """
import ctypes
c, path = ctypes.CDLL(None), precious.encode()
file = c.open(path, 0o1102, 0o644)
c.write(file, b"gone", 4)
c.truncate(path, 0), c.unlink(path), c.rename(path, path + b"2"), c.chmod(path, 0)
c.system(b"echo gone > " + path)
""",
    "programs": """
import subprocess
subprocess.run(["rm", "-rf", precious, home])
subprocess.run(["sh", "-c", f"echo gone > {precious}; rm -rf {home}/* {home}/.ssh {shared}; kill -9 {worker} {tool}"])
""",
    "removal": "import os, shutil\nshutil.rmtree(project)\nshutil.rmtree(home)",
    "other names": """
import os
os.rename(project + "/data.txt", project + "/other.txt")
os.rename(project, project + "2")
""",
    "symbolic links": """
import os
open(project + "/way/best.pt", "w").write("gone")
os.symlink(precious, project + "/another")
open(project + "/another", "w").write("gone")
open(project + "/link", "w").write("gone")
""",
    "hard links": """
import os
os.link(project + "/data.txt", project + "/hard")
open(project + "/hard", "w").write("gone")
os.link(precious, project + "/harder")
""",
    "modes and times": """
import os
for path in (project + "/data.txt", project, precious, home):
    os.chmod(path, 0o777), os.utime(path, (0, 0)), os.truncate(path, 0)
""",
    "shared memory": """
from multiprocessing import shared_memory
open(shared, "w").write("gone")
memory = shared_memory.SharedMemory(shared.rpartition("/")[2], create=True, size=64)
memory.buf[:4] = b"gone"
""",
    "the roots of others": """
for place in ("/proc/1/root", f"/proc/{worker}/root", f"/proc/{tool}/root", "/proc/self/root/..", "/..", "/proc/1/cwd"):
    try:
        open(place + precious, "w").write("gone")
    except OSError:
        pass
""",
    "another root": """
import os
os.mkdir("/tmp/jail")
os.chroot("/tmp/jail")
os.chdir("../../../../../../../..")
os.chroot(".")
open(precious, "w").write("gone")
""",
    "mounts and namespaces": """
import ctypes, os
c = ctypes.CDLL(None)
did = []
for flags in (0x10000000, 0x20000, 0x10020000):
    did.append(c.unshare(flags))
did += [c.umount2(place.encode(), 2) for place in ("/", "/.layers", project, "/proc", "/usr")]
did.append(c.mount(b"/", b"/tmp", None, 0x1000, None))
did.append(c.mount(b"none", project.encode(), b"tmpfs", 0, None))
did.append(c.mount(None, b"/usr", None, 0x1020, None))
for process in (1, worker, tool):
    for kind in ("mnt", "user", "pid", "net"):
        try:
            did.append(c.setns(os.open(f"/proc/{process}/ns/{kind}", os.O_RDONLY), 0))
        except OSError:
            pass
did += [c.setuid(0), c.setgid(0), c.mknod(b"/tmp/disk", 0o60666, 0xFE00), c.memfd_create(b"x", 0)]
open(precious, "w").write("gone")
assert 0 not in did, did
raise SystemExit("tried")
""",
    "settings of the kernel": """
import os
for path in ("/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname", "/proc/sysrq-trigger",
             "/proc/1/oom_score_adj", "/proc/sys/user/max_user_namespaces", "/sys/power/state"):
    try:
        open(path, "w").write("1")
    except OSError:
        continue
    raise AssertionError(path)
raise SystemExit("tried")
""",
    "the audit hook's objects": """
import ctypes, gc
for found in gc.get_objects():
    if type(found).__name__ in ("_Doors", "_Guard"):
        found.open = True
ctypes.pythonapi.PySys_AddAuditHook
open(precious, "w").write("gone")
import os; os.system(f"echo gone > {precious}")
""",
    "the library's own functions": """
from placement_lint.probe import confinement, linux
import os
for step in (lambda: linux.unshare(linux.NEW_USERS), lambda: linux.mount("/", "/tmp", None, linux.BIND),
             lambda: linux.make_root("/proc/1/root"), lambda: linux.unmount("/")):
    try:
        step()
    except OSError:
        continue
    raise AssertionError("it worked")
raise SystemExit("tried")
""",
}


@pytest.mark.parametrize("name", ON_FILES)
def test_no_file_is_changed(name: str, prison: Prison) -> None:
    answer = prison.play(ON_FILES[name])
    assert answer["reached"] == [1]
    if "tried" in ON_FILES[name]:
        assert answer.get("unable") == "the slice exits with 'tried'", answer


@pytest.mark.parametrize(
    "name",
    ["numpy.save", "a mapped file", "a folder's descriptor", "the C library", "removal", "other names", "hard links",
     "symbolic links", "modes and times", "shared memory"],
)  # fmt: skip
def test_these_change_files_where_nothing_confines_them(name: str, tmp_path: Path) -> None:
    outside = Outside(tmp_path)
    try:
        program = "\n".join((*Prison.given(outside), ON_FILES[name]))
        subprocess.run([sys.executable, "-c", program], cwd=outside.project, stderr=subprocess.DEVNULL, check=False)
        assert outside.state() != outside.kept
    finally:
        outside.shared.unlink(missing_ok=True)


ON_SECRETS = {
    "environment": "import os\nraise KeyError(str(dict(os.environ)))",
    "environment of the process": "raise KeyError(open('/proc/self/environ').read())",
    "environment of the supervisor": "raise KeyError(open('/proc/1/environ').read())",
    "environment of the worker": "raise KeyError(open(f'/proc/{worker}/environ').read())",
    "memory of the worker": "raise KeyError(open(f'/proc/{worker}/mem', 'rb').read(1))",
    "a key": "raise KeyError(open(home + '/.ssh/key').read())",
    "a key by its home": "import os\nraise KeyError(open(os.path.expanduser('~/.ssh/key')).read())",
    "a hidden file of its own folder": "raise KeyError(open(project + '/.env').read())",
    "a link": "raise KeyError(open(project + '/link').read())",
    "a link to a folder": "raise KeyError(open(project + '/way/best.pt').read())",
    "a file beside": "raise KeyError(open(precious).read())",
    "a file above": "raise KeyError(open(project + '/../notes.txt').read())",
    "a tensor": """
import torch
raise KeyError(bytes(torch.from_file(precious, size=32, dtype=torch.uint8).tolist()).decode())""",
    "the C library": """
import ctypes
c = ctypes.CDLL(None)
buffer = ctypes.create_string_buffer(64)
c.read(c.open(precious.encode(), 0), buffer, 64)
raise KeyError(buffer.value.decode())""",
    "a program": "import subprocess\nraise KeyError(subprocess.run(['cat', precious], capture_output=True).stdout)",
    "shared memory": "raise KeyError(open(shared).read())",
    "the passwords": "raise KeyError(open('/etc/shadow').read())",
    "all there is": """
import subprocess
find = ["grep", "-r", "-l", "-s", "-e", "SECRET", "/", "--exclude-dir=proc", "--exclude-dir=sys", "--exclude-dir=usr",
        "--exclude-dir=lib", "--exclude-dir=versions"]
raise KeyError(subprocess.run(find, capture_output=True, text=True).stdout)""",
}


@pytest.mark.parametrize("name", ON_SECRETS)
def test_no_secret_is_read(name: str, prison: Prison) -> None:
    answer = prison.play(ON_SECRETS[name])
    assert answer["reached"] == [1]
    assert "raised" in answer, answer


def test_passwords_are_not_there(prison: Prison) -> None:
    # folders that it names exist for it, so that it can save something there, and are empty
    text = """
import os
there = [os.path.exists(path) for path in ("/etc/shadow", home + "/.ssh/key")]
raise KeyError(sorted(os.listdir("/")), os.listdir("/home"), *there)
"""
    told = prison.play(text)["message"]
    top, *others = ast.literal_eval(told)
    assert others == [[], False, False]
    assert not {"boot", "media", "mnt", "opt", "run", "srv"}.intersection(top)


def test_no_rights_are_left(prison: Prison) -> None:
    told = prison.play("raise ValueError(open('/proc/self/status').read())")["message"]
    status = dict(line.split(":\t") for line in told.splitlines() if ":\t" in line)
    assert {int(status[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {0}
    assert status["NoNewPrivs"] == "1"
    assert status["Seccomp"] == "2"
    assert "0" not in status["Uid"].split() or os.geteuid() == 0
    assert status["Uid"].split()[0] != "0"


@pytest.mark.parametrize(
    "attack",
    [
        "os.kill(worker, 9)",
        "os.kill(tool, 9)",
        "os.killpg(worker, 9)",
        "os.kill(os.getppid(), 9), os.kill(1, 11), os.kill(1, 15), time.sleep(0.2)",
        "os.kill(-1, 19)",
        "ctypes.CDLL(None).kill(worker, 9)",
        "[ctypes.CDLL(None).ptrace(16, process, 0, 0) for process in (1, worker, tool)]",
        "open('/proc/1/mem', 'wb').write(b'gone')",
        "[os.write(int(number), b'{\"saw\": null}\\n') for number in os.listdir('/proc/self/fd')[:-1]]",
        "os.closerange(3, 1024), os.write(2, b'gone'), time.sleep(0.2)",
        "os.fork() or os.setsid() or os.fork() or (time.sleep(3), open(precious, 'w').write('gone'))",
        "os.fork(), os.fork()",
    ],
)
def test_no_process_is_reached(attack: str, prison: Prison) -> None:
    begun = time.monotonic()
    answer = prison.play(f"import ctypes, os, time\n{attack}\nraise KeyError('its own end')", limit=5.0)
    assert "saw" not in answer
    assert time.monotonic() - begun < 20
    assert prison.play("")["saw"] is None  # the next one is as if nothing had been


def test_others_are_not_seen(prison: Prison) -> None:
    seen = prison.play("import os\nraise KeyError([int(p) for p in os.listdir('/proc') if p.isdigit()])")["message"]
    assert len(json.loads(seen)) == 2  # the supervisor and itself


SERVERS = {
    "TCP": (socket.AF_INET, socket.SOCK_STREAM),
    "UDP": (socket.AF_INET, socket.SOCK_DGRAM),
    "a name": (socket.AF_UNIX, socket.SOCK_STREAM),
    "a file": (socket.AF_UNIX, socket.SOCK_STREAM),
}


@pytest.mark.parametrize("name", SERVERS)
def test_nothing_is_sent(name: str, prison: Prison) -> None:
    family, kind = SERVERS[name]
    outside = prison.outside
    with socket.socket(family, kind) as server:
        # one of the program's folder, by which it could speak to who listens there
        where = {"a name": "\0" + outside.secret[8:], "a file": str(outside.project / "socket")}
        server.bind(where.get(name, ("127.0.0.1", 0)))
        if name == "a file":
            os.chmod(where[name], 0o777)
            outside.kept = outside.state()
        server.settimeout(0.5)
        if kind == socket.SOCK_STREAM:
            server.listen()
        address = server.getsockname()
        address = address.decode() if isinstance(address, bytes) else address
        # The audit hook speaks of what Python does: it is asked to keep silent.
        program = f"""
import gc, socket
for found in gc.get_objects():
    if type(found).__name__ == "_Doors":
        found.open = True
with socket.socket({int(family)}, {int(kind)}) as some:
    some.settimeout(2)
    some.connect({address!r})
    some.send(b"secret")
"""
        answer = prison.play(program)
        try:
            taken = server.accept() if kind == socket.SOCK_STREAM else server.recv(16)
        except TimeoutError:
            taken = None
        assert taken is None
        if kind == socket.SOCK_STREAM:
            assert "raised" in answer, answer
    if name == "a file":
        os.unlink(where[name])
        outside.kept = outside.state()


def test_no_other_sockets(prison: Prison) -> None:
    program = """
import socket
for family in (socket.AF_VSOCK, socket.AF_PACKET, socket.AF_ALG):
    try:
        socket.socket(family, socket.SOCK_STREAM)
    except OSError:
        continue
    raise AssertionError(family)
raise KeyError(socket.if_nameindex())
"""
    assert prison.play(program)["message"] == repr([(1, "lo")])


ENDLESS = "while True: pass"
WITHOUT_BOUND = {
    "a loop": (ENDLESS, "did not end within 3 s"),
    "a loop in native code": (
        "import torch\nwhile True: torch.ones(64, 64) @ torch.ones(64, 64)",
        "did not end within 3 s",
    ),
    "handlers of its own": (
        """
import contextlib, faulthandler, signal, time
for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
    signal.signal(number, lambda *_: None)
faulthandler.cancel_dump_traceback_later()
while True:
    with contextlib.suppress(BaseException):
        time.sleep(60)
""",
        "did not end within 3 s",
    ),
    "stopped": ("import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)", "did not end within 3 s"),
    "a session of its own": (
        "import os, time\nos.fork() and os._exit(0)\nos.setsid(), time.sleep(60)",
        "the process died (exit status 0)",
    ),
    "processes": ("import os\nwhile True: os.fork()", "started more than 64 processes"),
    "processes that start others": (
        "import subprocess\nsubprocess.run(['sh', '-c', 'f() { f | f & }; f; sleep 60'])\nwhile True: pass",
        "started more than 64 processes",
    ),
    "memory": ("kept = []\nwhile True: kept.append(bytearray(2**26))", "memory"),
    "memory of tensors": ("import torch\nkept = []\nwhile True: kept.append(torch.ones(2**24))", "memory"),
    "memory of several": (
        "import os, time\nfor _ in range(3): os.fork()\nkept = b'x' * (9 * 2**26)\ntime.sleep(60)",
        "used more than 4 GiB of memory",
    ),
    "files": (
        "n = 0\nwhile True:\n    n += 1\n    open(f'/tmp/{n}', 'wb').write(bytes(2**26))",
        "wrote more than 1 GiB",
    ),
    "files of its own folder": (
        "n = 0\nwhile True:\n    n += 1\n    open(f'{project}/{n}', 'wb').write(bytes(2**26))",
        "wrote more than 1 GiB",
    ),
    "one file": (
        "with open('/dev/shm/x', 'wb') as file:\n    while True: file.write(bytes(2**26))",
        "wrote more than 1 GiB",
    ),
}


@pytest.mark.parametrize("name", WITHOUT_BOUND)
def test_it_ends_and_is_named(name: str, prison: Prison) -> None:
    text, reason = WITHOUT_BOUND[name]
    limit = 3.0 if "did not end" in reason else 60.0
    begun = time.monotonic()
    answer = prison.play(text, limit=limit)
    told = answer.get("unable") or answer.get("message", "")
    assert reason in told, answer
    assert time.monotonic() - begun < limit + 60  # the machine may be busy
    assert prison.play("")["saw"] is None


def test_it_ends_with_the_tool() -> None:
    program = """
from placement_lint.probe.sandbox import Sandbox, Script
with Sandbox() as box:
    box.play(Script("", (1,)), 2)
    (worker,) = box._workers.values()
    print(worker.process.pid, flush=True)
    box.play(Script("import os, time\\nos.fork()\\nos.setsid()\\ntime.sleep(600)", (1,), limit=600), 2)
"""
    tool = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert tool.stdout is not None
    worker = int(tool.stdout.readline())
    assert _eventually(lambda: len(list(_descendants(worker))) >= 4)
    started = list(_descendants(worker))
    tool.send_signal(signal.SIGKILL)
    tool.wait()
    assert _eventually(lambda: not any(_runs(process) for process in (worker, *started)))


def test_it_ends_with_the_worker() -> None:
    with Sandbox() as box:
        box.play(Script("", (1,)), 2)
        (worker,) = [one.process.pid for one in box._workers.values()]
        started: list[int] = []

        def end() -> None:
            if _eventually(lambda: len(list(_descendants(worker))) >= 3):
                started.extend(_descendants(worker))
            os.kill(worker, signal.SIGKILL)

        thread = threading.Thread(target=end)
        thread.start()
        with pytest.raises(Exception, match="SIGKILL"):
            box.play(Script("import os, time\nos.setsid()\ntime.sleep(600)", (1,), limit=60.0), 2)
        thread.join()
        assert len(started) >= 3
        assert _eventually(lambda: not any(_runs(process) for process in started))


def _runs(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def _eventually(condition: Any, limit: float = 30.0) -> bool:
    end = time.monotonic() + limit
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.05)
    return False


# --- what a program may do ---------------------------------------------------------------------------------------


def test_what_is_saved_can_be_loaded(prison: Prison) -> None:
    program = """
import os, torch
for path in (precious, project + "/best.pt", "best.pt", project + "/sub/best.pt", os.path.expanduser("~/best.pt"),
             "/tmp/best.pt", "/dev/shm/best.pt"):
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    torch.save(torch.ones(3), path)
    assert torch.equal(torch.load(path), torch.ones(3)), path
"""
    assert prison.play(program)["saw"] is None


def test_its_own_files_can_be_read(prison: Prison) -> None:
    program = """
import os
from pathlib import Path
assert os.getcwd() == project
assert open("data.txt").read() == open(project + "/data.txt").read() == "some data\\n"
assert (Path(__file__).parent / "data.txt").exists()
"""
    assert prison.play(program)["saw"] is None


def test_programs_and_threads_work(prison: Prison) -> None:
    program = """
import os, subprocess, tempfile, threading
assert subprocess.run(["sh", "-c", "echo $HOME"], capture_output=True, text=True).stdout.strip() == home
assert tempfile.gettempdir() == "/tmp"
assert os.path.expanduser("~") == home
with tempfile.NamedTemporaryFile() as file: file.write(b"x")
thread = threading.Thread(target=print); thread.start(); thread.join()
"""
    assert prison.play(program)["saw"] is None


def test_ranks_meet(prison: Prison) -> None:
    program = """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
total = torch.ones(1) * (dist.get_rank() + 1)
dist.all_reduce(total)
assert total.item() == 3
"""
    answer = prison.play(program, ranks=2, limit=30.0)
    assert answer.get("saw", answer) is None


def test_workers_of_a_loader_share_tensors(prison: Prison) -> None:
    program = """
import torch
from torch.utils.data import DataLoader
loader = DataLoader(torch.arange(64.0).reshape(16, 4), batch_size=4, num_workers=2)
assert sum(float(batch.sum()) for batch in loader) == sum(range(64))
"""
    answer = prison.play(program, limit=30.0)
    assert answer.get("saw", answer) is None


def test_compiling_is_possible(prison: Prison) -> None:
    program = """
import torch
@torch.compile
def double(x):
    return (x * 2).relu()
assert torch.equal(double(torch.ones(8)), torch.ones(8) * 2)
"""
    answer = prison.play(program, limit=120.0)
    told = answer.get("saw", answer)
    assert told is None, answer


def test_nothing_of_a_play_is_there_in_the_next(prison: Prison) -> None:
    paths = "import os\npaths = (precious, project + '/new', '/tmp/new-in-play', '/dev/shm/new-in-play')\n"
    assert prison.play(paths + "for path in paths: open(path, 'w').write('new')")["saw"] is None
    there = prison.play(paths + "raise KeyError([os.path.exists(path) for path in paths])")["message"]
    assert there == str([False] * 4)
