"""JupyterLab finds the server through the entry point of jupyter-lsp."""

from __future__ import annotations

from importlib.metadata import entry_points
from pathlib import Path

import pytest
from editor import DISCARDED, editor

from placement_lint import errors
from placement_lint.server.jupyter import spec


@pytest.mark.asyncio
async def test_the_entry_point_starts_the_server(tmp_path: Path) -> None:
    (entry,) = entry_points(group="jupyter_lsp_spec_v1", name="placement-lint")
    found = entry.load()(None)["placement-lint"]
    assert found["languages"] == ["python"]
    async with editor(tmp_path, command=found["argv"]) as vi:
        assert await vi.codes(vi.open("notebook.ipynb", DISCARDED)) == ["DPL501"]


def test_without_the_server_s_libraries_there_is_no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errors, "find_spec", lambda name: None)
    assert spec(None) == {}
