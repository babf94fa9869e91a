"""Real editors, headless and configured as in the guide, show findings and apply a fix."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
GUIDE = (HERE.parents[1] / "docs" / "guides" / "editors.md").read_text(encoding="utf-8")
NEOVIM, EMACS = shutil.which("nvim"), shutil.which("emacs")
# The second statement on the line follows a character of two UTF-16 units.
TEXT = "import torch\n\nx = torch.zeros(3)\ns = '😀'; x.to('cuda')\nprint(x)\n"
FIXED = TEXT.replace("x.to", "x = x.to")


def snippet(language: str, words: str = "") -> str:
    """An editor's configuration in the guide."""
    blocks = re.findall(rf"```{language}\n(.*?)```", GUIDE, re.DOTALL)
    (found,) = (block for block in blocks if words in block)
    return str(found)


def seen_by(command: list[str], setup: str, folder: Path) -> Any:
    """The output of an editor's script."""
    fixture, seen, before = folder / "train.py", folder / "seen.json", folder / "setup"
    fixture.write_text(TEXT, encoding="utf-8")
    before.write_text(setup, encoding="utf-8")
    environment = {
        **os.environ,
        "FIXTURE": str(fixture),
        "SEEN": str(seen),
        "SETUP": str(before),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(folder),
        "XDG_CONFIG_HOME": str(folder / "config"),
        "XDG_DATA_HOME": str(folder / "data"),
        "XDG_STATE_HOME": str(folder / "state"),
    }
    run = subprocess.run(command, env=environment, cwd=folder, capture_output=True, timeout=240, check=False)
    assert seen.exists(), run.stderr.decode()
    result = json.loads(seen.read_text(encoding="utf-8"))
    assert result.get("failed") is None, result
    return result


def neovim_version() -> tuple[int, int]:
    assert NEOVIM is not None
    said = subprocess.run([NEOVIM, "--version"], capture_output=True, text=True, check=True).stdout
    major, minor = re.findall(r"v(\d+)\.(\d+)", said)[0]
    return int(major), int(minor)


@pytest.mark.skipif(NEOVIM is None, reason="Neovim is not installed")
def test_neovim(tmp_path: Path) -> None:
    assert NEOVIM is not None
    setup = snippet("lua", "vim.lsp.enable" if neovim_version() >= (0, 11) else "nvim_create_autocmd")
    script = HERE / "neovim.lua"
    result = seen_by([NEOVIM, "--headless", "--clean", "-n", "-c", f"luafile {script}"], setup, tmp_path)
    # Neovim counts columns in bytes.
    assert result["diagnostics"] == [{"line": 3, "column": 12, "code": "DPL501", "source": "placement-lint"}]
    assert "**move-result-discarded (DPL501)**" in result["hover"]
    assert result["text"] == FIXED


def has_eglot() -> bool:
    asked = [
        EMACS or "",
        "--batch",
        "--eval",
        '(progn (package-initialize) (kill-emacs (if (locate-library "eglot") 0 1)))',
    ]
    return EMACS is not None and subprocess.run(asked, capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not has_eglot(), reason="Emacs with eglot is not installed")
def test_emacs(tmp_path: Path) -> None:
    assert EMACS is not None
    command = [EMACS, "--batch", "-f", "package-initialize", "-l", str(HERE / "emacs.el")]
    result = seen_by(command, snippet("elisp"), tmp_path)
    assert result["line"] == 4
    assert "returns the moved tensor" in result["message"]
    assert result["text"] == FIXED
