"""A program with the files that it imports, in one text: it behaves the same without any of these files."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from placement_lint.probe.inlining import Inlined, NotInlined, inlined
from placement_lint.project.finder import Surroundings

CLASS = "class Net:\n    def __repr__(self):\n        return {!r}\n"

# The first file of each is the program.
PROJECTS: dict[str, dict[str, str]] = {
    "from": {"main.py": "from net import Net\nprint(Net())", "net.py": CLASS.format("net")},
    "alias": {
        "main.py": "import models.net as n\nprint(n.Net())",
        "models/__init__.py": "",
        "models/net.py": CLASS.format("net"),
    },
    "dotted": {
        "main.py": "import models.net\nprint(models.net.Net())",
        "models/__init__.py": "",
        "models/net.py": CLASS.format("net"),
    },
    "two dotted": {
        "main.py": "import models.a, models.b\nprint(models.a.Net(), models.b.Net())",
        "models/__init__.py": "",
        "models/a.py": CLASS.format("a"),
        "models/b.py": CLASS.format("b"),
    },
    "one name in two modules": {
        "main.py": "import a, b\nfrom a import Net\nprint(Net(), b.Net(), b.both())",
        "a.py": CLASS.format("a"),
        "b.py": "from a import Net as Other\n\ndef both():\n    return Net(), Other()\n\n" + CLASS.format("b"),
    },
    "a name of the program": {
        "main.py": "from a import scaled\nSCALE = 5\nprint(scaled(SCALE))",
        "a.py": "SCALE = 2\n\ndef scaled(x):\n    return x * SCALE",
    },
    "relative": {
        "pkg/main.py": "from .blocks import Block\nfrom .sub.deep import (\n    Deep,\n    depth as d,\n)\n"
        "print(Block(), Deep(), d)",
        "pkg/__init__.py": "",
        "pkg/blocks.py": CLASS.format("block").replace("Net", "Block"),
        "pkg/sub/__init__.py": "",
        "pkg/sub/deep.py": "from ..blocks import Block\n\nclass Deep(Block):\n    pass\n\ndepth = 2",
    },
    "from dot": {
        "pkg/main.py": "from . import blocks, sub as s\nprint(blocks.Net(), s.x)",
        "pkg/__init__.py": "",
        "pkg/blocks.py": CLASS.format("block"),
        "pkg/sub/__init__.py": "x = 1",
    },
    "passed on by a package": {
        "main.py": "from models import TheNet, helper\nprint(TheNet(), helper())",
        "models/__init__.py": "from .net import Net as TheNet\nfrom .tools import *\nimport nowhere_to_be_found",
        "models/net.py": CLASS.format("net"),
        "models/tools.py": "from .net import Net\n\ndef helper():\n    return Net()",
    },
    "a function named as its module": {
        "main.py": "from models import net\nprint(net())",
        "models/__init__.py": "from .net import net",
        "models/net.py": "def net():\n    return 'function'",
    },
    "star": {
        "main.py": "from tools import *\nprint(shown(), LIMIT)",
        "tools.py": "from limits import *\n\ndef shown():\n    return _hidden()\n\ndef _hidden():\n    return LIMIT\n\n"
        "__all__ = ['shown', 'LIMIT']",
        "limits.py": "LIMIT = 3",
    },
    "circular": {
        "main.py": "import a\nprint(a.first(2))",
        "a.py": "import b\n\ndef first(n):\n    return b.second(n)",
        "b.py": "import a\n\ndef second(n):\n    return a.first(n - 1) if n else 'end'",
    },
    "circular by name": {
        "main.py": "from a import A\nprint(A().b())",
        "a.py": "class Base:\n    pass\n\nfrom b import B\n\nclass A(Base):\n    def b(self):\n        return B().name",
        "b.py": "from a import Base\n\nclass B(Base):\n    name = 'b'",
    },
    "only for type checkers": {
        "main.py": "from typing import TYPE_CHECKING\nfrom a import f\nif TYPE_CHECKING:\n"
        "    from nowhere import T\nprint(f(1))",
        "a.py": "from __future__ import annotations\nfrom typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    from nowhere import T\n\n"
        "def f(x: T) -> T:\n    return x",
    },
    "conditional": {
        "main.py": "try:\n    from fast import f\nexcept ImportError:\n    from slow import f\nimport sys\n"
        "if sys.version_info < (3,):\n    from old import g\nelse:\n    from new import g\nprint(f(), g())",
        "slow.py": "try:\n    import missing as fast\nexcept ImportError:\n    fast = None\n\n"
        "def f():\n    return fast",
        "old.py": "def g():\n    return 'old'",
        "new.py": "def g():\n    return 'new'",
    },
    "in a function": {
        "main.py": "def main():\n    from net import Net\n    import tools as t\n    print(Net(), t.f())\nmain()",
        "net.py": CLASS.format("net"),
        "tools.py": "def f():\n    import net\n    return net.Net()",
    },
    "a folder without a file": {
        "main.py": "from parts.net import Net\nimport parts.more.tools as t\nprint(Net(), t.f())",
        "parts/net.py": CLASS.format("net"),
        "parts/more/tools.py": "def f():\n    return 1",
    },
    "by name at run time": {
        "main.py": "import models\nprint(models.__dict__['Net'](), getattr(models, 'Other')())",
        "models/__init__.py": "from .net import *",
        "models/net.py": CLASS.format("net") + "\nclass Other(Net):\n    pass",
    },
    "a module as a value": {
        "main.py": "import models\ndef make(m):\n    return m.Net()\nprint(make(models))",
        "models.py": CLASS.format("net"),
    },
    "its own names at run time": {
        "main.py": "from models import make\nprint(make('Net'))",
        "models.py": CLASS.format("net") + "\ndef make(name):\n    return globals()[name]()",
    },
    "what is changed in another module": {
        "main.py": "import config\nfrom tools import shown\nconfig.rate = 2\nprint(shown(), config.count())",
        "config.py": "rate = 1\nseen = []\nseen.append(3)\n\n"
        "def count():\n    global rate\n    rate += 1\n    return rate, seen",
        "tools.py": "import config\n\ndef shown():\n    return config.rate",
    },
    "registered": {
        "main.py": "from registry import REGISTRY\nimport nets\nprint(REGISTRY['Net']())",
        "registry.py": "REGISTRY = {}\n\ndef register(cls):\n    REGISTRY[cls.__name__] = cls\n    return cls",
        "nets.py": "from registry import register\n\n@register\n" + CLASS.format("registered"),
    },
    "registered in one file": {
        "main.py": "from registry import make\nprint(make('Net'))",
        "registry.py": "REGISTRY = {}\n\ndef register(cls):\n    REGISTRY[cls.__name__] = cls\n    return cls\n\n"
        "def make(name):\n    return REGISTRY[name]()\n\n@register\n" + CLASS.format("registered"),
    },
    "a class that is changed": {
        "main.py": "from net import Net\nprint(Net())",
        "net.py": CLASS.format("net") + "\ndef shown(self):\n    return 'changed'\n\nNet.__repr__ = shown",
    },
    "packages for other things": {
        "main.py": "from utils import used\nprint(used())",
        "utils.py": "import cv2\nfrom torchvision import transforms\n\ndef used():\n    return 1\n\n"
        "def unused():\n    return cv2, transforms",
    },
    "quotes": {
        "main.py": "from a import both\nprint(both())",
        "a.py": "def both():\n    \"\"\"It's \\n '''quoted'''.\"\"\"\n"
        '    return """\\\\ \'\'\' \\t""" + \'\'\'"\\""\'\'\' + "é"',
    },
    "what comes from the future": {
        "main.py": '"""Doc."""\nfrom __future__ import annotations\nfrom a import A\n\n'
        "def f(x: nowhere):\n    return A.x\nprint(f(1))",
        "a.py": "from __future__ import annotations\n\nclass A:\n    x: nowhere = 1",
    },
    "the program is imported": {
        "main.py": "import tools\nSCALE = 2\nif __name__ == '__main__':\n    print(tools.scaled(3))",
        "tools.py": "def scaled(x):\n    from main import SCALE\n    return SCALE * x",
    },
    "a name of the standard library": {"main.py": "import queue\nprint(queue.x)", "queue.py": "x = 'own'"},
    "carriage returns": {"main.py": "from a import x\r\nprint(x)\r\n", "a.py": "x = (1,\r\n  2)\r\ny = 3\r\n"},
    "semicolons": {"main.py": "from a import x; print(x)", "a.py": "import os; y = 1; x = [\ny,\n2]; z = os.sep"},
}


