"""Lookup and selection of rules."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from types import SimpleNamespace

import pytest

from placement_lint import registry
from placement_lint.errors import UsageError


def codes(chosen: str = "", ignored: str = "") -> str:
    return " ".join(rule.code for rule in registry.select(chosen.split(), ignored.split()))


@pytest.mark.usefixtures("fake_rules")
@pytest.mark.parametrize(
    ("chosen", "ignored", "expected"),
    [
        ("", "", "DPL001 DPL002 DPL003 DPL301 DPL302 DPL501"),
        ("ALL", "", "DPL001 DPL002 DPL003 DPL301 DPL302 DPL501"),
        ("DPL3", "", "DPL001 DPL301 DPL302"),
        ("state", "", "DPL001 DPL301 DPL302"),
        ("bad-call", "", "DPL001 DPL301"),
        ("dpl301", "DPL001", "DPL301"),
        ("", "moves tool", "DPL301 DPL302"),
        ("", "ALL", ""),
        ("DPL301", "DPL3", "DPL001 DPL301"),
        ("DPL3", "bad-call", "DPL001 DPL302"),
        ("ALL", "DPL3", "DPL001 DPL002 DPL003 DPL501"),
        ("DPL3", "DPL3", "DPL001"),
        ("folklore", "", "DPL001"),
    ],
)
def test_selection(chosen: str, ignored: str, expected: str) -> None:
    assert codes(chosen, ignored) == expected


@pytest.mark.usefixtures("fake_rules")
@pytest.mark.parametrize(
    ("word", "nearest"), [("bda-call", "bad-call"), ("worse-cal", "worse-call"), ("stat", "state")]
)
def test_an_unknown_selector_names_the_nearest(word: str, nearest: str) -> None:
    with pytest.raises(UsageError, match=f"`{word}`.*did you mean `{nearest}`"):
        codes(word)
    with pytest.raises(UsageError, match=f"`{word}`"):
        codes("", word)


@pytest.mark.usefixtures("fake_rules")
@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("dpl3", "`dpl3` names 2 rules: DPL301, DPL302"),
        ("state", "`state` names 2 rules: DPL301, DPL302"),
        ("bad-cal", "no rule is called `bad-cal` (did you mean `bad-call`?)"),
    ],
)
def test_one_rule_is_wanted(word: str, said: str) -> None:
    with pytest.raises(UsageError) as raised:
        registry.find_rule(word)
    assert str(raised.value) == said


def test_installed_rules_are_ordered_by_code() -> None:
    found = [rule.code for rule in registry.all_rules()]
    assert found == sorted(found)
    assert {"DPL001", "DPL002", "DPL003"} <= set(found)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("no_such_package:RULES", "`no_such_package:RULES`.*cannot be loaded: ModuleNotFoundError"),
        ("placement_lint.own_rules:NONE", "cannot be loaded: AttributeError"),
        ("placement_lint.registry:FAMILIES", "'tool', which is not a placement_lint.rule.Rule"),
    ],
)
def test_a_broken_rule_package_is_named(monkeypatch: pytest.MonkeyPatch, value: str, words: str) -> None:
    entry = EntryPoint("mine", value, registry.GROUP)
    monkeypatch.setattr(registry, "entry_points", lambda group: [entry])
    with pytest.raises(UsageError, match=words):
        registry.all_rules.__wrapped__()


def test_two_rules_of_one_code_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    own = registry.all_rules()[0]
    twin = SimpleNamespace(name="b", value="b:R", dist=None, load=lambda: (type(own)(**vars(own)),))
    original = SimpleNamespace(name="a", value="a:R", dist=None, load=lambda: (own,))
    monkeypatch.setattr(registry, "entry_points", lambda group: [original, twin])
    with pytest.raises(UsageError, match=r"two rules claim the code DPL001.*`b:R`"):
        registry.all_rules.__wrapped__()
