"""Inlay hints with devices beside assignments, and hover texts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from editor import DISCARDED, STALE, Editor, editor
from lsprotocol import types

from placement_lint.cli.pages import url
from placement_lint.registry import all_rules
from placement_lint.rule import Rule

pytestmark = pytest.mark.asyncio(loop_scope="module")

MOVED = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(2, 2)

    def forward(self, x):
        return self.fc(x)


net = Net()
net.cuda()
net = nn.DataParallel(net, device_ids=[0, 1])
x = torch.zeros(4, 2)
x = x.to("cuda:0")
y = net(x)
z = y.cpu()
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def vi(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Editor]:
    async with editor(tmp_path_factory.mktemp("project")) as vi:
        yield vi


async def test_hints_stand_where_a_device_changes(vi: Editor) -> None:
    uri = vi.open("moved.py", MOVED)
    assert await vi.hints(uri) == [
        (15, 3, "‹cuda:0 → DataParallel[0,1]›"),
        (17, 1, "‹cuda:0›"),
        (18, 1, "‹cuda:0›"),  # gathered from the replicas
        (19, 1, "‹cpu›"),
    ]
    assert await vi.hints(uri, types.Range(types.Position(16, 0), types.Position(17, 9))) == [(17, 1, "‹cuda:0›")]


async def test_a_stale_optimizer(vi: Editor) -> None:
    uri = vi.open("stale.py", STALE.replace("net(torch", "\n\n\nnet(torch"))
    assert await vi.hints(uri) == [(4, 9, "‹net, 5 lines stale›")]


@pytest.mark.parametrize(
    "line",
    [
        "x = torch.zeros(3)",
        "x = torch.zeros(3, device=args.device)",
        "x = args.x.to(args.device)",
        "x = torch.zeros(3).to('cpu')",
        "net = nn.Linear(2, 2)",
        "net = nn.Linear(2, 2); opt = torch.optim.SGD(net.parameters(), lr=1); opt.step()",
        "net = args.net; net = net.to(args.device)",
        "a = b = 3",
        "for x in torch.zeros(3).cuda(): pass",
        "x = torch.zeros(3).cuda() if args.a else torch.zeros(3).to('cuda:1') if args.b else torch.zeros(3)",
    ],
)
async def test_hints_that_would_be_noise(vi: Editor, line: str) -> None:
    uri = vi.open(
        f"noise-{abs(hash(line))}.py", f"import sys\nimport torch\nfrom torch import nn\nargs = sys\n{line}\n"
    )
    assert await vi.hints(uri) == []


async def test_a_choice_of_two(vi: Editor) -> None:
    text = (
        "import torch\ndevice = torch.device('cuda' if torch.cuda.is_available() else 'cpu')\n"
        "x = torch.zeros(3, device=device)\n"
    )
    assert await vi.hints(vi.open("choice.py", text)) == [(2, 1, "‹cpu or cuda:0›")]


async def test_the_history_of_a_variable(vi: Editor) -> None:
    uri = vi.open("history.py", MOVED)
    text = await vi.hover(uri, 18, 5)
    assert text.startswith("**`net`** ‹cuda:0 → DataParallel[0,1]›")
    assert "- line 15: moved to cuda:0" in text
    assert "- line 16: `net` is wrapped in DataParallel" in text
    assert "`Linear` is built on the CPU" in await vi.hover(uri, 10, 20)
    assert await vi.hover(uri, 11, 0) == ""


async def test_a_parameter_has_the_history_of_what_is_passed(vi: Editor) -> None:
    text = "import torch\n\n\ndef train(batch):\n    return batch + 1\n\n\nx = torch.zeros(3).cuda()\ntrain(x)\n"
    uri = vi.open("parameter.py", text)
    assert "- line 8: moved to cuda:0" in await vi.hover(uri, 4, 14)


async def test_pages(vi: Editor) -> None:
    text = DISCARDED.replace(
        "x.to('cuda')", "x.to('cuda')  # placement-lint: ignore[move-result-discarded]  # noqa: DPL205"
    )
    uri = vi.open("pages.py", text)
    column = text.splitlines()[3].index("move-result")
    assert (await vi.hover(uri, 3, column + 4)).startswith("**move-result-discarded (DPL501)**")
    assert (await vi.hover(uri, 3, text.splitlines()[3].index("DPL205"))).startswith(
        "**optimizer-stale-after-replacement (DPL205)**"
    )
    reported = vi.open("reported.py", DISCARDED)
    assert (await vi.hover(reported, 3, 3)).startswith("**move-result-discarded (DPL501)**")


async def test_half_typed_code_keeps_what_is_known(vi: Editor) -> None:
    """The error is reported once; hints stay on unchanged lines, including those below the edit."""
    uri = vi.open("half.py", MOVED)
    assert len(await vi.hints(uri)) == 4
    vi.replace(uri, "x = torch.zeros(4, 2)\n", "x = torch.zeros(4, 2)\nif x.\n")
    assert await vi.codes(uri) == ["DPL001"]
    assert await vi.hints(uri) == [
        (15, 3, "‹cuda:0 → DataParallel[0,1]›"),
        (18, 1, "‹cuda:0›"),
        (19, 1, "‹cuda:0›"),
        (20, 1, "‹cpu›"),
    ]
    assert (await vi.hover(uri, 19, 5)).startswith("**`net`** ‹cuda:0 → DataParallel[0,1]›")
    vi.replace(uri, "if x.\n", "")
    assert await vi.codes(uri) == []


async def test_hints_can_be_switched_off(tmp_path: Path) -> None:
    async with editor(tmp_path, initial={"inlay-hints": False}) as quiet:
        assert await quiet.hints(quiet.open("moved.py", MOVED)) == []


HOVER_LINES = 15


async def test_a_long_history_is_cut_at_its_beginning(vi: Editor) -> None:
    moves = [f"x = x.to('cuda:{number % 2}')" for number in range(30)]
    uri = vi.open("long.py", "\n".join(["import torch", "x = torch.zeros(3)", *moves, "x.to('cpu')", "print(x)", ""]))
    for line, rules in ((31, 0), (32, 1)):
        text = await vi.hover(uri, line, 0)
        assert len(text.splitlines()) <= HOVER_LINES
        assert text.count("[Rule page](<") == rules
        assert " earlier steps\n" in text
        assert "- line 32: moved to cuda:1" in text
        assert "line 3:" not in text


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.code)
async def test_the_summary_of_a_rule_is_short_and_links_to_its_page(vi: Editor, rule: Rule) -> None:
    uri = vi.open(f"{rule.code}.py", f"x = 3  # placement-lint: ignore[{rule.code}]\n")
    text = await vi.hover(uri, 0, 33)
    assert text.startswith(f"**{rule.name} ({rule.code})**\n\n")
    assert len(text.splitlines()) <= HOVER_LINES
    _, _, link = text.rpartition("[Rule page](<")
    assert link.endswith(f"{rule.code}.md>)") or link == f"{url(rule.code, rule.name)}>)"
