"""Imports: values of other files are followed in every form of import, and nothing else is."""

from __future__ import annotations

import ast
import io
import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from placement_lint.checking.checker import Checked, Checker, Job, Reading
from placement_lint.config.settings import Settings
from placement_lint.finding import Finding
from placement_lint.project.files import Selection
from placement_lint.project.finder import Surroundings
from placement_lint.project.index import Import, Lines, read_imports, read_index
from placement_lint.report.formats import FORMATS, render
from placement_lint.run.engine import check_files
from placement_lint.source.outline import code_of

Write = Callable[..., Path]

VALUES = "import torch\na = torch.ones(3)\nb = torch.ones(3).cuda()\n"
MISMATCH = ["operand-not-moved"]

# Different ways in which main.py gets ``a`` and ``b`` from another file.
WAYS: Mapping[str, Mapping[str, str]] = {
    "run by a decorator": {
        "program.py": "def main(fn):\n    fn()\n    return fn\n",
        "main.py": "import torch\nfrom program import main\na = torch.ones(3)\n"
        "@main\ndef start():\n    global b\n    b = torch.ones(3).cuda()",
    },
    "import": {"values.py": VALUES, "main.py": "import values\na, b = values.a, values.b"},
    "import as": {"values.py": VALUES, "main.py": "import values as v\na, b = v.a, v.b"},
    "from": {"values.py": VALUES, "main.py": "from values import a, b"},
    "from as": {"values.py": VALUES, "main.py": "from values import a as b, b as a"},
    "star": {"values.py": VALUES, "main.py": "from values import *"},
    "star of a star": {"values.py": VALUES, "all.py": "from values import *", "main.py": "from all import *"},
    "star, used often": {"values.py": VALUES, "main.py": "from values import *\n" + "c = a\n" * 500},
    "__all__": {
        "values.py": VALUES.replace("b", "_b") + "__all__ = ['a']\n__all__ += ['_b']\n",
        "main.py": "from values import *\nb = _b",
    },
    "submodule": {"p/__init__.py": "", "p/v.py": VALUES, "main.py": "import p.v\na, b = p.v.a, p.v.b"},
    "submodule as": {"p/__init__.py": "", "p/v.py": VALUES, "main.py": "import p.v as v\na, b = v.a, v.b"},
    "from package": {"p/__init__.py": "", "p/v.py": VALUES, "main.py": "from p import v\na, b = v.a, v.b"},
    "from submodule": {"p/__init__.py": "", "p/v.py": VALUES, "main.py": "from p.v import a, b"},
    "namespace": {"p/q/v.py": VALUES, "main.py": "import p.q.v\na, b = p.q.v.a, p.q.v.b"},
    "from namespace": {"p/q/v.py": VALUES, "main.py": "from p.q import v\na, b = v.a, v.b"},
    "re-export": {"p/__init__.py": "from .v import a, b", "p/v.py": VALUES, "main.py": "from p import a, b"},
    "re-export of a module": {"p/__init__.py": "from . import v", "p/v.py": VALUES, "main.py": "from p.v import a, b"},
    "relative": {
        "p/__init__.py": "",
        "p/v.py": VALUES,
        "p/w.py": "from .v import a, b",
        "main.py": "from p.w import *",
    },
    "relative from above": {
        "p/__init__.py": "",
        "p/v.py": VALUES,
        "p/q/__init__.py": "",
        "p/q/w.py": "from ..v import a\nfrom .. import v\nb = v.b",
        "main.py": "from p.q.w import a, b",
    },
    "src": {"src/values.py": VALUES, "main.py": "from values import a, b"},
    "in a function": {
        "values.py": VALUES,
        "main.py": "def f():\n    from values import a, b\n    return a, b\na, b = f()",
    },
    "in a branch": {"values.py": VALUES, "main.py": "import sys\nif len(sys.argv):\n    from values import a, b"},
    "try": {"values.py": VALUES, "main.py": "try:\n    from values import a, b\nexcept ImportError:\n    a = b = None"},
    "except": {
        "values.py": VALUES,
        "main.py": "try:\n    from .no import a\nexcept ImportError:\n    from values import a, b",
    },
    "importlib": {
        "values.py": VALUES,
        "main.py": "import importlib, torch\nv = importlib.import_module('values')\na, b = v.a, v.b",
    },
    "getattr": {"values.py": VALUES, "main.py": "import values\na, b = getattr(values, 'a'), values.__dict__['b']"},
    "each other": {
        "values.py": "import torch\nimport other\na = torch.ones(3)\ndef get(): return other.b",
        "other.py": "import values\nb = values.a.cuda()",
        "main.py": "from values import a, get\nb = get()",
    },
    "through a function": {
        "helper.py": "def add(x, y): return x + y",
        "main.py": "import torch\nfrom helper import add\na, b = torch.ones(3), add(torch.ones(3).cuda(), 1)",
    },
    "what a function uses": {
        "values.py": VALUES + "def get():\n    return a, b",
        "main.py": "from values import get\na, b = get()",
    },
    "changed in place": {
        "values.py": "import torch\nd = {}\nd['a'] = torch.ones(3)\nd.update(b=d['a'].cuda())",
        "main.py": "from values import d\na, b = d['a'], d['b']",
    },
    "assigned from outside": {
        "values.py": "a = b = None",
        "main.py": "import torch\nimport values\nvalues.a = torch.ones(3)\na, b = values.a, values.a.cuda()",
    },
    "global": {
        "values.py": "import torch\na = None\ndef begin():\n    global a\n    a = torch.ones(3)",
        "main.py": "import values\nvalues.begin()\na = values.a\nb = a.cuda()",
    },
    "inherited": {
        "base.py": "import torch\nclass Base:\n    def __init__(self): self.a = torch.ones(3)",
        "main.py": "from base import Base\nclass C(Base): pass\na = C().a\nb = a.cuda()",
    },
}

