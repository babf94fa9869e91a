"""Open notebooks: their cells are one program."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence

import pytest
import pytest_asyncio
from editor import DISCARDED, Editor, apply, editor
from lsprotocol import types

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def vi(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Editor]:
    async with editor(tmp_path_factory.mktemp("project")) as vi:
        yield vi


class OpenNotebook:
    """A notebook in the editor; a Markdown cell is ``None``."""

    def __init__(self, vi: Editor, name: str, *cells: str | None) -> None:
        self.vi = vi
        self.uri = vi.uri(name)
        self.version = 1
        self.uris = [f"{self.uri.replace('file:', 'notebook-cell:')}#c{number}" for number in range(len(cells))]
        kinds = [types.NotebookCellKind.Markup if cell is None else types.NotebookCellKind.Code for cell in cells]
        listed = [types.NotebookCell(kind, uri) for kind, uri in zip(kinds, self.uris, strict=True)]
        # The server requests Python cells only, so Markdown is not sent.
        texts = [
            types.TextDocumentItem(uri, "python", 1, cell)
            for uri, cell in zip(self.uris, cells, strict=True)
            if cell is not None
        ]
        document = types.NotebookDocument(self.uri, "jupyter-notebook", 1, listed)
        vi.client.notebook_document_did_open(types.DidOpenNotebookDocumentParams(document, texts))

    def change(self, change: types.NotebookDocumentCellChanges) -> None:
        self.version += 1
        identifier = types.VersionedNotebookDocumentIdentifier(self.version, self.uri)
        params = types.DidChangeNotebookDocumentParams(identifier, types.NotebookDocumentChangeEvent(cells=change))
        self.vi.client.notebook_document_did_change(params)

    def write(self, cell: int, text: str) -> None:
        document = types.VersionedTextDocumentIdentifier(self.version + 1, self.uris[cell])
        whole = types.TextDocumentContentChangeWholeDocument(text)
        self.change(
            types.NotebookDocumentCellChanges(
                text_content=[types.NotebookDocumentCellContentChanges(document, [whole])]
            )
        )

    async def until(self, *codes: Sequence[str]) -> None:
        """Wait until each cell has diagnostics with these codes."""
        for uri, expected in zip(self.uris, codes, strict=True):
            if expected or any(each.uri == uri for each in self.vi.published):
                await self.vi.until_codes(uri, expected)


IMPORTS = "%matplotlib inline\nimport torch\nx = torch.zeros(3)"


async def test_cells_are_one_program(vi: Editor) -> None:
    notebook = OpenNotebook(vi, "one.ipynb", IMPORTS, None, "x.to('cuda');\nprint(x)", "x.to('cuda')")
    await notebook.until([], [], ["DPL501"], [])
    found = next(each for each in reversed(vi.published) if each.uri == notebook.uris[2])
    assert found.diagnostics[0].range.start == types.Position(0, 0)
    notebook.write(0, "import torch\nx = 3")
    await notebook.until([], [], [], [])


async def test_related_places_are_in_their_cells(vi: Editor) -> None:
    notebook = OpenNotebook(
        vi,
        "stale.ipynb",
        "import torch\nfrom torch import nn\nnet = nn.Linear(2, 2)",
        "optimizer = torch.optim.SGD(net.parameters(), lr=0.1)",
        "net.weight = nn.Parameter(torch.zeros(2, 2))",
        "net(torch.zeros(3, 2)).sum().backward()\noptimizer.step()",
    )
    await notebook.until([], [], ["DPL205"], [])
    (found,) = next(each for each in reversed(vi.published) if each.uri == notebook.uris[2]).diagnostics
    related = [(each.location.uri, each.location.range.start.line) for each in found.related_information or ()]
    assert related == [(notebook.uris[1], 0), (notebook.uris[3], 1)]


async def test_actions_edit_their_cell(vi: Editor) -> None:
    cell = "x.to('cuda')\nprint(x)"
    notebook = OpenNotebook(vi, "fix.ipynb", IMPORTS, cell)
    actions = await vi.actions(notebook.uris[1], 0)
    for words in ("assign the moved tensor", "Apply all safe fixes"):
        action = next(each for each in actions if words in each.title)
        if action.edit is None:
            action = await vi.client.code_action_resolve_async(action)
        assert action.edit is not None
        (change,) = action.edit.document_changes or ()
        assert change.text_document.uri == notebook.uris[1]
        assert apply(cell, change.edits) == "x = x.to('cuda')\nprint(x)"


async def test_hints_and_hover_know_the_other_cells(vi: Editor) -> None:
    notebook = OpenNotebook(vi, "hints.ipynb", IMPORTS, "# on the GPU\nx = x.cuda()", "print(x)")
    assert await vi.hints(notebook.uris[1]) == [(1, 1, "‹cuda:0›")]
    assert await vi.hints(notebook.uris[0]) == []
    assert (await vi.hover(notebook.uris[2], 0, 6)).startswith("**`x`** ‹cuda:0›")


async def test_cells_come_and_go(vi: Editor) -> None:
    notebook = OpenNotebook(vi, "cells.ipynb", IMPORTS, "x.to('cuda');")
    await notebook.until([], ["DPL501"])
    new = f"{notebook.uris[0]}-new"
    array = types.NotebookCellArrayChange(1, 0, [types.NotebookCell(types.NotebookCellKind.Code, new)])
    opened = [types.TextDocumentItem(new, "python", 1, "x = 3")]
    notebook.change(
        types.NotebookDocumentCellChanges(structure=types.NotebookDocumentCellChangeStructure(array, did_open=opened))
    )
    await notebook.until([], [])
    gone = types.NotebookCellArrayChange(1, 1)
    closed = [types.TextDocumentIdentifier(new)]
    notebook.change(
        types.NotebookDocumentCellChanges(structure=types.NotebookDocumentCellChangeStructure(gone, did_close=closed))
    )
    await notebook.until([], ["DPL501"])


async def test_what_is_open_is_what_would_be_saved(vi: Editor) -> None:
    """A saved notebook has the same diagnostics as the same notebook when it is open."""
    cells = [IMPORTS, "x.to('cuda');"]
    content = {"cells": [{"cell_type": "code", "source": cell} for cell in cells], "metadata": {}, "nbformat": 4}
    (vi.folder / "saved.ipynb").write_text(json.dumps(content))
    from_disk = await vi.pull(vi.uri("saved.ipynb"))
    notebook = OpenNotebook(vi, "saved.ipynb", *cells)
    opened = [each for uri in notebook.uris for each in (await vi.pull(uri)).items]
    assert [(each.code, each.range) for each in opened] == [(each.code, each.range) for each in from_disk.items]


async def test_python_text_under_the_name_of_a_notebook(vi: Editor) -> None:
    """JupyterLab sends the code cells of a notebook as one Python text."""
    text = "import torch\nx = torch.zeros(3)\nx.to('cuda')\nprint(x)\n"
    uri = vi.open("virtual.ipynb", text)
    (found,) = await vi.diagnostics(uri)
    assert (found.code, found.range.start) == ("DPL501", types.Position(2, 0))
    fix, fix_all = [
        next(each for each in await vi.actions(uri, 2) if words in each.title)
        for words in ("assign the moved tensor", "Apply all safe fixes")
    ]
    resolved = await vi.client.code_action_resolve_async(fix_all)
    for action in (fix, resolved):
        assert action.edit is not None
        assert vi.applied(uri, action.edit) == text.replace("x.to", "x = x.to")
    assert await vi.hints(vi.open("moved.ipynb", text.replace("x.to", "x = x.to"))) == [(2, 1, "‹cuda:0›")]


async def test_a_text_in_another_language_is_not_checked(vi: Editor) -> None:
    uri = vi.open("template.py", DISCARDED, "jinja")
    assert await vi.codes(vi.open("after.py", DISCARDED)) == ["DPL501"]
    assert [each for each in vi.published if each.uri == uri] == []
