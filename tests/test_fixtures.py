"""The scripts of ``fixtures/`` have exactly the findings of their ``# want:`` comments.

``# want: rule [condition]`` expects a finding under a condition, in the words of its message. Without the brackets it
expects a finding that holds whenever its line runs.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Collection
from pathlib import Path

import pytest
from test_pages import ODD_WORDS

from placement_lint.checking.checker import Checker, Job
from placement_lint.config.settings import Settings
from placement_lint.finding import Finding
from placement_lint.project.files import Selection
from placement_lint.run.engine import check_files
from placement_lint.source.scan import Scan

FIXTURES = Path(__file__).parent.parent / "fixtures"
WANT = re.compile(r"# want: (?P<findings>.*)")
# A condition may quote code with brackets in backquotes.
ONE = re.compile(r"(?P<rule>[\w-]+)(?: \[(?P<condition>(?:`[^`]*`|[^]`])+)\])?(?:, |$)")

QUOTE = re.compile(r"`([^`]*)`")
PROSE = re.compile(r"[\w.,()']+(?: [\w.,()']+)+")

Due = Counter[tuple[int, str, str]]


def wanted(text: str) -> Due:
    """The numbers of expected findings, by line, rule and condition."""
    due: Due = Counter()
    for comment in Scan(text).comments():
        if (match := WANT.search(comment.text)) is not None:
            named = list(ONE.finditer(match["findings"]))
            assert "".join(one[0] for one in named) == match["findings"], f"line {comment.line}: {comment.text}"
            due.update((comment.line, one["rule"], one["condition"] or "") for one in named)
    return due


def listed(due: Due, path: Path, said: dict[tuple[int, str], str]) -> str:
    return "\n".join(
        f"  {path}:{line}: {rule}{f' [{condition}]' if condition else ''}  {said.get((line, rule), '')}"
        for line, rule, condition in sorted(due.elements())
    )


PROJECTS = FIXTURES / "projects"
SINGLE = sorted(path for path in FIXTURES.rglob("*.py") if not path.is_relative_to(PROJECTS))


@pytest.fixture(scope="module")
def checker() -> Checker:
    return Checker(Job(Settings(root=FIXTURES)))


def condition(finding: Finding) -> str:
    return finding.when.words if finding.when is not None else ""


def is_prose(quote: str) -> bool:
    """Whether text in backquotes is several words rather than code."""
    try:
        ast.parse(quote.strip())
    except SyntaxError:
        return PROSE.fullmatch(quote) is not None
    return False


def compare(path: Path, findings: Collection[Finding]) -> None:
    """Compare the findings of one file with those that its comments expect."""
    found = Counter((finding.range.line, finding.name, condition(finding)) for finding in findings)
    said = {(finding.range.line, finding.name): finding.message for finding in findings}
    due = wanted(path.read_text(encoding="utf-8"))
    texts = [text for finding in findings for text in (finding.message, *(step.message for step in finding.trace))]
    assert not [text for text in texts if ODD_WORDS.search(text) or "\n" in text]
    assert not [quote for text in texts for quote in QUOTE.findall(text) if is_prose(quote)], "prose is not code"
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
