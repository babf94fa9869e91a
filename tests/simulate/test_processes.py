"""Simulation across processes: loader workers, spawned ranks, torchrun, collectives."""

import ast
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from placement_lint.simulate import gpus

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
PROGRAM = HERE / "worker_programs.py"


# --- workers of a loader --------------------------------------------------------------------------


class Touches(Dataset):
    """A dataset whose items are made on a GPU."""

    def __len__(self):
        return 2

    def __getitem__(self, index):
        return torch.ones(2).cuda().cpu()


class Harmless(Touches):
    def __getitem__(self, index):
        return torch.full((2,), index)


FORKED = "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use"


def test_a_forked_worker_cannot_use_cuda():
    with gpus(1):
        torch.ones(1).cuda()
        with pytest.raises(RuntimeError) as caught:
            list(DataLoader(Touches(), num_workers=1, multiprocessing_context="fork"))
    assert "Caught RuntimeError in DataLoader worker process 0." in str(caught.value)
    assert FORKED in str(caught.value)


def test_a_worker_may_use_cuda_when_its_parent_did_not():
    with gpus(1):
        assert len(list(DataLoader(Touches(), num_workers=1, multiprocessing_context="fork"))) == 2


class Accelerated(Touches):
    def __getitem__(self, index):
        return torch.ones(2, device=torch.accelerator.current_accelerator()).cpu()


@pytest.mark.parametrize("kind", ["mps", "xpu"])
def test_spawned_workers_have_the_same_kind_of_gpu(kind):
    with gpus(1, device=kind):
        batches = list(DataLoader(Accelerated(), num_workers=1, multiprocessing_context="spawn"))
        assert [batch.tolist() for batch in batches] == [[[1, 1]], [[1, 1]]]


def test_a_forked_worker_cannot_use_xpu():
    """`torch/xpu/__init__.py`, `_lazy_init`"""
    with gpus(1, device="xpu"):
        torch.ones(1, device="xpu")
        with pytest.raises(RuntimeError, match="Cannot re-initialize XPU in forked subprocess"):
            list(DataLoader(Accelerated(), num_workers=1, multiprocessing_context="fork"))


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_workers_that_leave_cuda_alone(context):
    with gpus(1):
        torch.ones(1).cuda()
        batches = list(DataLoader(Harmless(), num_workers=1, multiprocessing_context=context))
    assert [batch[0, 0].item() for batch in batches] == [0, 1]


def test_a_spawned_worker_may_use_cuda():
    with gpus(1):
        torch.ones(1).cuda()
        assert len(list(DataLoader(Touches(), num_workers=1, multiprocessing_context="spawn"))) == 2


class OnGpu(Touches):
    """A dataset whose items stay on a GPU; one of them has nothing in it."""

    def __getitem__(self, index):
        items = torch.arange(4.0, device="cuda:1")
        return items[index:], items[0], torch.empty(0, device="cuda:1")


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_what_a_worker_has_on_a_gpu_arrives_there(context):
    with gpus(2) as machine:
        loader = DataLoader(OnGpu(), batch_size=None, num_workers=1, multiprocessing_context=context)
        (all_items, first, nothing), (rest, _, _) = list(loader)
        assert {str(one.device) for one in (all_items, first, nothing, rest)} == {"cuda:1"}
        assert all_items.tolist() == [0.0, 1.0, 2.0, 3.0]
        assert rest.sum().item() == 6.0
        assert all_items.untyped_storage() is first.untyped_storage()
        assert machine.allocated == [0, 0]  # it is the worker's memory
        assert torch.cuda.is_initialized()


def write_and_say(tensor, answers):
    tensor.fill_(7)
    answers.put((str(tensor.device), torch.cuda.memory_allocated("cuda:0")))


