"""Statements that fail for unrelated reasons are skipped, except those that placement may depend on."""

from __future__ import annotations

import ast
import builtins
from textwrap import dedent

import pytest
import torch
from replaying import accused, case_of

from placement_lint.finding import Outcome
from placement_lint.probe.leniency import Leniency
from placement_lint.probe.prober import Prober
from placement_lint.probe.replay import Replayer
from placement_lint.probe.standins.things import StandIn

HEAD = """\
import torch
from torch import nn

device = torch.device("cuda")
net = nn.Linear(4, 2).to(device)
"""

# The number of rows comes out of what fails.
WRONG = {
    "a statement": "rows = int('eight')",
    "an assertion about a version": "assert torch.__version__.split('.')[0] == '1'\nrows = 8",
    "an assertion about data": (
        "import numpy\n\n\ndef count():\n    found = numpy.zeros(3)\n    assert len(found) == 8\n    return 8\n\n\n"
        "rows = count()"
    ),
    "a variable with the name of an attribute": (
        "def count():\n    meta, step = {}, 4\n    meta[step] = meta['rows'] + step\n    return 8\n\n\nrows = count()"
    ),
    "in a function": "def count():\n    found = []\n    number = found[3]\n    return number\n\n\nrows = count()",
    "what a function returns": "def count():\n    return [][0]\n\n\nrows, other = count()",
    "a variable without a value": (
        "def count(kind):\n    if kind == 'none':\n        number = 8\n    return number\n\n\nrows = count('some')"
    ),
    "data": (
        "def batches():\n    yield torch.ones(8, 4)\n    yield torch.stack([torch.ones(4), torch.ones(3)])\n\n\n"
        "for i, batch in enumerate(batches()):\n    rows = len(batch)"
    ),
    "a class": (
        "class Rows:\n    def __init__(self, path):\n        self.count = int(path)\n\n\nrows = Rows('a/b').count"
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_fault_behind_an_error_is_confirmed(name: str, prober: Prober) -> None:
    case = case_of(f"{HEAD}{WRONG[name]}\nnet(torch.randn(rows, 4))\n", "DPL503")
    verdict, script = Replayer(prober).replayed(case)
    assert verdict.outcome is Outcome.CONFIRMED, verdict.observed
    assert "with stand-ins for `" in verdict.observed
    assert script is not None
    assert script.lenient


def test_an_option_names_one_of_several(prober: Prober) -> None:
    text = (
        "import argparse\n\nparser = argparse.ArgumentParser()\nparser.add_argument('--kind', required=True)\n"
        "args = parser.parse_args()\nrows = {'first': 8, 'second': 9}[args.kind]\nassert args.kind == 'first'\n"
    )
    verdict, _ = Replayer(prober).replayed(case_of(f"{HEAD}{text}net(torch.randn(rows, 4))\n", "DPL503"))
    assert verdict.outcome is Outcome.CONFIRMED, verdict.observed


# Each follows a statement that is passed over, and makes the CPU tensor right, or would if it did not fail.
RIGHT = {
    "moved by what fails": "def load(x):\n    x = x.to(device)\n    return x, [][0]\n\n\nx = load(x)[0]",
    "moved behind what fails": "def load(x):\n    rows = {}['rows']\n    return x.to(device)\n\n\nx = load(x)",
    "moved by a function of a table": (
        "def move(x):\n    return x.cuda()\n\n\ntable = {'first': move}\nx = [table['second'], table['first']][0](x)"
    ),
    "moved by a method": ("class Mover:\n    def __call__(self, x):\n        return x.cuda()\n\n\nx = [Mover()][1](x)"),
    "moved by what handles the error": "try:\n    x = [x][1]\nexcept IndexError:\n    x = x.cuda()",
    "moved by what handles the error of a function": (
        "def second(rows):\n    return rows[1]\n\n\ntry:\n    x = second([x])\nexcept IndexError:\n    x = x.cuda()"
    ),
    "moved in the end": "try:\n    rows = [][0]\nexcept IndexError:\n    pass\nfinally:\n    x = x.cuda()",
    "taken from a tensor on the GPU": "y = torch.randn(8, 4).cuda()\nx = [y, x, y][7]",
    "taken from an object": (
        "class Box:\n    def __init__(self):\n        self.kept = torch.randn(8, 4).cuda()\n        self.rows = [1]\n\n"
        "    def take(self):\n        return [self.kept][len(self.rows)]\n\n\nbox = Box()\nx = box.take()"
    ),
    "moved by a function that has another name": (
        "def move(x):\n    return x.cuda()\n\n\nplain = move\nx = [plain(one) for one in [x]][1]"
    ),
    "moved under the name of a variable": "from torch import Tensor as T\n\nstep = T.cuda\nx = [step(x)][1]",
    "moved by an object": (
        "class Mover:\n    def __call__(self, x):\n        return x.cuda()\n\n\nmover = Mover()\nx = [mover(x)][1]"
    ),
    "moved under another name": ("from torch import Tensor as T\n\nmove = T.cuda\nx = [move(x)][1]"),
    "a default device under another name": (
        "from torch import set_default_device as prefer\n\nprefer('cu' + 'da', [][0])\nx = torch.randn(8, 4)"
    ),
    "a layer that is changed under another name": (
        "import torch.nn as layers\n\n\ndef prepare():\n    layers.Linear.forward = lambda self, x: x\n    return [][0]"
        "\n\n\nprepare()"
    ),
    "the network is changed": "def prepare(module):\n    raise ValueError\n\n\nprepare(net)\nnet.cpu()",
    "the network is moved back by what fails": "def prepare(part):\n    part.cpu()\n    return [][0]\n\n\nprepare(net)",
    "the script ends": "if not x.is_cuda:\n    raise ValueError(x)",
    "a function ends it": "def check(x):\n    if not x.is_cuda:\n        raise ValueError(x)\n\n\ncheck(x)",
    "an attribute that is asked for": (
        "class Batch:\n    def __init__(self, x):\n        self.x = x\n\n    def __getattr__(self, name):\n"
        "        return {}[name] if name != 'moved' else self.none.value\n\n\n"
        "class Kept(dict):\n    def __missing__(self, key):\n        raise KeyError(key)\n\n\n"
        "x = x.cuda() if not hasattr(Batch(x), 'moved') else Kept()['x']"
    ),
    "a default device": "torch.set_default_device('cuda')\nrows = [][0]\nx = torch.randn(8, 4)",
}


@pytest.mark.parametrize("name", RIGHT)
def test_no_right_program_is_confirmed(name: str, prober: Prober) -> None:
    text = f"{HEAD}rows = int('eight')\nx = torch.randn(rows, 4)\n{RIGHT[name]}\nnet(x)\n"
    verdict, script = Replayer(prober).replayed(
        accused(dedent(text), "net(x)", "net(x.to(next(net.parameters()).device))")
    )
    assert verdict.outcome is not Outcome.CONFIRMED, verdict.observed
    assert script is None


def test_a_program_whose_errors_are_passed_over_is_not_refuted(prober: Prober) -> None:
    text = f"{HEAD}rows = int('eight')\nx = torch.randn(rows, 4).to(device)\nnet(x)\n"
    verdict, _ = Replayer(prober).replayed(accused(text, "net(x)", "net(x.to(device))"))
    assert verdict.outcome is Outcome.INCONCLUSIVE, verdict.observed


def test_the_error_of_a_finding_is_not_passed_over(prober: Prober) -> None:
    text = """
    import torch

    rows = int("eight")
    data = torch.utils.data.TensorDataset(torch.ones(8, 4))
    sampler = torch.utils.data.RandomSampler(data)
    loader = torch.utils.data.DataLoader(data, sampler=sampler, shuffle=True)
    """
    verdict, _ = Replayer(prober).replayed(case_of(dedent(text), "DPL604"))
    assert verdict.outcome is Outcome.CONFIRMED, verdict.observed


@pytest.mark.parametrize("text", ["assert count == 9", "assert name == 'a'", "assert not torch or count == 9"])
def test_an_assertion_about_values_is_not_passed_over(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    leniency = Leniency((), (), ())
    monkeypatch.setattr(builtins, "__stand_in__", StandIn, raising=False)
    monkeypatch.setattr(builtins, "__may_pass__", leniency.may_pass, raising=False)
    code = compile(leniency.lenient(ast.parse(text)), "program", "exec")
    with pytest.raises(AssertionError):
        exec(code, {"count": 1, "name": "b", "torch": torch})


LATE = """
import torch
from torch import nn

net = nn.Linear(8, 2).cuda()
for _ in range(10**9):
    out = net(torch.randn(4, 8))
    while True:
        pass
"""


def test_a_control_that_does_not_end_goes_on_from_the_finding(prober: Prober) -> None:
    verdict, _ = Replayer(prober).replayed(case_of(LATE, "DPL503"))
    assert verdict.outcome is Outcome.CONFIRMED, verdict.observed
    assert "repaired: no error there, and later did not end" in verdict.observed