# Different ways to add the folder ``lib`` next to main.py to the search path of modules.
ADDED = {
    "append": "import os, sys\nsys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), 'lib'))",
    "insert": "import sys\nfrom pathlib import Path\nsys.path.insert(0, str(Path(__file__).resolve().parent / 'lib'))",
    "extend": "import sys\nsys.path.extend(['./lib', '../other'])",
    "added to": "import sys\nsys.path += ['lib']",
    "a variable": "import os.path as osp, sys\nHERE = osp.dirname(__file__)\nsys.path.append(osp.join(HERE, 'lib'))",
    "formatted": "import os, sys\nroot = os.getcwd()\nsys.path.append(f'{root}/lib')",
    "joined": "import os, sys\nsys.path.append(os.getcwd() + '/lib')",
    "in a branch": "import sys\nif 'lib' not in sys.path:\n    sys.path.append('lib')",
    "by a function": "import sys\ndef add(path):\n    sys.path.insert(0, path)\nadd('lib')",
    "by another file": "import paths",
    "parents": "import sys, pathlib\nsys.path.append(str(pathlib.Path(__file__).parents[0].joinpath('lib')))",
}
WAYS = {
    **WAYS,
    **{
        f"sys.path, {name}": {
            "lib/values.py": VALUES,
            "paths.py": "import os, sys\nsys.path.append(os.path.join(os.path.dirname(__file__), 'lib'))",
            "main.py": f"{text}\nfrom values import a, b",
        }
        for name, text in ADDED.items()
    },
}

WAYS = {
    **WAYS,
    **{
        f"a project inside, {name}": {
            "inner/p/__init__.py": "",
            "inner/p/values.py": VALUES,
            "inner/examples/training/main.py": "from p.values import a, b",
            f"inner/{name}": "",
        }
        for name in ("setup.py", "pyproject.toml")
    },
    "a project inside, src": {
        "inner/src/p/values.py": VALUES,
        "inner/setup.py": "",
        "inner/main.py": "from p.values import a, b",
    },
}