def test_a_spawned_process_writes_into_its_parents_memory():
    context = torch.multiprocessing.get_context("spawn")
    with gpus(1):
        tensor, answers = torch.zeros(3, device="cuda"), context.SimpleQueue()
        process = context.Process(target=write_and_say, args=(tensor, answers))
        process.start()
        assert answers.get() == ("cuda:0", 0)
        process.join()
        assert tensor.tolist() == [7.0, 7.0, 7.0]


# --- ranks ----------------------------------------------------------------------------------------

EXPECTED = {
    "mesh without a group": ("DeviceMesh((2,), 'cuda', stride=(1,))", "undefined", 0),
    "simulated before the main module is imported": True,
    "current device": True,
    "backend": "nccl",
    "average": [[1.5, 1.5, 1.5]],
    "trained": (True, "cuda:0"),
    "moved after wrapping": False,
    "all_reduce": (3.0, "cuda:0"),
    "collective on the CPU": "RuntimeError: No backend type associated with device type cpu",
    "two ids": "ValueError: device_ids can only be None or contain a single element.",
    "module of the CPU": "ValueError: DistributedDataParallel device_ids and output_device arguments",
    "nothing to train": "RuntimeError: DistributedDataParallel is not needed when a module doesn't have any",
    "target of the CPU": "RuntimeError: Expected all tensors to be on the same device",
    "attribute": "AttributeError: 'DistributedDataParallel' object has no attribute 'weight'",
    "fully sharded": "cuda:0",
    "mesh": "DeviceMesh((2,), 'cuda'",
    "distributed tensor": True,
    "clipped": True,
    "initialised after meta": True,
    "tensor parallel": True,
    # `torch/distributed/device_mesh.py`, `torch/distributed/tensor/_api.py`
    "mesh of two dimensions": (2, True, "cpu"),
    "places of a distributed tensor": True,
    "sum of a distributed tensor": 6.0,
    "distributed and plain": "RuntimeError: aten.add.Tensor got mixed torch.Tensor and DTensor",
    # `torch/distributed/fsdp/_fully_shard`: `_move_states_to_device`, `FSDPState._root_pre_forward`
    "sharding moves": "cuda:0",
    "input of the CPU": "cuda:0",
    "target of the CPU, fully sharded": "RuntimeError: Expected all tensors to be on the same device",
    "offloaded": ("cpu", "cpu", True),
    "optimizer before sharding": True,
    # `torch/distributed/distributed_c10d.py`
    "gathered into": [1.0, 2.0],
    "reduced and scattered": True,
    "averaged": 0.5,
    "exchanged": [1.0, 2.0],
    "sent": True,
    "gathered objects": ["cuda:0", "cuda:1"],
    "monitored barrier": "ValueError: monitored_barrier is only implemented for GLOO backend.",
    # `torch/nn/parallel/distributed.py`, `torch/nn/modules/batchnorm.py`
    "without synchronising": True,
    "sent buffers": [1.0, 1.0],
    "unused": True,
    "input of the CPU without ids": "RuntimeError: Expected all tensors to be on the same device",
    "synchronised norm": "NotSimulated: not simulated: the kernels of SyncBatchNorm in training",
    "synchronised norm on the CPU": "ValueError: SyncBatchNorm expected input tensor to be on GPU or XPU",
    "synchronised norm that only answers": "cuda:0",
}
LAUNCHES = {
    "mp.spawn": [str(PROGRAM)],
    "torchrun": ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2", str(PROGRAM)],
}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


@pytest.mark.parametrize("launch", LAUNCHES)
def test_ranks(launch, tmp_path):
    answers = tmp_path / "answers"
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": free_port(),
    }
    ended = subprocess.run(
        [sys.executable, "-m", "placement_lint.simulate", "--gpus", "2", *LAUNCHES[launch], str(answers)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    found = ast.literal_eval(answers.read_text())
    assert list(found) == list(EXPECTED)
    for question, expected in EXPECTED.items():
        if isinstance(expected, str):
            assert str(found[question]).startswith(expected), question
        else:
            assert found[question] == expected, question
