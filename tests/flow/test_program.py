"""The flow analysis on small programs: the values that it follows, and the conditions of its findings."""

from __future__ import annotations

from textwrap import dedent

import libcst as cst
import pytest

from placement_lint import registry
from placement_lint.checking.listen import problems_in

HEAD = """\
import torch
import torch.nn as nn
from torch.nn import functional as F
"""


def findings(body: str) -> list[str]:
    """The names of the rules with findings in a program, in the order of their codes."""
    return [rule.name for rule, _ in _heard(body)]


def messages(body: str) -> list[str]:
    return [problem.message for _, problem in _heard(body)]


def _heard(body: str):  # type: ignore[no-untyped-def]
    hearing = problems_in(cst.parse_module(HEAD + dedent(body)), registry.select((), ()))
    assert not hearing.crashes
    return sorted(hearing.problems, key=lambda heard: heard[0].code)


MISMATCH = ["operand-not-moved"]

# Different ways to make ``a`` a CPU tensor and ``b`` a tensor on cuda:0; ``a + b`` must have a finding.
WAYS_TO_MIX = {
    "names": "a, b = torch.ones(3), torch.ones(3).cuda()",
    "alias": "a = torch.ones(3); c = a; b = c.cuda()",
    "chained assignment": "a = c = torch.ones(3); b = c.to('cuda:0')",
    "walrus": "b = (a := torch.ones(3)).cuda()",
    "star": "a, *rest = [torch.ones(3)]; b = a.cuda()",
    "dict": "d = {'x': torch.ones(3)}; a = d['x']; b = d['x'].cuda()",
    "dict.get": "d = dict(x=torch.ones(3)); a = d.get('x'); b = a.cuda()",
    "list": "l = [torch.ones(3), torch.ones(3).cuda()]; a, b = l[0], l[-1]",
    "append": "l = []; l.append(torch.ones(3)); a = l[0]; b = a.cuda()",
    "comprehension": "l = [torch.ones(n) for n in (3, 3)]; a = l[0]; b = [t.cuda() for t in l][0]",
    "dict comprehension": "d = {k: torch.ones(3).cuda() for k in ('p', 'q')}; a = torch.ones(3); b = d['p']",
    "lambda": "f = lambda t: t.cuda(); a = torch.ones(3); b = f(a)",
    "default argument": "def f(t, d='cuda'): return t.to(d)\na = torch.ones(3); b = f(a)",
    "keyword arguments": "def f(*, t, d): return t.to(device=d)\na = torch.ones(3); b = f(d='cuda', t=a)",
    "star arguments": "def f(*ts): return ts[0].cuda()\na = torch.ones(3); b = f(*[a])",
    "double star": "kw = {'device': 'cuda'}; a = torch.ones(3); b = torch.ones(3, **kw)",
    "closure": "def outer(d):\n    def f(t): return t.to(d)\n    return f\na = torch.ones(3); b = outer('cuda')(a)",
    "partial": "from functools import partial\na = torch.ones(3); b = partial(torch.ones, device='cuda')(3)",
    "global": "a = None\ndef f():\n    global a\n    a = torch.ones(3)\nf(); b = a.cuda()",
    "decorated": "@torch.no_grad()\ndef f(t): return t.cuda()\na = torch.ones(3); b = f(a)",
    "method": "class C:\n    def f(self, t): return t.cuda()\na = torch.ones(3); b = C().f(a)",
    "attribute": "class C:\n    def __init__(self): self.t = torch.ones(3)\nc = C(); a = c.t; b = c.t.cuda()",
    "property": "class C:\n    @property\n    def t(self): return torch.ones(3)\na = C().t; b = a.cuda()",
    "static method": "class C:\n    @staticmethod\n    def f(t): return t.cuda()\na = torch.ones(3); b = C.f(a)",
    "inherited": "class B:\n    def f(self, t): return t.cuda()\nclass C(B): pass\na = torch.ones(3); b = C().f(a)",
    "super": "class B:\n    def __init__(self, d): self.d = d\n"
    "class C(B):\n    def __init__(self): super().__init__('cuda')\n"
    "a = torch.ones(3); b = a.to(C().d)",
    "with": "import contextlib\nwith torch.no_grad() as g:\n    a = torch.ones(3)\nb = a.cuda()",
    "try": "try:\n    a = torch.ones(3)\nexcept RuntimeError:\n    raise\nb = a.cuda()",
    "match": "match 'x':\n    case 'x':\n        a = torch.ones(3)\nb = a.cuda()",
    "loop": "for _ in range(2):\n    a = torch.ones(3)\nb = a.cuda()",
    "generator": "def g():\n    yield torch.ones(3)\nfor a in g():\n    b = a.cuda()",
    "zip": "for a, b in zip([torch.ones(3)], [torch.ones(3).cuda()]):\n    pass",
    "enumerate": "for i, a in enumerate([torch.ones(3)]):\n    b = a.cuda()",
    "device object": "d = torch.device('cuda', 0); a = torch.ones(3); b = a.to(d)",
    "device of a tensor": "c = torch.ones(3).cuda(); a = torch.ones(3); b = a.to(c.device)",
    "like": "c = torch.ones(3).cuda(); a = torch.ones(3); b = torch.zeros_like(c)",
    "new": "c = torch.ones(3).cuda(); a = torch.ones(3); b = c.new_zeros(3)",
    "f-string": "k = 0; a = torch.ones(3); b = a.to(f'cuda:{k}')",
    "current device": "torch.cuda.set_device(0); a = torch.ones(3); b = a.cuda()",
    "default device": "torch.set_default_device('cuda'); b = torch.ones(3); a = b.cpu()",
    "device context": "with torch.device('cuda'):\n    b = torch.ones(3)\na = torch.ones(3)",
    "import as": "from torch import ones as make\na = make(3); b = a.cuda()",
    "import torch as": "import torch as th\na = th.ones(3); b = a.cuda()",
    "star import": "from torch import *\na = ones(3); b = a.cuda()",
    "conditional import": "try:\n    from torch import ones\nexcept ImportError:\n    ones = None\n"
    "a = ones(3); b = a.cuda()",
    "getattr": "class C: pass\nc = C(); setattr(c, 't', torch.ones(3)); a = getattr(c, 't'); b = a.cuda()",
    "dataclass": "from dataclasses import dataclass\n@dataclass\nclass Config:\n    device: str = 'cuda'\n"
    "a = torch.ones(3); b = a.to(Config().device)",
}


