"""Code actions for a finding: each is applied, and the text afterwards is checked again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from editor import DISCARDED, STALE, Editor, capabilities, editor
from lsprotocol import types

pytestmark = pytest.mark.asyncio(loop_scope="module")

TWO = "import torch\n\nx = torch.zeros(3)\ny = torch.zeros(3)\nx.to('cuda')\ny.to('cuda')\nprint(x, y)\n"
FIX_ALL = "source.fixAll.placement-lint"
TIMELINE = "placement-lint.timeline"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def vi(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Editor]:
    async with editor(tmp_path_factory.mktemp("project")) as vi:
        yield vi


def titled(actions: list[types.CodeAction], words: str) -> types.CodeAction:
    return next(action for action in actions if words in action.title)


async def applied(vi: Editor, uri: str, action: types.CodeAction) -> str:
    if action.edit is None:
        action = await vi.client.code_action_resolve_async(action)
    assert action.edit is not None
    return vi.applied(uri, action.edit)


async def test_the_fix(vi: Editor) -> None:
    uri = vi.open("fix.py", DISCARDED)
    action = titled(await vi.actions(uri, 3), "assign the moved tensor")
    assert (action.kind, action.is_preferred) == (types.CodeActionKind.QuickFix, True)
    assert [each.code for each in action.diagnostics or ()] == ["DPL501"]
    text = await applied(vi, uri, action)
    assert text == DISCARDED.replace("x.to", "x = x.to")
    vi.rewrite(uri, text)
    assert await vi.codes(uri) == []


async def test_an_edit_is_one_of_a_version(vi: Editor) -> None:
    uri = vi.open("version.py", DISCARDED)
    vi.replace(uri, "print(x)", "print(x, x)")
    action = titled(await vi.actions(uri, 3), "assign the moved tensor")
    assert action.edit is not None
    (change,) = action.edit.document_changes or ()
    assert change.text_document.version == 2


async def test_all_of_one_rule(vi: Editor) -> None:
    uri = vi.open("rule.py", TWO)
    action = titled(await vi.actions(uri, 4), "fix all move-result-discarded")
    text = await applied(vi, uri, action)
    assert text == TWO.replace("x.to", "x = x.to").replace("y.to", "y = y.to")


async def test_all_that_is_safe(vi: Editor) -> None:
    uri = vi.open("safe.py", TWO)
    for only in ([FIX_ALL], ["source.fixAll"], ["source"]):
        (action,) = await vi.actions(uri, 0, only=only)
        assert action.kind == FIX_ALL
    text = await applied(vi, uri, action)
    assert text == TWO.replace("x.to", "x = x.to").replace("y.to", "y = y.to")


async def test_nothing_is_offered_for_a_clean_file(vi: Editor) -> None:
    uri = vi.open("clean.py", "import torch\n")
    assert await vi.actions(uri, 0) == []
    assert await vi.actions(uri, 0, only=[FIX_ALL]) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x.to('cuda')", "x.to('cuda')  # placement-lint: ignore[move-result-discarded]"),
        ("x.to('cuda')  # there", "x.to('cuda')  # there  # placement-lint: ignore[move-result-discarded]"),
        ("x.to('cuda')  # noqa: DPL205", "x.to('cuda')  # noqa: DPL205, DPL501"),
        (
            "x.to('cuda')  # placement-lint: ignore[DPL205]",
            "x.to('cuda')  # placement-lint: ignore[DPL205, move-result-discarded]",
        ),
        ("x.to(\n    'cuda'\n)", "x.to(  # placement-lint: ignore[move-result-discarded]\n    'cuda'\n)"),
        ("x.to( \\\n    'cuda')", "x.to( \\\n    'cuda')  # placement-lint: ignore[move-result-discarded]"),
        ("x.to('''cuda\n'''[:4])", "x.to('''cuda\n'''[:4])  # placement-lint: ignore[move-result-discarded]"),
    ],
)
async def test_suppression(vi: Editor, before: str, after: str) -> None:
    text = DISCARDED.replace("x.to('cuda')", before)
    uri = vi.open(f"suppress-{abs(hash(before))}.py", text)
    if "'''" not in before:
        assert "DPL501" in await vi.codes(uri)
    else:
        vi.rewrite(uri, text.replace("'''cuda\n'''[:4]", "'cuda', copy='''\n''' == ''"))
        before, after = (each.replace("'''cuda\n'''[:4]", "'cuda', copy='''\n''' == ''") for each in (before, after))
    action = titled(await vi.actions(uri, 3), "suppress move-result-discarded")
    suppressed = await applied(vi, uri, action)
    assert suppressed == DISCARDED.replace("x.to('cuda')", after)
    vi.rewrite(uri, suppressed)
    assert "DPL501" not in await vi.codes(uri)


async def test_the_page_is_opened(vi: Editor) -> None:
    uri = vi.open("page.py", DISCARDED)
    action = titled(await vi.actions(uri, 3), "open the page")
    assert action.command is not None
    assert (await vi.run(action.command)).startswith("# move-result-discarded (DPL501)")
    shown = vi.client.shown_documents[-1]
    assert shown.uri.endswith("/DPL501.md")


async def test_an_editor_that_resolves_nothing_gets_its_edits_at_once(tmp_path: Path) -> None:
    async with editor(tmp_path, capabilities(resolve=False, versioned=False)) as old:
        uri = old.open("safe.py", TWO)
        (action,) = await old.actions(uri, 0, only=[FIX_ALL])
        assert action.edit is not None
        assert action.edit.document_changes is None
        assert old.applied(uri, action.edit) == TWO.replace("x.to", "x = x.to").replace("y.to", "y = y.to")


async def test_a_probe(vi: Editor) -> None:
    """The verdict is shown in a message, returned, and then part of the finding."""
    uri = vi.open("probe.py", STALE)
    action = titled(await vi.actions(uri, 5), "run the probe")
    assert action.command is not None
    verdict = await vi.run(action.command)
    assert (verdict["level"], verdict["outcome"]) == ("pattern", "reproduced")
    assert any("DPL205: pattern reproduced on" in message for message in vi.messages())

    def told() -> bool:
        return any("[pattern reproduced on" in each.message for each in vi.published[-1].diagnostics)

    await vi.until(told)
    vi.replace(uri, "lr=0.1", "lr=0.2")
    (found,) = await vi.diagnostics(uri)
    assert found.data["verdict"] == verdict
    (reports,) = vi.client.progress_reports.values()
    assert [type(each) for each in reports] == [types.WorkDoneProgressBegin, types.WorkDoneProgressEnd]


async def test_a_probe_of_what_is_gone(vi: Editor) -> None:
    uri = vi.open("gone.py", STALE)
    action = titled(await vi.actions(uri, 5), "run the probe")
    vi.rewrite(uri, "import torch\n")
    assert action.command is not None
    assert await vi.run(action.command) is None
    assert any("DPL205 is no longer reported here" in message for message in vi.messages())


async def test_a_timeline(vi: Editor) -> None:
    uri = vi.open("timeline.py", "import torch\n\nx = torch.zeros(3)\ny = x.to('cuda')\n")
    file = await vi.run(types.Command("", TIMELINE, arguments=[{"uri": uri}]))
    page = Path(file).read_text(encoding="utf-8")
    assert '"label":"y"' in page
    count, shown = len(vi.client.shown_documents), vi.client.shown_documents[-1]
    assert (shown.uri, shown.external) == (Path(file).as_uri(), True)
    assert await vi.run(types.Command("", TIMELINE, arguments=[{"uri": uri, "show": False}])) == file
    assert len(vi.client.shown_documents) == count


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("broken.py", "x = (\n", "there is nothing to draw: "),
        ("plain.py", "x = 1\n", "nothing in it uses PyTorch"),
        (None, "", "there is no open Python file to draw"),
    ],
)
async def test_a_timeline_of_what_cannot_be_drawn(vi: Editor, name: str | None, text: str, message: str) -> None:
    uri = vi.open(name, text) if name else "file:///nowhere.py"
    assert await vi.run(types.Command("", TIMELINE, arguments=[{"uri": uri}])) is None
    await vi.until(lambda: any(message in said for said in vi.messages()))
