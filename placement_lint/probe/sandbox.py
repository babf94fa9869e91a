"""A child process in which arms run, so that nothing they do can harm the tool: see worker.py.

The process is started when it is first needed and kept for the next arm. One that hangs or dies is ended with its
whole group and costs its own arm only; the next arm gets a new one.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import Any

from placement_lint.errors import UsageError
from placement_lint.probe import confinement
from placement_lint.probe.experiment import CUDA, Arm, Facts

LIMIT = 60.0  # seconds an arm
PLAY_LIMIT = 20.0  # seconds a part of the user's program
PATIENCE = 10.0  # seconds after which a process that plays is ended, if it does not end what it plays itself
START_LIMIT = 180.0  # seconds to import PyTorch
COMMAND = (sys.executable, "-m", "placement_lint.probe.worker")
QUIET = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "PYTHONWARNINGS": "ignore",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONHASHSEED": "0",  # sets have the same order in each run
    # To ask whether there are GPUs does not start CUDA, so that a copy of the process still can.
    "PYTORCH_NVML_BASED_CUDA_CHECK": "1",
}
BLIND = {"CUDA_VISIBLE_DEVICES": "-1"}


class ArmLost(Exception):
    """The process ended or was ended before the arm did; the message says why."""


@dataclass(frozen=True)
class Inventory:
    """What the worker found on this machine: PyTorch's version, and the name of each real GPU."""

    torch: str
    gpus: tuple[str, ...]


@dataclass(frozen=True)
class Script:
    """A program of the user's to be played, and the lines whose execution is reported.

    ``roots`` are the folders from which it imports, ``beside`` is that of its own file, ``ranks`` the number of
    processes that play it together, on ``nodes``.
    With ``entry``, that is the program, and the text is what it gets when it imports the file ``home``. If it is
    ``lenient``, statements that fail are passed over, but for the ``kept`` lines and for ``symptoms`` (leniency.py).
    ``lent`` are texts that it gets when it imports other files. ``argv`` is its command line, given in the folder
    ``here``; without one, in the present folder. If it is ``hollow``, large tensors have no values on simulated GPUs.
    """

    text: str
    lines: tuple[int, ...]
    roots: tuple[str, ...] = ()
    limit: float = PLAY_LIMIT
    ranks: int = 1
    nodes: int = 1
    entry: str = ""
    home: str = ""
    lenient: bool = False
    kept: tuple[int, ...] = ()
    symptoms: tuple[tuple[str, str], ...] = ()
    lent: tuple[tuple[str, str], ...] = ()
    argv: tuple[str, ...] = ()
    here: str = ""
    beside: str = ""
    hollow: bool = False


@dataclass(frozen=True)
class _Lane:
    """The purpose of a worker; each has a process of its own."""

    blind: bool = False
    playing: bool = False
    confined: bool = False

    def environment(self, folder: str) -> dict[str, str]:
        """The environment of a process that is to be confined must contain no secrets."""
        inherited = confinement.environment() if self.confined else os.environ
        return {**inherited, **QUIET, **(BLIND if self.blind else {}), "TMPDIR": folder}


def require_confinement() -> None:
    """Refuse to execute the user's program where the operating system cannot confine it."""
    if reason := confinement.missing():
        raise UsageError(
            f"--trust confines your program, which needs {reason}. `--trust=unconfined` runs it without confinement: "
            "it can read, change, delete and send whatever you can"
        )


