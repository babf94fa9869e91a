"""The comments that suppress a finding, and those that suppress nothing or name no rule."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from placement_lint import registry
from placement_lint.finding import Finding, Range
from placement_lint.own_rules import UNKNOWN_RULE_IN_SUPPRESSION, UNUSED_SUPPRESSION
from placement_lint.report.results import Provisional
from placement_lint.rule import Rule
from placement_lint.source.suppressions import SKIP_FILE, VERBS, Suppression, Suppressions
from placement_lint.spelling import did_you_mean


def speaking_for(code: str, place: Range, suppressions: Suppressions) -> set[Range]:
    """The positions of the comments, or of their parts, that suppress a rule's finding there."""
    rule = next(rule for rule in registry.all_rules() if rule.code == code)
    return {part for comment in suppressions.at(place) for part in _places_speaking_for(rule, comment)}


def idle_comments(
    path: str, suppressions: Suppressions, used: Collection[Range], running: Collection[Rule]
) -> Iterator[Provisional]:
    """DPL002 and DPL003 for the comments of a file, given which rules ran on it."""
    for misplaced in suppressions.misplaced:
        if misplaced.verb == SKIP_FILE:
            message = "`skip-file` has no effect here: it counts only in a comment above the first statement"
            yield Provisional(_finding(UNUSED_SUPPRESSION, message, path, misplaced.range))
        else:
            message = f"`placement-lint: {misplaced.verb}` is not a directive{did_you_mean(misplaced.verb, VERBS)}"
            yield Provisional(_finding(UNKNOWN_RULE_IN_SUPPRESSION, message, path, misplaced.range))
    for comment in suppressions.comments:
        if comment.accountable:
            yield from _idle_parts(path, comment, used, running)


def _idle_parts(
    path: str, comment: Suppression, used: Collection[Range], running: Collection[Rule]
) -> Iterator[Provisional]:
    if not comment.entries and comment.range not in used and _are_running(registry.ALL, running):
        yield _idle("nothing on this line needs suppressing", path, comment.range)
    for entry in comment.entries:
        if not registry.is_selector(entry.selector):
            nearest = registry.nearest_selector(entry.selector)
            message = f"there is no rule `{entry.selector}`, so this suppresses nothing{nearest}"
            yield Provisional(_finding(UNKNOWN_RULE_IN_SUPPRESSION, message, path, entry.range))
        elif entry.range not in used and _are_running(entry.selector, running):
            message = f"`{entry.selector}` is not reported on this line, so this suppresses nothing"
            yield _idle(message, path, entry.range)


def _are_running(selector: str, running: Collection[Rule]) -> bool:
    """Whether every default rule that the selector matches ran, so that the absence of findings means something."""
    return all(rule in running for rule in registry.all_rules() if rule.default and registry.matches(rule, selector))


def _places_speaking_for(rule: Rule, comment: Suppression) -> Iterator[Range]:
    if not comment.entries:
        yield comment.range
    yield from (entry.range for entry in comment.entries if registry.matches(rule, entry.selector))


def _idle(message: str, path: str, place: Range) -> Provisional:
    return Provisional(_finding(UNUSED_SUPPRESSION, message, path, place), unless_needed=True)


def _finding(rule: Rule, message: str, path: str, place: Range) -> Finding:
    return Finding(rule.code, rule.name, rule.severity, message, path, place)
