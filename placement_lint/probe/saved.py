"""Slices as files of their own, to be run by hand or attached to a report.

A file holds all that its slice needs of the project (inlining.py) and runs with PyTorch alone, or there is none. Where
the program may be executed, each is run in an empty folder before it is written, and must show its symptom; what it
lacks then has the stand-ins of the replay, which become part of the file (preludes.py).
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from placement_lint.errors import UsageError
from placement_lint.finding import Finding, Saved
from placement_lint.probe import preludes
from placement_lint.probe.experiment import CUDA
from placement_lint.probe.inlining import Inlined, NotInlined, inlined
from placement_lint.probe.replay import Case, Played, Replayer, Scripted
from placement_lint.project.finder import Surroundings
from placement_lint.writing import write_new

WIDTH = 100
NOT_RUN = "Not run before it was saved: placement-lint executes a program only with --probe and --trust."
UNCALLED = "nothing in this file or in a file that imports it calls the reported code"


class NotSaved(Exception):
    """The slice does not stand alone; the message says why."""


@dataclass(frozen=True)
class Saver:
    """Writes files into a folder. ``around`` tells what a file imports; ``replayer`` runs what is saved, if any does.

    The replayer has no folders to import from.
    """

    folder: Path
    around: Callable[[str], Surroundings]
    replayer: Replayer | None = None

    def saved(self, finding: Finding, case: Case, shown: Scripted | None = None) -> Saved:
        """``shown`` is what has shown the finding in a replay. Raises UsageError where a file cannot be written."""
        try:
            found, run = self._found(case, shown)
        except NotSaved as reason:
            return Saved(reason=str(reason))
        before = run.lack.prelude if run is not None and run.lack is not None else ""
        text = preludes.with_prelude(found.text, before)
        file = self._written(_stem(finding), f"{_header(finding, case, found.starts_ranks, run)}\n{text}")
        return Saved(file.as_posix(), run.ground.name if run else "")

    def _written(self, stem: str, text: str) -> Path:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            return write_new(self.folder, stem, ".py", text)
        except OSError as error:
            raise UsageError(f"cannot write {error.filename or self.folder}: {error.strerror or error}") from None

    def _found(self, case: Case, shown: Scripted | None) -> tuple[Inlined, Played | None]:
        """A text that stands alone, and what came of running it."""
        if not case.is_visible:
            raise NotSaved("it raises nothing, and its rule has no check that would fail in a run")
        reasons: list[str] = []
        tried: set[str] = set()
        for script in _scripts(case, shown):
            for whole in (False, True):
                try:
                    alone, found = self._alone(case, script, whole)
                except NotSaved as reason:
                    reasons.append(str(reason))
                    continue
                if self.replayer is None and not found.undefined:
                    return found, None
                if self.replayer is None:
                    reasons.append(f"nothing defines {_listed(found.undefined)}")
                    continue
                if found.text in tried:
                    continue
                tried.add(found.text)
                run, why = self.replayer.shown(case, alone)
                if run is not None:
                    return found, run
                reasons.append(why)
        raise NotSaved(next(iter(reasons), UNCALLED))

    def _alone(self, case: Case, script: Scripted, whole: bool) -> tuple[Scripted, Inlined]:
        """The script, or the program that imports it, with all that it imports from the project."""
        entry = script.entry
        try:
            if entry is None:
                found = inlined(script.text, self.around(case.path), whole=whole)
            else:
                found = inlined(entry.text, self.around(entry.path), {entry.home: script.text}, whole)
        except NotInlined as reason:
            raise NotSaved(str(reason)) from None
        # Only a run can tell whether stand-ins will do, and a module of the project has none.
        needed = frozenset(name for name in found.packages if self.replayer is None or name.startswith("."))
        if needed:
            raise NotSaved(f"it imports {_listed(needed)}, and a saved slice runs with PyTorch alone")
        moved = _moved(script, found, case.path if entry is None else entry.home)
        return replace(moved, packages=found.packages, lenient=False), found


def _scripts(case: Case, shown: Scripted | None) -> Iterator[Scripted]:
    """What may show a finding, the likeliest first. Of a whole program that has, the smallest slice is preferred."""
    if shown is not None and not shown.verbatim:
        yield shown
        return
    if not case.is_led and (case.problem.scene is None or not case.problem.scene.standalone):
        yield case.smallest
    if shown is not None:
        yield shown
    for piece in case.imported():
        yield case.scripted(piece)


def _moved(script: Scripted, found: Inlined, path: str) -> Scripted:
    """The script, whose text stands for the file of that path, as a part of a larger text."""

    def moved(lines: frozenset[int]) -> frozenset[int]:
        return frozenset(found.line(path, line) for line in lines)

    return replace(
        script,
        text=found.text,
        line=found.line(path, script.line),
        claims=moved(script.claims),
        places=moved(script.places),
        observers=moved(script.observers),
        trail=moved(script.trail),
        seen=moved(script.seen),
        entry=None,
    )


def _listed(names: frozenset[str]) -> str:
    *others, last = (f"`{name}`" for name in sorted(names))
    return f"{', '.join(others)} and {last}" if others else last


# --- headers -------------------------------------------------------------------------------------------------------


def _stem(finding: Finding) -> str:
    """``train_25_DPL503``"""
    name = re.sub(r"\W+", "_", Path(finding.path).stem).strip("_")[:100] or "stdin"
    cell = f"cell{finding.cell}_" if finding.cell else ""
    return f"{name}_{cell}{finding.range.line}_{finding.code}"


def _header(finding: Finding, case: Case, starts_ranks: bool, run: Played | None) -> str:
    """What a reader needs to know, as comments."""
    cell = f", cell {finding.cell}, line " if finding.cell else ":"
    simulated = run.ground.simulate if run is not None else None
    ran = (
        f"Run before it was saved, with PyTorch alone{run.besides} ({run.ground.name}): {run.sight}"
        if run is not None
        else NOT_RUN
    )
    lines = [
        f"{finding.code} {finding.name}, found by placement-lint in {finding.path}{cell}{finding.range.line}:",
        *_wrapped(finding.message),
        *_wrapped(f"Expected {_machines(case)}: {' or '.join(map(str, case.symptoms))}"),
        *_commands(case, starts_ranks, case.gpu_counts[0] if simulated is None else simulated),
        *_wrapped(ran),
    ]
    return "".join(f"# {line}\n" for line in lines)


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, break_on_hyphens=False)


def _machines(case: Case) -> str:
    """The machines on which its symptom is expected."""
    if case.kind != CUDA:
        return f"with an {case.kind.upper()} device"
    counts = case.gpu_counts
    if 0 in counts:
        return "without a GPU" if len(counts) == 1 else "on any machine"
    if 1 in counts:
        return "with exactly one GPU" if len(counts) == 1 else "with a GPU"
    return f"with {counts[0]} GPUs"


def _commands(case: Case, starts_ranks: bool, count: int) -> list[str]:
    """How to run the file. A program that does not start its own ranks is launched."""
    crew = case.replay.crew
    if case.kind != CUDA:
        return ["On a real machine: python FILE", f"On a simulated one: placement-lint run --device {case.kind} FILE"]
    simulated = f"placement-lint run --gpus {count}"
    if crew.ranks == 1 or starts_ranks:
        visible = {0: "CUDA_VISIBLE_DEVICES= ", 1: "CUDA_VISIBLE_DEVICES=0 "} if len(case.gpu_counts) == 1 else {}
        return [
            f"On a real machine: {visible.get(case.gpu_counts[0], '')}python FILE",
            f"On simulated GPUs: {simulated} FILE",
        ]
    options = f"--nproc-per-node {crew.ranks // crew.nodes}"
    if crew.nodes == 1:
        return [
            f"On real GPUs: torchrun {options} FILE",
            f"On simulated GPUs: {simulated} -m torch.distributed.run {options} FILE",
        ]
    options = f"--nnodes {crew.nodes} {options} --rdzv-backend c10d --rdzv-endpoint"
    launched = f"{simulated} -m torch.distributed.run {options} localhost:29500 FILE"
    return [
        f"On real GPUs, on each of {crew.nodes} machines: torchrun {options} HOST:29500 FILE",
        f"On simulated GPUs, {crew.nodes} times at once: {launched}",
    ]
