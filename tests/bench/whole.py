"""Skipping loses no finding: a package is checked as usual, and with nothing skipped."""

from __future__ import annotations

from collections.abc import Set
from pathlib import Path
from unittest.mock import patch

from placement_lint.checking.checker import Reading
from placement_lint.config.settings import Settings
from placement_lint.finding import Finding
from placement_lint.project.files import Selection
from placement_lint.report.results import Job
from placement_lint.run.engine import check_files


def findings(sources: Path) -> Set[Finding]:
    """The findings of a run in one process, in which shortcuts can be disabled."""
    job = Job(Settings(root=sources), roots=(str(sources),))
    return set(check_files(Selection(sorted(sources.rglob("*.py"))), job, jobs=1).findings)


def findings_of_all(sources: Path) -> Set[Finding]:
    """The findings if each file is parsed, and each uncalled definition analysed."""
    with (
        patch.object(Reading, "may_tell", lambda *_: True),
        patch("placement_lint.flow.driver.entry_points.Prospects.promising", lambda _, values: values),
    ):
        return findings(sources)
