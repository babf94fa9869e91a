"""Each rule finds its example and accepts its repair."""

import subprocess
import sys
from pathlib import Path

import pytest
from acme_placement_rules import RULES

from placement_lint.rule import Rule


def codes(program: str, folder: Path) -> set[str]:
    (folder / "example.py").write_text(program)
    command = [sys.executable, "-m", "placement_lint", "check", "--isolated", "--format", "concise", "example.py"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode < 2, done.stderr
    return {line.split()[1] for line in done.stdout.splitlines() if line.startswith("example.py:")}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_the_example_and_its_repair(rule: Rule, tmp_path: Path) -> None:
    assert rule.code in codes(rule.page.example, tmp_path)
    assert rule.code not in codes(rule.page.instead, tmp_path)
