"""[tool.placement-lint]."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from placement_lint.config import Settings, load_settings
from placement_lint.errors import UsageError
from placement_lint.finding import Severity

Write = Callable[..., Path]


def test_defaults(project: Path) -> None:
    assert load_settings(project) == Settings(root=project)


def test_everything_set(write: Write, project: Path) -> None:
    write(
        "pyproject.toml",
        """
        [tool.placement-lint]
        select = ["ALL"]
        ignore = ["DPL301"]
        exclude = ["third_party"]
        fail-on = "error"
        gpus = 4
        per-file-ignores = { "tests/*" = ["DPL3"] }
        """,
    )
    assert load_settings(project) == Settings(
        root=project,
        select=("ALL",),
        ignore=("DPL301",),
        exclude=("third_party",),
        fail_on=Severity.ERROR,
        gpus=4,
        per_file_ignores={"tests/*": ("DPL3",)},
    )


def test_the_nearest_section_above_counts(write: Write, project: Path) -> None:
    write("pyproject.toml", "[tool.placement-lint]\ngpus = 8\n")
    write("package/pyproject.toml", "[project]\nname = 'x'\n")
    settings = load_settings(project / "package")
    assert (settings.gpus, settings.root) == (8, project)


@pytest.mark.parametrize(
    ("section", "words"),
    [
        ("selct = []", "unknown key `selct`.*did you mean `select`"),
        ("fail_on = 'error'", "unknown key `fail_on`.*did you mean `fail-on`"),
        ("select = 'ALL'", "`select` .* must be a list of strings"),
        ("fail-on = 'fatal'", "`fail-on` .* must be one of info, warning, error"),
        ("gpus = 0", "`gpus` .* must be a whole number"),
        ("gpus = true", "`gpus` .* must be a whole number"),
        ("per-file-ignores = ['a']", "`per-file-ignores` .* must be a table"),
        ("select = [", "pyproject.toml: "),
    ],
)
def test_mistakes_are_named(write: Write, project: Path, section: str, words: str) -> None:
    write("pyproject.toml", f"[tool.placement-lint]\n{section}\n")
    with pytest.raises(UsageError, match=words):
        load_settings(project)


def test_the_section_must_be_a_table(write: Write, project: Path) -> None:
    write("pyproject.toml", "[tool]\nplacement-lint = 1\n")
    with pytest.raises(UsageError, match="must be a table"):
        load_settings(project)
