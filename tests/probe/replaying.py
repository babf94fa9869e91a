"""Cases out of texts and files, for the tests of replays."""

from __future__ import annotations

from pathlib import Path

from placement_lint.checker import Checker
from placement_lint.config import Settings
from placement_lint.finding import Finding
from placement_lint.probe.cases import cases
from placement_lint.probe.replay import Case
from placement_lint.results import Job

FIXTURES = Path(__file__).parent.parent.parent / "fixtures"


def cases_in(text: str, name: str = "train.py") -> list[tuple[Finding, Case]]:
    """The findings of a text in their order, each with its case."""
    job = Job(Settings(root=FIXTURES))
    findings = [found for found in Checker(job).check_bytes(text.encode(), name).findings if found.path == name]
    found = cases(name, text.encode(), job, findings)
    return [(finding, found[finding]) for finding in findings if finding in found]


def case_of(text: str, rule: str) -> Case:
    """The case of a rule's first finding in a text."""
    return next(case for finding, case in cases_in(text) if rule in (finding.code, finding.name))


def sliced(text: str, rule: str) -> str:
    """The smallest slice of a rule's first finding in a text."""
    return case_of(text, rule).smallest.text
