"""The scripts of ``fixtures/`` get the findings that their ``# want:`` comments ask for, and no others."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection
from pathlib import Path

import pytest

from placement_lint.checker import Checker, Job
from placement_lint.config import Settings
from placement_lint.engine import check_files
from placement_lint.files import Selection
from placement_lint.finding import Finding
from placement_lint.source.scan import Scan

FIXTURES = Path(__file__).parent.parent / "fixtures"
WANT = re.compile(r"# want: (?P<rules>[\w-]+(?:\s*,\s*[\w-]+)*)")

Due = Counter[tuple[int, str]]


def wanted(text: str) -> Due:
    return Counter(
        (comment.line, rule.strip())
        for comment in Scan(text).comments()
        for match in WANT.finditer(comment.text)
        for rule in match["rules"].split(",")
    )


def listed(due: Due, path: Path, said: dict[tuple[int, str], str]) -> str:
    return "\n".join(f"  {path}:{line}: {rule}  {said.get((line, rule), '')}" for line, rule in sorted(due.elements()))


PROJECTS = FIXTURES / "projects"
SINGLE = sorted(path for path in FIXTURES.rglob("*.py") if not path.is_relative_to(PROJECTS))


@pytest.fixture(scope="module")
def checker() -> Checker:
    return Checker(Job(Settings(root=FIXTURES)))


def compare(path: Path, findings: Collection[Finding]) -> None:
    """Findings of one file with what its comments ask for."""
    found = Counter((finding.range.line, finding.name) for finding in findings)
    said = {(finding.range.line, finding.name): finding.message for finding in findings}
    due = wanted(path.read_text(encoding="utf-8"))
    missing, extra = due - found, found - due
    assert not missing, f"missing findings:\n{listed(missing, path, said)}"
    assert not extra, f"findings that nothing asks for:\n{listed(extra, path, said)}"


@pytest.mark.parametrize("path", SINGLE, ids=lambda path: str(path.relative_to(FIXTURES)))
def test_findings_are_as_wanted(path: Path, checker: Checker) -> None:
    checked = checker.check_file(str(path))
    assert not checked.crashes, "\n".join(map(str, checked.crashes))
    compare(path, checked.findings)


@pytest.mark.parametrize("project", sorted(PROJECTS.iterdir()), ids=lambda project: project.name)
def test_projects_have_the_findings_that_are_wanted(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project)
    files = sorted(Path(".").rglob("*.py"))
    run = check_files(Selection(files), Job(Settings(root=project)), jobs=1)
    backwards = check_files(Selection(files[::-1]), Job(Settings(root=project)), jobs=1)
    assert not run.crashes, "\n".join(map(str, run.crashes))
    assert backwards.findings == run.findings, "the order of the files makes a difference"
    for file in files:
        compare(file, [finding for finding in run.findings if finding.path == file.as_posix()])
