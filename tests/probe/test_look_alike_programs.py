"""Correct programs that look wrong without one of their statements: no slice omits it, and none is confirmed."""

from __future__ import annotations

from textwrap import dedent

import pytest
from replaying import OnlySlices, accused

from placement_lint.finding import Outcome
from placement_lint.probe.prober import Prober
from placement_lint.probe.replay import Replayer

HEAD = """\
import sys
import torch
from torch import nn

device = torch.device("cuda")


def mover(module, args):
    return tuple(one.to(device) for one in args)


"""

# What makes a CPU tensor right for a network on the GPU, and the words by which a slice is known to have it.
INPUT_MOVED = {
    "hook": ("net.register_forward_pre_hook(mover)", "pre_hook(mover)"),
    "kept handle": ("handle = net.register_forward_pre_hook(mover)", "pre_hook(mover)"),
    "decorator": (
        "@net.register_forward_pre_hook\ndef sent(module, args):\n    return mover(module, args)",
        "@net.register",
    ),
    "hook on each part": ("for part in net.modules():\n    part.register_forward_pre_hook(mover)", "in net.modules()"),
    "comprehension": ("[part.register_forward_pre_hook(mover) for part in net.modules()]", "in net.modules()"),
    "asked by its name": ("getattr(net, 'register_forward_pre_hook')(mover)", "getattr(net"),
    "applied": ("net.apply(lambda part: part.register_forward_pre_hook(mover))", "net.apply("),
    "other name": ("same = net\nsame.register_forward_pre_hook(mover)", "same.register"),
    "in a list": ("nets = [net]\nnets[0].register_forward_pre_hook(mover)", "nets[0].register"),
    "in a container": (
        "both = nn.ModuleDict(dict(a=net))\nboth['a'].register_forward_pre_hook(mover)",
        "both['a'].reg",
    ),
    "own function": (
        "def prepare(module):\n    print('preparing')\n    module.register_forward_pre_hook(mover)\n\n\nprepare(net)",
        "prepare(net)",
    ),
    "own class": (
        dedent(
            """\
            class Setup:
                def __init__(self, net):
                    self.net = net

                def hook(self):
                    self.net.register_forward_pre_hook(mover)


            setup = Setup(net)
            setup.hook()"""
        ),
        "setup.hook()",
    ),
    "global hook": ("nn.modules.module.register_module_forward_pre_hook(mover)", "register_module_forward_pre_hook("),
    "imported global hook": (
        "from torch.nn.modules.module import register_module_forward_pre_hook as on_all\non_all(mover)",
        "on_all(mover)",
    ),
    "forward set": (
        "plain = net.forward\nsetattr(net, 'forward', lambda x: plain(x.to(device)))",
        "setattr(net",
    ),
    "forward assigned": ("plain = net.forward\nnet.forward = lambda x: plain(x.to(device))", "net.forward = "),
    "forward in the dict": ("plain = net.forward\nvars(net)['forward'] = lambda x: plain(x.to(device))", "vars(net)["),
    "class patched": (
        "plain = nn.Linear.forward\nnn.Linear.forward = lambda self, x: plain(self, x.to(device))",
        "nn.Linear.forward = ",
    ),
    "data moved": ("x.data = x.data.to(device)", "x.data = "),
    "data moved in a loop": ("for part in [x]:\n    part.data = part.data.to(device)", "part.data = "),
    "set in place": ("x.set_(x.to(device)) if False else setattr(x, 'data', x.cuda())", "setattr(x"),
    "one line": ("if x.numel(): x.data = x.cuda()", "x.data = "),
    "behind a semicolon": ("rows = len(x); x.data = x.cuda()", "x.data = "),
    "network moved back": ("net.cpu()", "net.cpu()"),
    "network moved back part by part": ("for p in net.parameters():\n    p.data = p.data.cpu()", "p.data = "),
    "network moved back by map": ("list(map(lambda part: part.cpu(), net.children()))", "net.children()"),
    "script ended": ("if not x.is_cuda: sys.exit()", "sys.exit()"),
    "script ended by an exception": ("if not x.is_cuda:\n    raise SystemExit", "raise SystemExit"),
}
TENSOR_ON_GPU = {
    "default device": ("torch.set_default_device('cuda')", "set_default_device("),
    "default device in a function": (
        "def setup():\n    torch.set_default_device('cuda')\n\n\nsetup()",
        "setup()",
    ),
    "default type": ("torch.set_default_tensor_type('torch.cuda.FloatTensor')", "set_default_tensor_type("),
    "context entered": ("torch.device('cuda').__enter__()", "__enter__()"),
    "factory patched": (
        "import functools\ntorch.randn = functools.partial(torch.randn, device='cuda')",
        "torch.randn = ",
    ),
    "factory patched by setattr": (
        "plain = torch.randn\nsetattr(torch, 'randn', lambda *size: plain(*size).cuda())",
        "setattr(torch",
    ),
}
PROGRAMS = {
    **{
        name: (f"net = nn.Sequential(nn.Linear(4, 2)).to(device)\nx = torch.randn(8, 4)\n{statement}\nnet(x)\n", kept)
        for name, (statement, kept) in INPUT_MOVED.items()
    },
    **{
        name: (f"net = nn.Linear(4, 2).to(device)\n{statement}\nx = torch.randn(8, 4)\nnet(x)\n", kept)
        for name, (statement, kept) in TENSOR_ON_GPU.items()
    },
    "context": (
        "net = nn.Linear(4, 2).to(device)\nwith torch.device('cuda'):\n    x = torch.randn(8, 4)\nnet(x)\n",
        "with torch.device",
    ),
    "round skipped": (
        """\
net = nn.Linear(4, 2).to(device)
for x in [torch.randn(8, 4), torch.randn(8, 4).cuda()]:
    if not x.is_cuda:
        continue
    net(x)
""",
        "continue",
    ),
    "items moved": (
        """\
net = nn.Linear(4, 2).to(device)
batch = {"x": torch.randn(8, 4)}
for key in batch:
    batch[key] = batch[key].to(device)
x = batch["x"]
net(x)
""",
        "batch[key] = ",
    ),
    "stays where it is": (
        """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 2)

    def _apply(self, fn, recurse=True):
        return self

    def forward(self, x):
        return self.layer(x)


net = Net().to(device)
x = torch.randn(8, 4)
net(x)
""",
        "def _apply",
    ),
    "error dealt with": (
        """\
net = nn.Linear(4, 2).to(device)
x = torch.randn(8, 4)
try:
    net(x)
except RuntimeError:
    net(x.to(device))
""",
        "net(x.to(device))",
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_slice_keeps_what_makes_the_program_right(name: str, prober: Prober) -> None:
    text, kept = PROGRAMS[name]
    case = accused(HEAD + text, "net(x)", "net(x.to(device))", kind=OnlySlices)
    assert kept in case.smallest.text
    verdict, _ = Replayer(prober).replayed(case)
    assert verdict.outcome is Outcome.INCONCLUSIVE, f"{verdict.observed}\n{case.smallest.text}"


def test_the_same_programs_are_confirmed_without_it(prober: Prober) -> None:
    """The accusation itself is sound: without any of those statements it is true."""
    text = HEAD + "net = nn.Linear(4, 2).to(device)\nx = torch.randn(8, 4)\nnet(x)\n"
    case = accused(text, "net(x)", "net(x.to(device))", kind=OnlySlices)
    verdict, _ = Replayer(prober).replayed(case)
    assert verdict.outcome is Outcome.CONFIRMED, verdict.observed


def test_an_early_return_is_kept(prober: Prober) -> None:
    text = """
    def run(net, x):
        if not x.is_cuda:
            return None
        return net(x)


    net = nn.Linear(4, 2).to(device)
    print(run(net, torch.randn(8, 4)))
    """
    call = "run(net, torch.randn(8, 4))"
    case = accused(HEAD + dedent(text), "net(x)", "net(x.to(device))", call, kind=OnlySlices)
    assert "return None" in case.smallest.text
    verdict, _ = Replayer(prober).replayed(case)
    assert verdict.outcome is Outcome.INCONCLUSIVE, verdict.observed


@pytest.mark.parametrize("name", ["hook", "data moved in a loop", "class patched", "global hook", "items moved"])
def test_the_whole_program_refutes(name: str, prober: Prober) -> None:
    text, _ = PROGRAMS[name]
    verdict, script = Replayer(prober).replayed(accused(HEAD + text, "net(x)", "net(x.to(device))"))
    assert verdict.outcome is Outcome.REFUTED, verdict.observed
    assert script is None
