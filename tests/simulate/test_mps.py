"""Simulated MPS: one GPU of a Mac. Sources are files of PyTorch 2.13.

Words that only C++ has are those of `aten/src/ATen/native/mps` and `aten/src/ATen/mps`.
"""

import copy
import io
import queue
import warnings

import numpy
import pytest
import torch
from programs import outcome
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from placement_lint.simulate import NotSimulated, gpus

NO_CUDA = "Torch not compiled with CUDA enabled"
NO_FLOAT64 = (
    "Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't support float64. "
    "Please use float32 instead."
)
MAT2_ON_CPU = "Tensor for argument #3 'mat2' is on CPU, but expected it to be on GPU"
NO_PLACEHOLDER = "Placeholder storage has not been allocated on MPS device!"
MPS = torch.device("mps", 0)


@pytest.fixture
def mac():
    with gpus(1, device="mps") as machine:
        yield machine


# --- the machine ----------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 2])
def test_there_is_one_device(count):
    """`torch/mps/__init__.py`, `device_count`"""
    with pytest.raises(ValueError, match=f"a machine cannot have {count} MPS devices"):
        gpus(count, device="mps")


def test_unknown_kinds_are_refused():
    with pytest.raises(ValueError, match="'tpu' is not one of cuda, mps, xpu"):
        gpus(1, device="tpu")


def test_what_is_available(mac):
    """`torch/backends/mps/__init__.py`, `torch/cuda/__init__.py`: `_is_compiled`"""
    assert torch.backends.mps.is_available()
    assert torch.backends.mps.is_built()
    assert torch.mps.is_available()
    assert torch.mps.device_count() == 1
    assert torch.backends.mps.is_macos13_or_newer()
    assert not torch.cuda.is_available()
    assert torch.cuda.device_count() == 0
    assert torch.version.cuda is None
    assert not torch.backends.cuda.is_built()
    assert not torch.xpu.is_available()


def test_queries_are_not_cached_from_one_machine_to_the_next():
    """`torch.backends.mps.is_available` has an `lru_cache`."""
    assert not torch.backends.mps.is_available()
    with gpus(1, device="mps"):
        assert torch.backends.mps.is_available()
        with gpus(2):
            assert not torch.backends.mps.is_available()
            assert torch.cuda.device_count() == 2
            assert torch.ones(1).cuda().is_cuda
        assert not torch.cuda.is_available()
    assert not torch.backends.mps.is_available()


@pytest.mark.parametrize("kind", ["mps", "xpu"])
def test_everything_is_as_before_afterwards(kind):
    owners = (torch, torch.Tensor, torch._C, torch.cuda, torch.xpu, torch.mps, torch.backends.mps, torch.nn.functional)
    before = {owner: dict(vars(owner)) for owner in owners}
    with gpus(1, device=kind):
        torch.ones(1, device=kind)
    for owner, attributes in before.items():
        assert dict(vars(owner)) == attributes


def test_inside_cuda_there_is_none():
    with gpus(2):
        torch.ones(1).cuda()
        with gpus(1, device="mps"):
            assert not torch.cuda.is_available()
            assert outcome(lambda: torch.ones(1).cuda()) == (AssertionError, NO_CUDA)
        assert torch.ones(1).cuda().is_cuda


def test_the_accelerator(mac):
    """`torch/accelerator/__init__.py`"""
    assert torch.accelerator.current_accelerator() == torch.device("mps")
    assert torch.accelerator.is_available()
    assert torch.accelerator.device_count() == 1
    assert torch.accelerator.current_device_index() == 0
    assert torch.accelerator.current_stream().device == MPS
    torch.accelerator.synchronize()
    tensor = torch.ones(256, device="mps")
    assert torch.accelerator.memory_allocated() == tensor.nbytes


def test_torch_mps(mac):
    """`torch/mps/__init__.py`, `torch/mps/event.py`"""
    torch.mps.synchronize()
    torch.mps.empty_cache()
    torch.mps.set_per_process_memory_fraction(0.5)
    before = torch.mps.current_allocated_memory()
    tensor = torch.ones(256, device="mps")
    assert torch.mps.current_allocated_memory() - before == tensor.nbytes
    assert torch.mps.driver_allocated_memory() >= tensor.nbytes
    assert torch.mps.recommended_max_memory() == mac.memory
    begin, end = torch.mps.Event(enable_timing=True), torch.mps.Event(enable_timing=True)
    begin.record()
    end.record()
    end.synchronize()
    assert end.query()
    assert begin.elapsed_time(end) >= 0


