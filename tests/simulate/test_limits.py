"""What a GPU refuses and the CPU takes: missing kernels, varying results, full memory, indices out of range.

Each case names the part of PyTorch that says so.
"""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from placement_lint.simulate import gpus
from placement_lint.simulate.memory import parse_size


@pytest.fixture
def one_gpu():
    with gpus(1) as machine:
        yield machine


def gpu(*shape):
    return torch.randn(*shape, device="cuda")


def whole(*values):
    return torch.tensor(values, device="cuda")


# --- results that vary: `at::globalContext().alertNotDeterministic` in aten/src/ATen/native/cuda -------------------


def backward_of(layer, *shape):
    def run():
        layer(gpu(*shape).requires_grad_()).sum().backward()

    return run


VARYING = {
    "adaptive_avg_pool2d_backward_cuda": backward_of(nn.AdaptiveAvgPool2d(2), 1, 1, 5, 5),  # AdaptiveAveragePooling.cu
    "adaptive_avg_pool3d_backward_cuda": backward_of(nn.AdaptiveAvgPool3d(2), 1, 1, 5, 5, 5),
    "adaptive_max_pool2d_backward_cuda": backward_of(nn.AdaptiveMaxPool2d(2), 1, 1, 5, 5),  # AdaptiveMaxPooling2d.cu
    "avg_pool3d_backward_cuda": backward_of(nn.AvgPool3d(2), 1, 1, 4, 4, 4),  # AveragePool3d.cu
    "max_pool3d_with_indices_backward_cuda": backward_of(nn.MaxPool3d(2), 1, 1, 4, 4, 4),  # DilatedMaxPool3d.cu
    "fractional_max_pool2d_backward_cuda": backward_of(nn.FractionalMaxPool2d(2, output_size=2), 1, 1, 5, 5),
    "fractional_max_pool3d_backward_cuda": backward_of(nn.FractionalMaxPool3d(2, output_size=2), 1, 1, 5, 5, 5),
    "reflection_pad1d_backward_out_cuda": backward_of(nn.ReflectionPad1d(1), 1, 1, 4),  # ReflectionPad.cu
    "reflection_pad3d_backward_out_cuda": backward_of(nn.ReflectionPad3d(1), 1, 1, 4, 4, 4),
    "upsample_linear1d_backward_out_cuda": backward_of(nn.Upsample(scale_factor=2, mode="linear"), 1, 1, 4),
    "upsample_bicubic2d_backward_out_cuda": backward_of(nn.Upsample(scale_factor=2, mode="bicubic"), 1, 1, 4, 4),
    "grid_sampler_2d_backward_cuda": backward_of(lambda x: F.grid_sample(x, gpu(1, 2, 2, 2)), 1, 1, 4, 4),
    "grid_sampler_3d_backward_cuda": backward_of(lambda x: F.grid_sample(x, gpu(1, 2, 2, 2, 3)), 1, 1, 4, 4, 4),
    "nll_loss2d_forward_out_cuda_template": lambda: F.nll_loss(gpu(1, 2, 1, 1), whole(0).reshape(1, 1, 1)),
    "max_unpooling2d_forward_out": lambda: F.max_unpool2d(*F.max_pool2d(gpu(1, 1, 4, 4), 2, return_indices=True), 2),
    "kthvalue CUDA": lambda: gpu(4).kthvalue(2),  # Sorting.cpp
    "median CUDA with indices output": lambda: gpu(4, 2).median(0),
    "put_": lambda: gpu(4).put_(whole(1), gpu(1)),  # TensorAdvancedIndexing.cpp
    "_histc_cuda": lambda: gpu(4).histc(),  # SummaryOps.cu
    "cumsum_cuda_kernel": lambda: gpu(4).cumsum(0),  # ScanKernels.cpp
    "_bincount_cuda": lambda: torch.bincount(whole(1, 2), weights=gpu(2)),
}


@pytest.fixture
def deterministic(one_gpu):
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("kernel", VARYING)
def test_varying_results_are_refused_on_request(deterministic, kernel):
    with pytest.raises(RuntimeError) as caught:
        VARYING[kernel]()
    assert str(caught.value).startswith(f"{kernel} does not have a deterministic implementation, but you set")


@pytest.mark.parametrize("kernel", VARYING)
def test_varying_results_are_given_otherwise(one_gpu, kernel):
    VARYING[kernel]()


@pytest.mark.parametrize(
    "steady",
    [
        lambda: torch.ones(4).cumsum(0),
        lambda: whole(1, 2).cumsum(0),
        lambda: torch.bincount(whole(1, 2)),
        lambda: gpu(4).median(),
        lambda: torch.randn(4).kthvalue(2),
    ],
)
def test_what_does_not_vary_is_taken(deterministic, steady):
    steady()


def test_varying_results_can_be_a_warning(one_gpu):
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        with pytest.warns(UserWarning, match="cumsum_cuda_kernel does not have a deterministic implementation"):
            gpu(4).cumsum(0)
    finally:
        torch.use_deterministic_algorithms(False)


