"""Streams and events. The simulated machine works in program order, so all recorded work is done.

Only ``torch.cuda._sleep`` takes time on a stream, as it does on a GPU: later work on the stream waits for it.
"""

from __future__ import annotations

import itertools
import time
from typing import Any

from .machine import INVALID_HANDLE, NOT_READY, CudaError, Device, NotSimulated, here

_ids = itertools.count(1)

# `c10/cuda/CUDAStream.h`, `priority_range`: what PyTorch supports of the hardware's priorities.
LOWEST, HIGHEST = 0, -3
# `c10/core/DeviceType.h`
DEVICE_TYPES = {"cuda": 1, "xpu": 12, "mps": 13}
# Cycles of a GPU in a second.
CLOCK = 1.98e9


class Stream:
    """``torch.cuda.Stream``, ``torch.xpu.Stream`` and ``torch.Stream``: a name for an order that holds anyway."""

    def __init__(self, device: Any = None, priority: int = 0, **known: Any) -> None:
        kind = here().kind
        here().resolve(kind)
        index = known.get("device_index")
        self.device = here().resolve(index if index is not None else kind if device is None else device)
        if self.device.type != kind:
            raise ValueError(f"Expected a {kind} device, but got: {self.device}")
        self.priority = max(HIGHEST, min(LOWEST, priority))
        self.stream_id = known["stream_id"] if "stream_id" in known else next(_ids)
        self._outer: list[tuple[int, Stream]] = []

    @property
    def device_index(self) -> int:
        return self.device.index

    @property
    def device_type(self) -> int:
        return DEVICE_TYPES[self.device.type]

    @property
    def cuda_stream(self) -> int:
        return self.stream_id

    @property
    def sycl_queue(self) -> int:
        return self.stream_id

    @staticmethod
    def priority_range() -> tuple[int, int]:
        return LOWEST, HIGHEST

    @property
    def busy_until(self) -> float:
        return here().busy.get((self.device.index, self.stream_id), 0.0)

    @busy_until.setter
    def busy_until(self, moment: float) -> None:
        if moment > time.perf_counter():
            here().busy[self.device.index, self.stream_id] = moment

    def synchronize(self) -> None:
        _wait_until(self.busy_until)

    def wait_stream(self, stream: Stream) -> None:
        self.busy_until = max(self.busy_until, stream.busy_until)

    def wait_event(self, event: Event) -> None:
        event.wait(self)

    def query(self) -> bool:
        return time.perf_counter() >= self.busy_until

    def is_capturing(self) -> bool:
        return False

    def record_event(self, event: Event | None = None) -> Event:
        event = event or Event()
        event.record(self)
        return event

    def __enter__(self) -> Stream:
        self._outer.append((here().current, current_stream(self.device.index)))
        set_stream(self)
        return self

    def __exit__(self, *failure: object) -> None:
        device, stream = self._outer.pop()
        here().stream[self.device.index] = stream
        here().current = device

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and (self.stream_id, self.device) == (other.stream_id, other.device)

    def __hash__(self) -> int:
        return hash((self.stream_id, self.device))

    def __repr__(self) -> str:
        if self.device.type == "xpu":
            return f"torch.xpu.Stream(device={self.device} sycl_queue={self.sycl_queue:#x})"
        if self.device.type == "mps":
            return f"torch.Stream device_type=mps, device_index={self.device.index}, stream_id={self.stream_id}"
        return f"<torch.cuda.Stream device={self.device} cuda_stream={self.cuda_stream:#x}>"


class ExternalStream(Stream):
    """A stream of another library, which is not simulated."""

    def __init__(self, stream_ptr: int, device: Any = None, **known: Any) -> None:
        raise NotSimulated("a CUDA stream of another library")


class Event:
    """``torch.cuda.Event`` and ``torch.Event``: a moment on the host's clock."""

    def __init__(
        self,
        device: Any = None,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
    ) -> None:
        self.device: Device | None = None
        self._timed = enable_timing or device is True
        self._moment: float | None = None

    def record(self, stream: Stream | None = None) -> None:
        stream = stream or current_stream(here().current)
        if self.device not in (None, stream.device):
            raise RuntimeError(
                f"Event device {self.device.index} does not match recording stream's device {stream.device.index}."
            )
        self.device = stream.device
        self._moment = max(time.perf_counter(), stream.busy_until)

    def wait(self, stream: Stream | None = None) -> None:
        stream = stream or current_stream(here().current)
        stream.busy_until = max(stream.busy_until, self._moment or 0.0)

    def query(self) -> bool:
        return self._moment is None or time.perf_counter() >= self._moment

    def synchronize(self) -> None:
        _wait_until(self._moment or 0.0)

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds between two timed, recorded events (`torch/csrc/cuda/Event.cpp`)."""
        if not (self._timed and end_event._timed):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if self._moment is None or end_event._moment is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        if self.device != end_event.device:
            raise CudaError(INVALID_HANDLE)
        if not (self.query() and end_event.query()):
            raise CudaError(NOT_READY)
        return (end_event._moment - self._moment) * 1000

    def __repr__(self) -> str:
        return f"<torch.{here().kind}.Event {'uninitialized' if self._moment is None else hex(id(self))}>"


def current_stream(index: int) -> Stream:
    stream = here().stream.get(index)
    return stream if isinstance(stream, Stream) else default_stream(index)


def default_stream(index: int) -> Stream:
    return Stream(stream_id=0, device_index=index)


def set_stream(stream: Stream) -> None:
    """The stream becomes current on its device, and its device current (`c10/cuda/CUDAStream.cpp`)."""
    here().current = stream.device.index
    here().stream[stream.device.index] = stream


# --- time -----------------------------------------------------------------------------------------


def sleep(cycles: int) -> None:
    """`aten/src/ATen/cuda/Sleep.h`: a kernel that keeps the current stream busy."""
    stream = current_stream(here().current)
    stream.busy_until = max(stream.busy_until, time.perf_counter()) + cycles / CLOCK


def wait_for_all(index: int) -> None:
    """Wait for every stream of a device."""
    # Other threads may start streams meanwhile.
    busy = list(here().busy.items())
    _wait_until(max((moment for (device, _), moment in busy if device == index), default=0.0))


def _wait_until(moment: float) -> None:
    time.sleep(max(0.0, moment - time.perf_counter()))