def test_shaders_are_not_simulated(mac):
    with pytest.raises(NotSimulated, match="Metal shaders"):
        torch.mps.compile_shader("kernel void nothing() {}")


# --- tensors and modules --------------------------------------------------------------------------


@pytest.mark.parametrize("spec", ["mps", "mps:0", torch.device("mps"), 0])
def test_where_tensors_are(mac, spec):
    """`c10/core/Device.h`; an index is the accelerator's (`torch/csrc/Device.cpp`)."""
    for tensor in (torch.zeros(2, device=spec), torch.zeros(2).to(spec), torch.tensor([1.0], device=spec)):
        assert tensor.device == MPS
        assert (tensor.is_mps, tensor.is_cuda, tensor.is_xpu, tensor.is_cpu) == (True, False, False, False)
        assert tensor.get_device() == 0
        assert tensor.cpu().device == torch.device("cpu")
        assert tensor.type() == "torch.mps.FloatTensor"


def test_another_index_is_not_simulated(mac):
    with pytest.raises(NotSimulated, match="mps:1; there is one mps device"):
        torch.zeros(1, device="mps:1")


def test_the_default_device(mac):
    """`torch/utils/_device.py`"""
    torch.set_default_device("mps")
    assert torch.zeros(1).device == MPS
    with torch.device("cpu"):
        assert torch.zeros(1).is_cpu


def test_printing(mac):
    """`torch/_tensor_str.py`: no float64, and the device is always shown."""
    assert repr(torch.ones(2, device="mps")) == "tensor([1., 1.], device='mps:0')"


CUDA_CALLS = {
    "tensor.cuda": lambda: torch.ones(1).cuda(),
    "tensor.to": lambda: torch.ones(1).to("cuda"),
    "factory": lambda: torch.ones(1, device="cuda"),
    "module.cuda": lambda: nn.Linear(1, 1).cuda(),
    "module.to": lambda: nn.Linear(1, 1).to("cuda:0"),
    "current_device": lambda: torch.cuda.current_device(),
    "synchronize": lambda: torch.cuda.synchronize(),
}


@pytest.mark.parametrize("name", CUDA_CALLS)
def test_cuda_is_absent(mac, name):
    """`torch/cuda/__init__.py`, `_lazy_init`"""
    assert outcome(CUDA_CALLS[name]) == (AssertionError, NO_CUDA)


def test_questions_about_cuda_have_answers(mac):
    """`torch/cuda/memory.py`: functions that do nothing before the initialisation."""
    torch.cuda.empty_cache()
    torch.cuda.manual_seed_all(1)
    assert torch.cuda.memory_allocated() == 0
    assert torch.cuda.is_bf16_supported() is False
    with pytest.raises(TypeError, match=r"type torch\.cuda\.FloatTensor not available"):
        torch.cuda.FloatTensor(2)


def test_numpy_refuses(mac):
    """`torch/csrc/utils/tensor_numpy.cpp`, `tensor_to_numpy`"""
    tensor = torch.ones(2, device="mps")
    refused = (
        TypeError,
        "can't convert mps:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first.",
    )
    assert outcome(tensor.numpy) == refused
    assert outcome(lambda: numpy.asarray(tensor)) == refused
    assert tensor.cpu().numpy().tolist() == [1, 1]


FLOAT64 = {
    "to": lambda: torch.ones(1, dtype=torch.float64).to("mps"),
    "from numpy": lambda: torch.from_numpy(numpy.ones(2)).to("mps"),
    "factory": lambda: torch.ones(1, dtype=torch.float64, device="mps"),
    "tensor": lambda: torch.tensor(numpy.ones(2), device="mps"),
    "double": lambda: torch.ones(1, device="mps").double(),
    "module": lambda: nn.Linear(1, 1).double().to("mps"),
}


@pytest.mark.parametrize("name", FLOAT64)
def test_there_is_no_float64(mac, name):
    """`aten/src/ATen/mps/EmptyTensor.cpp`, `empty_mps`"""
    assert outcome(FLOAT64[name]) == (TypeError, NO_FLOAT64)


def test_float64_may_be_cast_on_the_way(mac):
    """`aten/src/ATen/native/TensorConversions.cpp`, `_to_copy`: the copy has the new dtype."""
    assert torch.ones(1, dtype=torch.float64).to("mps", torch.float32).device == MPS


