"""Every rule's page: complete, unique, and true."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from placement_lint.checker import Checker, Job
from placement_lint.config import Settings
from placement_lint.pages import CODE_SECTIONS, SECTIONS, as_markdown
from placement_lint.registry import all_rules
from placement_lint.rule import Rule

RULES = all_rules()
by_name = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)


def found(source: str, rule: Rule) -> list[str]:
    """The rule's messages about a source, with every rule running."""
    checked = Checker(Job(Settings(), select=("ALL",))).check_bytes(source.encode(), "page.py")
    assert not checked.crashes, "\n".join(map(str, checked.crashes))
    return [finding.message for finding in checked.findings if finding.code == rule.code]


@by_name
def test_the_example_is_found(rule: Rule) -> None:
    assert found(rule.page.example, rule)


@by_name
def test_what_to_use_instead_is_not_found(rule: Rule) -> None:
    assert found(rule.page.instead, rule) == []


@by_name
def test_the_page_is_complete(rule: Rule) -> None:
    for _, field in SECTIONS:
        assert field == "fix" or getattr(rule.page, field).strip(), field
    assert as_markdown(rule).startswith(f"# {rule.name} ({rule.code})")


@by_name
def test_no_code_spans_two_lines(rule: Rule) -> None:
    prose = [str(getattr(rule.page, field)) for _, field in SECTIONS if field not in CODE_SECTIONS]
    assert [line for text in prose for line in text.splitlines() if line.count("`") % 2] == []


@by_name
def test_codes_and_names_are_well_formed(rule: Rule) -> None:
    assert re.fullmatch(r"[A-Z]+[0-9]+", rule.code)
    assert re.fullmatch(r"[a-z]+(-[a-z0-9]+)+", rule.name)


def test_codes_and_names_are_unique() -> None:
    counts = Counter(word for rule in RULES for word in (rule.code, rule.name))
    assert [word for word, count in counts.items() if count > 1] == []