# Programs in which an import looks resolvable but is unknown.
UNKNOWN: Mapping[str, Mapping[str, str]] = {
    "a library": {"main.py": "from values import a, b"},
    "another folder": {"elsewhere/values.py": VALUES, "main.py": "from values import a, b"},
    "a project beside": {"inner/setup.py": "", "inner/values.py": VALUES, "main.py": "from values import a, b"},
    "a folder above that is no project": {
        "inner/p/values.py": VALUES,
        "inner/examples/main.py": "from p.values import a, b",
    },
    "another folder in sys.path": {
        "elsewhere/values.py": VALUES,
        "main.py": "import sys\nsys.path.append('lib')\nsys.path.append(sys.argv[1])\nfrom values import a, b",
    },
    "an environment in sys.path": {
        "venv/lib/values.py": VALUES,
        "main.py": "import sys\nsys.path.append('venv/lib')\nfrom values import a, b",
    },
    "no path in sys.path": {
        "lib/values.py": VALUES,
        "main.py": "import sys\nfor text in ('lib\\0', '\\ud800'):\n    sys.path += ['lib\\0', '\\ud800']\n"
        "s = 'lib'\n" + "s = s + s\n" * 60 + "sys.path.append(s)\nfrom values import a, b",
    },
    "the standard library": {"p/__init__.py": "", "p/queue.py": VALUES, "p/main.py": "from queue import a, b"},
    "a library in the environment": {"venv/values.py": VALUES, "main.py": "from venv.values import a, b"},
    "under __main__": {
        "values.py": "import torch\na = torch.ones(3)\nif __name__ == '__main__':\n    b = a.cuda()\nelse:\n    b = 1",
        "main.py": "from values import a, b",
    },
    "only for type checkers": {
        "values.py": VALUES,
        "main.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from values import a, b",
    },
    "rebound by a function": {
        "values.py": VALUES + "def move():\n    global a\n    a = a.cuda()",
        "main.py": "from values import a, b",
    },
    "filled by a function": {
        "values.py": "import torch\nd = {'a': torch.ones(3)}\ndef put(x):\n    d['a'] = x",
        "main.py": "import sys\nfrom values import d\na = d[sys.argv[1]]\nb = d['a'].cuda()",
    },
    "not exported": {"values.py": VALUES + "__all__ = ['a']", "main.py": "from values import *"},
    "broken": {"values.py": VALUES + "def (", "main.py": "from values import a, b"},
    "itself": {"main.py": "from main import a, b"},
    "in a circle": {"x.py": "from y import a, b", "y.py": "from x import a, b", "main.py": "from x import a, b"},
    "stars in a circle": {"x.py": "from y import *", "y.py": "from x import *", "main.py": "from x import *"},
}


@pytest.fixture
def check(project: Path, write: Write) -> Callable[[Mapping[str, str]], list[Finding]]:
    """Check the files of a project together."""

    def check_project(files: Mapping[str, str]) -> list[Finding]:
        paths = [write(name, text) for name, text in files.items()]
        run = check_files(Selection(paths), Job(Settings(root=project)), jobs=1)
        assert not run.crashes
        return [finding for finding in run.findings if finding.code != "DPL001"]

    return check_project


Check = Callable[[Mapping[str, str]], list[Finding]]


def with_sum(files: Mapping[str, str]) -> dict[str, str]:
    return {name: f"{text}\nc = a + b\n" if name.endswith("main.py") else text for name, text in files.items()}


@pytest.mark.parametrize("files", WAYS.values(), ids=WAYS)
def test_values_of_other_files_are_followed(files: Mapping[str, str], check: Check) -> None:
    assert [finding.name for finding in check(with_sum(files)) if finding.path.endswith("main.py")] == MISMATCH


@pytest.mark.parametrize("files", UNKNOWN.values(), ids=UNKNOWN)
def test_what_is_not_in_sight_is_silent(files: Mapping[str, str], check: Check) -> None:
    assert check(with_sum(files)) == []


def test_a_file_without_a_word_on_torch(check: Check) -> None:
    files = {
        "net.py": "from torch import nn\nclass Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.fc = nn.Linear(2, 2)\n",
        "wrap.py": "from torch import nn\ndef wrap(net): return nn.DataParallel(net.cuda())\n",
        "main.py": "from net import Net\nfrom wrap import wrap\nnet = wrap(Net())\nprint(net.fc)\n",
    }
    assert [(finding.path, finding.name) for finding in check(files)] == [("main.py", "wrapper-attribute-read")]


