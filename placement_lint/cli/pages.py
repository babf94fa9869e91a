"""A rule's page as text, its address on the documentation site, and lists of rules."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.metadata import metadata

from placement_lint.registry import FAMILIES, family_name
from placement_lint.rule import Page, Rule, family_of

SECTIONS = (
    ("What it does", "what"),
    ("Why is this bad?", "why"),
    ("Example", "example"),
    ("Use instead", "instead"),
    ("When it stays silent", "silent"),
    ("How to fix it", "fix"),
)
WIDTH, INDENT = 80, 8  # columns of the list of rules
CODE_SECTIONS = frozenset({"example", "instead"})
DISTRIBUTION, SITE_LABEL = "placement-lint", "Documentation"


def as_markdown(rule: Rule) -> str:
    """The whole page under its heading, with a link to the page on the documentation site."""
    head = f"# {rule.name} ({rule.code})\n\n{facts(rule)}"
    address = url(rule.code, rule.name)
    link = [f"Online: <{address}>"] if address else []
    return "\n\n".join([head, *sections(rule.page), *link])


def facts(rule: Rule) -> str:
    """The severity, family and first version of a rule, and whether it runs by default, in one line."""
    off = "" if rule.default else " Off by default."
    return f"Severity: {rule.severity.value}. Family: {family_name(rule)}. Since: {rule.since}.{off}"


def url(code: str, name: str) -> str | None:
    """The address of a rule's page on the documentation site; None for another package's rule."""
    start = site()
    return f"{start}rules/{name}/" if start and family_of(code) in FAMILIES.values() else None


@cache
def site() -> str | None:
    """The address of the documentation site, from ``[project.urls]``; None if the installed package names none."""
    labelled = (each.partition(", ") for each in metadata(DISTRIBUTION).get_all("Project-URL") or ())
    return next((f"{address.rstrip('/')}/" for label, _, address in labelled if label == SITE_LABEL), None)


def as_table(rules: Sequence[Rule]) -> str:
    """A line with code, severity and name for each rule, and below it the first sentence of its page."""
    return "\n".join(
        f"{rule.code}  {rule.severity.value:<7}  {rule.name}\n{_indented(first_sentence(rule.page.what))}"
        for rule in rules
    )


def as_markdown_table(rules: Sequence[Rule]) -> str:
    """A Markdown table with one row for each rule."""
    rows = (
        f"| {rule.code} | `{rule.name}` | {rule.severity.value} | {_in_cell(first_sentence(rule.page.what))} |"
        for rule in rules
    )
    return "\n".join(("| Code | Name | Severity | What it reports |", "| --- | --- | --- | --- |", *rows))


def as_json(rules: Sequence[Rule]) -> str:
    return json.dumps([_as_object(rule) for rule in rules], indent=2)


def first_sentence(text: str) -> str:
    return " ".join(text.split()).partition(". ")[0].rstrip(".") + "."


def _indented(text: str) -> str:
    indent = " " * INDENT
    lines = textwrap.wrap(text, WIDTH, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)
    return "\n".join(lines)


def _in_cell(text: str) -> str:
    return text.replace("|", "\\|")


def sections(page: Page) -> Iterator[str]:
    """The parts of a page, each under a heading of its own."""
    for heading, field in SECTIONS:
        text = str(getattr(page, field)).strip()
        if text:
            body = f"```python\n{text}\n```" if field in CODE_SECTIONS else text
            yield f"## {heading}\n\n{body}"


def _as_object(rule: Rule) -> dict[str, object]:
    return {
        "code": rule.code,
        "name": rule.name,
        "family": family_name(rule),
        "severity": rule.severity.value,
        "since": rule.since,
        "default": rule.default,
        "summary": first_sentence(rule.page.what),
        **{field: getattr(rule.page, field) for _, field in SECTIONS},
    }