def one_text(folder: Path, files: dict[str, str], **options: bool) -> Inlined:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="")
    program = folder / next(iter(files))
    return inlined(program.read_text(encoding="utf-8"), Surroundings(str(program), (str(folder),)), **options)


def output(folder: Path, *arguments: str) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    run = [sys.executable, *arguments]
    return subprocess.run(run, cwd=folder, env=environment, capture_output=True, text=True, check=True).stdout


def output_of(text: str, folder: Path) -> str:
    folder.mkdir()
    (folder / "slice.py").write_text(text, encoding="utf-8")
    return output(folder, "slice.py")


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("name", PROJECTS)
def test_the_text_does_what_the_project_does(name: str, whole: bool, tmp_path: Path) -> None:
    files = PROJECTS[name]
    first = next(iter(files))
    found = one_text(tmp_path / "project", files, whole=whole)
    if whole and any("nowhere_to_be_found" in text or "cv2" in text for text in files.values()):
        return  # files that are not cut cannot be imported here
    runs = ("-m", first.removesuffix(".py").replace("/", ".")) if "/" in first else (first,)
    needed = {"nowhere_to_be_found": "", "cv2": "", "torchvision": "transforms = 0"}
    for package, text in needed.items():
        (tmp_path / "project" / f"{package}.py").write_text(text)
    assert output_of(found.text, tmp_path / "empty") == output(tmp_path / "project", *runs)
    assert not found.packages


