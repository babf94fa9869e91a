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

def test_afterwards():
    import torch
    assert "device" not in vars(torch.Tensor)
"""


def test_plugin(tmp_path):
    (tmp_path / "test_inner.py").write_text(TESTS)
    ended = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "--strict-markers"),
            *("-p", "placement_lint.simulate.pytest_plugin", "-p", "no:cacheprovider"),
            "test_inner.py",
        ],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "7 passed" in ended.stdout, ended.stdout
