"""The machine that is simulated: the kind and the number of its GPUs, which one is current, how much lives on each.

The current device is a property of the thread, as ``cudaSetDevice`` makes it, and a new thread
starts on device 0 (``torch/cuda/__init__.py``: ``set_device``, ``current_device``).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any, Protocol

import torch

from .memory import out_of_memory, rounded

# The type itself, taken before `torch.device` is stood in for (see factories.py).
Device = torch.device
CPU = Device("cpu")

TOTAL_MEMORY = 80 * 1024**3

NO_DRIVER = (
    "Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU and installed a driver "
    "from http://www.nvidia.com/Download/index.aspx"
)
_HINTS = (
    "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace "
    "below might be "
    "incorrect.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1\n"
    "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n"
)
INVALID_ORDINAL = (
    f"CUDA error: invalid device ordinal\nGPU device may be out of range, do you have enough GPUs?\n{_HINTS}"
)
INVALID_HANDLE = f"CUDA error: invalid resource handle\n{_HINTS}"
ASSERTED = (
    "CUDA error: device-side assert triggered\nSearch for `cudaErrorAssert' in "
    "https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html for more information.\n"
    f"{_HINTS}"
)
NOT_READY = f"CUDA error: device not ready\n{_HINTS}"
FORKED = "CUDA error: initialization error\n"

# The kinds of accelerator that a machine can have.
KINDS = ("cuda", "mps", "xpu")
# PyTorch's own initialisation, over the driver that driver.py and xpu.py supply; a kind that is absent raises.
_INITIALISING: dict[str, Callable[[], None]] = {"cuda": torch.cuda._lazy_init, "xpu": torch.xpu._lazy_init}
# The variable that hides GPUs from a program.
_VISIBLE = {"cuda": "CUDA_VISIBLE_DEVICES", "xpu": "ZE_AFFINITY_MASK", "mps": ""}

# What a CUDA runtime failure is raised as: a RuntimeError of its own name in newer versions.
CudaError: type[RuntimeError] = getattr(torch, "AcceleratorError", RuntimeError)


class NotSimulated(NotImplementedError):
    """An operation that has no simulated counterpart."""

    def __init__(self, what: str) -> None:
        super().__init__(f"not simulated: {what}")


class Observer(Protocol):
    """Whoever wants to know what is made, moved and mixed (see journal.py)."""

    def created(self, tensor: torch.Tensor, how: str) -> None: ...

    def computed(self, tensor: torch.Tensor, how: str) -> None: ...

    def moved(self, before: torch.Tensor, after: torch.Tensor, source: Device, target: Device) -> None: ...

    def refused(self, message: str, operands: list[tuple[str, torch.Tensor]]) -> None: ...


class Machine:
    """A build of PyTorch for one kind of GPU on a machine with `count` of them (none is a machine without a driver)."""

    def __init__(
        self,
        count: int,
        observer: Observer | None = None,
        memory: int | None = None,
        kind: str = "cuda",
        hollow: bool = False,
    ) -> None:
        self.installed = count
        self.kind = kind
        # Of each GPU, in bytes.
        self.memory = TOTAL_MEMORY if memory is None else memory
        # After a device-side assert a process can use no GPU any more.
        self.broken = False
        self.observer = observer
        # Whether large tensors go without values, and whether one did (see hollow.py).
        self.hollow = hollow
        self.is_hollowed = False
        self.devices = tuple(Device(kind, index) for index in range(count))
        self.allocated = [0] * count
        self.peak = [0] * count
        # How often memory was taken, given back, and all of a GPU's streams awaited (CUDACachingAllocator.cpp).
        self.taken = [0] * count
        self.returned = [0] * count
        self.emptied = 0
        self.refused = 0
        # Until when a stream is busy, by device and stream (see streams.py).
        self.busy: dict[tuple[int, int], float] = {}
        self.forked = False
        # Generators of GPUs by their address: operators see the generator, not the object that wraps it.
        self.generators: dict[int, Any] = {}
        self.default_generators: tuple[Any, ...] = ()
        # Where tensors of the default type are, in all threads (`torch/csrc/tensor/python_tensor.cpp`).
        self.default_type_on_gpu = False
        self._visible: int | None = None
        self._environment = os.environ.get(_VISIBLE[kind])
        self._thread = threading.local()

    @property
    def count(self) -> int:
        """The visible GPUs: a variable such as ``CUDA_VISIBLE_DEVICES`` is heeded when the program sets it before
        first using the driver.
        """
        if self._visible is not None:
            return self._visible
        wanted = os.environ.get(_VISIBLE[self.kind])
        if wanted is None or wanted == self._environment:
            return self.installed
        return _leading_ordinals(wanted, self.installed)

    def settle_visible_devices(self) -> int:
        """What the driver does at its first use: later changes of the environment have no effect."""
        self._visible = self.count
        return self._visible

    @property
    def current(self) -> int:
        return getattr(self._thread, "index", 0)

    @current.setter
    def current(self, index: int) -> None:
        self.check(index)
        self._thread.index = index

    @property
    def stream(self) -> dict[int, object]:
        """The current stream of each device, in this thread."""
        if not hasattr(self._thread, "streams"):
            self._thread.streams = {}
        streams: dict[int, object] = self._thread.streams
        return streams

    def check(self, index: int) -> None:
        if not 0 <= index < self.count:
            raise self._invalid(index)

    def _invalid(self, index: int) -> Exception:
        """`c10/cuda/CUDAFunctions.cpp`; `c10/xpu/XPUFunctions.h`, `check_device_index`."""
        if self.kind == "cuda":
            return CudaError(INVALID_ORDINAL)
        if self.kind == "xpu":
            return RuntimeError(f"The device index is out of range. It must be in [0, {self.count}), but got {index}.")
        return NotSimulated(f"{self.kind}:{index}; there is one {self.kind} device")

    @property
    def awake(self) -> bool:
        """Whether the driver is initialised; MPS starts with PyTorch."""
        return self.kind == "mps" or bool(getattr(torch, self.kind)._initialized)

    def wake(self) -> None:
        if self.kind in _INITIALISING:
            _INITIALISING[self.kind]()

    def resolve(self, spec: object) -> Device:
        """The device that `spec` means here and now: an index is a GPU's, bare ``cuda`` the current one."""
        device = as_device(spec)
        if device.type != self.kind:
            if device.type in _INITIALISING:
                _INITIALISING[device.type]()
            return device
        self.wake()
        # The stubs know no device without an index.
        named: int | None = device.index
        index = self.current if named is None else named
        self.check(index)
        return self.devices[index]

    def occupy(self, index: int, size: int) -> None:
        if self.forked and self.kind == "cuda":
            raise CudaError(FORKED)
        self.check_alive()
        size = rounded(size)
        if self.allocated[index] + size > self.memory:
            self.refused += 1
            raise out_of_memory(self, index, size)
        self.taken[index] += 1
        self.allocated[index] += size
        if self.allocated[index] > self.peak[index]:
            self.peak[index] = self.allocated[index]

    def release(self, index: int, size: int) -> None:
        self.returned[index] += 1
        self.allocated[index] -= rounded(size)

    def check_alive(self) -> None:
        if self.broken:
            raise CudaError(ASSERTED)


def as_device(spec: object) -> Device:
    if isinstance(spec, int) and not isinstance(spec, bool):
        return Device(here().kind, spec)
    return spec if isinstance(spec, Device) else Device(spec)  # type: ignore[call-overload]


def _leading_ordinals(wanted: str, installed: int) -> int:
    """CUDA reads the list up to the first entry that names no GPU."""
    seen: list[int] = []
    for entry in wanted.split(","):
        if not entry.strip().isdigit() or int(entry) >= installed or int(entry) in seen:
            break
        seen.append(int(entry))
    return len(seen)


_machines: list[Machine] = []


def start(machine: Machine) -> None:
    _machines.append(machine)


def stop() -> Machine:
    return _machines.pop()


def running() -> bool:
    return bool(_machines)


def here() -> Machine:
    """The machine this process runs on at the moment."""
    return _machines[-1]


def _after_fork() -> None:
    if _machines and here().kind != "mps" and here().awake:
        here().forked = True


os.register_at_fork(after_in_child=_after_fork)
