"""The first triage check: files without possible findings are not parsed; ``test_prospects`` tests its soundness."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from growth import grows_faster_than_its_size

from placement_lint.flow.triage.glance import may_tell
from placement_lint.project.finder import Surroundings
from placement_lint.project.index import read_imports, read_index

NET = "import torch\nclass Net(torch.nn.Module):\n    def forward(self, x):\n        return x + 1\n"
WARM = "import torch\ndef warm(x): return x.cuda()\n"
TABLE = "import torch\nclass Base(torch.nn.Module):\n    def __init__(self):\n        self.table = torch.zeros(3)\n"
TAKES = (
    "from a import Encoding\nfrom b import Base\n"
    "class Taker(Base):\n    def forward(self, x): return Encoding(x).tensors()"
)
GIVES = "class Encoding(dict):\n    def tensors(self): return torch.tensor(self)\n"
ADDS = "\n    def forward(self, x): return x + self.table\n"

TELLING: Mapping[str, Mapping[str, str]] = {
    "by itself": {"main.py": "def f(x): return x.cuda()"},
    "where it runs": {"main.py": "size = 3\nmodel.cuda()"},
    "by a setting": {"main.py": "DEVICE = 'cuda:1'"},
    "by a tensor beside what is told a device": {
        "main.py": "import torch\ntable = torch.zeros(3)\ndef f(d): return table + torch.ones(3, device=d)"
    },
    "by a tensor beside what others tell a device": {
        "main.py": "import torch\nfrom a import g\ndef f(x): return torch.zeros(3) + g(x)",
        "a.py": "import torch\ndef g(d): return torch.ones(3, device=pick(d))",
    },
    "by a tensor beside what asks for a GPU": {
        "main.py": "import torch\ndef f(x): return torch.zeros(3) + x if x.is_cuda else x"
    },
    "by a tensor beside a module": {"main.py": f"{NET.replace('1', 'f()')}\ndef f(): return torch.zeros(3)"},
    "by a tensor in a module that it has if it can": {
        "main.py": "import torch\ntry:\n    class Net(torch.nn.Module):\n        def forward(self, x):\n"
        "            return x + torch.zeros(3)\nexcept ImportError: pass"
    },
    "by what it takes": {"main.py": "from a import warm\ndef f(x): return warm(x)", "a.py": WARM},
    "by what it asks of a module": {"main.py": "import a\ndef f(x): return a.warm(x)", "a.py": WARM},
    "by what it gathers": {"main.py": "from a import *\ndef f(x): return warm(x)", "a.py": WARM},
    "by what it gathers from a list of names": {
        "main.py": "from a import *\nwarm(x)",
        "a.py": f"{WARM}__all__ = ['warm']  # all of it",
    },
    "by what more than a list has it gather": {
        "main.py": "from a import *\nwarm(x)",
        "a.py": f"{WARM}NAMES = ['warm']\n__all__ = ['f'] + NAMES",
    },
    "by a listed name of other letters": {
        "main.py": "from a import *\nwärm(x)",
        "a.py": f"{WARM.replace('warm', 'wärm')}__all__ = ['wärm']  # all",
    },
    "by what is gathered twice": {
        "main.py": "from b import *\nwarm(x)",
        "b.py": "from a import *\n__all__ = ['warm']",
        "a.py": WARM,
    },
    "by what is gathered": {"main.py": "from b import warm\nwarm(x)", "b.py": "from a import *", "a.py": WARM},
    "by what it takes inside": {"main.py": "def f(x):\n    from a import warm\n    return warm(x)", "a.py": WARM},
    "by what it takes if it can": {"main.py": "try:\n    from a import warm\nexcept: pass\nwarm(x)", "a.py": WARM},
    "by what a branch takes and sets": {
        "main.py": "from b import place\nplace(x)",
        "b.py": "from a import warm\nif known:\n    from c import place\nelse:\n    place = warm",
        "a.py": WARM,
        "c.py": "def place(x): return x",
    },
    "by what another branch takes": {
        "main.py": "from b import place\nplace(x)",
        "b.py": "try:\n    from c import place\nexcept ImportError:\n    from a import warm as place",
        "a.py": WARM,
        "c.py": "def place(x): return x",
    },
    "by what that uses": {
        "main.py": "from b import run\nrun(x)",
        "b.py": "from a import warm\ndef run(x): return warm(x)",
        "a.py": WARM,
    },
    "by a decorator": {
        "main.py": "from a import warmed\n@warmed\ndef f(x): return x",
        "a.py": "def warmed(f):\n    f(x.cuda())\n    return f",
    },
    "by a setting that another file makes": {"main.py": "from a import warm\nwarmed = warm(x)", "a.py": WARM},
    "by what it asks of a module by name": {
        "main.py": "import a\nrun = getattr(a, 'warm')\nrun(x)",
        "a.py": WARM,
    },
    "by a module's name": {"main.py": "import importlib\nimportlib.import_module('a').warm(x)", "a.py": WARM},
    "by what it inherits": {"main.py": f"from a import Base\nclass Net(Base):{ADDS}", "a.py": TABLE},
    "by what that inherits": {
        "main.py": f"import b\nclass Net(b.Middle):{ADDS}",
        "b.py": "from a import Base\nclass Middle(Base): pass",
        "a.py": TABLE,
    },
    "by what it inherits, with a remark": {
        "main.py": f"from a import Base\nclass Net[T](\n    Base,  # type: ignore (of T: any)\n):{ADDS}",
        "a.py": TABLE,
    },
    "by a tensor in a module with a colon in its header": {
        "main.py": "import torch\nclass Net(torch.nn.Module, sizes={'small': [3][:1]}):\n"
        "    def forward(self, x): return x + torch.zeros(3)"
    },
    "by a class between": {
        "main.py": f"from a import Base\nclass Middle(Base): pass\nclass Net(Middle):{ADDS}",
        "a.py": TABLE,
    },
    "by what it may inherit": {"main.py": f"from a import *\nclass Net(Base):{ADDS}", "a.py": TABLE},
    "by a class of a module beside another": {
        "main.py": f"import a\nclass Plain(a.Plain):{ADDS.replace('self.table', 'x')}\nclass Net(a.Base):{ADDS}",
        "a.py": f"{TABLE}class Plain(torch.nn.Module): pass",
    },
    "by another accelerator": {"main.py": "from a import warm\nwarm(x)", "a.py": "def warm(x): return x.npu()"},
    "by a tensor of a class that it keeps": {
        "main.py": "import torch\nclass Table(torch.nn.Module):\n    def table(self): return torch.zeros(3)\n"
        "KINDS = {'table': Table}\n"
        "class Net(torch.nn.Module):\n    def forward(self, x, kind): return x + KINDS[kind]().table()"
    },
    "by a base of a package": {
        "main.py": f"import p.a\nclass Net(p.a.Base):{ADDS}",
        "p/__init__.py": "",
        "p/a.py": TABLE,
    },
    "by what a module takes": {
        "main.py": TAKES,
        "a.py": GIVES,
        "b.py": "from torch.nn import Module as Base",
    },
    "by what may be a module takes": {
        "main.py": TAKES,
        "a.py": GIVES,
        "b.py": "from torch import nn\nBase = nn.Module",
    },
    "by looking after others": {
        "main.py": "from a import Kept\ndef f(x):\n    net = Kept()\n    net.table = x",
        "a.py": "class Kept(Module):\n    def forward(self, x):\n        self.table = x + torch.ones(3)",
    },
}
SILENT: Mapping[str, Mapping[str, str]] = {
    "nothing at all": {"main.py": ""},
    "a model": {"main.py": NET},
    "settings": {"main.py": "WIDTH = {'small': 32, 'large': 64}\nNAMES = ['patch_embed.proj', 'head']"},
    "a tensor on the CPU": {"main.py": "import torch\nf(torch.zeros(3))\ndef f(x): return x + torch.ones(3)"},
    "what it only imports": {
        "main.py": "if known:\n    from a import warm\nelse:\n    warm = None\nsize = 3\n__all__ = ['warm']",
        "a.py": WARM,
    },
    "what a class is decorated with": {
        "main.py": "from a import warm\n@warm('x')\nclass Net:\n    def forward(self, x): return x",
        "a.py": WARM,
    },
    "what it does not gather": {
        "main.py": "from a import *\ndef f(x): return warm(x)",
        "a.py": f"{WARM}__all__ = [\n    'cool',\n    'cold',\n]",
    },
    "what is only gathered if it is listed": {
        "main.py": "from a import *\ndef f(x): return _warm(x)",
        "a.py": WARM.replace("warm", "_warm"),
    },
    "what is taken beside it": {
        "main.py": "from b import place\nplace(x)",
        "b.py": "if known:\n    from a import warm\n    from c import place",
        "a.py": WARM,
        "c.py": "def place(x): return x",
    },
    "a registered model": {
        "main.py": f"from a import register\n{NET}@register\ndef small(): return Net()",
        "a.py": "known = {}\ndef register(f):\n    known[f.__name__] = f\n    return f",
    },
    "a layer of another file": {
        "main.py": "from a import Net\nclass Two(Net):\n    def forward(self, x): return super().forward(x)",
        "a.py": NET,
    },
    "what only others do": {
        "main.py": "from a import width\ndef f(x): return width(x)",
        "a.py": f"{WARM}def width(x): return 3",
    },
    "what only the base does": {
        "main.py": "from a import Base\nclass Net(Base):\n    def forward(self, x): return x",
        "a.py": f"{WARM}class Base(torch.nn.Module):\n    def move(self): return self.half().cuda()",
    },
    "what takes tensors and is no module": {
        "main.py": TAKES.replace("forward", "run"),
        "a.py": GIVES,
        "b.py": "from collections import UserDict\nclass Base(UserDict, metaclass=type): pass",
    },
    "what asks for another accelerator": {
        "main.py": "from a import has_npu\nif has_npu():\n    import torch_npu",
        "a.py": "import torch\ndef has_npu(): return hasattr(torch, 'npu') and torch.npu.is_available()",
    },
    "what it says of it": {"main.py": "'''Moves x.cuda().'''\n# x.cuda()\ndef f(x): return x"},
}


def told(files: Mapping[str, str], folder: Path) -> bool:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return may_tell(files["main.py"], Surroundings(str(folder / "main.py"), (str(folder),)))


@pytest.mark.parametrize("files", TELLING.values(), ids=TELLING)
def test_a_file_may_tell_something(files: Mapping[str, str], tmp_path: Path) -> None:
    assert told(files, tmp_path)


@pytest.mark.parametrize("files", SILENT.values(), ids=SILENT)
def test_a_file_is_passed_over(files: Mapping[str, str], tmp_path: Path) -> None:
    assert not told(files, tmp_path)


def test_who_is_passed_over_hangs_on_what_was_read_for_it(tmp_path: Path) -> None:
    """The recorded reads do not depend on files that were read before for another file."""
    files = TELLING["by what that uses"] | {"other.py": "import b\nb.run(x)"}
    assert told(files, tmp_path)
    answers, reads = {}, []
    for name in ("main.py", "other.py"):
        surroundings = Surroundings(str(tmp_path / name), (str(tmp_path),), answers=answers)
        assert may_tell(files[name], surroundings)
        reads.append({read.path for read in surroundings.reads})
    assert reads == [{str(tmp_path / "a.py"), str(tmp_path / "b.py")}] * 2


@pytest.mark.parametrize(
    "text_of",
    [
        lambda n: f"x = {'[' * (n // 60)}{']' * (n // 60)}",
        lambda n: f"x = [{'a.b[c](d), ' * n}]",
        lambda n: f"table = make()\ndef f(): {'table.a[0](1)' * n}",
        lambda n: f"table = make()\ndef f(): return table{'.a' * 10 * n}",
        lambda n: f"table = make()\ndef f(): return table{'[' * 10 * n}",
        lambda n: f"x = '''{'a' * 20 * n}",
        lambda n: "@a\n" * n,
        lambda n: "x = (\n" * n,
        lambda n: "import a, " * n,
        lambda n: "from a import (b,\n" * n,
        lambda n: "from a \\\n" * n,
        lambda n: "reimport \\\n" * n,
        lambda n: f"class A({'[b], ' * n}c): pass",
        lambda n: f"class A({'[' * 10 * n}",
        lambda n: f"class A({'{b:' * n}",
    ],
    ids=[
        "nested",
        "data",
        "calls",
        "chained",
        "open",
        "unclosed",
        "decorators",
        "brackets",
        "imports",
        "listed",
        "without end",
        "of other words",
        "bases",
        "unclosed bases",
        "unclosed sets",
    ],
)
def test_odd_texts_are_passed_over_in_time(text_of: Callable[[int], str], tmp_path: Path) -> None:
    def pass_over(text: str) -> None:
        read_index(text)
        read_imports(text)
        told({"main.py": text}, tmp_path)

    assert not grows_faster_than_its_size(pass_over, text_of, 1_000)
