"""From files to findings: triage, traces, fixes, crashes, processes."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from threading import get_ident

import pytest

from placement_lint.checking import checker
from placement_lint.checking.checker import Checker, Job
from placement_lint.checking.stack import with_deep_stack
from placement_lint.config.settings import Settings
from placement_lint.finding import Applicability, Edit, Range, Severity
from placement_lint.project.files import Selection
from placement_lint.report.results import Run
from placement_lint.run import pool
from placement_lint.run.engine import check_files

Write = Callable[..., Path]


def run(job: Job, *files: Path, jobs: int = 1) -> Run:
    return check_files(Selection(files=list(files)), job, jobs)


@pytest.mark.usefixtures("fake_rules")
def test_a_problem_becomes_a_finding(job: Job, write: Write) -> None:
    (finding,) = run(job, write("pkg/train.py", "import torch\nx = (bad(1))\n")).findings
    assert (finding.code, finding.name, finding.severity) == ("DPL301", "bad-call", Severity.ERROR)
    assert (finding.path, finding.range) == ("pkg/train.py", Range(2, 6, 2, 12))
    (step,) = finding.trace
    assert (step.path, step.range, step.message) == ("pkg/train.py", Range(2, 6, 2, 9), "bad is named here")
    assert finding.fix is not None
    assert finding.fix.applicability is Applicability.SAFE
    assert finding.fix.edits == (Edit(Range(2, 6, 2, 9), "good"),)


@pytest.mark.usefixtures("fake_rules")
def test_findings_are_ordered_by_place(job: Job, write: Write) -> None:
    files = [write(f"{name}.py", "import torch\nworse(); bad()\nbad()\n") for name in "ba"]
    places = [(finding.path, finding.range.line, finding.range.column) for finding in run(job, *files).findings]
    assert places == sorted(places)
    assert len(places) == 6


@pytest.mark.usefixtures("fake_rules")
def test_a_file_without_torch_is_not_analysed(job: Job, write: Write) -> None:
    done = run(job, write("a.py", "bad()\n"))
    assert not done.findings
    assert (done.summary.files, done.summary.skipped) == (1, 0)


@pytest.mark.usefixtures("fake_rules")
def test_a_file_without_torch_must_be_python_all_the_same(job: Job, write: Write) -> None:
    done = run(job, write("a.py", "def f(:\n"))
    assert [finding.code for finding in done.findings] == ["DPL001"]
    assert (done.summary.files, done.summary.skipped) == (0, 1)


@pytest.mark.usefixtures("fake_rules")
@pytest.mark.parametrize(("least", "names"), [("info", 3), ("warning", 2), ("error", 1)])
def test_severity_is_a_threshold(job: Job, write: Write, least: str, names: int) -> None:
    file = write("a.py", "import torch\nbad(), worse(), advice()\n")
    assert len(run(Job(job.settings, severity=Severity(least)), file).findings) == names


@pytest.mark.usefixtures("fake_rules")
def test_per_file_ignores(project: Path, write: Write) -> None:
    settings = Settings(root=project, per_file_ignores={"tests/*": ("DPL3",), "odd.py": ("worse-call",)})
    text = "import torch\nbad(), worse(), advice()\n"
    files = [write(name, text) for name in ("tests/deep/a.py", "odd.py", "plain.py")]
    found = [(finding.path, finding.code) for finding in run(Job(settings), *files).findings]
    assert found == [
        ("odd.py", "DPL301"),
        ("odd.py", "DPL501"),
        ("plain.py", "DPL301"),
        ("plain.py", "DPL302"),
        ("plain.py", "DPL501"),
        ("tests/deep/a.py", "DPL501"),
    ]


@pytest.mark.usefixtures("fake_rules")
def test_a_crash_costs_one_rule_in_one_file(job: Job, write: Write) -> None:
    files = [write("a.py", "import torch\nbad(); crash()\n"), write("b.py", "import torch\nbad()\n")]
    done = run(job, *files)
    assert [finding.path for finding in done.findings] == ["a.py", "b.py"]
    (crash,) = done.crashes
    assert "rule DPL302 (worse-call) failed on a.py: KeyError: 'lost'" in str(crash)
    assert "conftest.py:" in crash.where
    assert "Please report it" in str(crash)


@pytest.mark.usefixtures("fake_rules")
def test_a_crash_of_the_analysis_costs_one_file(job: Job, write: Write) -> None:
    done = run(job, write("a.py", "import torch\npanic()\n"), write("b.py", "import torch\nbad()\n"))
    assert [finding.path for finding in done.findings] == ["b.py"]
    assert "the analysis failed on a.py: RuntimeError" in str(done.crashes[0])


@pytest.mark.usefixtures("fake_rules")
def test_after_a_crash_comments_are_not_called_unused(job: Job, write: Write) -> None:
    done = run(job, write("a.py", "import torch\ncrash()  # placement-lint: ignore[worse-call]\n"))
    assert not done.findings


@pytest.mark.usefixtures("fake_rules")
def test_long_chains_are_analysed(job: Job, write: Write) -> None:
    long = "import torch\nx = " + "1 + " * 1000 + "bad()\n"
    done = run(job, write("a.py", long), write("b.py", "import torch\ns = (" + "'a'\n" * 2000 + ")\nbad()\n"))
    assert not done.crashes
    assert [finding.code for finding in done.findings] == ["DPL301", "DPL301"]


@pytest.mark.usefixtures("fake_rules")
@pytest.mark.parametrize("chain", ["1 + ", "not ", "~", "-", "lambda: ", "1 if x else "])
def test_endless_chains_are_refused_at_once(job: Job, write: Write, chain: str) -> None:
    done = run(job, write("a.py", "import torch\nx = " + chain * 20_000 + "1\n"))
    assert [finding.message for finding in done.findings] == ["an expression is nested too deeply to be analysed"]


def test_a_deep_stack_serves_all_that_runs_on_it() -> None:
    here, *threads = get_ident(), *with_deep_stack(lambda: [get_ident(), with_deep_stack(get_ident)])
    assert len({*threads}) == 1
    assert here not in threads


def test_processes_give_the_same_result(job: Job, write: Write) -> None:
    files = [write(f"{n}.py", "x = 1  # placement-lint: ignore[nonsense]\n" * n) for n in range(1, 9)]
    files.append(write("broken.py", "def f(:\n"))
    one, several = run(job, *files), run(job, *files, jobs=3)
    assert one.findings == several.findings
    assert len(one.findings) == 37
    assert (one.summary.files, one.summary.skipped) == (several.summary.files, several.summary.skipped) == (8, 1)


def test_a_file_that_kills_its_process_costs_only_itself(
    job: Job, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    import multiprocessing
    import os

    if multiprocessing.get_start_method() != "fork":
        pytest.skip("the killer below is inherited by forked workers only")
    original = Checker.check_file

    def check_or_die(self: Checker, path: str) -> checker.Checked:
        return os._exit(1) if path == "killer.py" else original(self, path)

    monkeypatch.setattr(Checker, "check_file", check_or_die)
    names = ["a.py", "killer.py", "z.py"]
    found = pool.check_in_processes([write(name, "x = 1\n").name for name in names], job, 2)
    results = sorted(found, key=lambda result: result.path)
    assert [result.path for result in results] == names
    assert [bool(result.crashes) for result in results] == [False, True, False]


# A run that dies while its workers wait: they share its standard output, which stays open while one of them lives.
KILLED_RUN = """
import os
from pathlib import Path
from placement_lint.checking.checker import Job
from placement_lint.config.settings import Settings
from placement_lint.run.pool import _check, _pool

