"""Files that import each other: findings of one file in another, and updates after changes."""

from __future__ import annotations

from pathlib import Path

import pytest
from editor import Editor, capabilities, editor
from lsprotocol import types

pytestmark = pytest.mark.asyncio

HELPER = "import torch\n\n\ndef prepare(x):\n    return x.cuda()\n"
TRAIN = """\
import torch
from torch import nn

from helper import prepare

net = nn.Linear(2, 2)
x = prepare(torch.zeros(3, 2))
net(x)
"""
MODEL = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(2, 2)
        self.mask = torch.ones(2)

    def forward(self, x):
        return self.fc(x) * self.mask
"""
USER = "import torch\nfrom model import Net\n\nnet = Net().cuda()\nnet(torch.zeros(3, 2).cuda())\n"


def tell_of(vi: Editor, path: Path) -> None:
    changes = [types.FileEvent(path.as_uri(), types.FileChangeType.Changed)]
    vi.client.workspace_did_change_watched_files(types.DidChangeWatchedFilesParams(changes))


async def test_imports_are_followed_and_hints_know(tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text(HELPER)
    async with editor(tmp_path) as vi:
        uri = vi.open("train.py", TRAIN)
        assert await vi.codes(uri) == ["DPL503"]
        assert "moved to cuda:0" not in await vi.hover(uri, 0, 0)


async def test_saving_a_file_refreshes_who_imports_it(tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text(HELPER)
    async with editor(tmp_path) as vi:
        train, helper = vi.open("train.py", TRAIN), vi.open("helper.py", HELPER)
        await vi.until_codes(train, ["DPL503"])
        vi.replace(helper, "x.cuda()", "x")
        vi.save(helper)
        await vi.until_codes(train, [])


async def test_an_open_text_wins_over_its_file_for_others_too(tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text(HELPER)
    async with editor(tmp_path) as vi:
        helper = vi.open("helper.py", HELPER.replace("x.cuda()", "x"))
        assert await vi.codes(helper) == []
        train = vi.open("train.py", TRAIN)
        assert await vi.codes(train) == []
        vi.replace(helper, "return x", "return x.cuda()")
        await vi.until_codes(train, ["DPL503"])
        vi.replace(helper, "return x.cuda()", "return x")
        await vi.until_codes(train, [])
        vi.close(helper)
        await vi.until_codes(train, ["DPL503"])


async def test_a_file_that_changes_on_the_disk(tmp_path: Path) -> None:
    async with editor(tmp_path) as vi:
        uri = vi.open("train.py", TRAIN)
        assert await vi.codes(uri) == []
        (tmp_path / "helper.py").write_text(HELPER)
        tell_of(vi, tmp_path / "helper.py")
        await vi.until_codes(uri, ["DPL503"])


async def test_what_a_user_says_of_a_class_is_told_in_the_class_s_file(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    async with editor(tmp_path) as vi:
        model = vi.open("model.py", MODEL)
        alone = await vi.codes(model)
        user = vi.open("train.py", USER)
        await vi.diagnostics(user)
        together = sorted({"DPL302", *alone})
        await vi.until(lambda: sorted({each.code for each in vi.published_for(model)}) == together)
        (found,) = (each for each in vi.published_for(model) if each.code == "DPL302")
        assert {Path(each.location.uri).name for each in found.related_information or ()} >= {"train.py"}


async def test_a_report_on_the_workspace_knows_of_all_its_files(tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text(HELPER)
    (tmp_path / "train.py").write_text(TRAIN)
    async with editor(tmp_path, capabilities(pull=True)) as asking:

        async def report() -> dict[str, list[str]]:
            found = await asking.client.workspace_diagnostic_async(types.WorkspaceDiagnosticParams([]))
            return {Path(each.uri).name: [item.code for item in each.items] for each in found.items}

        assert await report() == {"helper.py": [], "train.py": ["DPL503"]}
        (tmp_path / "helper.py").write_text(HELPER.replace("x.cuda()", "x"))
        assert await report() == {"helper.py": [], "train.py": []}


async def test_an_editor_that_asks_is_told_to_ask_again(tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text(HELPER)
    async with editor(tmp_path, capabilities(pull=True)) as asking:
        train, helper = asking.open("train.py", TRAIN), asking.open("helper.py", HELPER)
        assert [each.code for each in (await asking.pull(train)).items] == ["DPL503"]
        before = asking.client.diagnostic_refresh_count
        asking.replace(helper, "x.cuda()", "x")
        await asking.until(lambda: asking.client.diagnostic_refresh_count > before)
        assert (await asking.pull(train)).items == ()


async def test_an_unused_suppression_is_one_once_the_workspace_is_known(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    idle = HELPER.replace("x.cuda()", "x.cuda()  # placement-lint: ignore[DPL501]")
    async with editor(tmp_path, capabilities(pull=True)) as asking:
        helper = asking.open("helper.py", idle)
        assert (await asking.pull(helper)).items == ()
        await asking.client.workspace_diagnostic_async(types.WorkspaceDiagnosticParams([]))
        assert [each.code for each in (await asking.pull(helper)).items] == ["DPL002"]