def test_training(mac):
    model = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2)).to("mps")
    assert {parameter.device for parameter in model.parameters()} == {MPS}
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    inputs, targets = torch.randn(16, 3, device="mps"), torch.randint(2, (16,), device="mps")
    losses = []
    for _ in range(30):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 2
    assert model[0].weight.grad.device == MPS
    assert {state["exp_avg"].device for state in optimizer.state.values()} == {MPS}
    assert copy.deepcopy(model)[0].weight.device == MPS


def test_memory_is_limited():
    """`aten/src/ATen/mps/MPSAllocator.mm`, `alloc_buffer_block`: a plain RuntimeError."""
    with gpus(1, device="mps", memory=2**20):
        kept = torch.zeros(100_000, device="mps")
        kind, text = outcome(lambda: torch.zeros(200_000, device="mps"))
        assert kind is RuntimeError
        assert text.startswith("MPS backend out of memory (MPS allocated: 391.00 KiB, other allocations: 0 bytes, ")
        assert "max allowed: 1024.00 KiB). Tried to allocate 781.50 KiB on private pool." in text
        assert kept.is_mps


# --- mixed operands -------------------------------------------------------------------------------

MIXED = {
    # `aten/src/ATen/TensorIterator.cpp`, `compute_types`
    "add": (
        lambda x: x + torch.ones(2, 3),
        "Expected all tensors to be on the same device, but found at least two devices, mps:0 and cpu!",
    ),
    # `aten/src/ATen/native/mps/operations/Linear.mm`, `_mps_linear`
    "a model on the CPU": (
        lambda x: nn.Linear(3, 2)(x),
        "Tensor for argument weight is on cpu but expected on mps",
    ),
    "a batch on the CPU": (
        lambda x: nn.Linear(3, 2).to("mps")(torch.ones(2, 3)),
        "Tensor for argument input is on cpu but expected on mps",
    ),
    "a bias on the CPU": (
        lambda x: nn.functional.linear(x, torch.ones(2, 3, device="mps"), torch.ones(2)),
        "Tensor for argument bias is on cpu but expected on mps",
    ),
    "integers": (
        lambda x: nn.Linear(3, 2).to("mps")(torch.ones(2, 3, dtype=torch.int64, device="mps")),
        "MPS device does not support linear for non-float inputs",
    ),
    # `aten/src/ATen/native/mps/operations/LinearAlgebra.mm`; `aten/src/ATen/TensorUtils.cpp`, `checkSameGPU`
    "mm": (
        lambda x: x @ torch.ones(3, 2),
        "Tensor for argument #2 'mat2' is on CPU, but expected it to be on GPU (while checking arguments for mm)",
    ),
    "mm the other way round": (
        lambda x: torch.ones(3, 2) @ x,
        "Tensor for argument #1 'mat1' is on CPU, but expected it to be on GPU (while checking arguments for mm)",
    ),
    "addmm": (
        lambda x: torch.addmm(torch.ones(2, device="mps"), x, torch.ones(3, 2)),
        f"{MAT2_ON_CPU} (while checking arguments for addmm_out_mps_impl)",
    ),
    # `aten/src/ATen/native/Convolution.cpp`, `check_input_same_type_as_parameters`
    "a convolution on the CPU": (
        lambda x: nn.Conv2d(1, 1, 3)(torch.ones(2, 1, 8, 8, device="mps")),
        "Input type (MPSFloatType) and weight type (torch.FloatTensor) should be the same",
    ),
    "images on the CPU": (
        lambda x: nn.Conv2d(1, 1, 5).to("mps")(torch.ones(4, 1, 8, 8)),
        "Input type (torch.FloatTensor) and weight type (MPSFloatType) should be the same",
    ),
    # `aten/src/ATen/mps/MPSFallback.mm`, `slow_conv2d_forward_mps`
    "one small image on the CPU": (
        lambda x: nn.Conv2d(1, 1, 3).to("mps")(torch.ones(1, 1, 8, 8)),
        "slow_conv2d_forward_mps: input(device='cpu') and weight(device=mps:0')  must be on the same device",
    ),
    # `aten/src/ATen/native/mps/OperationUtils.mm`, `Placeholder::Placeholder`
    "embedding": (lambda x: nn.Embedding(4, 2).to("mps")(torch.tensor([1])), NO_PLACEHOLDER),
    "labels": (lambda x: nn.functional.cross_entropy(x, torch.tensor([0, 1])), NO_PLACEHOLDER),
    "batch norm": (lambda x: nn.BatchNorm1d(3)(x), NO_PLACEHOLDER),
    "lstm": (lambda x: nn.LSTM(3, 2).to("mps")(x, (torch.zeros(1, 2), torch.zeros(1, 2))), NO_PLACEHOLDER),
    # `aten/src/ATen/native/RNN.cpp`, `check_attributes`
    "gru": (
        lambda x: nn.GRU(3, 2).to("mps")(x, torch.zeros(1, 2)),
        "Input and hidden tensors are not at the same device, found input tensor at mps:0 and hidden tensor at cpu",
    ),
    # `aten/src/ATen/native/TensorAdvancedIndexing.cpp`, `make_info`
    "indices": (
        lambda x: torch.ones(3)[torch.tensor([1], device="mps")],
        "indices should be either on cpu or on the same device as the indexed tensor (cpu)",
    ),
    # `aten/src/ATen/native/mps/operations/Indexing.mm`, `masked_fill__mps`
    "mask": (
        lambda x: x.masked_fill_(torch.ones(2, 3, dtype=torch.bool), 0),
        "expected self and mask to be on the same device, but got mask on cpu and self on mps:0",
    ),
}