pool = _pool(2, Job(Settings(root=Path.cwd())))
for result in [pool.submit(_check, ()) for _ in range(8)]:
    result.result()
print("ready", flush=True)
os._exit(9)
"""


def test_workers_end_with_a_run_that_is_killed() -> None:
    done = subprocess.run([sys.executable, "-c", KILLED_RUN], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (9, "ready\n", "")


def test_the_caller_hears_of_each_file(job: Job, write: Write) -> None:
    heard: list[None] = []
    files = [write(f"{name}.py") for name in "abc"]
    check_files(Selection(files=files), Job(job.settings, select=("tool",)), 1, lambda: heard.append(None))
    assert len(heard) == 3


CIRCLING = """
import copy, sys
import torch
from helpers import device, net
if len(sys.argv) > 1 and not device:
    device = "cpu"
twin = copy.deepcopy(net).to(device)
optimizer = torch.optim.Adam([{"params": twin.parameters()}])
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.ones(3).cuda()), num_workers=2)
for batch in loader:
    twin(batch).sum().backward()
"""


def test_nothing_of_a_check_is_left_to_the_collector(tmp_path: Path) -> None:
    (tmp_path / "helpers.py").write_text("import os, torch\ndevice = os.environ['D']\nnet = torch.nn.Linear(3, 3)\n")
    file = tmp_path / "train.py"
    file.write_text(CIRCLING)
    checker = Checker(Job(Settings(root=tmp_path)))
    checker.check_file(str(file))
    gc.collect()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        checker.check_file(str(file))
        gc.collect()
        kinds = {type(each) for each in gc.garbage}
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
    assert {kind.__qualname__ for kind in kinds if kind.__module__.startswith(("placement_lint", "libcst"))} == set()
