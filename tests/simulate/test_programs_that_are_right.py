"""The programs of ``fixtures/right-programs`` are correct: they succeed on any number of GPUs.

A few of them run each day; ``SHARE=all`` runs all of them (see ``shares.py``).
"""

import os
from multiprocessing import get_context
from pathlib import Path

import pytest
import shares

from placement_lint.simulate.runner import run_script

RIGHT = Path(__file__).parents[2] / "fixtures" / "right-programs"
PROGRAMS = [path for path in sorted(RIGHT.glob("silent_*.py")) if shares.runs(path.stem)]
# A program may leave hooks on all modules or a default device behind: each gets a copy of a fresh process.
COPIES = get_context("forkserver")
COPIES.set_forkserver_preload([run_script.__module__])


def run(path: str, gpus: int, output: str) -> None:
    for number in (1, 2):
        os.dup2(os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND), number)
    raise SystemExit(run_script(path, [], gpus, module=False, trace=False))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_a_right_program_goes_through_on_any_machine(program: Path, tmp_path: Path) -> None:
    for gpus in (0, 1, 2):
        output = tmp_path / str(gpus)
        process = COPIES.Process(target=run, args=(str(program), gpus, str(output)), daemon=True)
        process.start()
        process.join(120)
        assert process.exitcode == 0, f"on {gpus} GPUs:\n{output.read_text()}"
