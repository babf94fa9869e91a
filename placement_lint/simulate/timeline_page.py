"""A timeline as one HTML page that needs nothing from elsewhere: its data as JSON in ``timeline.html``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .journal import Line
from .timeline import Bar, Failure, Move, Timeline

TEMPLATE = Path(__file__).with_name("timeline.html")
PLACE = "TIMELINE_DATA"


def timeline_page(timeline: Timeline, program: str) -> str:
    """The HTML text of the page."""
    data = json.dumps(page_data(timeline, program), separators=(",", ":"))
    # In a script element "<" could begin its end tag.
    return TEMPLATE.read_text(encoding="utf-8").replace(PLACE, data.replace("<", "\\u003c"))


def page_data(timeline: Timeline, program: str) -> dict[str, Any]:
    """The data that the page draws; bars are referred to by their index."""
    rows = timeline.rows()
    bars = timeline.bars
    index = {bar: number for number, bar in enumerate(bars)}
    tensors, moves = timeline.totals
    shown_moves = timeline.moves_between_bars
    return {
        "program": program,
        "gpus": timeline.gpus,
        "steps": timeline.last_step,
        "lanes": timeline.devices(),
        "bars": [_bar(timeline, bar, rows[bar]) for bar in bars],
        "moves": [_move(move, index) for move in shown_moves],
        "failure": _failure(timeline.failure, index) if timeline.failure else None,
        "omitted": {"tensors": tensors - len(bars), "moves": moves - len(shown_moves)},
    }


def _bar(timeline: Timeline, bar: Bar, row: int) -> dict[str, Any]:
    return {
        "label": bar.label,
        "named": bar.name is not None,
        "device": bar.device,
        "row": row,
        "start": bar.start,
        "end": timeline.last_of(bar),
        "tensor": bar.what,
        "origin": bar.origin.how,
        **_place(bar.origin.line),
    }


def _move(move: Move, index: dict[Bar, int]) -> dict[str, Any]:
    return {"step": move.step, "source": index[move.source], "target": index[move.target], **_place(move.line)}


def _failure(failure: Failure, index: dict[Bar, int]) -> dict[str, Any]:
    return {
        "step": failure.step,
        "kind": failure.kind,
        "message": failure.message,
        "operands": [{"name": name, "bar": index[bar]} for name, bar in failure.operands],
        **_place(failure.line),
    }


def _place(line: Line | None) -> dict[str, str]:
    return {"line": str(line), "code": line.text} if line else {"line": "", "code": ""}
