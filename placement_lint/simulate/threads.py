"""Simulation in other threads and processes.

Dispatch modes belong to a thread, GPUs to the process: each thread started during a simulation enters a
mode of its own. The autograd engine needs none of this: it works CPU nodes off in the calling thread,
with that thread's modes (`torch/csrc/autograd/engine.cpp`: `Engine::execute_with_graph_task`). A process
that multiprocessing spawns sets up its simulation while it unpickles its instructions, that is, before it
imports the program's main module.
"""

from __future__ import annotations

import contextlib
import multiprocessing.spawn
import threading
from typing import TYPE_CHECKING, Any

import torch

from .dispatch import SimulatedKernels
from .machine import here, running

if TYPE_CHECKING:
    from .patches import Patches

_start = threading.Thread.start
_preparation_data = multiprocessing.spawn.get_preparation_data


def start(thread: threading.Thread) -> None:
    run, workers = thread.run, torch.get_num_threads()

    def run_simulated() -> None:
        # The instance's attribute would tie the thread to itself.
        del thread.run
        # OpenMP's number of workers belongs to a thread too: without it each replica takes all cores.
        torch.set_num_threads(workers)
        with SimulatedKernels() if running() else contextlib.nullcontext():
            run()

    thread.run = run_simulated  # type: ignore[method-assign]
    _start(thread)


class _Simulation:
    """Unpickling this starts the simulation of the parent in a child."""

    def __init__(self, count: int, memory: int, device: str) -> None:
        self.machine = count, memory, device

    def __reduce__(self) -> tuple[Any, tuple[int, int, str]]:
        return simulate_for_good, self.machine


def simulate_for_good(count: int, memory: int, device: str) -> None:
    from .simulation import gpus

    gpus(count, memory=memory, device=device).__enter__()


def preparation_data(name: str) -> dict[str, Any]:
    return {**_preparation_data(name), "simulation": _Simulation(here().installed, here().memory, here().kind)}


def install(patches: Patches) -> None:
    patches.set(threading.Thread, "start", start)
    patches.set(multiprocessing.spawn, "get_preparation_data", preparation_data)
