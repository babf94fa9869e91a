"""Values that contain themselves, grow without end or make no sense become unknown, and the analysis continues."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from placement_lint.checking.checker import Checker, Job, Reading
from placement_lint.config.settings import Settings
from placement_lint.flow.api.bounds import LONGEST_TEXT, WIDEST_INTEGER
from placement_lint.flow.domain import folding
from placement_lint.flow.domain.values import Const
from placement_lint.source.parsing import parse

BEFORE = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

model = nn.Linear(2, 2)
"""
# A finding in the last line shows that the code before it does not end the analysis.
AFTER = "last = torch.zeros(3)\nlast.to('cuda')\n"
SECONDS = 2.0


class WithAllLayout(Reading):
    read = staticmethod(parse)  # type: ignore[assignment]


def check(program: str, reading: Reading | None = None) -> list[str]:
    text = BEFORE + program + "\n" + AFTER
    begun = time.process_time()
    checked = Checker(Job(Settings(root=Path.cwd())), reading).check_bytes(text.encode(), "train.py")
    assert checked.crashes == ()
    assert time.process_time() - begun < SECONDS
    return [f"{finding.range.line} {finding.name}" for finding in checked.findings]


PROGRAMS = {
    "a list in itself": "l = []\nl.append(l)\ntorch.stack(l)\nmodel.held = l\nmodel.to('cuda')\nnn.Sequential(*l)",
    "a list in its tuple": "l = []\nl.append((l, 1))\ntorch.stack(l)\nfor x in l: print(x)",
    "a dict in itself": "d = {}\nd['a'] = d\nd.update(d)\nd.setdefault('b', d)\nmodel(d)\ntorch.save(d, 'x')",
    "a list by item": "l = [1]\nl[0] = l\ntorch.cat(l)\nl += l\nl.extend(l)",
    "lists in each other": "a, b = [], []\na.append(b)\nb.append(a)\ntorch.cat(a)\nmodel.kept = [a, b]\nmodel.cuda()",
    "a module in itself": "model.inner = model\nmodel.to('cuda')\nlist(model.modules())\nnn.DataParallel(model)(model)",
    "bases of each other": "class A(nn.Module): pass\nclass B(A): pass\nclass A(B): pass\nA().to('cuda')\nB()(A())",
    "doubled text": "x = 'ab'\n" + "x = x + x\n" * 60 + "x = '%s' % x",
    "replaced text": "x = 'ab'\n" + "x = x.replace('a', x)\n" * 60,
    "formatted text": "x = 'ab'\n" + "x = f'{x}'\nx = '{0}{0}'.format(x)\n" * 60,
    "squared numbers": "x = 3\n" + "x = x * x\n" * 60 + "torch.zeros(x)",
    "doubled lists": "x = [1, 2]\n" + "x = x + x\n" * 60 + "torch.stack(x)",
    "extended lists": "x = [1, 2]\n" + "x.extend(x)\n" * 60 + "torch.stack(x)",
    "unpacked lists": "x = [1, 2]\n" + "x = [*x, *x]\n" * 60 + "torch.stack(x)\nprint(*x, *x)",
    "a place of a place": "a, b = model(x)\nb = b.mean" + ".to(device)" * 180 + "\nb.to(device)",
    "parts of parts": "while x:\n    x" + ".to(device).x" * 200,
    "repeated choices": "if cuda:\n    model = model.cuda()\n" * 200,
    "nested tuples": "x = (1, 2)\n" + "x = (x, x)\n" * 60 + "if x == (x, x): print(x)",
    "nested lists": "x = [1, 2]\n" + "x = [x, x]\n" * 60 + "model.x = x\nmodel.to('cuda')\nmodel(x)",
    "nested dicts": "x = {}\n" + "x = {'a': x, 'b': x}\n" * 60 + "model(x)",
    "zipped lists": "x = [1, 2]\n" + "x = list(zip(x, x))\n" * 60 + "model(x)",
    "arguments": "def f(*a): return a\nx = 1\n" + "x = f(x, x)\n" * 60 + "model(x)",
    "deep lists": "x = []\n" + "x = [x]\n" * 2000 + "model(x)",
    "nested ranges": "x = 0\n" + "".join(f"{' ' * i}for v{i} in range(20):\n" for i in range(6)) + "      x = x + v1",
    "nested rows": "r = [[1, 2], [3, 4], [5, 6]]\n"
    + "".join(f"{' ' * i}for v{i} in r:\n" for i in range(9))
    + "         if v1[0] in v2: r.append(v3)",
    "a step of 0": "for i in range(0, 3, 0): torch.zeros(i)\nrange()\nrange(1, 2, 3, 4)",
    "a huge range": "for i in range(10**20): torch.zeros(i)\nfor i in range(99999999999999999999999): pass",
    "no batch": "for (x,) in DataLoader(TensorDataset(torch.zeros(3, 3)), batch_size=0): x.cuda()",
    "a wide number": "x = 0x" + "f" * 50_000 + "\nstr(x)\nf'{x}'\n'%d' % x\n'{}'.format(x)\nx * 1.0\n-x",
    "odd numbers": "int('²')\nint('--1')\nint(1e999)\n1e308 * 10\nfloat('a')\nfloat(None)\n'a'.find('b', 10**30)",
    "a return outside": "return 'text'",
    "a return in a class": "class A(nn.Module):\n    return 'text'\n    def forward(self, x):\n        return 'a'",
}