@pytest.mark.parametrize("name", MIXED)
def test_mixed_operands(mac, name):
    action, expected = MIXED[name]
    assert outcome(lambda: action(torch.ones(2, 3, device="mps"))) == (RuntimeError, expected)


MEETING = {
    # `aten/src/ATen/TensorIterator.cpp`: 0-dim tensors of the CPU
    "a number": lambda x: x * torch.tensor(2.0),
    # `aten/src/ATen/native/TensorAdvancedIndexing.cpp`, `make_info`
    "indices of the CPU": lambda x: x[torch.tensor([0])],
    "linear": lambda x: nn.Linear(3, 2).to("mps")(x),
    "convolution": lambda x: nn.Conv1d(2, 1, 1).to("mps")(x),
    "lstm": lambda x: nn.LSTM(3, 2).to("mps")(x)[0],
}


@pytest.mark.parametrize("name", MEETING)
def test_operands_that_may_meet(mac, name):
    assert MEETING[name](torch.ones(2, 3, device="mps")).device == MPS


# --- random numbers, mixed precision, files, wrappers, loaders --------------------------------------


def test_random_numbers(mac):
    """`torch/random.py`, `_manual_seed_impl`; `torch/mps/__init__.py`"""
    torch.manual_seed(3)
    first = torch.rand(4, device="mps").cpu()
    torch.mps.manual_seed(3)
    assert torch.equal(torch.rand(4, device="mps").cpu(), first)
    state = torch.mps.get_rng_state()
    second = torch.rand(4, device="mps").cpu()
    torch.mps.set_rng_state(state)
    assert torch.equal(torch.rand(4, device="mps").cpu(), second)
    torch.mps.seed()
    assert not torch.equal(torch.rand(4, device="mps").cpu(), second)


