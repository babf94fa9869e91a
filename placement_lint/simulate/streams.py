"""Streams and events. The simulated machine works in program order, so all that is recorded is done."""

from __future__ import annotations

import itertools
import time
from typing import Any

from .machine import Device, NotSimulated, here

_ids = itertools.count(1)


class Stream:
    """``torch.cuda.Stream`` and ``torch.Stream``: a name for an order that holds anyway."""

    device_type = 1

    def __init__(self, device: Any = None, priority: int = 0, **known: Any) -> None:
        here().resolve("cuda")
        index = known.get("device_index")
        self.device = here().resolve(index if index is not None else "cuda" if device is None else device)
        self.priority = priority
        self.stream_id = known["stream_id"] if "stream_id" in known else next(_ids)
        self._outer: list[tuple[int, Stream]] = []

    @property
    def device_index(self) -> int:
        return self.device.index

    @property
    def cuda_stream(self) -> int:
        return self.stream_id

    def synchronize(self) -> None:
        """Wait for what is done already."""

    def wait_stream(self, stream: Stream) -> None:
        """Order this stream after another one."""

    def wait_event(self, event: Event) -> None:
        """Order this stream after an event."""

    def query(self) -> bool:
        return True

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
        return f"<torch.cuda.Stream device={self.device} cuda_stream={self.cuda_stream:#x}>"


class ExternalStream(Stream):
    """A stream of another library, of which there is none."""

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
        self.device = (stream or current_stream(here().current)).device
        self._moment = time.perf_counter()

    def wait(self, stream: Stream | None = None) -> None:
        """Order a stream after this event."""

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        """Wait for what is done already."""

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds between two timed, recorded events (`torch/csrc/cuda/Event.cpp`)."""
        if not (self._timed and end_event._timed):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if self._moment is None or end_event._moment is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        return (end_event._moment - self._moment) * 1000

    def __repr__(self) -> str:
        return "<torch.cuda.Event uninitialized>" if self._moment is None else f"<torch.cuda.Event {id(self):#x}>"


def current_stream(index: int) -> Stream:
    stream = here().stream.get(index)
    return stream if isinstance(stream, Stream) else default_stream(index)


def default_stream(index: int) -> Stream:
    return Stream(stream_id=0, device_index=index)


def set_stream(stream: Stream) -> None:
    """The stream becomes current on its device, and its device current (`c10/cuda/CUDAStream.cpp`)."""
    here().current = stream.device.index
    here().stream[stream.device.index] = stream
