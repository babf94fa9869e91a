"""Every invalid input leads to a clear message and the right exit status, never to a traceback."""

from __future__ import annotations

import codecs
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from placement_lint.report.formats import FORMATS

Write = Callable[..., Path]


def check(*arguments: str, form: str = "concise") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "placement_lint", "check", "--format", form, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert "Traceback" not in done.stdout + done.stderr
    return done


@pytest.mark.parametrize("imports", ["", "import torch\n"], ids=["plain", "torch"])
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("def f(:\n", "invalid syntax"),
        ("print 'hello'\n", "Missing parentheses in call to 'print'"),
        ("x = '\0'\n", "null byte"),
        ("x = " + "(" * 5000 + ")" * 5000 + "\n", "nested 5,000 deep"),
        ("x = " + "-" * 200_000 + "1\n", "nested too deeply"),
        ("  x = 1\n", "unexpected indent"),
        ("x = '\n", "unterminated string"),
        ('"""\ncd C:\\Users\n"""\n', "truncated \\UXXXXXXXX escape"),
        ("x = b'\\x1'\n", "invalid \\x escape"),
        ("x = b'\u00e9'\n", "bytes can only contain ASCII"),
        ("x = 'a' b'b'\n", "cannot mix bytes and nonbytes literals"),
        ("x = " + "1" * 5000 + "\n", "Exceeds the limit (4300 digits)"),
        ("".join(" " * depth + "if x:\n" for depth in range(150)) + " " * 150 + "pass\n", "too many"),
    ],
    ids=[
        "syntax",
        "python2",
        "null",
        "brackets",
        "minuses",
        "indent",
        "string",
        "escape",
        "bytes",
        "ascii",
        "mixed",
        "digits",
        "blocks",
    ],
)
def test_unparsable_text(write: Write, imports: str, text: str, words: str) -> None:
    write("good.py", "x = 1\n")
    write("bad.py", imports + text)
    done = check()
    assert done.returncode == 1
    assert done.stdout.startswith("bad.py:")
    assert "DPL001" in done.stdout
    assert words in done.stdout
    assert "1 file checked, 1 skipped, 1 finding (1 error)" in done.stdout


KEYWORDS_AS_NAMES = """\
import torch

def move(x, async=False):
    return x.cuda(0, async=async)

a, b = move(torch.zeros(2)).cuda(async=True), \\
    torch.zeros(2)
a.await = b; b.cuda(async=True)  # async
print("async", a)
"""


@pytest.mark.parametrize("name", ["old.py", "old.ipynb"])
def test_keywords_of_today_as_names(write: Write, name: str) -> None:
    """Python 3.6 accepts them, so the rest of the file is checked too."""
    cells = [{"cell_type": "code", "metadata": {}, "outputs": [], "source": KEYWORDS_AS_NAMES, "execution_count": None}]
    notebook = json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
    path = write(name, notebook if name.endswith(".ipynb") else KEYWORDS_AS_NAMES)
    done = check()
    cell = ":cell 1" if name.endswith(".ipynb") else ""
    assert f"{name}{cell}:3:13: DPL001 error: invalid syntax: `async` is a keyword since Python 3.7" in done.stdout
    assert f"{name}{cell}:8:14: DPL501 [*] error: `b.cuda(…)` returns" in done.stdout
    assert "1 file checked, 2 findings (2 errors)" in done.stdout
    check("--fix")
    assert "; b = b.cuda(async=True)  # async" in path.read_text()


def test_a_file_that_imports_keywords_as_names(write: Write) -> None:
    write("moving.py", "def move(x, async=True):\n    return x.cuda(async=async)\n")
    write(
        "train.py", "import torch\nfrom moving import move\n\nnet = torch.nn.Linear(4, 2)\nnet(move(torch.ones(4)))\n"
    )
    done = check()
    assert "train.py:5:1: DPL503 error" in done.stdout


