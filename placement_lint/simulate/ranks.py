"""``run --ranks N``: one process a rank, with the environment that ``torchrun`` gives."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time

# How often the ranks are looked at, in seconds.
INTERVAL = 0.05


def run_ranks(ranks: int, command: list[str]) -> int:
    """Run `command` (the arguments of this package's own runner) in each rank; the status of the first that fails."""
    port = str(_free_port())
    started = [
        subprocess.Popen([sys.executable, "-m", str(__package__), *command], env=_environment(rank, ranks, port))
        for rank in range(ranks)
    ]
    try:
        return _first_failure(started)
    finally:
        for process in started:
            process.terminate()
        for process in started:
            process.wait()


def _environment(rank: int, ranks: int, port: str) -> dict[str, str]:
    """`torch/distributed/elastic/agent/server/local_elastic_agent.py`, `_start_workers`."""
    world = {"RANK": rank, "LOCAL_RANK": rank, "GROUP_RANK": 0, "WORLD_SIZE": ranks, "LOCAL_WORLD_SIZE": ranks}
    return {
        **os.environ,
        **{name: str(value) for name, value in world.items()},
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": port,
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1"),
    }


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def _first_failure(processes: list[subprocess.Popen[bytes]]) -> int:
    """Wait for all; one that fails ends the wait, because the others would wait for it."""
    while True:
        codes = [process.poll() for process in processes]
        failed = next((code for code in codes if code), None)
        if failed is not None:
            return failed if failed > 0 else 128 - failed
        if all(code == 0 for code in codes):
            return 0
        time.sleep(INTERVAL)
