"""Atomic writes of files."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from placement_lint import writing


def test_a_file_is_replaced(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    writing.write(file, b"old")
    writing.write(file, b"new")
    assert file.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["a.json"]


def test_an_exception_leaves_the_old_content(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    writing.write(file, b"old")
    with pytest.raises(TypeError), writing.replacing(file) as stream:
        stream.writelines([b"half", "no bytes"])  # type: ignore[list-item]
    assert file.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a.json"]


def test_a_reader_of_the_old_file_is_not_disturbed(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    writing.write(file, b"old content")
    with file.open("rb") as reader:
        writing.write(file, b"new")
        assert reader.read() == b"old content"


@pytest.mark.skipif(os.name != "posix", reason="needs permissions")
def test_permissions_are_kept_and_new_files_have_the_usual_ones(tmp_path: Path) -> None:
    kept, fresh, usual = (tmp_path / name for name in ("kept", "fresh", "usual"))
    usual.write_bytes(b"")
    kept.write_bytes(b"old")
    kept.chmod(0o751)
    for file in (kept, fresh):
        writing.write(file, b"new")
    assert stat.S_IMODE(kept.stat().st_mode) == 0o751
    assert fresh.stat().st_mode == usual.stat().st_mode


@pytest.mark.skipif(os.name != "posix", reason="needs links")
def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "link").symlink_to("real")
    writing.write(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"new"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_what_is_no_regular_file_is_written_to(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        writing.write(pipe, b"report")
        assert os.read(reader, 100) == b"report"
    finally:
        os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_new_files_are_numbered(tmp_path: Path) -> None:
    made = [writing.write_new(tmp_path, "probe", ".py", text) for text in ("a", "b", "c")]
    assert [file.name for file in made] == ["probe.py", "probe_2.py", "probe_3.py"]
    assert [file.read_text() for file in made] == ["a", "b", "c"]
    assert len(os.listdir(tmp_path)) == 3