# --- positions of findings ----------------------------------------------------------------------------------------

NET = """\
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(2, 2)

    def forward(self, x):
        return self.fc(x) + torch.ones(2, device="cuda:0"){comment}
"""
MAIN = "import torch\nfrom torch import nn\nfrom net import Net\nnn.DataParallel(Net().cuda())(torch.ones(4, 2))\n"
HELPER = "from torch import nn\n\ndef wrap(net, ids):\n    return nn.DataParallel(net, ids){comment}\n"
CALLER = "from torch import nn\nfrom helper import wrap\nwrap(nn.Linear(2, 2).cuda(), [1, 0])(None)\n"


def test_code_of_a_module_class_is_reported_in_its_own_file(check: Check) -> None:
    (finding,) = check({"net.py": NET.format(comment=""), "main.py": MAIN})
    assert (finding.name, finding.path, finding.range.line) == ("hardcoded-device-in-replica", "net.py", 10)
    assert finding.anchor.function == "Net.forward"
    assert {step.path for step in finding.trace} == {"main.py", "net.py"}


def test_code_of_a_helper_is_reported_there_with_the_call(check: Check) -> None:
    (finding,) = check({"helper.py": HELPER.format(comment=""), "main.py": CALLER})
    assert (finding.name, finding.path, finding.range.line) == ("module-not-on-first-device", "helper.py", 4)
    assert (finding.trace[-1].path, finding.trace[-1].range.line) == ("main.py", 3)


def test_code_of_a_helper_that_another_uses_rightly_is_reported_at_the_call(project: Path, write: Write) -> None:
    files = [write("helper.py", HELPER.format(comment="")), write("main.py", CALLER)]
    files.append(write("right.py", CALLER.replace("[1, 0]", "[0, 1]")))
    (finding,) = check_files(Selection(files), Job(Settings(root=project))).findings
    assert (finding.name, finding.path, finding.range.line) == ("module-not-on-first-device", "main.py", 3)
    assert "helper.py:4" in finding.message
    assert (finding.trace[-1].path, finding.trace[-1].range.line) == ("helper.py", 4)


@pytest.mark.parametrize("comment", ["  # noqa: DPL118", "  # placement-lint: ignore[hardcoded-device-in-replica]"])
def test_a_comment_counts_where_the_finding_is(comment: str, check: Check) -> None:
    assert check({"net.py": NET.format(comment=comment), "main.py": MAIN}) == []


def test_a_comment_at_the_helper_counts_for_its_calls(check: Check) -> None:
    assert check({"helper.py": HELPER.format(comment="  # noqa: DPL401"), "main.py": CALLER}) == []


def test_skip_file_and_exclude_hold_where_the_finding_is(check: Check, project: Path, write: Write) -> None:
    skipped = "# placement-lint: skip-file\n" + NET.format(comment="")
    assert check({"net.py": skipped, "main.py": MAIN}) == []
    write("net.py", NET.format(comment=""))
    for job in (
        Job(Settings(root=project, exclude=("net.py",))),
        Job(Settings(root=project), exclude=("net.py",)),
        Job(Settings(root=project, per_file_ignores={"net.py": ("DPL118",)})),
    ):
        assert check_files(Selection([Path("main.py")]), job).findings == ()


def test_ignoring_a_rule_in_the_file_that_wraps_ignores_nothing_elsewhere(project: Path, write: Write) -> None:
    files = [write("net.py", NET.format(comment="")), write("main.py", MAIN)]
    job = Job(Settings(root=project, per_file_ignores={"main.py": ("DPL118",)}))
    assert [finding.path for finding in check_files(Selection(files), job).findings] == ["net.py"]


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_tells_of_another_file(form: str, project: Path, write: Write) -> None:
    write("net.py", NET.format(comment=""))
    write("main.py", MAIN)
    run = check_files(Selection([Path("main.py")]), Job(Settings(root=project)))
    stream = io.StringIO()
    render(form, run, stream)
    assert "net.py" in stream.getvalue()
    assert "DPL118" in stream.getvalue() or "hardcoded-device-in-replica" in stream.getvalue()


