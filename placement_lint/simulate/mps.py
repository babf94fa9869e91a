"""The C layer under `torch.mps` and `torch.backends.mps` (`torch/csrc/mps/Module.cpp`).

PyTorch's Python code runs as it is; that of `torch.backends.mps` without its caches, because a process may simulate
several machines.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import torch
import torch.backends.mps
import torch.mps

from .driver import NAME, empty_cache, lacking, synchronize
from .machine import here
from .randoms import default_generators
from .streams import Event

if TYPE_CHECKING:
    from .patches import Patches

MACOS = (15, 0)
CORES = 40

_ids = itertools.count(1)
_events: dict[int, Event] = {}


def acquire_event(timed: bool) -> int:
    """`aten/src/ATen/mps/MPSEvent.mm`: events are known by numbers."""
    number = next(_ids)
    _events[number] = Event(enable_timing=timed)
    return number


def _nothing(*args: Any) -> None:
    """There is no profiler, and memory has the limit of the simulation."""


MPS: dict[str, Any] = {
    "_has_mps": True,
    "_mps_is_available": lambda: True,
    "_mps_is_in_bad_fork": lambda: False,
    "_mps_is_on_macos_or_newer": lambda major, minor: (major, minor) <= MACOS,
    "_mps_get_name": lambda: NAME,
    "_mps_get_core_count": lambda: CORES,
    "_mps_get_default_generator": lambda: default_generators()[0],
    "_mps_deviceSynchronize": lambda: synchronize(0),
    "_mps_emptyCache": empty_cache,
    "_mps_setMemoryFraction": _nothing,
    "_mps_currentAllocatedMemory": lambda: here().allocated[0],
    "_mps_driverAllocatedMemory": lambda: here().allocated[0],
    "_mps_recommendedMaxMemory": lambda: here().memory,
    "_mps_maxBufferLength": lambda: here().memory,
    "_mps_profilerStartTrace": _nothing,
    "_mps_profilerStopTrace": _nothing,
    "_mps_acquireEvent": acquire_event,
    "_mps_releaseEvent": lambda number: _events.pop(number, None),
    "_mps_recordEvent": lambda number: _events[number].record(),
    "_mps_waitForEvent": lambda number: _events[number].wait(),
    "_mps_queryEvent": lambda number: _events[number].query(),
    "_mps_synchronizeEvent": lambda number: _events[number].synchronize(),
    "_mps_elapsedTimeOfEvents": lambda begin, end: _events[begin].elapsed_time(_events[end]),
    "_mps_compileShader": lacking("Metal shaders"),
}
ABSENT: dict[str, Any] = {"_has_mps": False, "_mps_is_available": lambda: False}

# The functions behind the caches of `torch.backends.mps`.
_QUERIES = {
    name: value.__wrapped__ for name, value in vars(torch.backends.mps).items() if hasattr(value, "cache_clear")
}


def install(patches: Patches) -> None:
    patches.set_all(torch._C, MPS if here().kind == "mps" else ABSENT)
    patches.set_all(torch.backends.mps, _QUERIES)
    patches.set(torch.mps, "_default_mps_generator", None)