def test_generators(mac):
    """`aten/src/ATen/mps/MPSGeneratorImpl.mm`; `aten/src/ATen/core/Generator.h`, `check_generator`"""
    generator = torch.Generator("mps").manual_seed(1)
    assert generator.device == MPS
    assert torch.rand(2, device="mps", generator=generator).is_mps
    assert outcome(lambda: torch.rand(2, device="mps", generator=torch.Generator())) == (
        RuntimeError,
        "Expected a 'mps' device type for generator but found 'cpu'",
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_autocast(mac, dtype):
    """`torch/amp/autocast_mode.py`; `aten/src/ATen/autocast_mode.h`"""
    model, values = nn.Linear(3, 2).to("mps"), torch.ones(2, 3, device="mps")
    with torch.autocast("mps", dtype=dtype):
        assert model(values).dtype is dtype
        assert nn.functional.mse_loss(model(values), torch.zeros(2, 2, device="mps")).dtype is torch.float32
        assert nn.Linear(3, 2)(torch.ones(2, 3)).dtype is torch.float32
    assert torch.get_autocast_dtype("mps") is torch.float16


def test_autocast_of_cuda_disables_itself(mac):
    """`torch/amp/autocast_mode.py`"""
    with pytest.warns(UserWarning, match="CUDA is not available or torch_xla is imported. Disabling autocast."):
        context = torch.autocast("cuda")
    with context:
        assert nn.Linear(3, 2).to("mps")(torch.ones(2, 3, device="mps")).dtype is torch.float32


def test_scaler_of_cuda_disables_itself(mac):
    """`torch/amp/grad_scaler.py`"""
    with pytest.warns(UserWarning, match=r"GradScaler is enabled, but CUDA is not available.  Disabling."):
        assert not torch.amp.GradScaler().is_enabled()


def test_scaler(mac):
    """`torch/amp/grad_scaler.py`, `unscale_`: no float64 on MPS."""
    model, scaler = nn.Linear(3, 2).to("mps"), torch.amp.GradScaler("mps")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    before = model.weight.detach().clone()
    scaler.scale(model(torch.ones(2, 3, device="mps")).sum()).backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    assert not torch.equal(model.weight, before)
    assert scaler._scale.device == MPS


def saved(device):
    """A file with a tensor of this kind of GPU."""
    file = io.BytesIO()
    with gpus(1, device=device):
        torch.save({"weight": torch.ones(2, device=device)}, file)
    return file


def loaded(file, **options):
    file.seek(0)
    return torch.load(file, **options)["weight"]


def test_files(mac):
    """`torch/serialization.py`: `_mps_tag`, `_mps_deserialize`, `_validate_device`"""
    own, of_cuda = saved("mps"), saved("cuda")
    assert loaded(own).device == MPS
    assert loaded(own, map_location="cpu").is_cpu
    for file in (own, of_cuda):
        assert loaded(file, map_location="mps").device == MPS
        assert loaded(file, map_location=torch.device("mps")).device == MPS
    kind, text = outcome(lambda: loaded(of_cuda))
    assert kind is RuntimeError
    assert text.startswith(
        "Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False. "
        "If you are running on a CPU-only machine"
    )


def test_files_of_mps_on_another_machine():
    """`torch/serialization.py`, `_mps_deserialize`: `obj.mps()`"""
    file = saved("mps")
    with gpus(1):
        assert outcome(lambda: loaded(file))[0] is RuntimeError
        assert loaded(file, map_location="cuda").is_cuda
        assert loaded(file, map_location="cpu").is_cpu


def test_data_parallel_is_the_module_alone(mac):
    """`torch/nn/parallel/data_parallel.py`: no device ids, so inputs stay where they are."""
    model = nn.DataParallel(nn.Linear(3, 2).to("mps"))
    assert model.device_ids == []
    assert model(torch.ones(2, 3, device="mps")).device == MPS
    assert outcome(lambda: model(torch.ones(2, 3))) == (
        RuntimeError,
        "Tensor for argument input is on cpu but expected on mps",
    )


def test_distributed_data_parallel_has_no_backend(mac, tmp_path):
    """`torch/csrc/distributed/c10d/ProcessGroup.hpp`, `getBackend`; Gloo has "cpu" and "cuda"
    (`torch/distributed/distributed_c10d.py`, `backend_capability`).
    """
    dist = torch.distributed
    assert not dist.is_nccl_available()
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        assert outcome(lambda: nn.parallel.DistributedDataParallel(nn.Linear(3, 2).to("mps"))) == (
            RuntimeError,
            "No backend type associated with device type mps",
        )
        total = torch.ones(1)
        dist.all_reduce(total)
        assert total.item() == 1
        nn.parallel.DistributedDataParallel(nn.Linear(3, 2))(torch.ones(1, 3)).sum().backward()
    finally:
        dist.destroy_process_group()


def test_loaders_do_not_pin(mac):
    """`torch/utils/data/dataloader.py`, `_BaseDataLoaderIter.__init__`"""
    loader = DataLoader(TensorDataset(torch.ones(4, 3)), pin_memory=True)
    with pytest.warns(UserWarning, match="'pin_memory' argument is set as true but not supported on MPS now"):
        (batch,) = next(iter(loader))
    assert not batch.is_pinned()


def test_tensors_do_not_go_to_other_processes(mac):
    """`torch/multiprocessing/reductions.py`, `reduce_storage`; `torch/csrc/StorageSharing.cpp`"""
    from torch.multiprocessing import get_context

    tensor = torch.ones(2, device="mps")
    assert tensor.share_memory_() is tensor
    reduction = get_context("spawn").reducer
    assert outcome(lambda: reduction.ForkingPickler.dumps(tensor)) == (
        RuntimeError,
        "_share_fd_: only available on CPU",
    )


def test_threads_share_the_machine(mac):
    import threading

    answers = queue.Queue()
    thread = threading.Thread(target=lambda: answers.put(torch.ones(2, device="mps") + 1))
    thread.start()
    thread.join()
    assert answers.get().device == MPS


def test_no_warnings_from_the_simulation():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with gpus(1, device="mps"):
            torch.ones(2, device="mps").sum().item()
