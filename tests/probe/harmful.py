"""Arms of experiments that crash, hang or exit."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time

from placement_lint.probe.experiment import Facts


def ends_well(facts: Facts) -> str:
    return f"{facts.get('word', 'fine')}"


def hangs(facts: Facts) -> None:
    time.sleep(600)


def hangs_and_ignores_signals(facts: Facts) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    while True:
        with contextlib.suppress(BaseException):
            time.sleep(600)


def hangs_with_a_child(facts: Facts) -> None:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    with open(facts["file"], "w", encoding="utf-8") as stream:
        stream.write(str(child.pid))
    time.sleep(600)


def crashes(facts: Facts) -> None:
    os.abort()


def segfaults(facts: Facts) -> None:
    import ctypes

    ctypes.string_at(0)


def exits(facts: Facts) -> None:
    os._exit(3)


def calls_sys_exit(facts: Facts) -> None:
    sys.exit(4)


def raises_without_end(facts: Facts) -> None:
    raises_without_end(facts)


def fills_memory(facts: Facts) -> None:
    bytearray(2**34)


def fills_memory_with_tensors(facts: Facts) -> None:
    import torch

    torch.empty(2**34, dtype=torch.uint8)


def prints(facts: Facts) -> str:
    print('{"saw": "what was printed"}', flush=True)
    os.write(1, b'{"saw": "what was written"}\n')
    return "what was seen"


def leaves_a_file(facts: Facts) -> str:
    there = os.listdir()
    with open("left", "w", encoding="utf-8") as stream:
        stream.write("x")
    return str(there)


def hides_the_gpus(facts: Facts) -> str:
    before = os.environ.get("CUDA_VISIBLE_DEVICES", "not set")
    os.environ["CUDA_VISIBLE_DEVICES"] = "7"
    return before
