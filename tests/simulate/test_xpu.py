"""Simulated XPU: GPUs of Intel's. Sources are files of PyTorch 2.13."""

import io
import re

import pytest
import torch
from programs import fails, outcome
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from placement_lint.simulate import gpus

SAME_DEVICE = "Expected all tensors to be on the same device, but "


@pytest.fixture
def machine():
    with gpus(2, device="xpu") as machine:
        yield machine


def test_what_is_available(machine):
    """`torch/xpu/__init__.py`, `torch/accelerator/__init__.py`"""
    assert torch.xpu.is_available()
    assert torch.xpu.device_count() == 2
    assert torch.xpu.current_device() == 0
    assert torch.xpu.get_device_properties(1).total_memory == machine.memory
    assert not torch.cuda.is_available()
    assert not torch.backends.mps.is_available()
    assert torch.accelerator.current_accelerator() == torch.device("xpu")
    assert torch.accelerator.device_count() == 2


def test_a_machine_without_a_driver():
    with gpus(0, device="xpu"):
        assert not torch.xpu.is_available()
        assert torch.accelerator.current_accelerator() == torch.device("xpu")
        assert not torch.accelerator.is_available()


def test_the_current_device(machine):
    """`torch/xpu/__init__.py`: `set_device`, `device`"""
    torch.xpu.set_device(1)
    assert torch.ones(1, device="xpu").device == torch.device("xpu", 1)
    with torch.xpu.device(0):
        assert torch.ones(1).xpu().device == torch.device("xpu", 0)
    torch.accelerator.set_device_index(0)
    assert torch.xpu.current_device() == 0


@pytest.mark.parametrize("name", ["0", ""])
def test_visible_devices(monkeypatch, name):
    """``ZE_AFFINITY_MASK``"""
    with gpus(2, device="xpu"):
        monkeypatch.setenv("ZE_AFFINITY_MASK", name)
        assert torch.xpu.device_count() == len(name)


def test_tensors_and_modules(machine):
    tensor = torch.ones(2, device="xpu:1")
    assert (tensor.is_xpu, tensor.is_cuda, tensor.is_mps, tensor.is_cpu) == (True, False, False, False)
    assert tensor.type() == "torch.xpu.FloatTensor"
    assert nn.Linear(1, 1).xpu(1).weight.device == torch.device("xpu", 1)
    assert tensor.double().is_xpu
    assert outcome(lambda: torch.ones(1).xpu("cuda")) == (RuntimeError, "Invalid device, must be xpu device")
    assert outcome(lambda: torch.ones(1).cuda()) == (AssertionError, "Torch not compiled with CUDA enabled")
    assert fails(outcome(lambda: torch.ones(1).to("mps")), RuntimeError, "not linked with support for mps devices")


def test_a_device_out_of_range(machine):
    """`c10/xpu/XPUFunctions.h`, `check_device_index`"""
    assert outcome(lambda: torch.ones(1, device="xpu:2")) == (
        RuntimeError,
        "The device index is out of range. It must be in [0, 2), but got 2.",
    )


def test_xpu_is_absent_elsewhere():
    """`torch/xpu/__init__.py`, `_lazy_init`"""
    for kind in ("cuda", "mps"):
        with gpus(1, device=kind):
            assert outcome(lambda: torch.ones(1).to("xpu")) == (AssertionError, "Torch not compiled with XPU enabled")


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        (lambda x: x + torch.ones(3), f"{SAME_DEVICE}found at least two devices, xpu:0 and cpu!"),
        (lambda x: x + torch.ones(3, device="xpu:1"), f"{SAME_DEVICE}found at least two devices, xpu:0 and xpu:1!"),
        # torchgen/dest/register_dispatch_key.py, for the dispatch key XPU
        (lambda x: x @ torch.ones(3, 2), "(when checking argument in method wrapper_XPU_mm)"),
        (lambda x: nn.Conv1d(2, 1, 1)(x), "Input type (XPUFloatType) and weight type (torch.FloatTensor) should be"),
        (lambda x: x.numpy(), "can't convert xpu:0 device type tensor to numpy."),
    ],
)
def test_mixed_operands(machine, action, expected):
    kind, text = outcome(lambda: action(torch.ones(2, 3, device="xpu")))
    assert kind in (RuntimeError, TypeError)
    assert expected in text


def test_memory():
    """`torch/xpu/memory.py`; `c10/xpu/XPUCachingAllocator.cpp`"""
    with gpus(1, device="xpu", memory=2**20):
        kept = torch.zeros(1000, device="xpu")
        assert torch.xpu.memory_allocated() == 4096
        assert torch.xpu.max_memory_allocated() == 4096
        full = "XPU out of memory. Tried to allocate 1.14 MiB. GPU 0 has a total capacity of 1024.00 KiB"
        with pytest.raises(torch.OutOfMemoryError, match=re.escape(full)):
            torch.zeros(300_000, device="xpu")
        del kept
        torch.xpu.empty_cache()
        assert torch.xpu.mem_get_info()[0] == 2**20


def test_streams(machine):
    """`torch/xpu/streams.py`"""
    stream = torch.xpu.Stream()
    with torch.xpu.stream(stream):
        assert torch.xpu.current_stream() == stream
    torch.xpu.current_stream().wait_stream(stream)
    event = torch.xpu.Event(enable_timing=True)
    event.record()
    event.synchronize()
    torch.xpu.synchronize()
    assert repr(torch.xpu.current_stream()) == "torch.xpu.Stream(device=xpu:0 sycl_queue=0x0)"


def test_random_numbers(machine):
    """`torch/xpu/random.py`"""
    torch.manual_seed(1)
    first = [torch.rand(2, device=f"xpu:{index}").cpu() for index in (0, 1)]
    torch.xpu.manual_seed_all(1)
    assert torch.equal(torch.rand(2, device="xpu:1").cpu(), first[1])
    assert torch.Generator("xpu").device == torch.device("xpu", 0)


def test_mixed_precision(machine):
    """`torch/amp`"""
    model, scaler = nn.Linear(3, 2).to("xpu"), torch.amp.GradScaler("xpu")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with torch.autocast("xpu"):
        result = model(torch.ones(2, 3, device="xpu"))
    assert result.dtype is torch.float16
    scaler.scale(result.sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert model.weight.grad.is_xpu


def test_files(machine):
    """`torch/serialization.py`"""
    file = io.BytesIO()
    torch.save(torch.ones(2, device="xpu:1"), file)
    file.seek(0)
    assert torch.load(file).device == torch.device("xpu", 1)
    file.seek(0)
    assert torch.load(file, map_location="xpu:0").device == torch.device("xpu", 0)
    with gpus(1, device="mps"):
        file.seek(0)
        assert fails(outcome(lambda: torch.load(file)), RuntimeError, "torch.xpu.is_available() is False")


def test_data_parallel_has_no_scatter(machine):
    """`torch/nn/parallel/comm.py` calls functions that only CUDA builds have (`torch/csrc/cuda/python_comm.cpp`)."""
    model = nn.DataParallel(nn.Linear(3, 2).to("xpu"))
    assert model.device_ids == [0, 1]
    assert outcome(lambda: model(torch.ones(2, 3))) == (
        AttributeError,
        "module 'torch._C' has no attribute '_scatter'",
    )


def test_loaders_pin(machine):
    (batch,) = next(iter(DataLoader(TensorDataset(torch.ones(4, 3)), pin_memory=True)))
    assert batch.is_pinned()
    assert batch.to("xpu", non_blocking=True).is_xpu