def test_several_that_find_the_same_say_it_once(check: Check) -> None:
    files = {"net.py": NET.format(comment=""), **{f"main{number}.py": MAIN for number in range(3)}}
    assert len(check(files)) == 1


def test_processes_make_no_difference(project: Path, write: Write) -> None:
    files = [write("net.py", NET.format(comment="")), write("helper.py", HELPER.format(comment=""))]
    files += [write("main.py", MAIN), write("caller.py", CALLER)]
    job = Job(Settings(root=project))
    runs = [check_files(Selection(order), job, jobs) for order in (files, files[::-1]) for jobs in (1, 2)]
    assert [finding.path for finding in runs[0].findings] == ["helper.py", "net.py"]
    assert all(run.findings == runs[0].findings for run in runs)


def test_a_notebook_uses_modules_beside_it(project: Path, write: Write) -> None:
    import json

    write("net.py", NET.format(comment=""))
    cells = [{"cell_type": "code", "source": "x = 1"}, {"cell_type": "code", "source": MAIN}]
    notebook = write("main.ipynb", json.dumps({"cells": cells, "metadata": {}, "nbformat": 4}))
    (finding,) = check_files(Selection([notebook]), Job(Settings(root=project))).findings
    assert (finding.path, finding.cell, finding.range.line) == ("net.py", None, 10)
    assert {(step.path, step.cell) for step in finding.trace} == {("main.ipynb", 2), ("net.py", None)}


# --- dependencies of results ----------------------------------------------------------------------------------------


def checked(path: str, sources: Mapping[str, str], root: Path) -> Checked:
    """Check a file of a project that exists only in memory."""

    class Buffers(Reading):
        def source(self, path: str) -> bytes | None:
            text = sources.get(os.path.relpath(path, root))
            return text.encode() if text is not None else None

    return Checker(Job(Settings(root=root)), Buffers()).check_bytes(sources[path].encode(), path)


def test_texts_come_from_wherever_they_are(project: Path) -> None:
    result = checked("main.py", {"main.py": MAIN, "net.py": NET.format(comment="")}, project)
    assert [finding.path for finding in result.findings] == ["net.py"]


def test_what_was_looked_at_is_told(project: Path) -> None:
    sources = {"main.py": MAIN, "net.py": NET.format(comment=""), "unused.py": ""}
    reads = checked("main.py", sources, project).contents
    assert {os.path.relpath(path, project) for path, digest in reads.items() if digest} == {"net.py"}
    assert reads[str(project / "net" / "__init__.py")] is None
    changed = checked("main.py", {**sources, "net.py": ""}, project).contents
    assert changed[str(project / "net.py")] not in (reads[str(project / "net.py")], None)


def test_a_file_that_imports_nothing_of_the_project_reads_nothing_of_it(project: Path) -> None:
    assert checked("main.py", {"main.py": "import torch\nx = torch.ones(3)\n"}, project).reads == ()


# --- the index --------------------------------------------------------------------------------------------------------


def test_an_index_tells_what_binds_a_name() -> None:
    text = """\
import torch
from .a import b as c
@torch.jit.script
def f(x):
    import late
    return x
table = {}
table["f"] = f
if torch:
    table.update(g=1)
    from z import *
size = 3
other = size + 1
"""
    index = read_index(text)
    assert index.bindings["torch"] == (Import(0, "torch", root=True),)
    assert index.bindings["c"] == (Import(1, "a", "b"),)
    assert index.bindings["f"] == (Lines(3, 6),)
    assert index.bindings["table"] == (Lines(7, 7), Lines(8, 8), Lines(9, 11))
    assert index.bindings["size"] == (Lines(12, 12),)
    assert index.stars == (Import(0, "z", "*"),)
    assert [found.name or found.module for _, found in read_imports(code_of(text))] == ["torch", "b", "late", "*"]


