"""Which definitions of other files may involve tensors."""

from __future__ import annotations

from pathlib import Path

import pytest

from placement_lint.project.finder import Surroundings
from placement_lint.project.index import Lines
from placement_lint.project.relevance import Relevance


def matters(folder: Path, name: str, **files: str) -> bool:
    """Whether the definition of that name in ``helpers.py`` may involve tensors."""
    for file, text in files.items():
        path = folder / f"{file.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    surroundings = Surroundings(str(folder / "main.py"), (str(folder),))
    unit = surroundings.unit(str(folder / "helpers.py"))
    assert unit is not None
    (lines,) = (binding for binding in unit.index.bindings[name] if isinstance(binding, Lines))
    return Relevance(surroundings).matters(unit, lines)


@pytest.mark.parametrize(
    "body",
    [
        "return x.to(d)",
        "return x.cuda()",
        "return move(x, device=d)",
        "return os.environ['LOCAL_RANK']",
        "return nn.Linear(3, 3)",
        "import torch\n    return torch.zeros(3)",
        "return DataParallel(x)",
        "return x.distributed",
    ],
)
def test_words_of_devices_and_libraries_for_tensors_matter(tmp_path: Path, body: str) -> None:
    head = "import os\nfrom torch import nn\nfrom torch.nn import DataParallel\nfrom other import move\n\n"
    assert matters(tmp_path, "helper", helpers=f"{head}def helper(x, d):\n    {body}\n")


@pytest.mark.parametrize(
    "body",
    [
        "return x.strip()",
        "return json.dumps(x)",
        "return [helper(each) for each in x]",
        "return {'faiss': ('faiss-gpu', 'faiss-cpu'), 'tf': ('tensorflow', 'tf-nightly-gpu')}[x]",
    ],
)
def test_plain_code_does_not(tmp_path: Path, body: str) -> None:
    text = f"import json\nimport torch\n\ndef helper(x):\n    '''Puts x on a GPU or not.'''\n    {body}\n"
    assert not matters(tmp_path, "helper", helpers=text)


def test_what_a_name_leads_to_in_other_files_counts(tmp_path: Path) -> None:
    helper = "from steps import last\n\ndef helper(x):\n    return last(x)\n"
    steps = "from inner.moves import *\n\ndef last(x):\n    return put(x)\n"
    assert matters(tmp_path, "helper", helpers=helper, steps=steps, inner__moves="def put(x):\n    return x.cuda()\n")


def test_what_a_module_is_asked_for_counts(tmp_path: Path) -> None:
    helper = "import steps\n\ndef helper(x):\n    return steps.{}(x)\n"
    steps = "def put(x):\n    return x.cuda()\n\ndef keep(x):\n    return x\n"
    assert matters(tmp_path, "helper", helpers=helper.format("put"), steps=steps)
    assert not matters(tmp_path, "helper", helpers=helper.format("keep"), steps=steps)


def test_a_module_is_asked_by_each_definition(tmp_path: Path) -> None:
    helper = (
        "import steps\n\ndef helper(x):\n    return other(steps.keep(x))\n\ndef other(x):\n    return steps.put(x)\n"
    )
    steps = "def put(x):\n    return x.cuda()\n\ndef keep(x):\n    return x\n"
    assert matters(tmp_path, "helper", helpers=helper, steps=steps)


def test_what_leads_into_very_many_files_is_taken_to_matter(tmp_path: Path) -> None:
    files = {f"part{number}": f"from part{number + 1} import last\n" for number in range(80)}
    helper = "from part0 import last\n\ndef helper(x):\n    return last(x)\n"
    assert matters(tmp_path, "helper", helpers=helper, part80="def last(x):\n    return x\n", **files)


def test_only_files_with_the_word_are_looked_into_for_a_starred_name(tmp_path: Path) -> None:
    files = {f"part{number}": f"def keep_{number}(x):\n    return x.cuda()\n" for number in range(80)}
    helper = (
        "".join(f"from part{number} import *\n" for number in range(80))
        + "\ndef helper(given):\n    return kept(given)\n"
    )
    assert not matters(tmp_path, "helper", helpers=helper, **files)


def test_files_that_bring_each_other_by_star_end(tmp_path: Path) -> None:
    files = {f"part{number}": "".join(f"from part{other} import *\n" for other in range(9)) for number in range(9)}
    helper = "from part0 import *\n\ndef helper(x):\n    return missing(x) + absent(x)\n"
    assert not matters(tmp_path, "helper", helpers=helper, **files)
