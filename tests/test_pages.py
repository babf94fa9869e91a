"""Every rule's page is complete, unique and correct."""

from __future__ import annotations

import ast
import io
import json
import re
from collections import Counter
from collections.abc import Iterator
from email.message import Message
from pathlib import Path

import pytest

from placement_lint.checking.checker import Checker, Job
from placement_lint.cli import pages
from placement_lint.cli.pages import CODE_SECTIONS, SECTIONS, as_markdown
from placement_lint.config.settings import Settings
from placement_lint.registry import all_rules, find_rule
from placement_lint.report import sarif
from placement_lint.report.results import Run, Summary
from placement_lint.rule import Rule

RULES = all_rules()
by_name = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)


def found(source: str, rule: Rule) -> list[str]:
    """The rule's messages for a source, with all rules enabled."""
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
def test_a_narrow_terminal_breaks_no_word(rule: Rule) -> None:
    from rich.console import Console
    from rich.markdown import Markdown

    console = Console(width=80, record=True, file=io.StringIO(), force_terminal=True)
    console.print(Markdown("\n\n".join(str(getattr(rule.page, field)) for field in ("what", "why", "silent", "fix"))))
    shown = console.export_text().split()
    prose = " ".join(shown)
    for word in re.findall(r"[A-Za-z_]{4,60}", rule.page.what + rule.page.why + rule.page.silent + rule.page.fix):
        assert word in prose, word


ROOT = Path(__file__).parent.parent
ODD_WORDS = re.compile(
    r"\b(?:anew|mend|mends|mended|wherein|so many|of which|come upon|goes round|go round|look(?:s|ed)? after"
    r"|hears? nothing of|go(?:es)? on with|leaves? (?:it|them|these|this)? ?out|left out|make good|cries wolf"
    r"|afresh|nobody|somebody)\b|, silently|`the [a-z]"
)


@by_name
def test_pages_and_messages_use_plain_words(rule: Rule) -> None:
    prose = [" ".join(str(getattr(rule.page, field)).split()) for _, field in SECTIONS if field not in CODE_SECTIONS]
    claim = rule.experiment.claim if rule.experiment else ""
    assert [text for text in (*prose, *found(rule.page.example, rule), claim) if ODD_WORDS.search(text)] == []


@pytest.mark.parametrize("folder", ["rules", "placement_lint"])
def test_docstrings_use_plain_words(folder: str) -> None:
    docstrings = {
        f"{path.name}:{getattr(node, 'lineno', 1)}": ast.get_docstring(node) or ""
        for path in sorted((ROOT / folder).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
    }
    assert [place for place, text in docstrings.items() if ODD_WORDS.search(text)] == []


@by_name
def test_codes_and_names_are_well_formed(rule: Rule) -> None:
    assert re.fullmatch(r"[A-Z]+[0-9]+", rule.code)
    assert re.fullmatch(r"[a-z]+(-[a-z0-9]+)+", rule.name)


def test_codes_and_names_are_unique() -> None:
    counts = Counter(word for rule in RULES for word in (rule.code, rule.name))
    assert [word for word, count in counts.items() if count > 1] == []


@pytest.fixture
def documented(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Set a documentation site in the metadata of the installed package."""
    installed = Message()
    installed["Project-URL"] = "Source, https://example.org/source"
    installed["Project-URL"] = "Documentation, https://example.org/docs"
    monkeypatch.setattr(pages, "metadata", lambda name: installed)
    pages.site.cache_clear()
    yield
    pages.site.cache_clear()


@pytest.mark.usefixtures("documented")
def test_pages_link_to_the_documentation_site() -> None:
    rule = find_rule("DPL501")
    address = "https://example.org/docs/rules/move-result-discarded/"
    assert pages.url(rule.code, rule.name) == address
    assert as_markdown(rule).endswith(f"Online: <{address}>")
    stream = io.StringIO()
    finding = Checker(Job(Settings())).check_bytes(rule.page.example.encode(), "page.py").findings[0]
    sarif.render(Run((finding,), (), Summary(1, 0, 0.1)), stream)
    (described,) = json.loads(stream.getvalue())["runs"][0]["tool"]["driver"]["rules"]
    assert described["helpUri"] == address


@pytest.mark.usefixtures("documented")
def test_the_site_has_no_pages_of_other_packages_rules() -> None:
    assert pages.url("XYZ101", "some-rule") is None


def test_without_a_site_there_is_no_link(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "metadata", lambda name: Message())
    pages.site.cache_clear()
    assert pages.url("DPL501", "move-result-discarded") is None
    assert "Online:" not in as_markdown(find_rule("DPL501"))
    pages.site.cache_clear()
