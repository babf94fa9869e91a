"""What a run hands to a report."""

from __future__ import annotations

from dataclasses import dataclass

from placement_lint.finding import Finding


@dataclass(frozen=True)
class Crash:
    """An exception inside the tool itself, confined to one file and, where ``rule`` is known, one rule."""

    path: str
    rule: str | None
    error: str
    where: str

    def __str__(self) -> str:
        culprit = f"rule {self.rule}" if self.rule else "the analysis"
        return (
            f"internal error: {culprit} failed on {self.path}: {self.error} (at {self.where}).\n"
            "This is a bug in the tool, and findings may be missing for this file. "
            "Please report it with these lines and, if you can share it, the file."
        )


@dataclass(frozen=True)
class Summary:
    """``files`` were checked; ``skipped`` ones were not, because they are unreadable or ask to be skipped."""

    files: int
    skipped: int
    seconds: float
    cached: int = 0


@dataclass(frozen=True)
class Run:
    findings: tuple[Finding, ...]
    crashes: tuple[Crash, ...]
    summary: Summary