@pytest.mark.parametrize("program", WAYS_TO_MIX.values(), ids=WAYS_TO_MIX)
def test_values_are_followed(program: str) -> None:
    assert findings(f"{program}\nc = a + b\n") == MISMATCH


# Expressions that mix a CPU tensor with one on a GPU as PyTorch allows, or with one on an unknown device.
ALLOWED = {
    "0-dim on the CPU": "torch.ones(3).cuda() * torch.tensor(2.0)",
    "a number": "torch.ones(3).cuda() + 1",
    "a CPU index": "torch.ones(3).cuda()[torch.arange(2)]",
    "copy_": "torch.ones(3).cuda().copy_(torch.ones(3))",
    "unknown size": "torch.ones(3).cuda() + torch.tensor(data)",
    "unknown device": "torch.ones(3, device=args.device) + torch.ones(3)",
    "unknown call": "load() + torch.ones(3).cuda()",
    "the same unknown device": "torch.ones(3).to(device) + torch.ones(3, device=device)",
    "index-less and zero": "torch.ones(3).to('cuda') + torch.ones(3).to('cuda:0')",
}


@pytest.mark.parametrize("expression", ALLOWED.values(), ids=ALLOWED)
def test_what_pytorch_allows_or_nobody_knows_is_silent(expression: str) -> None:
    assert findings(f"result = {expression}\n") == []


def test_the_same_flag_at_both_ends_is_silent() -> None:
    program = """
    a, b = torch.ones(3), torch.ones(3)
    if args.cuda:
        a = a.cuda()
    if not args.cuda:
        pass
    else:
        b = b.cuda()
    c = a + b
    """
    assert findings(program) == []


def test_different_flags_are_no_finding() -> None:
    program = """
    a, b = torch.ones(3), torch.ones(3)
    if args.left:
        a = a.to(torch.device("cuda"))
    if args.right:
        b = b.to(torch.device("cuda"))
    c = a + b
    """
    assert findings(program) == []


def test_the_condition_is_said() -> None:
    program = """
    a, b = torch.ones(3), torch.ones(3)
    if args.half_moved:
        a = a.to(torch.device("cuda"))
    c = a + b
    """
    (message,) = messages(program)
    assert "when `args.half_moved` is true" in message


def test_a_choice_of_device_counts_on_machines_with_a_gpu() -> None:
    program = """
    device = "cuda" if torch.cuda.is_available() else "cpu"
    c = torch.ones(3).to(device) + torch.ones(3)
    """
    (message,) = messages(program)
    assert "on a machine with a GPU" in message


