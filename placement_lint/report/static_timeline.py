"""``check --timeline``: the places of the tensors of a file in the analysis, on machines with 0, 1 and 2 GPUs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from placement_lint.checking.checker import Checker, Reading
from placement_lint.errors import UsageError
from placement_lint.finding import Finding, Range
from placement_lint.simulate.page import Span, lanes, page, rows
from placement_lint.source.notebook import NOTEBOOK
from placement_lint.source.scan import split_lines
from placement_lint.source.text import Unreadable, decode
from placement_lint.writing import write

if TYPE_CHECKING:
    import libcst as cst

    from placement_lint.checking.listen import Hearing
    from placement_lint.flow.observers.timeline import Bar, TimelineLog, View
    from placement_lint.project.finder import Surroundings
    from placement_lint.report.results import Job
    from placement_lint.rule import Rule

# The maximum number of bars; the page becomes slow beyond.
MOST_BARS = 2000
GPUS = {1: 0, 2: 1, 4: 2}
"""The number of GPUs that stands for each kind of machine."""
NAMES = {1: "no GPU", 2: "1 GPU", 4: "2 or more GPUs"}


def write_timeline(paths: Sequence[str], file: str, job: Job) -> None:
    """Write the page for the single file in ``paths``; raises UsageError."""
    if len(paths) != 1:
        raise UsageError(f"--timeline draws one file, and {len(paths)} are selected")
    text = timeline_page(paths[0], job)
    try:
        write(Path(file), text.encode())
    except OSError as error:
        raise UsageError(f"cannot write {file}: {error.strerror or error}") from None


def timeline_page(path: str, job: Job, data: bytes | None = None) -> str:
    """The page for a file, or for its text ``data``; raises UsageError if it cannot be read."""
    if path.endswith(NOTEBOOK):
        raise UsageError(f"{path}: --timeline does not draw notebooks; export it as a script first")
    try:
        data = Path(path).read_bytes() if data is None else data
        text = decode(data)
    except OSError as error:
        raise UsageError(f"{path}: the file cannot be read: {error.strerror}") from None
    except Unreadable as reason:
        raise UsageError(f"{path}:{reason.line}:{reason.column}: {reason.message}") from None
    reading = _Drawing()
    checked = Checker(job, reading).check_content(data, path)
    if reading.program is None:
        finding = next(iter(checked.findings), None)
        why = finding.message if finding and checked.skipped else "nothing in it uses PyTorch"
        raise UsageError(f"{path}: there is nothing to draw: {why}")
    findings = [finding for finding in checked.findings if finding.path == checked.path]
    heading = f"Where the tensors of {checked.path} are, as far as the code says"
    return page(checked.path, heading, "finding", _Drawn(checked.path, split_lines(text), reading).views(findings))


class _Drawing(Reading):
    """Reads a file as a run does, and records the places of its values."""

    def __init__(self) -> None:
        self.program: cst.Module | None = None
        self.log: TimelineLog | None = None

    def may_tell(self, text: str, surroundings: Surroundings) -> bool:
        return True

    def read(self, text: str) -> cst.Module:
        return self.parse(text)

    def hear(self, program: cst.Module, rules: Sequence[Rule], surroundings: Surroundings) -> Hearing:
        from placement_lint.checking.listen import problems_in
        from placement_lint.flow.observers.timeline import TimelineLog

        self.program, self.log = program, TimelineLog()
        return problems_in(program, rules, self.log, surroundings, thorough=True)


class _Drawn:
    """The views of a log as the page's data."""

    def __init__(self, path: str, lines: Sequence[str], reading: _Drawing) -> None:
        assert reading.program is not None
        assert reading.log is not None
        self._path = path
        self._lines = lines
        self._views = reading.log.views
        # One step for the end of the program, before which its last statement may fail.
        self._steps = reading.log.step + 1
        self._places = reading.place(reading.program, list(dict.fromkeys(self._nodes())))

    def _nodes(self) -> Iterable[cst.CSTNode]:
        for view in self._views:
            yield from view.visits
            yield from (bar.node for bar in view.bars)
            yield from (move.node for move in view.moves)

    def views(self, findings: Sequence[Finding]) -> list[dict[str, Any]]:
        return [self._view(view, findings) for view in self._views]

    def _view(self, view: View, findings: Sequence[Finding]) -> dict[str, Any]:
        bars = view.bars[:MOST_BARS]
        index = {bar: number for number, bar in enumerate(bars)}
        moves = [move for move in view.moves if move.source in index and move.target in index]
        spans = [Span(bar.device, bar.start, self._end(bar), named=True) for bar in bars]
        here = [finding for finding in findings if finding.when is None or finding.when.machines & view.machines]
        return {
            "machine": NAMES[view.machines],
            "steps": self._steps,
            "lanes": lanes(GPUS[view.machines], {bar.device for bar in bars}),
            "bars": [self._bar(bar, row) for bar, row in zip(bars, rows(spans), strict=True)],
            "moves": [
                {
                    "step": move.step,
                    "source": index[move.source],
                    "target": index[move.target],
                    **self._place(move.node),
                }
                for move in moves
            ],
            "failures": [self._failure(finding, view, index) for finding in here],
            "omitted": {"tensors": len(view.bars) - len(bars), "moves": len(view.moves) - len(moves)},
        }

    def _bar(self, bar: Bar, row: int) -> dict[str, Any]:
        return {
            "label": bar.label,
            "named": True,
            "device": bar.device,
            "row": row,
            "start": bar.start,
            "end": self._end(bar),
            "tensor": bar.what,
            "origin": bar.how,
            **self._place(bar.node),
        }

    def _end(self, bar: Bar) -> int:
        return max(self._steps if bar.end is None else bar.end, bar.start)

    def _failure(self, finding: Finding, view: View, index: dict[Bar, int]) -> dict[str, Any]:
        step, operands = self._visit(finding.range, view)
        condition = f" {finding.when.words}" if finding.when and finding.when.words else ""
        return {
            # Halfway between the step before the statement and the statement's own.
            "step": step + 0.5,
            "title": f"{finding.code} {finding.name} at {finding.path}:{finding.range.line}{condition}",
            "event": f"{finding.code} {finding.name}",
            "kind": finding.code,
            "message": finding.message,
            "operands": [{"name": "", "bar": index[bar]} for bar in operands if bar in index],
            "line": f"{self._path}:{finding.range.line}",
            "code": self._lines[finding.range.line - 1].strip(),
        }

    def _visit(self, place: Range, view: View) -> tuple[int, list[Bar]]:
        """The step of the innermost statement around a place, and the values it reads; the end if it never runs."""
        around = [
            (spot, visit)
            for statement, visit in view.visits.items()
            if (spot := self._places.get(statement)) is not None and _contains(spot, place)
        ]
        if not around:
            return self._steps, []
        return min(around, key=lambda found: (found[0].end_line - found[0].line, -found[0].line))[1]

    def _place(self, node: cst.CSTNode) -> dict[str, str]:
        spot = self._places.get(node)
        if spot is None:
            return {"line": "", "code": ""}
        return {"line": f"{self._path}:{spot.line}", "code": self._lines[spot.line - 1].strip()}


def _contains(outer: Range, inner: Range) -> bool:
    return (outer.line, outer.column) <= (inner.line, inner.column) and inner.line <= outer.end_line