def test_a_file_that_imports_unparsable_text(write: Write) -> None:
    write("rows.py", "def rows(path):\n    print 'reading %s' % path\n    yield path\n")
    write(
        "batches.py",
        "import rows\n\n\nclass Batches:\n    def __init__(self, path):\n        self.rows = rows.rows(path)\n",
    )
    write(
        "train.py", "import torch\nfrom batches import Batches\n\nbatches = Batches('x')\nnet = torch.nn.Linear(4, 2)\n"
    )
    done = check()
    assert (done.returncode, done.stderr) == (1, "")
    assert "2 files checked, 1 skipped, 1 finding (1 error)" in done.stdout


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"# coding: klingon\nimport torch\n", "unknown encoding: klingon"),
        (b"import torch\ns = '\xff'\n", "2:6: DPL001 error: byte 0xff is not valid utf-8"),
        ("import torch\n".encode("utf-16"), "UTF-16"),
        (b"\x7fELF\x02\x01\x01\x00\x00", "null byte"),
    ],
)
def test_undecodable_bytes(write: Write, data: bytes, words: str) -> None:
    write("bad.py", data)
    done = check()
    assert done.returncode == 1
    assert words in done.stdout


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n",
        b"# only a comment",
        codecs.BOM_UTF8 + b"import torch\n",
        b"import torch\r\nx = (1,\r\n     2)\r\n",
        b"import torch\rx = 1\r",
        b"import torch\n\x0c\nx = 1\n",
        b"# coding: latin-1\nimport torch\ns = '\xe9'\n",
        b"import torch\nx = 1  \\\n\n",
        b"import torch\ns = '\\d'\n",
    ],
)
def test_odd_but_right_input(write: Write, data: bytes) -> None:
    write("a.py", data)
    done = check()
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("1 file checked, no findings")


def test_a_missing_path(write: Write) -> None:
    write("a.py")
    done = check("a.py", "missing.py")
    assert (done.returncode, done.stdout) == (2, "")
    assert "missing.py: no such file or directory" in done.stderr


def test_a_folder_without_python(write: Write) -> None:
    write("data/readme.txt", "")
    done = check("data")
    assert done.returncode == 0
    assert "no Python files found under data" in done.stderr
    assert done.stdout.startswith("0 files checked, no findings")


def test_a_dangling_link(write: Write, project: Path) -> None:
    write("a.py")
    os.symlink("nowhere.py", project / "link.py")
    for arguments in ((), ("link.py",)):
        done = check(*arguments)
        assert done.returncode == 1
        assert "link.py:1:1: DPL001 error: the file cannot be read: No such file or directory" in done.stdout


def test_loops_of_links(write: Write, project: Path) -> None:
    write("pkg/a.py")
    os.symlink("..", project / "pkg/up")
    os.symlink("self.py", project / "self.py")
    done = check()
    assert done.returncode == 1
    assert "self.py:1:1: DPL001" in done.stdout
    assert "1 file checked, 1 skipped" in done.stdout


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "1:1: DPL001 error: this is no notebook: Expecting value"),
        ('{\n"cells": [}', "2:11: DPL001 error: this is no notebook: Expecting value"),
        ("[]", "this is no notebook"),
        ('{"worksheets": []}', "upgrade it"),
        ('{"cells": [1]}', "a cell of this notebook is not made"),
        ('{"cells": [{"cell_type": "code", "source": 1}]}', "a cell of this notebook is not made"),
        ("[" * 100_000, "this is no notebook"),
        (b"{\xff", "this is no notebook"),
    ],
)
def test_what_only_calls_itself_a_notebook(write: Write, text: str | bytes, words: str) -> None:
    write("a.ipynb", text)
    done = check("a.ipynb")
    assert done.returncode == 1
    assert words in done.stdout


def test_a_folder_that_is_called_like_a_file(write: Write) -> None:
    write("model.py/inner.py")
    assert check().stdout.startswith("1 file checked")


@pytest.mark.usefixtures("needs_permissions")
@pytest.mark.parametrize("name", ["locked.py", "locked"])
def test_what_may_not_be_read(write: Write, project: Path, name: str) -> None:
    path = write("locked.py") if name.endswith(".py") else write("locked/a.py").parent
    path.chmod(0)
    try:
        done = check(".")
    finally:
        path.chmod(0o755)
    assert done.returncode == 1
    assert "Permission denied" in done.stdout


def test_a_file_that_vanishes_or_is_refused_while_being_read(
    write: Write, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from placement_lint.cli import main

    def refuse(self: Path) -> bytes:
        if self.name == "a.py":
            raise PermissionError(13, "Permission denied")
        return original(self)

    write("a.py")
    original = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", refuse)
    assert main(["check", "--format", "concise"]) == 1
    assert "a.py:1:1: DPL001 error: the file cannot be read: Permission denied" in capsys.readouterr().out


def test_a_name_that_is_no_text(project: Path) -> None:
    try:
        Path(os.fsdecode(b"caf\xe9.py")).write_bytes(b"def f(:\n")
    except OSError:
        pytest.skip("this file system wants UTF-8 names")
    for form in FORMATS:
        assert check(form=form).returncode == 1
