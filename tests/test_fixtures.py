"""The scripts of ``fixtures/`` get the findings that their ``# want:`` comments ask for, and no others."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from placement_lint.checker import Checker, Job
from placement_lint.config import Settings
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


@pytest.fixture(scope="module")
def checker() -> Checker:
    return Checker(Job(Settings(root=FIXTURES)))


@pytest.mark.parametrize("path", sorted(FIXTURES.rglob("*.py")), ids=lambda path: str(path.relative_to(FIXTURES)))
def test_findings_are_as_wanted(path: Path, checker: Checker) -> None:
    checked = checker.check_file(str(path))
    assert not checked.crashes, "\n".join(map(str, checked.crashes))
    found = Counter((finding.range.line, finding.name) for finding in checked.findings)
    said = {(finding.range.line, finding.name): finding.message for finding in checked.findings}
    due = wanted(path.read_text(encoding="utf-8"))
    missing, extra = due - found, found - due
    assert not missing, f"missing findings:\n{listed(missing, path, said)}"
    assert not extra, f"findings that nothing asks for:\n{listed(extra, path, said)}"
