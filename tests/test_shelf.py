"""A shelf, a bounded cache, keeps recently used entries within its size."""

from __future__ import annotations

from placement_lint.project.shelf import Shelf


def asked(shelf: Shelf[str, str], words: str) -> list[str]:
    """The words that the shelf creates for a sequence of requests."""
    made: list[str] = []
    for word in words.split():
        assert shelf.get(word, lambda word=word: made.append(word) or word) == word  # type: ignore[func-returns-value, misc]
    return made


def test_what_is_there_is_not_made_again() -> None:
    assert asked(Shelf(6, len), "one two one two") == ["one", "two"]


def test_what_was_not_asked_for_the_longest_goes_first() -> None:
    assert asked(Shelf(6, len), "one two one six one two") == ["one", "two", "six", "two"]


def test_large_things_take_the_room_of_several() -> None:
    assert asked(Shelf(6, len), "a b three b a") == ["a", "b", "three", "a"]


def test_one_thing_is_kept_whatever_its_size() -> None:
    assert asked(Shelf(6, len), "enormous enormous a enormous") == ["enormous", "a", "enormous"]


def test_an_empty_shelf_has_all_its_room_again() -> None:
    shelf = Shelf[str, str](6, len)
    asked(shelf, "one two")
    shelf.clear()
    assert asked(shelf, "one two one two") == ["one", "two"]
