"""The pytest plugin, in a separate pytest process."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent

TESTS = """
import sys
import pytest

def test_torch_waits():
    assert "torch" not in sys.modules

def test_fixture(simulated_gpus):
    import torch
    assert torch.cuda.device_count() == 2 == simulated_gpus.count

@pytest.mark.gpus(3)
def test_marker_alone():
    import torch
    assert torch.cuda.device_count() == 3

@pytest.mark.gpus(1)
def test_marker_and_fixture(simulated_gpus):
    import torch
    assert str(torch.ones(1).cuda().device) == "cuda:0"

@pytest.mark.gpus(0)
def test_no_gpu():
    import torch
    with pytest.raises(RuntimeError, match="Found no NVIDIA driver"):
        torch.ones(1).cuda()

@pytest.mark.gpus(4)
class TestClass:
    def test_method(self):
        import torch
        assert torch.cuda.device_count() == 4

@pytest.mark.gpus(1, device="mps")
def test_another_kind():
    import torch
    assert torch.ones(1, device="mps").is_mps
    assert not torch.cuda.is_available()

@pytest.mark.gpus(device="mps")
def test_mps_has_one(simulated_gpus):
    assert simulated_gpus.count == 1

def test_afterwards():
    import torch
    assert "device" not in vars(torch.Tensor)
"""


MIXED = """
import pytest
import torch

def compute(values):
    return torch.nn.functional.mse_loss(values, torch.ones(3))

@pytest.mark.gpus(1)
def test_mixed():
    compute(torch.ones(3, device="cuda"))

@pytest.mark.gpus(1)
def test_raised_is_untouched():
    with pytest.raises(RuntimeError) as caught:
        compute(torch.ones(3, device="cuda"))
    assert any("simulate" in str(entry.path) for entry in caught.traceback)
"""


def run_pytest(folder, source, *options):
    """What pytest prints about a file of tests."""
    (folder / "test_inner.py").write_text(source)
    ended = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "--strict-markers", *options),
            *("-p", "placement_lint.simulate.pytest_plugin", "-p", "no:cacheprovider"),
            "test_inner.py",
        ],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return ended.stdout


def test_plugin(tmp_path):
    output = run_pytest(tmp_path, TESTS)
    assert "9 passed" in output, output


def test_a_failure_ends_in_the_user_s_line_and_has_the_account(tmp_path):
    output = run_pytest(tmp_path, MIXED)
    assert "1 failed, 1 passed" in output, output
    assert "test_inner.py:6: RuntimeError" in output
    assert ".py:" not in output.replace("test_inner.py:", "")
    assert "[3] float32  on cuda:0,  made by ones at test_inner.py:10" in output
    assert "[3] float32  on cpu,     made by ones at test_inner.py:6" in output


def test_full_tracebacks_on_request(tmp_path):
    assert "dispatch.py" in run_pytest(tmp_path, MIXED, "--full-trace")
