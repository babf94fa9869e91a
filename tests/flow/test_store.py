"""The store: branches are rolled back, committed, and read off."""

from __future__ import annotations

from placement_lint.flow.domain.values import Const
from placement_lint.flow.state.heap import Store

ONE, TWO, THREE = Const(1), Const(2), Const(3)


def test_a_branch_is_undone() -> None:
    store = Store()
    store.write(1, "x", ONE)
    store.begin()
    store.write(1, "x", TWO)
    store.write(1, "y", TWO)
    assert store.changes(0) == {(1, "x"): TWO, (1, "y"): TWO}
    store.roll_back()
    assert store.read(1, "x") == ONE
    assert store.read(1, "y") is None
    assert list(store.names(1)) == ["x"]


def test_a_committed_branch_is_undone_with_the_one_around_it() -> None:
    store = Store()
    store.write(1, "x", ONE)
    store.begin()
    store.begin()
    store.write(1, "x", TWO)
    store.commit()
    assert store.read(1, "x") == TWO
    store.write(1, "x", THREE)
    store.roll_back()
    assert store.read(1, "x") == ONE


def test_changes_reach_back_over_inner_branches() -> None:
    store = Store()
    store.begin()
    store.write(1, "x", ONE)
    store.begin()
    store.write(1, "y", TWO)
    assert store.changes(0) == {(1, "x"): ONE, (1, "y"): TWO}
    assert store.changes(1) == {(1, "y"): TWO}