def test_what_branches_only_import_is_told_from_what_they_set() -> None:
    index = read_index("try:\n    from a import b, c\nexcept ImportError:\n    from d import b\n    c = None\n")
    assert index.bindings == {"b": (Lines(1, 5),), "c": (Lines(1, 5),)}
    assert index.taken == {("b", Lines(1, 5)): (Import(0, "a", "b"), Import(0, "d", "b"))}


@pytest.mark.parametrize("test", ["TYPE_CHECKING", "typing.TYPE_CHECKING", "t.TYPE_CHECKING"])
def test_what_only_type_checkers_see_is_not_bound(test: str) -> None:
    index = read_index(f"if {test}:\n    from a import b\n    from z import *\nelse:\n    c = 1\n")
    assert index.bindings.keys() == {"c"}
    assert index.stars == (Import(0, "z", "*"),)


def test_imports_are_found_however_they_are_written() -> None:
    text = """\
def f():
    "import nothing"  # import nothing
    if f: import a, b as c; from d \\
        import (
            e,
            g as h,
        )
    from .. import i
    important = 1; from_ = "from x import y"
"""
    found = [(line.level, line.module, line.name) for _, line in read_imports(code_of(text))]
    assert found == [(0, "a", None), (0, "b", None), (0, "d", "e"), (0, "d", "g"), (2, "", "i")]


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_the_top_level_is_cut_where_python_cuts_it(newline: str) -> None:
    text = '''\
"""A docstring:
def no(): no
"""
# def no():
@decorated(
1)
class C:
    """
@no
"""

    def f(self):
        return (
1)

# a comment
    # another
\f
\fx = {
"def no()": """
class no:
""",
}; y = 1
if x:
    def inner(): ...
else:
    z = 1
async  def g(): return "' # \\" \"""
w = 1 + \\
2
def last(a="""
"""): pass'''
    lines = {
        name: (statement.lineno - len(getattr(statement, "decorator_list", "")) * 2, statement.end_lineno)
        for statement in ast.parse(text).body[1:]
        for name in _bound_by(statement)
    }
    lines["y"] = lines["x"]
    bindings = read_index(text.replace("\n", newline)).bindings
    assert bindings == {name: (Lines(first, last),) for name, (first, last) in lines.items()}
    assert bindings.keys() == {"C", "x", "y", "inner", "z", "g", "w", "last"}


def _bound_by(statement: ast.stmt) -> list[str]:
    if isinstance(statement, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
        return [statement.name]
    inside = [
        name for each in ast.iter_child_nodes(statement) if isinstance(each, ast.stmt) for name in _bound_by(each)
    ]
    return inside or [node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and node.id in "xyzw"]


@pytest.mark.parametrize(
    "change", ["global table", "table.append(1)", "table[0].x += 1", "del table[0]", "a, table.x = 1, 2"]
)
def test_an_index_tells_what_functions_change(change: str) -> None:
    text = "table = make()\ndef f(a):\n    a.table.append(1)\n    print(table.x, a.table == 1)\n    {}\n"
    assert not read_index(text.format("pass")).changed
    assert read_index(text.format(change)).changed == {"table"}


def test_the_lines_of_a_binding_are_its_statement() -> None:
    text = "x = 1; y = '''\n\n'''\n\nclass C:\n    def f(self): pass\n\n    z = (\n1)\n"
    index = read_index(text)
    lines = text.splitlines()
    for name, bindings in index.bindings.items():
        for binding in bindings:
            assert isinstance(binding, Lines)
            part = ast.parse("\n".join(lines[binding.first - 1 : binding.last]))
            assert name in {node.id for node in ast.walk(part) if isinstance(node, ast.Name)} | {"C"}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1"])
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_the_lines_of_a_file_are_its_own_however_it_is_written(encoding: str, newline: str) -> None:
    lines = [f"# -*- coding: {encoding.removesuffix('-sig')} -*-", "é = 'ß'", "def f():", "    return é"]
    path = "/a.py"
    unit = Surroundings("/main.py", sources={path: newline.join(lines).encode(encoding)}.get).unit(path)
    assert unit is not None
    assert unit.source(Lines(2, 2)) == lines[1] + newline
    assert unit.source(Lines(3, 4)) == newline.join(lines[2:])
    assert unit.may_bind("é")
