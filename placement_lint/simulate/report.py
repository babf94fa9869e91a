"""What the runner prints about a run, all of it to standard error."""

from __future__ import annotations

import collections
import re
import sys
from typing import TYPE_CHECKING

from . import tracebacks
from .journal import Journal, Origin, Refusal, describe, is_user_code, raised_at
from .machine import here
from .names import named_in_frames
from .placement import device_of, storage_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import FrameType, TracebackType

    from .machine import Machine

# What PyTorch says when a call goes past the simulation, by the kind of GPU.
_PAST_THE_SIMULATION = {
    "cuda": (
        re.compile(r"has no attribute '(_cuda\w+|_nccl\w+|_cudnn\w+)'"),
        re.compile(r"(not linked with support for cuda devices)"),
        re.compile(r"Could not run '(\S+)' with arguments from the '\w*CUDA' backend"),
        re.compile(r"(Tried to instantiate dummy base class \w+)"),
    ),
    "mps": (re.compile(r"has no attribute '(_mps\w+)'"),),
    "xpu": (re.compile(r"has no attribute '(_xpu\w+)'"),),
}


# What the allocators say (see memory.py).
_FULL = ("CUDA out of memory", "XPU out of memory", "MPS backend out of memory")
NO_WAY_ON = "after a device-side assert, a process cannot use the GPU any more"
# How many tensors the account of a full card has.
LARGEST = 10


def say(text: str = "") -> None:
    print(text, file=sys.stderr)


def table(rows: Sequence[Sequence[str]]) -> None:
    for line in aligned(rows):
        say(line)


def aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Columns as wide as their widest cell."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def failure(error: BaseException, journal: Journal, begin: TracebackType | None) -> None:
    """The user's line, the error, the account of its operands, then the traceback up to the user's line."""
    refusal = journal.refusal_behind(error)
    line = refusal.line if refusal else raised_at(begin)
    if line is not None:
        say(f"{line}: {line.text}")
    say(f"{type(error).__name__}: {refusal.message if refusal else error}")
    if refusal:
        table(account(refusal))
    if "device-side assert triggered" in str(error):
        say(f"{error.__cause__ or 'an index is out of range'}; {NO_WAY_ON}")
    if any(words in str(error) for words in _FULL):
        table(list(_alive(error, begin)))
    for pattern in _PAST_THE_SIMULATION[here().kind]:
        if found := pattern.search(str(error)):
            say(f"not simulated: {found.group(1)}")
    say()
    say(tracebacks.formatted(error, begin))


def _alive(error: BaseException, begin: TracebackType | None) -> Iterator[tuple[str, str, str, str]]:
    """The largest named tensors on the GPU that is full."""
    found = re.search(r"GPU (\d+) has a total capacity", str(error))
    named = {id(storage_of(tensor)): (name, tensor) for name, tensor in named_in_frames(_last_frame(begin))}
    place = f"{here().kind}:{found.group(1) if found else 0}"
    there = [(name, tensor) for name, tensor in named.values() if str(device_of(tensor)) == place]
    for name, tensor in sorted(there, key=lambda pair: -pair[1].nbytes)[:LARGEST]:
        yield name, describe(tensor), f"on {place},", size(tensor.nbytes)


def _last_frame(trace: TracebackType | None) -> FrameType | None:
    """The innermost frame of a traceback that is the user's."""
    frame = None
    while trace is not None:
        if is_user_code(trace.tb_frame.f_code.co_filename):
            frame = trace.tb_frame
        trace = trace.tb_next
    return frame


def account(refusal: Refusal) -> list[tuple[str, str, str, str]]:
    """The operands of a refused operation: name, kind, device and origin."""
    return [(name, what, f"on {device},", origin) for name, what, device, origin in refusal.operands]


def moves(journal: Journal) -> None:
    say("moves:")
    table(
        [("line", "from", "to", "tensor", "times")]
        + [
            (str(route.line or "-"), route.source, route.target, route.what, str(times))
            for route, times in journal.moves.items()
        ]
    )


def summary(journal: Journal, machine: Machine) -> None:
    kind = "" if machine.kind == "cuda" else f" ({machine.kind})"
    say(f"simulated GPUs: {machine.installed}{kind}")
    table(
        [("device", "tensors made", "peak memory")]
        + [("cpu", str(journal.made["cpu"]), "-")]
        + [
            (
                str(device),
                str(journal.made[str(device)] + _arrived(journal, str(device))),
                size(machine.peak[index]),
            )
            for index, device in enumerate(machine.devices)
        ]
    )
    if journal.transfers:
        say("transfers:")
        table(
            [
                (f"{source} -> {target}", f"{count} times", size(journal.bytes[source, target]))
                for (source, target), count in sorted(journal.transfers.items())
            ]
        )
    left = collections.Counter(_where(origin) for origin in journal.on_cpu if not origin.moved_on)
    if left and machine.installed:
        say("made on the CPU and never moved:")
        table([(where, f"{count} times") for where, count in left.most_common(10)])


def _arrived(journal: Journal, device: str) -> int:
    return sum(count for (_, target), count in journal.transfers.items() if target == device)


def _where(origin: Origin) -> str:
    return str(origin.line or "-")


def size(count: int) -> str:
    amount = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024 or unit == "GiB":
            break
        amount /= 1024
    return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
