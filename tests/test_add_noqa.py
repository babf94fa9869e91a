"""--add-noqa suppresses every finding with a comment in its file, and changes nothing else in the file."""

from __future__ import annotations

import codecs
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from placement_lint.cli import main

Write = Callable[..., Path]
Capture = pytest.CaptureFixture[str]
pytestmark = pytest.mark.usefixtures("fake_rules")

COMMENT = b"  # placement-lint: ignore[bad-call]"


@pytest.mark.parametrize(
    ("line", "after"),
    [
        (b"bad()", b"bad()" + COMMENT),
        (b"bad()  # why", b"bad()  # why" + COMMENT),
        (b"bad(); bad()", b"bad(); bad()" + COMMENT),
        (b"bad(); worse()", b"bad(); worse()  # placement-lint: ignore[bad-call, worse-call]"),
        (b"bad()  # noqa: E501", b"bad()  # noqa: E501" + COMMENT),
        (b"bad(); worse()  # noqa: DPL302", b"bad(); worse()  # noqa: DPL302, DPL301"),
        (b"x = '''\n''', bad()", b"x = '''\n''', bad()" + COMMENT),
        (b"x = bad() + \\\n    1", b"x = bad() + \\\n    1" + COMMENT),
        (b"if bad(\n    1\n):\n    pass", b"if bad(" + COMMENT + b"\n    1\n):\n    pass"),
    ],
)
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"", b"\nx = '\xc3\xa9'\n"])
def test_scripts(write: Write, capsys: Capture, line: bytes, after: bytes, end: bytes) -> None:
    newline = b"\r\n" if end == b"\r\n" else b"\n"
    file = write("a.py", (b"import torch\n" + line).replace(b"\n", newline) + end)
    assert main(["check", "--add-noqa"]) == 0
    assert file.read_bytes() == (b"import torch\n" + after).replace(b"\n", newline) + end
    assert "in 1 file\n" in capsys.readouterr().err
    assert main(["check", "--add-noqa"]) == 0
    assert "suppressed 0 findings in 0 files" in capsys.readouterr().err


@pytest.mark.parametrize(
    "data", [codecs.BOM_UTF8 + b"import torch\nbad()\n", b"# coding: latin-1\nimport torch\nbad()  # \xe9\n"]
)
def test_the_encoding_stays(write: Write, data: bytes) -> None:
    file = write("a.py", data)
    assert main(["check", "--add-noqa"]) == 0
    line = data.splitlines()[-1]
    assert file.read_bytes() == data.replace(line, line + COMMENT)


def test_mode_and_links_stay(write: Write, project: Path) -> None:
    file = write("real/a.py", "import torch\nbad()\n")
    file.chmod(0o755)
    (project / "link.py").symlink_to(file)
    main(["check", "--add-noqa", "link.py"])
    assert (project / "link.py").is_symlink()
    assert file.read_bytes() == b"import torch\nbad()" + COMMENT + b"\n"
    assert file.stat().st_mode & 0o777 == 0o755
    assert os.listdir(file.parent) == ["a.py"]


@pytest.mark.parametrize("indent", [None, 1])
def test_a_notebook(write: Write, capsys: Capture, indent: int | None) -> None:
    cells = [
        {"cell_type": "markdown", "source": "bad()"},
        {"cell_type": "code", "source": ["import torch\n", "!ls\n", "bad()"], "outputs": [{"é": 1.0}]},
        {"cell_type": "code", "source": "%matplotlib inline\nworse()\n"},
    ]
    before = json.dumps({"cells": cells}, indent=indent, ensure_ascii=False)
    file = write("a.ipynb", before)
    assert main(["check", "--add-noqa"]) == 0
    cells[1]["source"] = ["import torch\n", "!ls\n", "bad()" + COMMENT.decode()]
    cells[2]["source"] = "%matplotlib inline\nworse()  # placement-lint: ignore[worse-call]\n"
    assert file.read_text() == json.dumps({"cells": cells}, indent=indent, ensure_ascii=False)
    assert "suppressed 2 findings in 1 file" in capsys.readouterr().err
    assert main(["check"]) == 0


def test_a_notebook_that_cannot_be_written_back(write: Write, capsys: Capture) -> None:
    text = '{"cells":  [{"cell_type": "code", "source": "import torch\\nbad()"}]}'
    file = write("a.ipynb", text)
    assert main(["check", "--add-noqa"]) == 1
    assert file.read_text() == text
    assert capsys.readouterr().err == (
        "placement-lint: suppressed 0 findings in 0 files\n"
        "placement-lint: a.ipynb:cell 1:2:1: DPL301 stays: the file cannot be written back with nothing else changed\n"
    )


def test_what_no_comment_suppresses_stays(write: Write, capsys: Capture) -> None:
    write("a.py", "print 'hello'\n")
    write("b.py", "import torch\nx = 1  # placement-lint: ignore\nbad()\n")
    assert main(["check", "--add-noqa", "--format", "concise"]) == 1
    captured = capsys.readouterr()
    assert captured.err.splitlines() == [
        "placement-lint: suppressed 1 finding in 1 file",
        "placement-lint: a.py:1:1: DPL001 stays: a comment cannot suppress it",
        "placement-lint: b.py:2:8: DPL002 stays: a comment cannot suppress it",
    ]
    assert [line.split(":")[0] for line in captured.out.splitlines()[:2]] == ["a.py", "b.py"]


def test_what_is_selected_and_fixed_and_known_counts(write: Write) -> None:
    file = write("a.py", "import torch\nbad()\nworse()\nadvice()\n")
    main(["check", "--add-noqa", "--severity", "warning", "--fix"])
    assert file.read_text() == ("import torch\ngood()\nworse()  # placement-lint: ignore[worse-call]\nadvice()\n")
    file.write_text("import torch\nbad()\nworse()\n")
    main(["check", "--write-baseline", "known.json"])
    file.write_text("import torch\nbad()\nworse()\nbad(2)\n")
    main(["check", "--baseline", "known.json", "--add-noqa"])
    assert file.read_text() == f"import torch\nbad()\nworse()\nbad(2){COMMENT.decode()}\n"


def test_not_for_standard_input(project: Path, capsys: Capture) -> None:
    assert main(["check", "-", "--add-noqa"]) == 2
    assert "--add-noqa writes into the files" in capsys.readouterr().err


def test_nothing_is_said_in_a_quiet_run(write: Write, capsys: Capture) -> None:
    write("a.py", "import torch\nbad()\n")
    assert main(["check", "-q", "--add-noqa"]) == 0
    assert capsys.readouterr() == ("", "")
