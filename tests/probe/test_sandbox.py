"""An arm of an experiment cannot harm the tool, the next arm, or the machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import harmful
import pytest

from placement_lint.errors import UsageError
from placement_lint.finding import Outcome
from placement_lint.probe import stage
from placement_lint.probe.experiment import Arm, Experiment, Raises, Sees
from placement_lint.probe.prober import Prober
from placement_lint.probe.sandbox import ArmLost, Sandbox, _Lane

HERE = Path(__file__).parent
FINE = {"saw": "fine"}

here_only = pytest.mark.skipif(not hasattr(os, "killpg"), reason="needs process groups")


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(HERE))
        with Sandbox(limit=5.0) as box:
            yield box


@pytest.mark.parametrize(
    ("arm", "reason"),
    [
        (harmful.hangs, "did not end within 5 s"),
        (harmful.hangs_and_ignores_signals, "did not end within 5 s"),
        (harmful.crashes, "SIGABRT"),
        (harmful.segfaults, "SIGSEGV"),
        (harmful.exits, "exit status 3"),
        (harmful.calls_sys_exit, "exit status 4"),
    ],
)
def test_an_arm_that_is_lost_costs_only_itself(arm: Arm, reason: str, sandbox: Sandbox) -> None:
    with pytest.raises(ArmLost, match=reason):
        sandbox.run(arm, {}, None)
    assert sandbox.run(harmful.ends_well, {}, None) == FINE


def test_pytorch_that_does_not_start_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('libcudart is missing')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with Sandbox() as box, pytest.raises(UsageError, match="PyTorch does not start: the process died"):
        box.run(harmful.ends_well, {}, None)


def test_exceptions_are_answers(sandbox: Sandbox) -> None:
    assert sandbox.run(harmful.raises_without_end, {}, None)["raised"][0] == "RecursionError"
    assert sandbox.run(harmful.ends_well, {}, None) == FINE


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is limited where the system can")
@pytest.mark.parametrize("arm", [harmful.fills_memory, harmful.fills_memory_with_tensors])
def test_memory_is_limited(arm: Arm, sandbox: Sandbox) -> None:
    assert "memory" in sandbox.run(arm, {}, None)["unable"]


def test_what_an_arm_prints_is_no_answer(sandbox: Sandbox) -> None:
    assert sandbox.run(harmful.prints, {}, None) == {"saw": "what was seen"}


def test_each_arm_has_an_empty_folder(sandbox: Sandbox) -> None:
    for _ in range(2):
        assert sandbox.run(harmful.leaves_a_file, {}, None) == {"saw": "[]"}


def test_words_arrive_as_they_are(sandbox: Sandbox) -> None:
    word = "'\"\n\\ü\u2028\udc80"
    assert sandbox.run(harmful.ends_well, {"word": word}, None) == {"saw": word}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs copies of a process")
def test_an_arm_on_real_gpus_leaves_the_process_as_it_was(sandbox: Sandbox) -> None:
    first, second = (sandbox.run(harmful.hides_the_gpus, {}, None) for _ in range(2))
    assert first == second


def test_a_driver_that_does_not_start_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import torch, os\ntorch.cuda.device_count = lambda: os.abort()\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with Sandbox() as box:
        assert box.inventory.gpus == ()
        assert box.inventory.torch


@here_only
def test_the_whole_group_is_ended(sandbox: Sandbox, tmp_path: Path) -> None:
    file = tmp_path / "child"
    with pytest.raises(ArmLost):
        sandbox.run(harmful.hangs_with_a_child, {"file": str(file)}, None)
    assert gone(int(file.read_text()))


def test_nothing_is_left_behind(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with Sandbox() as box:
        (process,) = [box._started(_Lane()).process]
        assert list(tmp_path.iterdir())
    assert process.poll() is not None
    assert not list(tmp_path.iterdir())


@here_only
def test_an_interrupt_ends_it(tmp_path: Path) -> None:
    file = tmp_path / "child"
    program = (
        "import signal, harmful\nfrom placement_lint.probe.sandbox import Sandbox\n"
        # what a shell starts in the background ignores interrupts, and so does all that it starts
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        f"with Sandbox() as box:\n    box.run(harmful.hangs_with_a_child, {{'file': {str(file)!r}}}, None)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(HERE)}
    tool = subprocess.Popen([sys.executable, "-c", program], env=environment, stderr=subprocess.DEVNULL)
    assert eventually(lambda: file.exists() and file.read_text() != "")
    tool.send_signal(signal.SIGINT)
    assert tool.wait(timeout=10) != 0
    assert gone(int(file.read_text()))


@pytest.mark.parametrize(
    ("flagged", "control", "outcome", "reason"),
    [
        (harmful.ends_well, harmful.exits, Outcome.INCONCLUSIVE, "the repaired arm could not be run"),
        (harmful.segfaults, harmful.ends_well, Outcome.INCONCLUSIVE, "the flagged arm could not be run"),
        (harmful.ends_well, harmful.ends_well, Outcome.INCONCLUSIVE, "the repaired code shows the symptom as well"),
        (harmful.ends_well, harmful.raises_without_end, Outcome.INCONCLUSIVE, "the repaired code fails as well"),
        (harmful.ends_well, harmful.prints, Outcome.REPRODUCED, "fine; repaired: what was seen"),
        (harmful.prints, harmful.ends_well, Outcome.REFUTED, "what was seen; repaired: fine"),
    ],
)
def test_outcomes(flagged: Arm, control: Arm, outcome: Outcome, reason: str, sandbox: Sandbox) -> None:
    experiment = Experiment("claim", flagged, control, (Raises("KeyError"), Sees("fine")))
    verdict = Prober("simulated", sandbox).verdict(experiment, {})
    assert verdict.outcome is outcome
    assert reason in verdict.observed


def gone(process: int) -> bool:
    def ended() -> bool:
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return True
        # Nobody may have collected it yet.
        state = Path(f"/proc/{process}/stat")
        return state.exists() and state.read_text().rpartition(")")[2].split()[0] == "Z"

    return eventually(ended)


def eventually(condition: Callable[[], bool], limit: float = 120.0) -> bool:
    end = time.monotonic() + limit
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.05)
    return False


@pytest.mark.skipif(not hasattr(os, "fork"), reason="plays are limited in copies of the process")
def test_time_that_others_have_the_processor_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    def play() -> stage.Answer:
        time.sleep(1.5)
        return {"saw": None}

    assert stage.apart(0.6, play)["unable"].endswith("did not end within 0.6 s")
    began = time.monotonic()
    monkeypatch.setattr(stage, "waited", lambda process="self": time.monotonic() - began)
    assert "saw" in stage.apart(0.6, play)
    assert "unable" in stage.apart(0.3, play)  # four times that is the most
