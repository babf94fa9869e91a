"""The server's diagnostics of open texts, pushed and pulled."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.request import url2pathname

import pytest
import pytest_asyncio
from editor import DISCARDED, STALE, Editor, capabilities, editor, path_of
from lsprotocol import types

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def vi(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Editor]:
    async with editor(tmp_path_factory.mktemp("project")) as vi:
        yield vi


async def test_a_finding_with_all_that_belongs_to_it(vi: Editor) -> None:
    uri = vi.open("stale.py", STALE)
    (found,) = await vi.diagnostics(uri)
    assert (found.code, found.source, found.severity) == ("DPL205", "placement-lint", types.DiagnosticSeverity.Error)
    assert found.range == types.Range(types.Position(5, 0), types.Position(5, 44))
    related = [(each.location.uri, each.location.range.start.line) for each in found.related_information or ()]
    assert related == [(uri, 4), (uri, 7)]
    assert found.code_description is not None
    page = Path(url2pathname(found.code_description.href.removeprefix("file://")))
    assert page.read_text(encoding="utf-8").startswith("# optimizer-stale-after-replacement (DPL205)")


async def test_a_fix_and_tags(vi: Editor) -> None:
    (found,) = await vi.diagnostics(vi.open("fix.py", DISCARDED))
    assert found.tags == (types.DiagnosticTag.Unnecessary,)
    assert found.data["fix"]["applicability"] == "safe"
    assert found.data["fix"]["edits"][0]["text"] == "x = x"


async def test_edits_are_followed(vi: Editor) -> None:
    uri = vi.open("edited.py", DISCARDED)
    assert await vi.codes(uri) == ["DPL501"]
    vi.replace(uri, "x.to", "x = x.to")
    assert await vi.codes(uri) == []
    vi.replace(uri, "x = x.to", "x.to")
    assert await vi.codes(uri) == ["DPL501"]


async def test_what_is_closed_has_no_diagnostics(vi: Editor) -> None:
    uri = vi.open("closed.py", DISCARDED)
    assert await vi.codes(uri) == ["DPL501"]
    vi.close(uri)
    await vi.until_codes(uri, [])


async def test_a_buffer_wins_over_the_file(vi: Editor) -> None:
    (vi.folder / "disk.py").write_text(DISCARDED)
    assert await vi.codes(vi.open("disk.py", "import torch\n")) == []


WIDE = "import torch\n\ns = '😀é'; x = torch.zeros(3); x.to('cuda')\nprint(x)\n"


async def test_an_edit_behind_wide_characters_hits_its_place(vi: Editor) -> None:
    uri = vi.open("wide.py", WIDE)
    assert await vi.codes(uri) == ["DPL501"]
    vi.replace(uri, "x.to", "x = x.to")
    assert await vi.codes(uri) == []


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("odd", ["\x0c", "\u2028", "\x1c"])
async def test_only_what_the_protocol_calls_so_ends_a_line(vi: Editor, newline: str, odd: str) -> None:
    text = f"import torch{newline}a = '{odd}'{newline}x = torch.zeros(3){newline}x.to('cuda'){newline}"
    uri = vi.open(f"odd-{ord(odd)}-{len(newline)}-{ord(newline[0])}.py", text)
    (found,) = await vi.diagnostics(uri)
    assert found.range.start == types.Position(3, 0)
    start = types.Position(3, 0)
    vi.change(uri, types.TextDocumentContentChangePartial(types.Range(start, start), "x = "))
    assert await vi.codes(uri) == []


@pytest.mark.parametrize(
    ("encodings", "character"),
    [
        (None, 31),
        ([types.PositionEncodingKind.Utf32, types.PositionEncodingKind.Utf16], 30),
        ([types.PositionEncodingKind.Utf8], 34),
    ],
)
async def test_positions_are_counted_as_agreed(
    tmp_path: Path, encodings: list[types.PositionEncodingKind] | None, character: int
) -> None:
    async with editor(tmp_path, capabilities(encodings=encodings)) as other:
        (found,) = await other.diagnostics(other.open("wide.py", WIDE))
        assert (found.range.start.line, found.range.start.character) == (2, character)


async def test_an_editor_that_asks_is_not_told(tmp_path: Path) -> None:
    async with editor(tmp_path, capabilities(pull=True)) as asking:
        uri = asking.open("train.py", DISCARDED)
        report = await asking.pull(uri)
        assert [each.code for each in report.items] == ["DPL501"]
        again = await asking.pull(uri, previous=report.result_id)
        assert again.kind == "unchanged"
        asking.replace(uri, "x.to", "x = x.to")
        assert (await asking.pull(uri, previous=report.result_id)).items == ()
        assert asking.published == []


async def test_a_report_on_the_whole_workspace(tmp_path: Path) -> None:
    (tmp_path / "clean.py").write_text("import torch\n")
    (tmp_path / "bad.py").write_text(DISCARDED)
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / "other.py").write_text(DISCARDED)
    async with editor(tmp_path, capabilities(pull=True)) as asking:
        asking.open("open.py", DISCARDED)
        report = await asking.client.workspace_diagnostic_async(types.WorkspaceDiagnosticParams([]))
        found = {Path(each.uri).name: [item.code for item in each.items] for each in report.items}
        assert found == {"bad.py": ["DPL501"], "clean.py": []}
        previous = [types.PreviousResultId(each.uri, str(each.result_id)) for each in report.items]
        (tmp_path / "clean.py").write_text(DISCARDED)
        again = await asking.client.workspace_diagnostic_async(types.WorkspaceDiagnosticParams(previous))
        assert {Path(each.uri).name: each.kind for each in again.items} == {"bad.py": "unchanged", "clean.py": "full"}


async def test_reports_that_no_longer_hold_are_taken_back(tmp_path: Path) -> None:
    """A deleted file has no findings, and the findings of an open notebook belong to its cells."""
    (tmp_path / "gone.py").write_text(DISCARDED)
    (tmp_path / "a b.py").write_text(DISCARDED)
    cell = {"cell_type": "code", "source": DISCARDED}
    (tmp_path / "open.ipynb").write_text(json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4}))
    async with editor(tmp_path, capabilities(pull=True)) as asking:
        report = await asking.client.workspace_diagnostic_async(types.WorkspaceDiagnosticParams([]))
        assert [len(each.items) for each in report.items] == [1, 1, 1]
        (tmp_path / "gone.py").unlink()
        notebook, text = asking.uri("open.ipynb"), asking.uri("open.ipynb#cell")
        asking.client.notebook_document_did_open(
            types.DidOpenNotebookDocumentParams(
                types.NotebookDocument(
                    notebook, "jupyter-notebook", 1, [types.NotebookCell(types.NotebookCellKind.Code, text)]
                ),
                [types.TextDocumentItem(text, "python", 1, DISCARDED)],
            )
        )
        (found,) = (await asking.pull(text)).items
        assert found.code == "DPL501"
        previous = [types.PreviousResultId(each.uri, str(each.result_id)) for each in report.items]
        params = types.WorkspaceDiagnosticParams([*previous, types.PreviousResultId(text, "its own")])
        again = await asking.client.workspace_diagnostic_async(params)
        assert [each for each in again.items if each.uri == text] == []
        (kept,) = (each for each in again.items if each.kind == "unchanged")
        assert kept.uri == asking.uri("a b.py")
        empty = {Path(path_of(each.uri)).name: each.items for each in again.items if each.kind == "full"}
        assert empty == {"gone.py": (), "open.ipynb": ()}


async def test_a_report_on_the_workspace_in_parts(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"m{number}.py").write_text(DISCARDED)
    async with editor(tmp_path, capabilities(pull=True)) as asking:
        params = types.WorkspaceDiagnosticParams([], partial_result_token="parts")
        report = await asking.client.workspace_diagnostic_async(params)
        assert not report.items
        assert len(asking.parts) == 3
        assert asking.parts[0]["items"][0]["items"][0]["code"] == "DPL501"


async def test_a_closed_file_is_read_from_the_disk(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(DISCARDED)
    async with editor(tmp_path, capabilities(pull=True)) as asking:
        assert [each.code for each in (await asking.pull(asking.uri("train.py"))).items] == ["DPL501"]
        gone = await asking.pull(asking.uri("gone.py"))
        assert [each.code for each in gone.items] == ["DPL001"]
