"""--diff-base reports only findings that a change touches."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from placement_lint.cli import main

Write = Callable[..., Path]
Capture = pytest.CaptureFixture[str]

OLD = "import torch\nbad()\nx = 1\nbad(\n    1,\n    2,\n)\n"


def git(*arguments: str) -> None:
    identity = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *identity, *arguments], check=True, capture_output=True)


@pytest.fixture
def repository(write: Write, project: Path, fake_rules: object) -> Path:
    git("init", "--initial-branch=main")
    write("a.py", OLD)
    write("src/with space.py", OLD)
    write('src/q"uote\té.py', OLD)
    write("gone.py", OLD)
    git("add", ".")
    git("commit", "-m", "old")
    return project


def found(capsys: Capture, *arguments: str) -> list[str]:
    main(["check", "--format", "concise", "-q", *arguments])
    return [line.partition(": ")[0] for line in capsys.readouterr().out.splitlines()]


@pytest.mark.usefixtures("repository")
class TestDiffBase:
    def test_nothing_changed(self, capsys: Capture) -> None:
        assert found(capsys, "--diff-base", "HEAD") == []
        assert main(["check", "--diff-base", "HEAD"]) == 0

    def test_changed_added_and_untouched_lines(self, write: Write, capsys: Capture) -> None:
        write("a.py", "# one\n# two\n" + OLD.replace("x = 1", "bad(x)") + "bad()\n")
        assert found(capsys, "--diff-base", "HEAD") == ["a.py:5:1", "a.py:10:1"]

    def test_a_range_counts_with_all_its_lines(self, write: Write, capsys: Capture) -> None:
        write("a.py", OLD.replace("    2,\n", "    3,\n"))
        assert found(capsys, "--diff-base", "HEAD") == ["a.py:4:1"]

    def test_new_files_are_all_new(self, write: Write, capsys: Capture) -> None:
        write("untracked.py", OLD)
        write("staged.py", OLD)
        git("add", "staged.py")
        assert found(capsys, "--diff-base", "HEAD") == [
            f"{name}.py:{line}:1" for name in ("staged", "untracked") for line in (2, 4)
        ]

    def test_odd_names(self, write: Write, capsys: Capture) -> None:
        for name in ("src/with space.py", 'src/q"uote\té.py'):
            write(name, OLD + "--- a/x\nbad()\n".replace("--- a/x", "x"))
        assert [place.rpartition("/")[2] for place in found(capsys, "--diff-base", "HEAD")] == [
            'q"uote\té.py:9:1',
            "with space.py:9:1",
        ]

    def test_lines_that_look_like_a_diff(self, write: Write, capsys: Capture) -> None:
        write("a.py", OLD + "s = '''\n++ b/gone.py\n'''\nbad()\n")
        assert found(capsys, "--diff-base", "HEAD") == ["a.py:11:1"]

    def test_a_deleted_file(self, repository: Path, capsys: Capture) -> None:
        (repository / "gone.py").unlink()
        assert found(capsys, "--diff-base", "HEAD") == []

    def test_a_branch_is_compared_with_where_it_left(self, write: Write, capsys: Capture) -> None:
        git("switch", "-c", "topic")
        write("a.py", OLD + "bad()\n")
        git("commit", "-a", "-m", "topic")
        git("switch", "main")
        write("gone.py", "import torch\nbad()\n")
        git("commit", "-a", "-m", "meanwhile")
        git("switch", "topic")
        assert found(capsys, "--diff-base", "main") == ["a.py:8:1"]

    def test_from_a_folder_below(self, write: Write, repository: Path, capsys: Capture, monkeypatch) -> None:
        write("src/new.py", OLD)
        monkeypatch.chdir(repository / "src")
        assert found(capsys, "new.py", "../a.py", "--diff-base", "HEAD") == ["new.py:2:1", "new.py:4:1"]

    def test_an_unknown_revision(self, capsys: Capture) -> None:
        assert main(["check", "--diff-base", "no-such-branch"]) == 2
        assert "--diff-base: " in capsys.readouterr().err


@pytest.mark.usefixtures("fake_rules")
def test_outside_of_a_repository(project: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(project.parent))
    assert main(["check", "--diff-base", "HEAD"]) == 2
    assert "not a git repository" in capsys.readouterr().err
