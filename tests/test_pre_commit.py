"""The hooks, run by the real pre-commit in a repository made for it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SHIPPED = ("pyproject.toml", "LICENSE", "README.md", ".pre-commit-hooks.yaml", "placement_lint", "rules")
IDENTITY = {
    f"GIT_{role}_{part}": value
    for role in ("AUTHOR", "COMMITTER")
    for part, value in (("NAME", "A"), ("EMAIL", "a@example.org"))
}
BUG = "import torch\n\nx = torch.randn(3)\nx.to('cuda')\nprint(x)\n"
FINE = "import torch\n\nx = torch.randn(3)\nx = x.to('cuda')\n"

PATH = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"

Run = Callable[..., tuple[int, str]]

pytestmark = pytest.mark.slow


def git(folder: Path, *arguments: str) -> str:
    environment = {**os.environ, **IDENTITY}
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout.strip()


@pytest.fixture(scope="module")
def hooks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository that a user's pre-commit would clone, with the hooks of this one."""
    folder = tmp_path_factory.mktemp("hooks")
    for name in SHIPPED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        elif source.exists():
            shutil.copy(source, folder)
    git(folder, "init")
    git(folder, "add", "--all")
    git(folder, "commit", "--message", "hooks")
    return folder


@pytest.fixture(scope="module")
def pre_commit(hooks: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    pytest.importorskip("pre_commit")
    home = tmp_path_factory.mktemp("home")

    def run(repository: Path, hook: str = "placement-lint") -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "-m", "pre_commit", "run", hook, "--verbose", "--color=never"],
            cwd=repository,
            env={**os.environ, **IDENTITY, "PRE_COMMIT_HOME": str(home), "PATH": PATH},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout

    return run


@pytest.fixture
def repository(hooks: Path, tmp_path: Path) -> Path:
    """A repository that uses the hook; its configuration and an old file are committed."""
    revision = git(hooks, "rev-parse", "HEAD")
    (tmp_path / ".pre-commit-config.yaml").write_text(
        f"repos:\n- repo: {hooks.as_uri()}\n  rev: {revision}\n"
        "  hooks:\n  - id: placement-lint\n  - id: placement-lint-project\n  - id: placement-lint-fix\n"
    )
    (tmp_path / "placement-lint.toml").write_text("exclude = ['third_party']\n")
    (tmp_path / "old name.py").write_text(BUG)
    git(tmp_path, "init")
    git(tmp_path, "add", "--all")
    git(tmp_path, "commit", "--message", "old")
    return tmp_path


def staged(repository: Path, name: str, text: str) -> Path:
    file = repository / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    git(repository, "add", name)
    return repository


@pytest.mark.parametrize("name", ["train.py", "my models/a b.py", "é.py"])
def test_a_bug_stops_the_commit(pre_commit: Run, repository: Path, name: str) -> None:
    status, said = pre_commit(staged(repository, name, BUG))
    assert status == 1
    assert f"{name}:4:1" in said
    assert "old name.py" not in said


def test_a_notebook_is_checked(pre_commit: Run, repository: Path) -> None:
    cells = [{"cell_type": "code", "source": BUG, "metadata": {}, "outputs": [], "execution_count": None}]
    notebook = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    status, said = pre_commit(staged(repository, "a.ipynb", json.dumps(notebook)))
    assert status == 1
    assert "a.ipynb:cell 1:4:1" in said


@pytest.mark.parametrize("name", ["train.py", "third_party/generated.py"])
def test_what_is_fine_or_excluded_passes(pre_commit: Run, repository: Path, name: str) -> None:
    status, said = pre_commit(staged(repository, name, FINE if name == "train.py" else BUG))
    assert (status, "Passed" in said) == (0, True), said


def test_the_project_hook_reports_staged_files_alone(pre_commit: Run, repository: Path) -> None:
    net = "import torch\n\ndef add(x):\n    return x + torch.ones(2)\n"
    (repository / "unstaged.py").write_text("import torch\nfrom net import add\nadd(torch.ones(2).cuda())\n")
    git(repository, "add", "unstaged.py")
    git(repository, "commit", "--message", "caller")
    staged(repository, "net.py", net)
    assert pre_commit(repository)[0] == 0
    status, said = pre_commit(repository, "placement-lint-project")
    assert (status, "net.py:4:12: " in said or "net.py:4:12\n" in said) == (1, True), said
    assert "old name.py" not in said


def test_the_fixing_hook_runs(pre_commit: Run, repository: Path) -> None:
    status, said = pre_commit(staged(repository, "a b.py", FINE), "placement-lint-fix")
    assert (status, "0 fixed" in said) == (0, True), said


def test_the_local_hook_of_the_guide(pre_commit: Run, repository: Path) -> None:
    guide = (ROOT / "docs" / "guides" / "pre-commit.md").read_text(encoding="utf-8")
    (config,) = re.findall(r'```yaml title=".pre-commit-config.yaml"\n(.*?)```', guide, re.DOTALL)
    (repository / ".pre-commit-config.yaml").write_text(config)
    git(repository, "add", ".pre-commit-config.yaml")
    status, said = pre_commit(staged(repository, "train.py", BUG))
    assert (status, "train.py:4:1" in said) == (1, True), said
    assert "old name.py" not in said


def test_without_a_python_file_there_is_nothing_to_do(pre_commit: Run, repository: Path) -> None:
    status, said = pre_commit(staged(repository, "notes.md", "text\n"))
    assert (status, "no files to check" in said) == (0, True), said


def test_a_deleted_file_is_not_looked_for(pre_commit: Run, repository: Path) -> None:
    git(repository, "rm", "old name.py")
    status, said = pre_commit(staged(repository, "notes.md", "text\n"))
    assert status == 0, said


def test_what_is_staged_counts_and_not_what_lies_in_the_folder(pre_commit: Run, repository: Path) -> None:
    (staged(repository, "vanished.py", BUG) / "vanished.py").unlink()
    status, said = pre_commit(staged(repository, "train.py", FINE))
    assert status == 1
    assert "vanished.py:4:1" in said
