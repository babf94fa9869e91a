"""The mixtures of devices that PyTorch rejects, with its messages, and those that it accepts."""

import re

import numpy
import pytest
import torch
from releases import SAME_DEVICE, odd_operand
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence

from placement_lint.simulate import gpus


def two(first, second):
    return f"{SAME_DEVICE}found at least two devices, {first} and {second}!"


def gpu(*shape, index=0):
    return torch.randn(*shape, device=f"cuda:{index}")


def host(*shape):
    return torch.randn(*shape)


def labels(*values, device="cpu"):
    return torch.tensor(values, device=device)


REFUSED = {
    "linear with bias": (
        lambda: F.linear(host(4, 3), gpu(2, 3), gpu(2)),
        odd_operand("mat1", "cpu", "cuda:0", "wrapper_CUDA_addmm"),
    ),
    "linear without bias": (
        lambda: F.linear(host(4, 3), gpu(2, 3)),
        odd_operand("mat2", "cuda:0", "cpu", "wrapper_CUDA_mm"),
    ),
    "matmul of batches": (
        lambda: gpu(2, 3, 4) @ host(2, 4, 3),
        odd_operand("mat2", "cpu", "cuda:0", "wrapper_CUDA_bmm"),
    ),
    "add": (lambda: gpu(2) + host(2), two("cuda:0", "cpu")),
    "add, CPU first": (lambda: host(2) + gpu(2), two("cuda:0", "cpu")),
    "add across GPUs": (lambda: gpu(2) + gpu(2, index=1), two("cuda:0", "cuda:1")),
    "add across GPUs, the other way": (lambda: gpu(2, index=1) + gpu(2), two("cuda:1", "cuda:0")),
    "0-dim of another GPU": (lambda: gpu(2) + torch.tensor(1.0, device="cuda:1"), two("cuda:0", "cuda:1")),
    "0-dim of a GPU with the CPU": (lambda: host(2) + torch.tensor(1.0, device="cuda"), two("cuda:0", "cpu")),
    "in place on the CPU": (lambda: host(2).add_(gpu(2)), two("cuda:0", "cpu")),
    "in place on a 0-dim of the CPU": (lambda: torch.tensor(1.0).add_(gpu(1)[0]), two("cuda:0", "cpu")),
    "mask on the CPU": (
        lambda: gpu(2).masked_fill(torch.tensor([True, False]), 0.0),
        "expected self and mask to be on the same device, but got mask on cpu and self on cuda:0",
    ),
    "mask on the GPU": (
        lambda: host(2).masked_fill_(torch.tensor([True, False], device="cuda"), torch.tensor(0.0)),
        "expected self and mask to be on the same device, but got mask on cuda:0 and self on cpu",
    ),
    "where": (lambda: torch.where(gpu(2) > 0, gpu(2), host(2)), two("cuda:0", "cpu")),
    "mse_loss": (lambda: F.mse_loss(gpu(2), host(2)), two("cuda:0", "cpu")),
    "cat": (
        lambda: torch.cat([gpu(2), host(2)]),
        odd_operand("tensors", "cpu", "cuda:0", "wrapper_CUDA_cat"),
    ),
    "stack": (
        lambda: torch.stack([gpu(2), host(2)]),
        odd_operand("tensors", "cpu", "cuda:0", "wrapper_CUDA_cat"),
    ),
    "convolution of one small image": (
        lambda: F.conv2d(host(1, 1, 4, 4), gpu(1, 1, 3, 3)),
        odd_operand("weight", "cuda:0", "cpu", "wrapper_CUDA___slow_conv2d_forward"),
    ),
    "convolution": (
        lambda: F.conv2d(host(2, 1, 4, 4), gpu(1, 1, 3, 3)),
        "Input type (torch.FloatTensor) and weight type (torch.cuda.FloatTensor) should be the same",
    ),
    "convolution, weight behind": (
        lambda: F.conv2d(gpu(1, 1, 4, 4), host(1, 1, 3, 3)),
        "Input type (torch.cuda.FloatTensor) and weight type (torch.FloatTensor) should be the same",
    ),
    "convolution, bias behind": (
        lambda: F.conv2d(gpu(1, 1, 4, 4), gpu(1, 1, 3, 3), host(1)),
        "Input type (torch.cuda.FloatTensor) and bias type (torch.FloatTensor) should be the same",
    ),
    "convolution across GPUs": (
        lambda: F.conv2d(gpu(1, 1, 4, 4), gpu(1, 1, 3, 3, index=1)),
        odd_operand("weight", "cuda:1", "cuda:0", "wrapper_CUDA__cudnn_convolution"),
    ),
    "embedding": (
        lambda: F.embedding(labels(1), gpu(3, 2)),
        odd_operand("index", "cpu", "cuda:0", "wrapper_CUDA__index_select"),
    ),
    "index_select": (
        lambda: gpu(3).index_select(0, labels(1)),
        odd_operand("index", "cpu", "cuda:0", "wrapper_CUDA__index_select"),
    ),
    "gather": (
        lambda: gpu(3).gather(0, labels(1)),
        odd_operand("index", "cpu", "cuda:0", "wrapper_CUDA_gather"),
    ),
    "cross entropy": (
        lambda: F.cross_entropy(gpu(2, 3), labels(0, 1)),
        odd_operand("target", "cpu", "cuda:0", "wrapper_CUDA_nll_loss_forward"),
    ),
    "class weights of a loss": (
        lambda: nn.CrossEntropyLoss(weight=host(3))(gpu(2, 3), labels(0, 1, device="cuda")),
        odd_operand("weight", "cpu", "cuda:0", "wrapper_CUDA_nll_loss_forward"),
    ),
    "layer norm": (
        lambda: F.layer_norm(gpu(2, 3), (3,), host(3)),
        odd_operand("weight", "cpu", "cuda:0", "wrapper_CUDA__native_layer_norm"),
    ),
    "allclose": (lambda: torch.allclose(gpu(2), host(2)), two("cuda:0", "cpu")),
    "equal": (lambda: torch.equal(gpu(2), host(2)), odd_operand("other", "cpu", "cuda:0", "wrapper_CUDA__equal")),
    "attention": (
        lambda: F.scaled_dot_product_attention(gpu(1, 1, 4, 8), host(1, 1, 4, 8), gpu(1, 1, 4, 8)),
        "Expected query, key, and value to have the same device type, but got query.device: cuda:0",
    ),
    "recurrent input": (
        lambda: nn.LSTM(3, 2).cuda()(host(5, 1, 3)),
        (
            "Input and parameter tensors are not at the same device, found input tensor at cpu and "
            "parameter tensor at cuda:0"
        ),
    ),
    "recurrent state": (
        lambda: nn.GRU(3, 2).cuda()(gpu(5, 1, 3), host(1, 1, 2)),
        ("Input and hidden tensors are not at the same device, found input tensor at cuda:0 and hidden tensor at cpu"),
    ),
    "grid": (
        lambda: torch.meshgrid(gpu(3), torch.tensor(1.0), indexing="ij"),
        "meshgrid expects all tensors to have the same device",
    ),
    "all pairs": (
        lambda: torch.cartesian_prod(host(3), gpu(2)),
        "meshgrid expects all tensors to have the same device",
    ),
    "GPU index into a CPU tensor": (
        lambda: host(3)[labels(0, device="cuda")],
        "indices should be either on cpu or on the same device as the indexed tensor (cpu)",
    ),
    "index of another GPU": (
        lambda: gpu(3)[labels(0, device="cuda:1")],
        "indices should be either on cpu or on the same device as the indexed tensor (cuda:0)",
    ),
    "assigning CPU rows by index": (
        lambda: gpu(3).index_put_((labels(0, 1),), host(2)),
        two("cuda:0", "cpu"),
    ),
    "lengths on a GPU": (
        lambda: pack_padded_sequence(gpu(2, 3, 1), labels(3, 2, device="cuda"), batch_first=True),
        "'lengths' argument should be a 1D CPU int64 tensor, but got 1D cuda:0 Long tensor",
    ),
    "pinning a GPU tensor": (
        lambda: gpu(2).pin_memory(),
        "cannot pin 'torch.cuda.FloatTensor' only dense CPU tensors can be pinned",
    ),
    "generator of the CPU": (
        lambda: torch.randperm(4, device="cuda", generator=torch.Generator()),
        "Expected a 'cuda' device type for generator but found 'cpu'",
    ),
    "generator of a GPU": (
        lambda: torch.randperm(4, generator=torch.Generator("cuda")),
        "Expected a 'cpu' device type for generator but found 'cuda'",
    ),
    "a gradient from elsewhere": (
        lambda: setattr(gpu(2).requires_grad_(), "grad", host(2)),
        (
            "attempting to assign a gradient with device type 'cpu' to a tensor with device type 'cuda'. "
            "Please ensure that the gradient and the tensor are on the same device"
        ),
    ),
    "a gradient from another GPU": (
        lambda: setattr(gpu(2).requires_grad_(), "grad", gpu(2, index=1)),
        "attempting to assign a gradient located on device with index '1' to a tensor located on device with index '0'",
    ),
    "no such GPU": (lambda: torch.zeros(1, device="cuda:7"), "CUDA error: invalid device ordinal"),
}

