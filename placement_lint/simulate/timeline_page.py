"""What the page of a timeline shows of a simulated run."""

from __future__ import annotations

from typing import Any

from .journal import Line
from .page import page
from .timeline import Bar, Failure, Move, Timeline


def timeline_page(timeline: Timeline, program: str) -> str:
    """The HTML text of the page."""
    return page(program, f"Where the tensors of {program} were", "failing operation", [view(timeline)])


def view(timeline: Timeline) -> dict[str, Any]:
    """The data that the page draws; bars are referred to by their index."""
    rows = timeline.rows()
    bars = timeline.bars
    index = {bar: number for number, bar in enumerate(bars)}
    tensors, moves = timeline.totals
    shown_moves = timeline.moves_between_bars
    failures = [timeline.failure] if timeline.failure else []
    return {
        "machine": f"{timeline.gpus} simulated GPU{'' if timeline.gpus == 1 else 's'}",
        "steps": timeline.last_step,
        "lanes": timeline.devices(),
        "bars": [_bar(timeline, bar, rows[bar]) for bar in bars],
        "moves": [_move(move, index) for move in shown_moves],
        "failures": [_failure(failure, index) for failure in failures],
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
        "title": f"The program failed at {failure.line}" if failure.line else "The program failed",
        "event": f"failed: {failure.kind}",
        "kind": failure.kind,
        "message": failure.message,
        "operands": [{"name": name, "bar": index[bar]} for name, bar in failure.operands],
        **_place(failure.line),
    }


def _place(line: Line | None) -> dict[str, str]:
    return {"line": str(line), "code": line.text} if line else {"line": "", "code": ""}
