"""--watch checks again whenever a file is saved."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from placement_lint.cli import main
from placement_lint.run import watch

Write = Callable[..., Path]


def test_a_change_is_followed_by_work(write: Write, project: Path) -> None:
    file, runs, looks = write("a.py"), [], iter(range(1000))

    def work() -> None:
        runs.append(file.read_text() if file.exists() else None)
        if len(runs) == 1:
            file.write_text("x = 1\n")  # a change during the work must not be missed

    def wanted() -> bool:
        if next(looks) == 20:
            file.unlink()
        return len(runs) < 3

    watch.repeat_on_change(work, lambda: [file], pause=0.0, wanted=wanted)
    assert runs == ["import torch\n", "x = 1\n", None]


@pytest.mark.usefixtures("fake_rules")
def test_what_is_watched_and_shown(
    write: Write, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checked files and the configuration are watched; an error in the configuration is shown until it is fixed."""

    def three_rounds(work: Callable[[], None], files: Callable[[], list[Path]]) -> None:
        work()
        watched = {os.path.relpath(file) for file in files()}
        assert {"a.py", "placement-lint.toml", "pyproject.toml"} <= watched
        write("placement-lint.toml", "selct = []\n")
        work()
        assert "placement-lint.toml" in {os.path.relpath(file) for file in files()}
        write("placement-lint.toml", "select = ['moves']\n")
        work()

    write("a.py", "import torch\nbad()\n")
    monkeypatch.setattr(watch, "repeat_on_change", three_rounds)
    assert main(["check", "--watch", "--format", "concise"]) == 0
    captured = capsys.readouterr()
    assert [line.partition(" in ")[0] for line in captured.out.splitlines()] == [
        "a.py:2:1: DPL301 [*] error: `bad()` is called",
        "[*] 1 fixable with `--fix`",
        "1 file checked, 1 finding (1 error)",
        "1 file checked, no findings",
    ]
    assert "did you mean `select`?" in captured.err


def test_standard_input_cannot_be_watched(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "-", "--watch"]) == 2
    assert "standard input" in capsys.readouterr().err
