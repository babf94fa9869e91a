"""A rule's page as text, and lists of rules."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from placement_lint.registry import family_name
from placement_lint.rule import Page, Rule

SECTIONS = (
    ("What it does", "what"),
    ("Why is this bad?", "why"),
    ("Example", "example"),
    ("Use instead", "instead"),
    ("When it stays silent", "silent"),
    ("How to fix it", "fix"),
)
CODE_SECTIONS = frozenset({"example", "instead"})


def as_markdown(rule: Rule) -> str:
    """The whole page under its heading."""
    head = f"# {rule.name} ({rule.code})\n\nSeverity: {rule.severity.value}. Family: {family_name(rule)}."
    return "\n\n".join([head, *_sections(rule.page)])


def as_table(rules: Sequence[Rule]) -> str:
    """One line a rule: code, severity, name and the first sentence of its page."""
    name_width = max((len(rule.name) for rule in rules), default=0)
    return "\n".join(
        f"{rule.code}  {rule.severity.value:<7}  {rule.name:<{name_width}}  {first_sentence(rule.page.what)}"
        for rule in rules
    )


def as_markdown_table(rules: Sequence[Rule]) -> str:
    """The same for a README."""
    rows = (
        f"| {rule.code} | `{rule.name}` | {rule.severity.value} | {_in_cell(first_sentence(rule.page.what))} |"
        for rule in rules
    )
    return "\n".join(("| Code | Name | Severity | What it reports |", "| --- | --- | --- | --- |", *rows))


def as_json(rules: Sequence[Rule]) -> str:
    return json.dumps([_as_object(rule) for rule in rules], indent=2)


def first_sentence(text: str) -> str:
    return " ".join(text.split()).partition(". ")[0].rstrip(".") + "."


def _in_cell(text: str) -> str:
    return text.replace("|", "\\|")


def _sections(page: Page) -> Iterator[str]:
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
        "default": rule.default,
        "summary": first_sentence(rule.page.what),
        **{field: getattr(rule.page, field) for _, field in SECTIONS},
    }
