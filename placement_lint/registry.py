"""The installed rules, in the order of their codes, and the selection among them.

Rules come through the entry-point group ``placement_lint.rules``, both our own and third-party ones; each entry point
names a sequence of :class:`~placement_lint.rule.Rule`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING

from placement_lint.errors import UsageError
from placement_lint.spelling import did_you_mean

if TYPE_CHECKING:
    from placement_lint.rule import Rule

GROUP = "placement_lint.rules"
ALL = "ALL"
UNREADABLE = "DPL001"
FAMILIES = {
    "tool": "DPL0",
    "wrappers": "DPL1",
    "optimizers": "DPL2",
    "state": "DPL3",
    "devices": "DPL4",
    "moves": "DPL5",
    "loading": "DPL6",
    "folklore": "DPL9",
}


@cache
def all_rules() -> tuple[Rule, ...]:
    """Every installed rule, ordered by code."""
    found: dict[str, Rule] = {}
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: (entry.name, entry.value)):
        for rule in _load(entry):
            if found.setdefault(rule.code, rule) is not rule:
                raise UsageError(f"two rules claim the code {rule.code}; one comes from {_origin(entry)}")
    return tuple(found[code] for code in sorted(found))


def rule_sources() -> tuple[str, ...]:
    """The packages of rules, and the files of rules outside packages: their results may depend on these."""
    found: dict[str, None] = {}
    for entry in entry_points(group=GROUP):
        for name in (entry.module.partition(".")[0], entry.module):
            module = import_module(name)
            found |= dict.fromkeys(getattr(module, "__path__", None) or [str(module.__file__)])
    return tuple(found)


def find_rule(word: str) -> Rule:
    """The rule with a code or name."""
    for rule in all_rules():
        if word.lower() in (rule.code.lower(), rule.name):
            return rule
    if several := [rule.code for rule in all_rules() if matches(rule, word)]:
        raise UsageError(f"`{word}` names {len(several)} rules: {', '.join(several)}")
    names = [spelling for rule in all_rules() for spelling in (rule.code, rule.name)]
    raise UsageError(f"no rule is called `{word}`{did_you_mean(word, names)}")


def family_name(rule: Rule) -> str:
    """``state`` for DPL301; third-party rules are known by their prefix."""
    return next((name for name, prefix in FAMILIES.items() if prefix == rule.family), rule.family)


def select(chosen: Sequence[str], ignored: Sequence[str], added: Sequence[str] = ()) -> tuple[Rule, ...]:
    """The rules that run: the ``chosen`` ones, or if there are none the default ones, and the ``added`` ones.

    A narrower selector wins over a wider one, and ``ignored`` over the others.
    """
    for selector in (*chosen, *added, *ignored):
        check_selector(selector)
    return tuple(
        rule
        for rule in all_rules()
        if _strength(rule, (*chosen, *added)) > _strength(rule, ignored) or _runs_unasked(rule, chosen, ignored)
    )


def check_selector(selector: str) -> None:
    """Raise UsageError for an unknown selector, naming the nearest known one."""
    if not is_selector(selector):
        raise UsageError(f"unknown rule or family `{selector}`{nearest_selector(selector)}")


def is_selector(selector: str) -> bool:
    known = selector == ALL or selector.lower() in FAMILIES or selector.upper() in FAMILIES.values()
    return known or any(matches(rule, selector) for rule in all_rules())


def matches(rule: Rule, selector: str) -> bool:
    """Whether a code, a prefix of one, a family's name, a rule's name or ``ALL`` selects the rule."""
    return _narrowness(rule, selector) > 0


def nearest_selector(word: str) -> str:
    return did_you_mean(word, (*FAMILIES, *(name for rule in all_rules() for name in (rule.name, rule.code))))


def _narrowness(rule: Rule, selector: str) -> int:
    """0 if the selector does not select the rule, else a number that grows as the selector gets narrower."""
    if selector == ALL:
        return 1
    if selector == rule.name:
        return len(rule.code) + 1
    prefix = FAMILIES.get(selector.lower(), selector.upper())
    return len(prefix) + 1 if prefix.isalnum() and rule.code.startswith(prefix) else 0


def _strength(rule: Rule, selectors: Iterable[str]) -> int:
    return max((_narrowness(rule, selector) for selector in selectors), default=0)


def _runs_unasked(rule: Rule, chosen: Sequence[str], ignored: Sequence[str]) -> bool:
    """Whether a rule runs without being chosen: a default rule if none is chosen, or the one for unreadable files."""
    return ((rule.default and not chosen) or rule.code == UNREADABLE) and not _strength(rule, ignored)


def _load(entry: EntryPoint) -> Sequence[Rule]:
    from placement_lint.rule import Rule

    try:
        rules = tuple(entry.load())
    except Exception as error:
        raise UsageError(f"the rules of {_origin(entry)} cannot be loaded: {type(error).__name__}: {error}") from error
    strangers = [thing for thing in rules if not isinstance(thing, Rule)]
    if strangers:
        raise UsageError(f"{_origin(entry)} offers {strangers[0]!r}, which is not a placement_lint.rule.Rule")
    return rules


def _origin(entry: EntryPoint) -> str:
    package = f"package {entry.dist.name}" if entry.dist else "an installed package"
    return f"`{entry.value}` ({package})"