def test_after_an_early_exit_the_rest_is_on_the_other_path() -> None:
    program = """
    import sys
    if not torch.cuda.is_available():
        sys.exit("needs a GPU")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    c = torch.ones(3).to(device) + torch.ones(3)
    """
    (message,) = messages(program)
    assert "with a GPU" not in message


def test_a_second_index_needs_a_second_gpu() -> None:
    program = """
    if torch.cuda.device_count() < 2:
        a = torch.ones(3).to("cuda:1") + torch.ones(3)
    """
    assert findings(program) == []


def test_recursion_ends() -> None:
    assert findings("def f(t, n): return t if n == 0 else f(t.cuda(), n - 1)\nx = f(torch.ones(3), 10)\n") == []


def test_a_function_nobody_calls_is_looked_at() -> None:
    assert findings("def f():\n    return torch.ones(3) + torch.ones(3).cuda()\n") == MISMATCH


def test_a_helper_is_judged_at_the_call_that_satisfies_it() -> None:
    program = """
    def add(a, b):
        return a + b
    add(torch.ones(3), torch.ones(3))
    add(torch.ones(3), torch.ones(3).cuda())
    """
    assert findings(program) == MISMATCH


def test_the_work_is_bounded() -> None:
    branches = "".join(f"if flag{n}:\n    x = x.to(d{n})\n" for n in range(60))
    calls = "".join(f"def f{n}(t): return f{n + 1}(t) + f{n + 1}(t)\n" for n in range(40))
    assert findings(f"x = torch.ones(3)\n{branches}{calls}def f40(t): return t\ny = f0(x)\n") == []


def test_a_buffer_object_is_registered() -> None:
    program = """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.bias = nn.Buffer(torch.zeros(3))
            self.fc = nn.Linear(3, 3)

        def forward(self, x):
            return self.fc(x) + self.bias
    """
    assert findings(program) == []


def test_the_question_of_a_match_is_worded() -> None:
    program = """
    match mode:
        case "gpu":
            a = torch.ones(3).to(torch.device("cuda"))
        case _:
            a = torch.ones(3)
    a + torch.ones(3)
    """
    (message,) = messages(program)
    assert 'when `mode == "gpu"` is true' in message


def test_a_key_with_an_equals_sign_stands_in_the_advice() -> None:
    [told] = messages("parts = {'k=v': nn.Linear(2, 2)}\nparts['k=v'].requires_grad = False")
    assert told.startswith("`parts['k=v'].requires_grad = False` only sets an attribute of the module")
    assert told.endswith("call `parts['k=v'].requires_grad_(False)`")


@pytest.mark.parametrize("context", ["torch.device('cuda')", "tc.device('cuda')", "place('cuda')"])
def test_a_context_is_known_by_what_it_is_not_by_its_spelling(context: str) -> None:
    imports = "import torch as tc\nfrom torch import device as place\n"
    assert findings(f"{imports}with {context}:\n    a = torch.ones(3)\nprint(a + torch.ones(3))") == MISMATCH


def test_a_test_that_is_known_roughly_makes_nothing_certain() -> None:
    body = """
        from elsewhere import Other, datasets, noise, opt

        class Net(nn.Module):
            def __init__(self):
                self.main = nn.Linear(3, 1)

            def forward(self, x):
                if isinstance(x.data, torch.cuda.FloatTensor) and self.ngpu > 1:
                    return nn.parallel.data_parallel(self.main, x, range(self.ngpu))
                return self.main(x)

        if opt.dataset in ["imagenet", "folder"]:
            dataset = datasets.ImageFolder(opt.root)
        elif opt.dataset == "cifar10":
            dataset = datasets.CIFAR10(opt.root)
        assert dataset
        if opt.plain:
            maker = Net()
        else:
            maker = Other()
        if opt.flat:
            judge = Net()
        if opt.cuda:
            judge.cuda()
            maker.cuda()
        for epoch in range(3):
            judge(maker(noise))
    """
    assert findings(body) == []


@pytest.mark.parametrize(
    ("value", "kind", "found"),
    [("True", "int", MISMATCH), ("1", "bool", []), ("'1'", "int", []), ("1", "int", MISMATCH)],
)
def test_a_bool_is_an_int(value: str, kind: str, found: list[str]) -> None:
    assert findings(f"a = torch.ones(3)\nif isinstance({value}, {kind}):\n    a + a.cuda()") == found