# --- kernels that CUDA lacks: native_functions.yaml, AT_DISPATCH_FLOATING_AND_COMPLEX_TYPES ------------------------

LACKING = {
    "histogram": (lambda: torch.histogram(gpu(4), 3), "Could not run 'aten::histogram.bin_ct'"),
    "histogram with edges": (
        lambda: torch.histogram(gpu(4), gpu(3).sort()[0]),
        "Could not run 'aten::histogram.bins_tensor'",
    ),
    "mm": (lambda: whole([1, 2], [3, 4]) @ whole([1, 2], [3, 4]), "\"addmm_cuda\" not implemented for 'Long'"),
    "mm of int32": (lambda: torch.mm(*torch.ones(2, 2, 2, device="cuda").int()), "not implemented for 'Int'"),
    "bmm": (lambda: torch.bmm(*torch.ones(2, 1, 2, 2, device="cuda").long()), '"baddbmm_cuda" not implemented'),
    "mv": (lambda: whole([1, 2], [3, 4]) @ whole(1, 2), "\"addmv_impl_cuda\" not implemented for 'Long'"),
    "dot": (lambda: whole(1, 2).dot(whole(1, 2)), "\"dot\" not implemented for 'Long'"),
    "linear": (lambda: F.linear(whole([1, 2]), whole([1, 2])), "\"addmm_cuda\" not implemented for 'Long'"),
}


@pytest.mark.parametrize("case", LACKING)
def test_kernels_that_cuda_lacks(one_gpu, case):
    action, message = LACKING[case]
    with pytest.raises(NotImplementedError) as caught:
        action()
    assert message in str(caught.value)


def test_the_cpu_has_them(one_gpu):
    assert torch.histogram(torch.ones(4), 3).hist.sum() == 4
    assert (torch.ones(2, 2).long() @ torch.ones(2, 2).long()).tolist() == [[2, 2], [2, 2]]


# --- indices out of range: CUDA_KERNEL_ASSERT, and the context is lost ---------------------------------------------

ASSERTING = {
    "index": lambda: gpu(3)[whole(5)],  # IndexKernel.cu
    "index put": lambda: gpu(3).index_put_((whole(5),), gpu(1)),
    "index_select": lambda: gpu(3).index_select(0, whole(5)),  # Indexing.cu
    "index_add": lambda: gpu(3).index_add(0, whole(5), gpu(1)),
    "index_fill": lambda: gpu(3).index_fill(0, whole(5), 1.0),
    "index_copy": lambda: gpu(3).index_copy(0, whole(5), gpu(1)),
    "gather": lambda: gpu(3).gather(0, whole(5)),  # ScatterGatherKernel.cu
    "scatter": lambda: gpu(3).scatter(0, whole(5), 1.0),
    "scatter_add": lambda: gpu(3).scatter_add(0, whole(5), gpu(1)),
    "take": lambda: gpu(3).take(whole(5)),
    "embedding": lambda: F.embedding(whole(5), gpu(3, 2)),
    "embedding layer": lambda: nn.Embedding(3, 2).cuda()(whole(5)),
    "cross entropy": lambda: F.cross_entropy(gpu(1, 3), whole(5)),  # Loss.cu
    "nll_loss": lambda: F.nll_loss(gpu(1, 3), whole(-7)),
    "nll_loss of images": lambda: F.nll_loss(gpu(1, 3, 1, 1), whole(5).reshape(1, 1, 1)),
}


@pytest.mark.parametrize("case", ASSERTING)
def test_an_index_out_of_range_is_a_device_side_assert(one_gpu, case):
    with pytest.raises(RuntimeError, match="CUDA error: device-side assert triggered"):
        ASSERTING[case]()
    for later in (lambda: gpu(1), lambda: torch.ones(1).cuda(), torch.cuda.synchronize):
        with pytest.raises(RuntimeError, match="CUDA error: device-side assert triggered"):
            later()
    assert torch.ones(2).sum() == 2


HOST_CHECKS = {
    "number": lambda: gpu(3)[5],  # `select` on the host
    "dimension": lambda: gpu(3).sum(4),
    "too many indices": lambda: gpu(3)[whole(0), whole(0)],
    "index of the CPU": lambda: torch.ones(3)[torch.tensor([5])],
}


@pytest.mark.parametrize("case", HOST_CHECKS)
def test_what_the_host_checks_can_be_caught(one_gpu, case):
    with pytest.raises(IndexError):
        HOST_CHECKS[case]()
    assert gpu(2).shape == (2,)


# --- memory: c10/cuda/CUDACachingAllocator.cpp ----------------------------------------------------------------------


