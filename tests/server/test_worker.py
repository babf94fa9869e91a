"""The worker process, used without a server."""

from __future__ import annotations

from pathlib import Path

from placement_lint.checking.checker import Job
from placement_lint.config.settings import Settings
from placement_lint.project.unit import digest
from placement_lint.server.analysis import Analyse, Close, Locate
from placement_lint.server.worker import Worker


def test_where_things_are_is_told_of_the_text_that_was_analysed_last(tmp_path: Path) -> None:
    worker, path = Worker(), str(tmp_path / "train.py")

    def analyse(text: str) -> Locate:
        worker.answer(Analyse(path, text.encode(), Job(Settings(root=tmp_path))))
        return Locate(path, digest(text.encode()))

    first = analyse("import torch\n\nx = torch.zeros(3).to('cuda')\n")
    told = worker.answer(first)
    assert isinstance(told, tuple)
    assert [(each.name, each.where) for each in told] == [("x", "cuda:0")]
    broken = analyse("import torch\n\nx = torch.zeros(3).to('cuda'\n")
    assert (worker.answer(broken), worker.answer(first)) == (None, told)
    second = analyse("import torch\n\ny = torch.zeros(3).to('cuda')\n")
    assert worker.answer(first) is None
    worker.answer(Close(path))
    assert worker.answer(second) is None