@pytest.mark.parametrize("reading", [Reading, WithAllLayout])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_value_is_given_up(name: str, reading: type[Reading]) -> None:
    program = PROGRAMS[name]
    last = (BEFORE + program + "\n" + AFTER).count("\n")
    found = check(program, reading())
    assert program.startswith("return") or f"{last} move-result-discarded" in found


@pytest.mark.parametrize("literal", ["0", "1", "0x1f"])
def test_what_is_known_before_is_known_after(literal: str) -> None:
    """A list that also contains itself still holds the tensor."""
    program = f"l = [torch.zeros(3, device='cuda:{int(literal, 0) % 2}')]\nl.append(l)\ntorch.zeros(3) + l[{literal}]"
    assert check(program) == check(program.replace("\nl.append(l)", "\nl.append(1)"))


@pytest.mark.parametrize(
    ("text", "values", "made"),
    [
        ("cuda:{}", [1], "cuda:1"),
        ("{1}{0}", ["a", 2], "2a"),
        ("{:>5}|{!r:4}", ["a", "b"], "    a|'b' "),
        ("{{}}{}", [1.5], "{}1.5"),
        ("{0.real}", [1], None),
        ("{0[0]}", ["a"], None),
        ("{0.__class__.__init__}", ["a"], None),
        ("{:>10}", [None], None),
        ("{:2000000000}", [1], None),
        ("{:.2000000000f}", [1.0], None),
        ("{:{}}", [1, 2_000_000_000], None),
        ("{}{0}", [1], None),
        ("{a}", [1], None),
        ("{-1}", [1], None),
        ("{", [1], None),
        ("{}", [], None),
        ("{:1000}" * 20, [1] * 20, None),
    ],
)
def test_format(text: str, values: list[object], made: str | None) -> None:
    assert folding.formatted(text, values) == (None if made is None else Const(made))


@pytest.mark.parametrize(
    ("left", "symbol", "right", "result"),
    [
        ("cuda:%d", "%", 1, "cuda:1"),
        ("%2000000000d", "%", 1, None),
        ("%.2000000000f", "%", 1, None),
        ("%*d", "%", 1, None),
        ("%d", "%", "a", None),
        ("a", "+", "b", "ab"),
        ("a" * LONGEST_TEXT, "+", "b", None),
        ("a", "*", 2**62, None),
        (2**WIDEST_INTEGER - 1, "+", 1, None),
        (2**WIDEST_INTEGER, "-", 1, None),
        (2, "*", 3.5, 7.0),
        (10**400, "*", 1.0, None),
        (1, "+", "a", None),
        (2, "**", 10**9, None),
        (1, "<<", 10**9, None),
    ],
)
def test_arithmetic(left: object, symbol: str, right: object, result: object) -> None:
    assert folding.arithmetic(left, symbol, right) == (None if result is None else Const(result))


@pytest.mark.parametrize(
    ("kind", "value", "result"),
    [
        ("int", " 12 ", 12),
        ("int", "1_0", 10),
        ("int", "²", None),
        ("int", "1" * 5000, None),
        ("int", 2.5, 2),
        ("int", float("inf"), None),
        ("float", "1", 1.0),
        ("float", 10**400, None),
        ("str", 1.5, "1.5"),
        pytest.param("str", 10**5000, None, id="a wide number"),
        ("bool", "", False),
    ],
)
def test_conversions(kind: str, value: object, result: object) -> None:
    assert folding.converted(kind, value) == (None if result is None else Const(result))


@pytest.mark.parametrize(
    ("written", "place"),
    [
        ("f'cuda:{1}'", "cuda:1"),
        ("f'cu' 'da:' f'{1}'", "cuda:1"),
        ("f'cud\\x61:{1}'", "cuda:1"),
        ("rf'cuda:{1}'", "cuda:1"),
        ("'cuda:{}'.format(1)", "cuda:1"),
        ("'cuda:%d' % 1", "cuda:1"),
        ("'CUDA:1'.lower()", "cuda:1"),
        ("'cuda:' + str(int('1'))", "cuda:1"),
    ],
)
@pytest.mark.parametrize("reading", [Reading, WithAllLayout])
def test_devices_by_computed_names(written: str, place: str, reading: type[Reading]) -> None:
    program = f"torch.zeros(3, device='cuda:0') + torch.zeros(3, device={written})"
    assert check(program, reading())[0] == check(program.replace(written, repr(place)), reading())[0]