TAKEN = {
    "0-dim of the CPU": lambda: gpu(2) * torch.tensor(2.0),
    "0-dim of the CPU, first": lambda: torch.tensor(2.0) - gpu(2),
    "python numbers": lambda: (gpu(2) * 2 + 1) ** 2,
    "0-dim in where": lambda: torch.where(gpu(2) > 0, gpu(2), torch.tensor(0.0)),
    "CPU index": lambda: gpu(3)[labels(0, 1)],
    "CPU mask": lambda: gpu(3)[torch.tensor([True, False, True])],
    "GPU index": lambda: gpu(3)[labels(0, 1, device="cuda")],
    "assigning a number by CPU index": lambda: gpu(3).index_put_((labels(0),), torch.tensor(1.0)),
    "copy from the CPU": lambda: gpu(3).copy_(host(3)),
    "copy of a number": lambda: gpu(3).copy_(2.0),
    "copy from another GPU": lambda: gpu(3).copy_(gpu(3, index=1)),
    "one-hot": lambda: F.one_hot(labels(0, 1, device="cuda"), 3) * gpu(2, 3),
    "padding": lambda: F.pad(gpu(2, 3), (1, 1)) + gpu(2, 5),
    "quantile": lambda: torch.quantile(gpu(5), 0.5) + gpu(1),
    "triangle": lambda: torch.tril(torch.ones(3, 3, device="cuda")) * gpu(3, 3),
    "cumulative sums and sorting": lambda: gpu(5).cumsum(0)[gpu(5).argsort()],
    "norm clipping": lambda: nn.utils.clip_grad_norm_([_with_gradient(gpu(3))], 1.0) + gpu(1),
    "interpolation": lambda: F.interpolate(gpu(1, 1, 4, 4), scale_factor=2.0, mode="bilinear"),
    "a GPU's own generator": lambda: torch.rand(3, device="cuda", generator=torch.Generator("cuda")),
    "CTC with targets of the CPU": lambda: nn.CTCLoss()(
        gpu(5, 2, 4).log_softmax(-1), torch.ones(2, 3, dtype=int), labels(5, 5), labels(3, 3)
    ),
    "a script": lambda: torch.jit.script(nn.Linear(3, 2).cuda())(gpu(4, 3)),
    "a layer without a shape yet": lambda: nn.LazyLinear(2).cuda()(gpu(4, 3)),
    "second derivatives": lambda: torch.func.hessian(lambda values: (values**3).sum())(gpu(2)),
    "einsum": lambda: torch.einsum("ij,jk->ik", gpu(2, 3), gpu(3, 2)),
    "unique": lambda: torch.unique(labels(1, 1, 2, device="cuda")),
}


