"""Notebooks are programs of cells, and what is found in them is found in a cell."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from placement_lint.checker import Checked, Checker, Job
from placement_lint.cli import main
from placement_lint.config import Settings
from placement_lint.finding import Edit, Range
from placement_lint.source.notebook import as_python

Write = Callable[..., Path]
TEXT = "# a heading"
SETUP = "import torch\ndevice = torch.device('cuda')\nx = torch.randn(3)"


def notebook(*cells: str, **metadata: Any) -> bytes:
    """A notebook of code cells, and one of text wherever a cell is :data:`TEXT`."""
    content = {
        "cells": [
            {
                "cell_type": "markdown" if source is TEXT else "code",
                "source": source.splitlines(keepends=True),
            }
            for source in cells
        ],
        "metadata": metadata,
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(content).encode()


def checked(*cells: str, select: str = "ALL", **metadata: Any) -> Checked:
    result = Checker(Job(Settings(), select=(select,))).check_bytes(notebook(*cells, **metadata), "a.ipynb")
    assert not result.crashes, "\n".join(map(str, result.crashes))
    return result


def found(*cells: str, **metadata: Any) -> list[tuple[str, int | None, int]]:
    return [(finding.code, finding.cell, finding.range.line) for finding in checked(*cells, **metadata).findings]


class TestCellsAsPython:
    @pytest.mark.parametrize(
        ("source", "python"),
        [
            ("x = 1", "x = 1"),
            ("%matplotlib inline", "get_ipython()"),
            ("!pip install torch", "get_ipython()"),
            ("for i in x:\n    !echo don't (\n    y", "for i in x:\n    get_ipython()\n    y"),
            ("!pip install \\\n  torch\nx", "get_ipython() \\\n\nx"),
            ("files = !ls (\nx", "files = get_ipython()\nx"),
            ("a, b = %magic\nx", "a, b = get_ipython()\nx"),
            ("pip install -q torch\nx", "get_ipython()\nx"),
            ("cd ../data", "get_ipython()"),
            ("cd in x\npip = 1", "cd in x\npip = 1"),
            ("?torch", "get_ipython()"),
            ("torch.nn?\nx", "get_ipython()\nx"),
            ("torch.nn.Linear??", "get_ipython()"),
            ("%time x = x.cuda()", "pass; x = x.cuda()"),
            ("%timeit x.cuda()", "get_ipython()"),
            ("y = (1\n% 2)", "y = (1\n% 2)"),
            ("y = '''\n%d\n!x?\n'''", "y = '''\n%d\n!x?\n'''"),
            ("y = 1  # really?", "y = 1  # really?"),
            ("a %= 2\nb != c", "a %= 2\nb != c"),
            ("%%time\nx = 1", "get_ipython()\nx = 1"),
            ("%%capture out\nx = 1", "get_ipython()\nx = 1"),
            ("%%bash\nls (\n", "\n\n"),
            ("\n%%timeit\nx.cuda()", "\n\n"),
            ("%%html\r\n<b>", "\n"),
            ("", ""),
        ],
    )
    def test_magics(self, source: str, python: str) -> None:
        assert as_python(source) == python
        compile(python, "cell", "exec")

    def test_columns_are_kept(self) -> None:
        line = "    %time x = bad(x)"
        assert as_python(line).index("bad") == line.index("bad")


class TestFindings:
    def test_cells_are_one_program(self) -> None:
        result = checked(TEXT, "import torch", "!nvidia-smi", SETUP, "def f():\n    x.to(device)\nf()\n")
        (finding,) = result.findings
        assert (finding.code, finding.cell, finding.range) == ("DPL501", 5, Range(2, 5, 2, 17))
        assert [(step.cell, step.range.line) for step in finding.trace] == [(4, 3)]

    def test_what_a_cell_shows_is_not_discarded(self) -> None:
        assert found(SETUP, "x.to(device)") == []
        assert found(SETUP, "y = 1; x.to(device)  # shown\n\n") == []

    @pytest.mark.parametrize(
        "cell",
        ["x.to(device)\nprint(x)", "x.to(device);", "if x is not None:\n    x.to(device)", "x.to(device); y = 1"],
    )
    def test_what_it_does_not_show_is(self, cell: str) -> None:
        assert [code for code, _, _ in found(SETUP, cell)] == ["DPL501"]

    def test_a_module_may_be_moved_and_shown(self) -> None:
        net = "import torch\nnet = torch.nn.Linear(2, 2)"
        assert found(net, "net.cuda()", "net(torch.randn(2, device='cuda'))") == []

    def test_a_broken_cell_is_named(self) -> None:
        (finding,) = checked(TEXT, "import torch", "def f(:\n").findings
        assert (finding.code, finding.cell, finding.range.line) == ("DPL001", 3, 1)

    def test_comments_suppress(self) -> None:
        assert found(SETUP, "x.to(device)  # placement-lint: ignore[DPL501]\nx") == []
        assert found("x = 1", "y = 2  # placement-lint: ignore[DPL501]") == [("DPL002", 2, 1)]
        assert checked("# placement-lint: skip-file", SETUP, "x.to(device);").skipped

    @pytest.mark.parametrize("metadata", [{"kernelspec": {"language": "R"}}, {"language_info": {"name": "julia"}}])
    def test_other_languages_are_skipped(self, metadata: dict[str, Any]) -> None:
        assert checked("library(torch)", **metadata) == Checked("a.ipynb", skipped=True)

    def test_without_code_there_is_nothing_to_find(self) -> None:
        assert found(TEXT) == []
        assert found("", "%%bash\nls") == []

    @pytest.mark.usefixtures("fake_rules")
    def test_edits_carry_their_cell(self) -> None:
        (finding,) = checked("import torch", "x = bad(1)\n").findings
        assert finding.fix is not None
        assert finding.fix.edits == (Edit(Range(1, 5, 1, 8), "good", cell=2),)


def test_the_cell_is_part_of_the_json(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    write("work/a.ipynb", notebook(TEXT, SETUP, "x.to(device)\nx"))
    assert main(["check", "--format", "json"]) == 1
    (finding,) = json.loads(capsys.readouterr().out)["findings"]
    assert (finding["path"], finding["cell"], finding["line"], finding["column"]) == ("work/a.ipynb", 3, 1, 1)
    assert finding["trace"][0]["cell"] == 2


def test_standard_input_can_be_a_notebook(
    project: Path, capsys: pytest.CaptureFixture[str], stdin: Callable[[bytes], None]
) -> None:
    stdin(notebook(SETUP, "x.to(device)\nx"))
    assert main(["check", "-", "--stdin-filename", "a.ipynb"]) == 1
    out = capsys.readouterr().out
    assert "a.ipynb:cell 2:1:1" in out
    assert "1 │ x.to(device)" in out