def test_only_what_is_needed_is_taken(tmp_path: Path) -> None:
    text = one_text(
        tmp_path,
        {
            "main.py": "from net import Net\nprint(Net())",
            "net.py": "import os\nimport torch\nfrom torch import nn, optim\nSIZE = 3\nOTHER = os.sep\n\n"
            "def helper():\n    return OTHER\n\nclass Net(nn.Module):\n    size = SIZE\n\n"
            "torch.set_default_device('cuda')\n"
            "helper()\nif __name__ == '__main__':\n    print(Net())\n",
        },
    ).text
    assert text == (
        "# net.py\nimport torch\nfrom torch import nn\nSIZE = 3\n\n\nclass Net(nn.Module):\n    size = SIZE\n\n\n"
        "torch.set_default_device('cuda')\n\n\n# main.py\nprint(Net())\n"
    )


def test_names_are_plain_where_they_mean_one_thing(tmp_path: Path) -> None:
    """Modules stay modules where a name would mean two things, or something else in another file."""
    plain = {name for name in PROJECTS if "Embedded(" not in one_text(tmp_path / name, PROJECTS[name]).text}
    assert {
        "from",
        "relative",
        "packages for other things",
        "registered in one file",
    } <= plain
    assert plain.isdisjoint(
        {"one name in two modules", "a name of the program", "circular", "what is changed in another module"}
    )
    assert plain.isdisjoint({"alias", "its own names at run time", "in a function"})