def _with_gradient(tensor):
    tensor.requires_grad_()
    tensor.grad = torch.ones_like(tensor)
    return tensor


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case):
    action, message = REFUSED[case]
    with gpus(2), pytest.raises(RuntimeError) as caught:
        action()
    assert message in str(caught.value)


@pytest.mark.parametrize("case", TAKEN)
def test_taken(case):
    with gpus(2):
        assert TAKEN[case]().device == torch.device("cuda:0")


def test_slices_take_tensors_of_the_cpu():
    with gpus(1):
        rows = torch.zeros(3, 2, device="cuda")
        rows[1] = torch.ones(2)
        rows[:, 0] = torch.tensor([7.0, 8.0, 9.0])
        assert rows.tolist() == [[7, 0], [8, 1], [9, 0]]


@pytest.mark.parametrize("way", [lambda t: t.numpy(), numpy.asarray, lambda t: numpy.add(t, 1)])
def test_numpy_takes_no_gpu_tensor(way):
    with gpus(1), pytest.raises(TypeError) as caught:
        way(torch.ones(2, device="cuda"))
    assert "can't convert cuda:0 device type tensor to numpy" in str(caught.value)


def test_numpy_by_force():
    with gpus(1):
        assert torch.ones(2, device="cuda").numpy(force=True).tolist() == [1, 1]
        assert torch.ones(2, device="cuda").tolist() == [1, 1]


def test_what_was_mixed_in_an_own_function_backward_is_refused():
    class Mixes(torch.autograd.Function):
        @staticmethod
        def forward(context, values):
            return values * 2

        @staticmethod
        def backward(context, gradient):
            assert gradient.device.type == "cuda"
            return gradient * torch.ones(2)

    with gpus(1), pytest.raises(RuntimeError, match="found at least two devices, cuda:0 and cpu!"):
        Mixes.apply(torch.ones(2, device="cuda", requires_grad=True)).sum().backward()


def test_inference_mode_compares_devices_too():
    words = odd_operand("mat1", "cpu", "cuda:0")
    with gpus(1), torch.inference_mode(), pytest.raises(RuntimeError, match=re.escape(words)):
        nn.Linear(3, 2).cuda()(torch.ones(4, 3))
