"""One process, two, or a Dask cluster give the same report."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from placement_lint.cli import main

pytestmark = pytest.mark.slow

Write = Callable[..., Path]
FIXTURES = Path(__file__).parent.parent / "fixtures"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A scheduler and two workers that run in an empty folder."""
    folder = tmp_path_factory.mktemp("elsewhere")
    file = folder / "scheduler.json"
    dask = (sys.executable, "-m", "distributed.cli")
    scheduler = [f"{dask[2]}.dask_scheduler", "--port=0", "--no-dashboard", f"--scheduler-file={file}"]
    worker = [f"{dask[2]}.dask_worker", "--nworkers=2", "--nthreads=2", "--no-dashboard", f"--scheduler-file={file}"]
    started = [
        subprocess.Popen([*dask[:2], *command], cwd=folder, stderr=subprocess.DEVNULL)
        for command in (scheduler, worker)
    ]
    try:
        until = time.monotonic() + 60
        while not file.exists():
            assert time.monotonic() < until
            time.sleep(0.1)
        yield json.loads(file.read_text())["address"].replace("tcp://", "dask://")
    finally:
        for process in reversed(started):
            process.terminate()
            process.wait()


@pytest.fixture
def report(project: Path) -> Callable[..., tuple[int, dict[str, Any]]]:
    """A run in a separate process: a process that forks must not have the threads of a client."""

    def run(*arguments: str) -> tuple[int, dict[str, Any]]:
        command = [sys.executable, "-m", "placement_lint", "check", "--format", "json", "--no-cache", *arguments]
        done = subprocess.run(command, cwd=project, stdout=subprocess.PIPE)
        found: dict[str, Any] = json.loads(done.stdout)
        del found["summary"]["seconds"]
        return done.returncode, found

    return run


Report = Callable[..., tuple[int, dict[str, Any]]]


def test_all_executors_report_the_same(project: Path, cluster: str, report: Report) -> None:
    for name in ("move-result-discarded", "projects", "unregistered-tensor-attribute"):
        if (FIXTURES / name).exists():
            shutil.copytree(FIXTURES / name, project / name)
    (project / "broken.py").write_text("def f(:\n")
    alone = report("--jobs", "1")
    assert alone[1]["findings"]
    assert report("--jobs", "2") == alone
    assert report("--executor", cluster) == alone


def test_contents_travel_and_imports_are_followed(write: Write, cluster: str, report: Report) -> None:
    write("pkg/__init__.py", "")
    write("pkg/helpers.py", "def place(x):\n    return x.to('cuda:0')\n")
    train = "import torch\nfrom pkg.helpers import place\nx = torch.zeros(3, device='cuda:1')\nprint(place(x) + x)\n"
    write("train.py", train)
    status, found = report("--executor", cluster, ".")
    assert [finding["code"] for finding in found["findings"]] == ["DPL503"]
    assert (status, found) == report("--jobs", "1", ".")


def test_what_lies_beyond_the_folders_that_were_sent_is_read_here(write: Write, cluster: str, report: Report) -> None:
    write("placement-lint.toml", "")
    write("src/helpers.py", "def place(x):\n    return x.to('cuda:0')\n")
    train = "import torch\nfrom helpers import place\nx = torch.zeros(3, device='cuda:1')\nprint(place(x) + x)\n"
    write("scripts/train.py", train)
    alone = report("--jobs", "1", "scripts")
    assert [finding["code"] for finding in alone[1]["findings"]] == ["DPL503"]
    assert report("--executor", cluster, "scripts") == alone


def test_a_scheduler_that_does_not_answer(
    write: Write, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("placement_lint.run.cluster.PATIENCE", 0.2)
    write("a.py")
    assert main(["check", "--no-cache", "--executor", "dask://127.0.0.1:9"]) == 2
    assert "no Dask scheduler with a worker answers at dask://127.0.0.1:9" in capsys.readouterr().err


def test_an_executor_that_there_is_not(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    write("a.py")
    assert main(["check", "--no-cache", "--executor", "threads"]) == 2
    assert "--executor is `processes` or dask://HOST:PORT, not `threads`" in capsys.readouterr().err
