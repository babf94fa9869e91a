"""The shortcuts of the analysis lose no finding: without them, it finds the same in all fixtures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import shares
from test_fixtures import FIXTURES, PROJECTS, SINGLE

from placement_lint.checking.checker import Job
from placement_lint.config.settings import Settings
from placement_lint.finding import Finding
from placement_lint.flow.interpreter import inline_policy, memo, statements
from placement_lint.project.files import Selection
from placement_lint.run.engine import check_files

TODAY = [file for file in SINGLE if shares.runs(f"{file.parent.name}/{file.name}")]


def findings(files: Sequence[Path], root: Path) -> Sequence[Finding]:
    return check_files(Selection(files), Job(Settings(root=root)), jobs=1).findings


def run_each_time(*call: Any) -> Any:
    """A replacement for ``memo.once`` that always runs the call."""
    run: Callable[[], Any] = call[-1]
    return run()


def test_a_forward_that_repeats_says_nothing_new(monkeypatch: pytest.MonkeyPatch) -> None:
    shortened = findings(TODAY, FIXTURES)
    monkeypatch.setattr(memo, "once", run_each_time)
    assert findings(TODAY, FIXTURES) == shortened


def test_functions_that_did_nothing_would_do_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memo, "_ENOUGH", 10**9)
    at_leisure = findings(TODAY, FIXTURES)
    monkeypatch.setattr(memo, "_ENOUGH", 1)
    assert findings(TODAY, FIXTURES) == at_leisure


def test_inner_loops_show_nothing_new_in_later_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    shortened = findings(TODAY, FIXTURES)
    monkeypatch.setattr(statements, "_rounds", lambda _: range(2))
    assert findings(TODAY, FIXTURES) == shortened


@pytest.mark.parametrize("project", sorted(PROJECTS.iterdir()), ids=lambda project: project.name)
def test_code_without_tensors_says_nothing(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project)
    files = sorted(Path(".").rglob("*.py"))
    shortened = findings(files, project)
    monkeypatch.setattr(inline_policy, "is_plain", lambda *_: False)
    assert [*map(said, findings(files, project))] == [*map(said, shortened)]


def said(finding: Finding) -> tuple[object, ...]:
    """A finding without its trace, which is longer if the code of a registry is analysed as well."""
    return finding.code, finding.path, finding.range, finding.message, finding.fix