class Sandbox:
    """Runs arms in a worker; to be used in a ``with`` statement, at whose end nothing is left.

    The operating system confines the user's program, unless that was declined.
    """

    def __init__(self, limit: float = LIMIT, confining: bool = True) -> None:
        self.limit = limit
        self.confining = confining
        self._workers: dict[_Lane, _Worker] = {}
        self._inventory: Inventory | None = None

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for lane in list(self._workers):
            self._end(lane)

    @property
    def inventory(self) -> Inventory:
        if self._inventory is None:
            hello = self._started(_Lane()).hello
            self._inventory = Inventory(hello["torch"], tuple(hello["gpus"]))
        return self._inventory

    def run(self, arm: Arm, facts: Facts, simulate: int | None, kind: str = CUDA) -> Mapping[str, Any]:
        """The worker's answer; ``simulate`` is the number of simulated GPUs, None for the machine as it is."""
        name = f"{arm.__module__}:{arm.__qualname__}"
        request = {"arm": name, "facts": dict(facts), "simulate": simulate, "kind": kind, "limit": self.limit}
        return self._asked(_Lane(self._blind(simulate)), request, self.limit)

    def play(self, script: Script, simulate: int | None, kind: str = CUDA) -> Mapping[str, Any]:
        """The same for a part of the user's program, which is executed: see stage.py and confinement.py."""
        if self.confining:
            require_confinement()
        request = {
            "script": asdict(script),
            "simulate": simulate,
            "kind": kind,
            "limit": script.limit,
            "confined": self.confining,
            "here": script.here or os.getcwd(),
            "hollow": script.hollow,
        }
        # Each script is played in a copy of a process in which nothing has run: no CUDA, no process group.
        lane = _Lane(self._blind(simulate), playing=True, confined=self.confining)
        answer = self._asked(lane, request, script.limit * confinement.STRETCH + PATIENCE)
        if not hasattr(os, "fork"):  # where processes cannot be copied, each script uses one up
            self._end(lane)
        return answer

    def _blind(self, simulate: int | None) -> bool:
        """GPUs are simulated in a process that sees no real ones."""
        return simulate is not None and not (self._inventory and not self._inventory.gpus)

    def _asked(self, lane: _Lane, request: Mapping[str, Any], limit: float) -> Mapping[str, Any]:
        worker = self._started(lane)
        try:
            return worker.ask(request, limit)
        except BaseException:  # an interrupt must not leave a worker behind that still owes an answer
            self._end(lane)
            raise

    def _started(self, lane: _Lane) -> _Worker:
        if lane not in self._workers:
            self._workers[lane] = _Worker(lane)
            try:
                self._workers[lane].greet()
            except BaseException as error:
                self._end(lane)
                if isinstance(error, ArmLost):
                    raise UsageError(f"no experiment can be run, since PyTorch does not start: {error}") from None
                raise
        return self._workers[lane]

    def _end(self, lane: _Lane) -> None:
        self._workers.pop(lane).end()


class _Worker:
    def __init__(self, lane: _Lane) -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="placement-lint-", ignore_cleanup_errors=True)
        self.process = subprocess.Popen(
            COMMAND,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=self.folder.name,
            env=lane.environment(self.folder.name),
            text=True,
            encoding="utf-8",
            start_new_session=True,
        )
        self.hello: Mapping[str, Any] = {}
        self.lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        threading.Thread(target=self._listen, daemon=True).start()

    def greet(self) -> None:
        """Wait until PyTorch is imported."""
        self.hello = self._heard(START_LIMIT)

    def ask(self, request: Mapping[str, Any], limit: float) -> Mapping[str, Any]:
        assert self.process.stdin is not None
        with contextlib.suppress(OSError):  # a dead worker is noticed when it is listened to
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
        return self._heard(limit)

    def _heard(self, limit: float) -> Mapping[str, Any]:
        try:
            line = self.lines.get(timeout=limit)
        except queue.Empty:
            raise ArmLost(f"did not end within {limit:g} s") from None
        if not line:
            raise ArmLost(f"the process died ({self._cause()})")
        answer: Mapping[str, Any] = json.loads(line)
        return answer

    def end(self) -> None:
        """End the process and all that it started."""
        if hasattr(os, "killpg"):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
        self.process.kill()
        self.process.wait()
        assert self.process.stdin is not None
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        self.folder.cleanup()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as stream:
            for line in stream:
                self.lines.put(line)
        self.lines.put("")

    def _cause(self) -> str:
        status = self.process.wait()
        with contextlib.suppress(ValueError):
            return signal.Signals(-status).name
        return f"exit status {status}"
