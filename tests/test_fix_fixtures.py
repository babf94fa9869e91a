"""The rules' fixes on every fixture that has findings: each improves the file, and all are applied."""

from __future__ import annotations

import ast
from collections import Counter
from functools import lru_cache
from pathlib import Path

import pytest

from placement_lint.checking.checker import Job
from placement_lint.config.settings import Settings
from placement_lint.fix.fixes import Fixer

FIXTURES = Path(__file__).parent.parent / "fixtures"
FAULTY = [path for path in sorted(FIXTURES.rglob("*.py")) if "# want:" in path.read_text(encoding="utf-8")]


@pytest.fixture(scope="module")
def fixer() -> Fixer:
    fixer = Fixer(Job(Settings(root=FIXTURES)), unsafe=True)
    # The tests check each text before the fix, during the fix and after it.
    fixer.checker.check_bytes = lru_cache(10)(fixer.checker.check_bytes)  # type: ignore[method-assign]
    return fixer


@pytest.mark.parametrize("path", FAULTY, ids=lambda path: str(path.relative_to(FIXTURES)))
def test_fixes_are_good(path: Path, fixer: Fixer) -> None:
    data = path.read_bytes()
    before = fixer.checker.check_bytes(data, str(path))
    fixed = fixer.fix(data, str(path))
    ast.parse(fixed.after)
    left, done = (Counter(finding.code for finding in findings) for findings in (fixed.left, fixed.fixed))
    assert left + done == Counter(finding.code for finding in before.findings if finding.path == str(path))
    # A fix that is offered but not applied would make the file worse or leave its finding.
    assert not [finding for finding in fixed.left if fixer.fixable(finding)]
    assert fixer.fix(fixed.after, str(path)).after == fixed.after


def changes(path: Path, fixer: Fixer) -> list[str]:
    """The changed lines of the diff."""
    diff = fixer.fix(path.read_bytes(), str(path)).diff.splitlines()[2:]
    return [line.partition("  # want")[0] for line in diff if line[0] in "+-"]


@pytest.mark.parametrize(
    ("name", "before_and_after"),
    [
        ("move-result-discarded/helpers", ["-    noise.to(device)", "+    noise = noise.to(device)"]),
        (
            "parameter-lost-by-conversion/helpers",
            [
                "-        self.prompt = nn.Parameter(torch.randn(n_tokens, dim) * 0.02).to(device)",
                "+        self.prompt = nn.Parameter((torch.randn(n_tokens, dim) * 0.02).to(device))",
            ],
        ),
        (
            "unregistered-tensor-attribute/helpers",
            [
                "-        self.pe = pe.unsqueeze(0)",
                '+        self.register_buffer("pe", pe.unsqueeze(0), persistent=False)',
            ],
        ),
        (
            "unregistered-container/empty_list_filled",
            ["-        self.layers = []", "+        self.layers = nn.ModuleList()"],
        ),
        (
            "wrapper-attribute-read/conditional",
            [
                "-model.embedding.weight.requires_grad_(False)",
                '+getattr(model, "module", model).embedding.weight.requires_grad_(False)',
            ],
        ),
        (
            "hardcoded-device-in-replica/nested",
            [
                "-        bias = th.ones(x.size(-1)).cuda(0)",
                "+        bias = th.ones(x.size(-1)).to(x.device)",
            ],
        ),
        (
            "data-parallel-in-process-group/torchrun_script",
            [
                "-model = nn.DataParallel(model)",
                "+model = nn.parallel.DistributedDataParallel(model, device_ids=[local_rank])",
            ],
        ),
        (
            "alias-escapes-replica/list_of_blocks",
            [
                "-        self.levels = [self.fine, self.middle, self.coarse]",
                "+        self.levels = nn.ModuleList([self.fine, self.middle, self.coarse])",
            ],
        ),
        (
            "ddp-forward-bypasses-wrapper/bare_name",
            ["-        prediction = net(torch.randn(8, 5))", "+        prediction = ddp_net(torch.randn(8, 5))"],
        ),
        (
            "non-tensor-output/accuracy",
            ["-        return loss, accuracy.item()", "+        return loss, accuracy.detach()"],
        ),
        ("numpy-on-cuda/helpers", ["-    return t.detach().numpy()", "+    return t.detach().cpu().numpy()"]),
        # the file has no name for the device
        ("operand-not-moved/data_parallel_target", []),
    ],
)
def test_fixes_read_well(name: str, before_and_after: list[str], fixer: Fixer) -> None:
    assert changes(FIXTURES / f"{name}.py", fixer) == before_and_after


HEADER = "import torch\nfrom torch import nn\n"
DEVICE = 'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")\n'


@pytest.mark.parametrize(
    "text",
    [
        # the name would become a local variable
        "x = torch.ones(3)\n\n\ndef move():\n    x.cuda()\n\n\nmove()\n",
        # neither an attribute before nn.Module is initialised nor one with an existing name can be registered
        *(
            f"class Net(nn.Module):\n    def __init__(self):\n{lines}\n"
            f"    def forward(self, x):\n        return x + self.t\n\n\n{DEVICE}"
            "print(Net().to(device)(torch.ones(3, device=device)))\n"
            for lines in (
                "        self.t = torch.ones(3)\n        super().__init__()\n        self.t = torch.ones(3)\n",
                "        super().__init__()\n        self.t = None\n        self.t = torch.ones(3)\n",
            )
        ),
        # integers require no grad
        (
            "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
            '        self.t = nn.Parameter(torch.ones(3)).to("cuda", torch.int8)\n\n\nNet()\n'
        ),
    ],
)
def test_no_fix_rather_than_a_wrong_one(text: str, fixer: Fixer) -> None:
    checked = fixer.checker.check_bytes((HEADER + text).encode(), "a.py")
    assert checked.findings
    assert not [finding for finding in checked.findings if fixer.fixable(finding)]