def test_a_card_is_full():
    with gpus(2, memory=1024**2):
        held = torch.zeros(200_000, device="cuda")
        with pytest.raises(torch.OutOfMemoryError) as caught:
            torch.zeros(200_000, device="cuda")
        assert "CUDA out of memory. Tried to allocate 781.50 KiB. GPU 0 has a total capacity of" in str(caught.value)
        assert torch.zeros(200_000, device="cuda:1").sum() == 0
        assert torch.cuda.mem_get_info() == (1024**2 - 800_256, 1024**2)
        assert torch.cuda.get_device_properties(0).total_memory == 1024**2
        assert torch.cuda.memory_stats()["num_ooms"] == 1
        del held
        torch.zeros(200_000, device="cuda")


FULL = {
    "factory": lambda: torch.empty(2**45, device="cuda"),
    "computed": lambda: torch.zeros(1, device="cuda").expand(2**45).clone(),
    "moved": lambda: torch.zeros(300_000).cuda(),
    "result": lambda: torch.zeros(100_000, device="cuda").repeat(4),
    "module": lambda: nn.Linear(600, 600).cuda(),
}


@pytest.mark.parametrize("case", FULL)
def test_ways_to_fill_a_card(case):
    with gpus(1, memory=1024**2), pytest.raises(torch.OutOfMemoryError, match="CUDA out of memory"):
        FULL[case]()


@pytest.mark.parametrize(("count", "bytes_"), [(1, 512), (128, 512), (129, 1024), (1000, 4096)])
def test_blocks_of_512_bytes(one_gpu, count, bytes_):
    """`kMinBlockSize`"""
    held = torch.zeros(count, device="cuda")
    assert torch.cuda.memory_allocated() == bytes_
    del held
    assert torch.cuda.memory_allocated() == 0


@pytest.mark.parametrize(
    ("text", "size"), [("24GiB", 24 * 2**30), ("512 MiB", 2**29), ("1.5kb", 1500), ("100", 100), ("7B", 7)]
)
def test_sizes(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "many", "-1", "3TB", "GiB"])
def test_no_sizes(text):
    with pytest.raises(ValueError, match="is not a size like 24GiB"):
        parse_size(text)


# --- other checks --------------------------------------------------------------------------------------------------

REFUSED = {
    "a storage of another device": (
        lambda: torch.ones(3).set_(gpu(3)),  # Resize.h, `checkSetStorage`
        'Attempted to set the storage of a tensor on device "cpu" to a storage on different device "cuda:0"',
    ),
    "two numbers of the CPU": (
        lambda: torch.addcmul(gpu(3), torch.tensor(1.0), torch.tensor(2.0)),  # TensorIterator.cpp, `compute_types`
        "Trying to pass too many CPU scalars to non-CPU kernel!",
    ),
    "memory of no GPU": (lambda: torch.cuda.mem_get_info(5), "CUDA error: invalid device ordinal"),
    "splitting by a generator of a GPU": (
        lambda: torch.utils.data.random_split([1, 2], [1, 1], generator=torch.Generator("cuda")),  # dataset.py
        "Expected a 'cpu' device type for generator but found 'cuda'",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(one_gpu, case):
    action, message = REFUSED[case]
    with pytest.raises(RuntimeError) as caught:
        action()
    assert message in str(caught.value)


def test_filling_takes_a_number_of_a_gpu(one_gpu):
    """`aten/src/ATen/native/Fill.cpp`, `fill_` by a tensor"""
    filled = torch.ones(3).fill_(torch.tensor(2.0, device="cuda"))
    assert (filled.tolist(), str(filled.device)) == ([2, 2, 2], "cpu")
    assert str(gpu(3).fill_(torch.tensor(2.0)).device) == "cuda:0"


def test_flexible_attention(one_gpu):
    flex_attention = pytest.importorskip("torch.nn.attention.flex_attention").flex_attention
    query = gpu(1, 1, 16, 16)
    assert str(flex_attention(query, query, query).device) == "cuda:0"


# --- memory that other libraries and processes share ----------------------------------------------------------------


def test_dlpack_keeps_the_device(one_gpu):
    """`torch/utils/dlpack.py`"""
    values = torch.ones(3, device="cuda")
    assert values.__dlpack_device__()[0] == 2  # kDLCUDA
    for received in (torch.from_dlpack(values), torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(values))):
        assert str(received.device) == "cuda:0"
        received[0] = 5
        assert values[0] == 5
    assert str(torch.from_dlpack(torch.ones(2)).device) == "cpu"


def test_memory_of_a_gpu_is_shared(one_gpu):
    """`torch/csrc/StorageSharing.cpp`, `THPStorage_isShared`"""
    assert gpu(2).is_shared()
    assert not torch.ones(2).is_shared()
    assert torch.ones(2).share_memory_().is_shared()


def test_cards_have_an_identity():
    """`torch/csrc/cuda/Module.cpp`, `_CudaDeviceProperties`"""
    with gpus(2):
        first, second = (str(torch.cuda.get_device_properties(index).uuid) for index in (0, 1))
        assert first != second
