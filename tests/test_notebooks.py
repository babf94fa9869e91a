"""A notebook is checked as one program, and its findings are reported in its cells."""

from __future__ import annotations

import ast
import json
import textwrap
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from placement_lint.checking.checker import Checked, Checker, Job
from placement_lint.cli import main
from placement_lint.config.settings import Settings
from placement_lint.finding import Edit, Range
from placement_lint.source.notebook import as_python
from placement_lint.source.scan import NEWLINE

Write = Callable[..., Path]
TEXT = "# a heading"
SETUP = "import torch\ndevice = torch.device('cuda')\nx = torch.randn(3)"


def notebook(*cells: str, **metadata: Any) -> bytes:
    """A notebook of code cells; a cell equal to :data:`TEXT` becomes a Markdown cell."""
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
            ("!pip install \\\n  torch\nx", "get_ipython(\n)\nx"),
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
            ("%%time\n%%capture\nx = !ls", "get_ipython()\nget_ipython()\nx = get_ipython()"),
            ("%%time?\nx = 1", "get_ipython()\nx = 1"),
            ("%%!\nls (", "\n"),
            (";f a b", "get_ipython()"),
            (",f a", "get_ipython()"),
            ("if x:\n    /f a", "if x:\n    get_ipython()"),
            ("a = 1 \\\n/ 2", "a = 1 \\\n/ 2"),
            ("x: int = !ls", "x: int = get_ipython()"),
            ("x.y[a(1) + 2] = %magic (\nx", "x.y[a(1) + 2] = get_ipython()\nx"),
            ("x = f(a=1) % 2", "x = f(a=1) % 2"),
            ("x = torch.nn?", "get_ipython()"),
            ("x == 1 != 2", "x == 1 != 2"),
            ("    x = 1\n    if x:\n        !ls", "x = 1\nif x:\n    get_ipython()"),
            (">>> for i in x:\n...     y = i\n>>> z", "for i in x:\n    y = i\nz"),
            ("In [12]: x = 1\n   ...: y = 2", "x = 1\ny = 2"),
            ("...\nx = 1", "...\nx = 1"),
            (
                'def f():\n    """\n    >>> f()\n    ... 1\n    """',
                'def f():\n    """\n    >>> f()\n    ... 1\n    """',
            ),
            ("", ""),
        ],
    )
    def test_magics(self, source: str, python: str) -> None:
        assert as_python(source) == python
        compile(python, "cell", "exec")

    def test_columns_are_kept(self) -> None:
        cell = "if x:\n    %time x = bad(x)"
        assert as_python(cell).splitlines()[1].index("bad") == cell.splitlines()[1].index("bad")


FORMS = [
    *("x = 1", "?x", "x?", "x??", "x.y[0]?", "%time?", "?", "a = x?", "x.*?", "??x", "x ?", "print(x)?", "f(1)[0]?"),
    *("!ls", "!!ls", "!ls {x} (", "!ls \\\n  -l", "!ls 'a", "x = !ls", "x, y = !ls (", "x[0] = !ls", "x: int = !ls"),
    *("x = y = !ls", "x += !ls", "x = !ls \\\n -l", "x = f(a=1) % 2", "x = %time 1", "x = %sql SELECT ' FROM a"),
    *("%matplotlib inline", "%time x = 1", "%timeit x", "%ls -l", "%", "%cd ~/a b", "% time x", "%%bash", "%l # ("),
    *(";f a b", ",f a", "/f a", "/f 1, 2", "; f", "x = 1; y = 2", "x = 1;", "f(x)  # why?", "'a' '?'", "x = 'a?'"),
    *("y = (1\n% 2)", "y = (\n!x\n)", "y = 'a'\\\n'!'", 'y = """\n!ls\n%x\n?\n"""', "x = 1 \\\n/ 2", "a == b != c"),
    *("if x:\n    !ls\n    y", "for i in x:\n    %time y\nelse:\n    ?z", "if x: !ls", "@d\n!ls", "await f()"),
    *("def f():\n    x = !ls\n    return x", "with x:\n    x.y?\n    /f a", "x = [\n  1,  # ?\n]", "x = {1: '!'}"),
]
FIRST = [
    *("%%bash\nls (", "%%html\n<b>'", "%%time?", "%%!\nls '", "\n\n%%bash\nx (", "# c", "# %%bash\n", "", "\n\n"),
    *("  x = 2", "\tx = 2", ">>> x = 1", ">>> if x:\n...     y", "In [1]: x = 1", "In [3]: if x:\n   ...:     y"),
    *("%%timeit\nx (", "%%writefile a b\n'"),
]
REJECTED = {
    "x ?",
    "print(x)?",
    "f(1)[0]?",
    "x = y = !ls",
    "x += !ls",
    "if x: !ls",
    "; f",
    "@d\n!ls",
    "/f 1, 2",
    "y = (\n!x\n)",
}


class TestIPython:
    """Cells that IPython accepts are valid programs."""

    @pytest.fixture(scope="class")
    def transform(self) -> Callable[[str], str]:
        module = pytest.importorskip("IPython.core.inputtransformer2", reason="IPython is not installed")
        transform: Callable[[str], str] = module.TransformerManager().transform_cell
        return transform

    @pytest.mark.parametrize("first", [*FIRST, *FORMS])
    def test_accepted_cells_are_python(self, transform: Callable[[str], str], first: str) -> None:
        indent = first[: len(first) - len(first.lstrip(" \t"))]
        followed = [f"{first}\n{textwrap.indent(form, indent)}" for form in FORMS]
        inside = [f"if x:\n{textwrap.indent(form, '    ')}\n{first}" for form in FORMS]
        accepted = [cell for cell in (first, *followed, *inside) if _is_program(cell, transform)]
        assert len(accepted) > 20 or first in REJECTED
        for cell in accepted:
            python = as_python(cell)
            assert len(NEWLINE.split(python)) == len(NEWLINE.split(cell)), cell
            assert _is_program(python), f"{cell}\n---\n{python}"

    @pytest.mark.parametrize("magic", ["%%time", "%%time x", "%%capture out", "%%time\n%%capture", "%%prun"])
    def test_what_a_cell_magic_runs_is_python(self, transform: Callable[[str], str], magic: str) -> None:
        for body in filter(lambda form: _is_program(form, transform), FORMS):
            assert _is_program(as_python(f"{magic}\n{body}")), body

    def test_a_file_of_such_cells_has_no_syntax_error(self) -> None:
        assert (
            found(SETUP, *("%%time\n" + form for form in ("x = !ls", "x?", "/f a", "!ls (")), ">>> x = 1\n>>> x") == []
        )

    def test_places_are_those_of_the_cell(self) -> None:
        result = checked(SETUP, ">>> y = 1\n>>> x.to(device)\n>>> x", "    x.to(device)\n    x")
        assert [(finding.cell, finding.range) for finding in result.findings] == [
            (2, Range(2, 5, 2, 17)),
            (3, Range(1, 5, 1, 17)),
        ]


def _is_program(text: str, transform: Callable[[str], str] = str) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            compile(transform(text), "cell", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        except SyntaxError:
            return False
    return True


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
