"""Slices as files of their own, to be run by hand or attached to a report."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable
from pathlib import Path

from placement_lint.errors import UsageError
from placement_lint.finding import Finding
from placement_lint.probe.replay import Case, Scripted
from placement_lint.writing import write_new

WIDTH = 100
STARTS_RANKS = {"spawn", "Process"}  # calls by which a program starts its own


def save(folder: str, slices: Iterable[tuple[Finding, Case, Scripted]]) -> list[Path]:
    """Write each slice to a file with a name that no other file has. Nothing is executed.

    Raises UsageError where a file cannot be written.
    """
    home = Path(folder)
    try:
        home.mkdir(parents=True, exist_ok=True)
        return [
            write_new(home, _stem(finding), ".py", f"{_header(finding, case)}\n{script.text}")
            for finding, case, script in slices
        ]
    except OSError as error:
        raise UsageError(f"cannot write {error.filename or home}: {error.strerror or error}") from None


def _stem(finding: Finding) -> str:
    """``train_25_DPL503``"""
    name = re.sub(r"\W+", "_", Path(finding.path).stem).strip("_") or "stdin"
    cell = f"cell{finding.cell}_" if finding.cell else ""
    return f"{name}_{cell}{finding.range.line}_{finding.code}"


def _header(finding: Finding, case: Case) -> str:
    """What a reader needs to know, as comments."""
    cell = f", cell {finding.cell}, line " if finding.cell else ":"
    expected = " or ".join(map(str, case.symptoms))
    command, simulated = _commands(case)
    paragraphs = [
        f"{finding.code} {finding.name}, found by placement-lint in {finding.path}{cell}{finding.range.line}:",
        finding.message,
        f"To be expected {_where(case)}: {expected}" if case.is_visible else "What is wrong here raises nothing.",
        f"On real GPUs: {command}. On simulated ones: {simulated}",
    ]
    lines = [line for text in paragraphs for line in textwrap.wrap(text, WIDTH, break_on_hyphens=False)]
    return "".join(f"# {line}\n" for line in lines)


def _commands(case: Case) -> tuple[str, str]:
    """How to run the file; one that does not start its own ranks is launched."""
    simulated, crew = f"placement-lint run --gpus {case.gpu_counts[0]}", case.replay.crew
    if crew.ranks == 1 or STARTS_RANKS.intersection(case.program.callers):
        return "python FILE", f"{simulated} FILE"
    if crew.nodes > 1:
        return f"torchrun --nnodes {crew.nodes} FILE", "none by hand, for it takes several nodes"
    options = f"--nproc-per-node {crew.ranks} FILE"
    return f"torchrun {options}", f"{simulated} -m torch.distributed.run {options}"


def _where(case: Case) -> str:
    counts = case.gpu_counts
    if counts == [0]:
        return "without a GPU"
    return "with a GPU" if 1 in counts else f"with {counts[0]} GPUs"
