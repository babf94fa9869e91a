"""The selection of the files of a run."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from placement_lint.errors import UsageError
from placement_lint.project.files import Excludes, find_files, patterns

Write = Callable[..., Path]


def excluding(*lines: str, gitignore: bool = True, forced: bool = False) -> Excludes:
    everywhere = [patterns(Path.cwd(), lines)]
    return Excludes(lambda folder: everywhere, gitignore, forced)


def found(*arguments: str, exclude: tuple[str, ...] = (), **options: bool) -> list[str]:
    selection = find_files(arguments, excluding(*exclude, **options))
    assert not selection.unlistable
    return [file.as_posix() for file in selection.files]


def test_folders_are_walked_in_a_fixed_order(write: Write) -> None:
    for name in ("b.py", "a/z.py", "a/b/c.py", "c/a.py", "a.txt", "n.ipynb", "stub.pyi", "window.pyw", "a.py"):
        write(name)
    assert found(".") == ["a.py", "b.py", "n.ipynb", "a/z.py", "a/b/c.py", "c/a.py"]


def test_a_named_file_is_checked_whatever_it_is_called(write: Write) -> None:
    write("train")
    write("build/model.py")
    assert found("train", "build/model.py") == ["train", "build/model.py"]


def test_each_file_once(write: Write) -> None:
    write("pkg/a.py")
    assert found("pkg/a.py", "pkg", "./pkg/../pkg/a.py") == ["pkg/a.py"]


@pytest.mark.parametrize("folder", [".git", ".venv", "venv", "node_modules", "build", "__pycache__", "x/site-packages"])
def test_some_folders_are_left_out(write: Write, folder: str) -> None:
    write(f"{folder}/a.py")
    write("train.py")
    assert found(".") == ["train.py"]
    assert found(folder) == [f"{folder}/a.py"]


def test_excludes_of_the_project(write: Write) -> None:
    for name in ("third_party/a.py", "src/third_party/b.py", "src/gen_x.py", "src/c.py", "legacy/d.py"):
        write(name)
    assert found(".", exclude=("third_party", "gen_*.py", "/legacy")) == ["src/c.py"]


def test_what_is_named_can_be_excluded_by_force(write: Write) -> None:
    for name in ("third_party/a.py", "node_modules/b.py", "src/c.py"):
        write(name)
    named = ("third_party/a.py", "node_modules/b.py", "src/c.py", "third_party")
    assert found(*named, exclude=("third_party",)) == ["third_party/a.py", "node_modules/b.py", "src/c.py"]
    assert found(*named, exclude=("third_party",), forced=True) == ["src/c.py"]


def test_gitignore_can_be_passed_over(write: Write) -> None:
    write(".gitignore", "a.py\n")
    write("a.py")
    assert found(".") == []
    assert found(".", gitignore=False) == ["a.py"]


def test_gitignore_nested_and_negated(write: Write) -> None:
    write(".gitignore", "*_generated.py\n/data/\n# comment\n\n")
    write("pkg/.gitignore", "local.py\n!keep_generated.py\n")
    for name in (
        "a_generated.py",
        "data/a.py",
        "local.py",
        "pkg/local.py",
        "pkg/keep_generated.py",
        "pkg/data/b.py",
    ):
        write(name)
    assert found(".") == ["local.py", "pkg/keep_generated.py", "pkg/data/b.py"]


def test_gitignore_above_the_argument_counts_up_to_the_repository(write: Write) -> None:
    write(".gitignore", "*.py\n")
    write("repo/.git/HEAD", "")
    write("repo/.gitignore", "secret.py\n/out\n")
    for name in ("repo/src/secret.py", "repo/src/a.py", "repo/out/b.py"):
        write(name)
    assert found("repo/src") == ["repo/src/a.py"]
    assert found("repo/out") == ["repo/out/b.py"]


def test_what_the_project_excludes_no_gitignore_brings_back(write: Write) -> None:
    write(".gitignore", "!a.py\n")
    write("a.py")
    assert found(".", exclude=("a.py",)) == []


def test_links(write: Write, project: Path) -> None:
    write("pkg/a.py")
    os.symlink(project / "pkg", project / "pkg/loop")
    os.symlink("a.py", project / "pkg/same.py")
    os.symlink("nowhere.py", project / "pkg/dangling.py")
    os.symlink("round.py", project / "pkg/round.py")
    assert found("pkg") == ["pkg/a.py", "pkg/dangling.py", "pkg/round.py"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_is_no_source_file(project: Path) -> None:
    os.mkfifo(project / "pipe.py")
    assert found(".") == []


def test_a_missing_path_is_refused(project: Path) -> None:
    with pytest.raises(UsageError, match="missing: no such file"):
        found("missing")


def test_a_bad_pattern_is_refused(project: Path) -> None:
    with pytest.raises(UsageError, match="bad pattern"):
        patterns(project, ["!"])


@pytest.mark.usefixtures("needs_permissions")
def test_a_folder_that_cannot_be_listed_is_kept_in_mind(write: Write) -> None:
    folder = write("pkg/a.py").parent
    folder.chmod(0)
    try:
        selection = find_files(["."], excluding())
    finally:
        folder.chmod(0o755)
    assert selection.unlistable == [(Path("pkg"), "Permission denied")]
