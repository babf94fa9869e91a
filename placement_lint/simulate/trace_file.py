"""A timeline in Chrome's trace event format, which Perfetto and ``chrome://tracing`` open.

A process stands for a device, a thread for a row of its lane, and a microsecond for a step.
https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
"""

from __future__ import annotations

import json
from typing import Any

from .journal import Line
from .timeline import Bar, Failure, Timeline


def trace_file(timeline: Timeline, program: str) -> str:
    """The JSON text of the trace."""
    rows = timeline.rows()
    lanes = {device: number for number, device in enumerate(timeline.devices(), 1)}
    tensors, moves = timeline.totals
    return json.dumps(
        {
            "traceEvents": [
                *(_process(device, pid) for device, pid in lanes.items()),
                *(_slice(timeline, bar, lanes[bar.device], row) for bar, row in rows.items()),
                *_flows(timeline, rows, lanes),
                *([_instant(timeline.failure)] if timeline.failure else []),
            ],
            "displayTimeUnit": "ns",
            "otherData": {
                "program": program,
                "time": "1 microsecond is 1 step: an operation that makes, moves or refuses a tensor",
                "tensors": f"{len(rows)} of {tensors}",
                "moves": f"{len(timeline.moves_between_bars)} of {moves}",
            },
        }
    )


def _process(device: str, pid: int) -> dict[str, Any]:
    return {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": device}}


def _slice(timeline: Timeline, bar: Bar, pid: int, row: int) -> dict[str, Any]:
    return {
        "ph": "X",
        "name": bar.label,
        "cat": "tensor",
        "pid": pid,
        "tid": row,
        "ts": bar.start,
        "dur": timeline.last_of(bar) - bar.start + 1,
        "args": {"tensor": bar.what, "origin": bar.origin.how, **_place(bar.origin.line)},
    }


def _flows(timeline: Timeline, rows: dict[Bar, int], lanes: dict[str, int]) -> list[dict[str, Any]]:
    """An arrow starts within the slice that it leaves and ends within the one that it reaches."""
    events: list[dict[str, Any]] = []
    for number, move in enumerate(timeline.moves_between_bars):
        for phase, bar in (("s", move.source), ("f", move.target)):
            within = {"pid": lanes[bar.device], "tid": rows[bar], "ts": move.step}
            events.append({"ph": phase, "bp": "e", "id": number, "cat": "move", "name": "move", **within})
    return events


def _instant(failure: Failure) -> dict[str, Any]:
    operands = {name: f"{bar.label} {bar.what} on {bar.device}" for name, bar in failure.operands}
    return {
        "ph": "i",
        "s": "g",
        "name": f"{failure.kind}: {failure.message}",
        "cat": "failure",
        "pid": 1,
        "tid": 0,
        "ts": failure.step,
        "args": {**operands, **_place(failure.line)},
    }


def _place(line: Line | None) -> dict[str, str]:
    return {"line": str(line), "code": line.text} if line else {}
