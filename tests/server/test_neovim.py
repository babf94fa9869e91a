"""A real editor: Neovim without a screen shows what the server says, and applies what it offers."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from editor import COMMAND

NEOVIM = shutil.which("nvim")
SCRIPT = Path(__file__).parent / "neovim.lua"
# The second statement stands behind a character of two UTF-16 units.
TEXT = "import torch\n\nx = torch.zeros(3)\ns = '😀'; x.to('cuda')\nprint(x)\n"


@pytest.mark.skipif(NEOVIM is None, reason="Neovim is not installed")
def test_diagnostics_hover_and_a_fix(tmp_path: Path) -> None:
    file, seen = tmp_path / "train.py", tmp_path / "seen.json"
    file.write_text(TEXT, encoding="utf-8")
    environment = {
        **os.environ,
        "FOLDER": str(tmp_path),
        "SEEN": str(seen),
        "SERVER": json.dumps(COMMAND),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "XDG_DATA_HOME": str(tmp_path / "data"),
        "XDG_STATE_HOME": str(tmp_path / "state"),
    }
    assert NEOVIM is not None
    command = [NEOVIM, "--headless", "--clean", "-n", str(file), "-c", f"luafile {SCRIPT}"]
    run = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, timeout=180, check=False)
    assert seen.exists(), run.stderr.decode()
    result = json.loads(seen.read_text(encoding="utf-8"))
    assert result.get("failed") is None, result
    # Neovim counts columns in bytes.
    assert result["diagnostics"] == [{"line": 3, "column": 12, "code": "DPL501", "source": "placement-lint"}]
    assert "# move-result-discarded (DPL501)" in result["hover"]
    assert result["text"] == TEXT.replace("x.to", "x = x.to")