@pytest.mark.parametrize(
    ("files", "packages"),
    [
        ({"main.py": "import torch, numpy, os\nimport cv2.data"}, {"cv2"}),
        ({"main.py": "from a import f\nf()", "a.py": "import cv2\n\ndef f():\n    return cv2"}, {"cv2"}),
        ({"main.py": "from .made import f", "__init__.py": ""}, {".made"}),
        ({"main.py": "try:\n    import cv2\nexcept ImportError:\n    cv2 = None"}, set()),
        ({"main.py": "try:\n    import cv2\nexcept (OSError, ImportError):\n    import PIL"}, {"PIL"}),
        ({"main.py": "try:\n    import cv2\nexcept OSError:\n    pass"}, {"cv2"}),
        ({"main.py": "def f():\n    import cv2"}, {"cv2"}),
    ],
)
def test_packages_besides_pytorch_are_named(files: dict[str, str], packages: set[str], tmp_path: Path) -> None:
    assert one_text(tmp_path / "project", files).packages == packages


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({"main.py": "import a", "a.py": "def f(:"}, "a.py cannot be parsed: "),
        (
            {
                "main.py": "import a\nfrom sub import y\nprint(a, y.f())",
                "a.py": "",
                "sub/y.py": "import a\n\ndef f():\n    return a",
                "sub/a.py": "",
            },
            "`a` is .*a.py in one file and .*a.py in another",
        ),
        ({"main.py": "import a\na.f()", "a.py": "from . import b\n\ndef f():\n    b", "b.py": ""}, "relative imports"),
    ],
)
def test_what_cannot_be_one_text_is_refused(files: dict[str, str], reason: str, tmp_path: Path) -> None:
    with pytest.raises(NotInlined, match=reason):
        one_text(tmp_path / "project", files)


@pytest.mark.parametrize("way", ["", "import pkg.a\n"])
def test_lines_are_found_again(way: str, tmp_path: Path) -> None:
    program = (
        f'"""Doc."""\nfrom __future__ import annotations\nfrom .a import (\n    x,\n    y,\n)\nprint(x)  # here\n{way}'
    )
    files = {"pkg/main.py": program, "pkg/__init__.py": "", "pkg/a.py": "x = y = 1"}
    found = one_text(tmp_path, files)
    lines = found.text.splitlines()
    main, module = str(tmp_path / "pkg/main.py"), str(tmp_path / "pkg/a.py")
    assert lines[found.line(main, 7) - 1] == "print(x)  # here"
    assert lines[found.line(module, 1) - 1] == "x = y = 1"
    assert ("Embedded" in found.text) == bool(way)
    if way:
        assert lines[found.line(main, 2) - 1] == "from __future__ import annotations"
        assert lines[found.line(main, 3) - 1] == lines[found.line(main, 6) - 1] == "from pkg.a import x, y"


@pytest.mark.parametrize(
    ("program", "missing"),
    [
        ("import a\nprint(a.x, gone, __name__)\n\ndef f(x):\n    return lost(x)", {"gone", "lost"}),
        ("from a import *\nprint(x)", set()),
        ("from a import *\nprint(x, gone)", {"gone"}),
        ("from a import f\nf()", set()),
        ("from torch import *\nprint(zeros)", set()),
        ("class A:\n    x = 1\n    y = [x for _ in ()]\nfor i in range(3):\n    del i", {"x"}),
    ],
)
def test_names_that_nothing_defines_are_named(program: str, missing: set[str], tmp_path: Path) -> None:
    files = {"main.py": program, "a.py": "x = 1\n\ndef f():\n    return nobody"}
    assert one_text(tmp_path, files).undefined == missing


def test_a_given_text_replaces_a_file(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1")
    path = str(tmp_path / "a.py")
    text = inlined("import a\nprint(a.x)", Surroundings(str(tmp_path / "main.py")), {path: "\n\nx = 2\nz = 3"}).text
    assert "x = 2\nz = 3\n" in text
    assert output_of(text, tmp_path / "empty") == "2\n"


def test_tracebacks_show_lines_of_the_text(tmp_path: Path) -> None:
    found = one_text(tmp_path, {"main.py": "import a\na.f()", "a.py": "y = 1\n\n\ndef f():\n    raise OSError\n"})
    (tmp_path / "slice.py").write_text(found.text)
    ended = subprocess.run([sys.executable, "slice.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    number = found.text.splitlines().index("    raise OSError") + 1
    assert f'slice.py", line {number}, in f\n    raise OSError\n' in ended.stderr
