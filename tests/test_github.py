"""The composite GitHub Action and the issue templates."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).parent.parent
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
TEMPLATES = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))


def test_the_guide_lists_the_inputs() -> None:
    guide = (ROOT / "docs" / "guides" / "ci.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `([\w-]+)` \| (?:`(.*?)`)? *\|", guide, re.MULTILINE)
    assert dict(listed) == {name: given["default"] for name, given in ACTION["inputs"].items()}


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="the step is a bash script")
@pytest.mark.parametrize(("sarif", "arguments", "status"), [("", "", 1), ("a b.sarif", "--exit-zero", 0)])
def test_the_step_that_checks(tmp_path: Path, sarif: str, arguments: str, status: int) -> None:
    installed = tmp_path / "placement-lint" / "bin" / "placement-lint"
    installed.parent.mkdir(parents=True)
    installed.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m placement_lint "$@"\n')
    installed.chmod(0o755)
    (tmp_path / "train.py").write_text("import torch\n\nx = torch.zeros(3)\nx.to('cuda')\nprint(x)\n")
    step = ACTION["runs"]["steps"][-1]
    given = {"PATHS": "train.py", "ARGUMENTS": arguments, "SARIF": sarif}
    assert set(step["env"]) == set(given)
    environment = {**os.environ, **given, "RUNNER_TEMP": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    # GitHub runs a step with these options.
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stderr
    assert "::error" in done.stdout
    assert "file=train.py,line=4" in done.stdout
    if sarif:
        assert json.loads((tmp_path / sarif).read_text())["runs"][0]["results"]


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda template: template.stem)
def test_issue_templates_are_forms(template: Path) -> None:
    form = yaml.safe_load(template.read_text(encoding="utf-8"))
    if template.stem != "config":
        assert {"name", "description", "body"} <= set(form)
        assert all({"type", "attributes"} <= set(field) and "label" in field["attributes"] for field in form["body"])
