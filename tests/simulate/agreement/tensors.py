"""Two CUDA GPUs: sparse and quantised tensors, indexing, copies, outputs, operations in place."""

import torch
from torch import nn
from torch.nn import functional as F

from . import Program, Raises, place, places

MIXED = "Expected all tensors to be on the same device"
INDEX_ELSEWHERE = "indices should be either on cpu or on the same device as the indexed tensor"


def gpu(*shape, index=0):
    return torch.ones(*shape, device=f"cuda:{index}")


def host(*shape):
    return torch.ones(*shape)


def whole(*values, device="cuda"):
    return torch.tensor(values, device=device)


def assigned(target, index, value):
    target[index] = value
    return place(target), target.tolist()


# --- sparse ---------------------------------------------------------------------------------------


def coo(device="cuda"):
    return torch.eye(2, device=device).to_sparse()


def trained_rows():
    table = nn.Embedding(4, 2, sparse=True).cuda()
    optimizer = torch.optim.SparseAdam(table.parameters())
    table(whole(1, 2)).sum().backward()
    optimizer.step()
    return table.weight.grad.is_sparse, place(table.weight.grad), place(optimizer.state[table.weight]["exp_avg"])


SPARSE = {
    "parts": Program(
        "_tensor.py: coalesce",
        lambda: places(coo(), coo().indices(), coo().values(), coo().to_dense()),
        ("cuda:0",) * 4,
    ),
    "parts of the CPU with a device": Program(
        "torch/csrc/utils/tensor_new.cpp: sparse_coo_tensor_ctor",
        lambda: (
            made := torch.sparse_coo_tensor([[0, 1]], [1.0, 2.0], device="cuda:1"),
            places(made, made._indices(), made._values()),
        )[1],
        ("cuda:1",) * 3,
    ),
    "indices of the CPU follow the values": Program(
        "torch/csrc/utils/tensor_new.cpp: sparse_coo_tensor_ctor",
        lambda: (
            made := torch.sparse_coo_tensor(torch.tensor([[0, 1]]), gpu(2)),
            places(made, made._indices(), made._values()),
        )[1],
        ("cuda:0",) * 3,
    ),
    "indices of a GPU follow the values": Program(
        "torch/csrc/utils/tensor_new.cpp: sparse_coo_tensor_ctor",
        lambda: (
            made := torch.sparse_coo_tensor(whole([0, 1]), host(2)),
            places(made, made._indices(), made._values()),
        )[1],
        ("cpu",) * 3,
    ),
    "only a size": Program(
        "torch/csrc/utils/tensor_new.cpp: sparse_coo_tensor_ctor",
        lambda: place(torch.sparse_coo_tensor((2, 3), device="cuda:1")),
        "cuda:1",
    ),
    "moves": Program(
        "aten/src/ATen/native/sparse/SparseTensor.cpp: copy_sparse_",
        lambda: places(coo("cpu").cuda(1), coo().cpu()),
        ("cuda:1", "cpu"),
    ),
    "compressed rows": Program(
        "sparse/__init__.py: mm",
        lambda: (
            rows := torch.eye(2).to_sparse_csr().cuda(1),
            places(rows, rows.crow_indices(), rows.col_indices(), rows.values()),
        )[1],
        ("cuda:1",) * 4,
    ),
    "times a dense one": Program("sparse/__init__.py: mm", lambda: place(torch.sparse.mm(coo(), gpu(2, 2))), "cuda:0"),
    "times a dense one of the CPU": Program(
        "sparse/__init__.py: mm", lambda: torch.sparse.mm(coo(), host(2, 2)), Raises(RuntimeError, MIXED)
    ),
    "times a number": Program("_torch_docs.py: mul", lambda: place(coo() * 2), "cuda:0"),
    "a sum": Program(
        "sparse/__init__.py: sum", lambda: places(torch.sparse.sum(coo()), torch.sparse.sum(coo(), 0)), ("cuda:0",) * 2
    ),
    "a softmax": Program("sparse/__init__.py: softmax", lambda: place(torch.sparse.softmax(coo(), 1)), "cuda:0"),
    "two of them": Program("_torch_docs.py: add", lambda: coo() + coo("cpu"), Raises(RuntimeError, "")),
    "gradients of a table": Program("optim/sparse_adam.py: SparseAdam", trained_rows, (True, "cuda:0", "cuda:0")),
    "diagonals": Program(
        "sparse/__init__.py: spdiags",
        lambda: torch.sparse.spdiags(gpu(1, 2), torch.tensor([0]), (2, 2)),
        Raises(NotImplementedError, "Could not run 'aten::_spdiags' with arguments from the 'CUDA' backend"),
    ),
    "for mkldnn": Program(
        "utils/mkldnn.py: to_mkldnn",
        lambda: gpu(2).to_mkldnn(),
        Raises(NotImplementedError, "Could not run 'aten::to_mkldnn' with arguments from the 'CUDA' backend"),
    ),
    "nested rows": Program(
        "nested/__init__.py: nested_tensor",
        lambda: (
            made := torch.nested.nested_tensor([host(2), host(3)], layout=torch.jagged, device="cuda:1"),
            places(made, made.values(), made.offsets()),
        )[1],
        ("cuda:1",) * 3,
    ),
    "nested rows of a GPU": Program(
        "nested/__init__.py: as_nested_tensor",
        lambda: place((torch.nested.as_nested_tensor([gpu(2), gpu(3)], layout=torch.jagged) * 2).values()),
        "cuda:0",
    ),
    "masked": Program(
        "masked/maskedtensor/core.py: MaskedTensor",
        lambda: place(torch.masked.masked_tensor(gpu(2), torch.tensor([True, False], device="cuda")).get_data()),
        "cuda:0",
    ),
}

# --- quantised ------------------------------------------------------------------------------------


def quantised(values):
    return torch.quantize_per_tensor(values, 0.1, 0, torch.qint8)


def dynamic():
    return torch.ao.quantization.quantize_dynamic(nn.Sequential(nn.Linear(2, 2)), {nn.Linear})


QUANTISED = {
    "by tensor": Program(
        "_torch_docs.py: quantize_per_tensor",
        lambda: places(quantised(gpu(2)), quantised(gpu(2)).dequantize(), quantised(gpu(2)).int_repr()),
        ("cuda:0",) * 3,
    ),
    "moves": Program(
        "_torch_docs.py: quantize_per_tensor",
        lambda: places(quantised(host(2)).cuda(1), quantised(gpu(2)).cpu()),
        ("cuda:1", "cpu"),
    ),
    "in fake": Program(
        "ao/quantization/fake_quantize.py: FakeQuantize",
        lambda: place(torch.ao.quantization.FakeQuantize().cuda()(gpu(2))),
        "cuda:0",
    ),
    "in fake, by one kernel": Program(
        "ao/quantization/fake_quantize.py: FusedMovingAvgObsFakeQuantize",
        lambda: place(torch.ao.quantization.FusedMovingAvgObsFakeQuantize().cuda(1)(gpu(2, index=1))),
        "cuda:1",
    ),
    "an observer of the CPU": Program(
        "ao/quantization/observer.py: MinMaxObserver",
        lambda: (watch := torch.ao.quantization.MinMaxObserver(), watch(gpu(2)), place(watch.min_val))[-1],
        "cpu",
    ),
    "a dynamic layer": Program(
        "ao/nn/quantized/dynamic/modules/linear.py: forward",
        lambda: dynamic()(gpu(1, 2)),
        Raises(NotImplementedError, "quantized::linear_dynamic"),
    ),
    "a dynamic layer on the CPU": Program(
        "ao/nn/quantized/dynamic/modules/linear.py: forward", lambda: place(dynamic()(host(1, 2))), "cpu"
    ),
}

# --- indexing -------------------------------------------------------------------------------------

MASK = [True, False, True]

INDEXING = {
    "by a list": Program(
        "torch/csrc/autograd/python_variable_indexing.cpp: THPVariable_getitem", lambda: place(gpu(3)[[0, 2]]), "cuda:0"
    ),
    "by indices of both": Program(
        "aten/src/ATen/native/TensorAdvancedIndexing.cpp: make_info",
        lambda: place(gpu(3, 3)[whole(0, 1), whole(0, 1, device="cpu")]),
        "cuda:0",
    ),
    "by a number of a GPU": Program(
        "aten/src/ATen/TensorIndexing.h: handleDimInMultiDimIndexing",
        lambda: place(host(3)[torch.tensor(1, device="cuda")]),
        "cpu",
    ),
    "by a mask of a GPU": Program(
        "aten/src/ATen/native/TensorAdvancedIndexing.cpp: make_info",
        lambda: host(3)[whole(*MASK)],
        Raises(RuntimeError, INDEX_ELSEWHERE),
    ),
    "a list into a tensor of a GPU": Program(
        "torch/csrc/autograd/python_variable_indexing.cpp: THPVariable_setitem",
        lambda: assigned(gpu(3), [0, 2], 5.0),
        ("cuda:0", [5, 1, 5]),
    ),
    "a number of the CPU by index": Program(
        "aten/src/ATen/native/TensorAdvancedIndexing.cpp: _index_put_impl_",
        lambda: assigned(gpu(3), whole(0), torch.tensor(5.0)),
        ("cuda:0", [5, 1, 1]),
    ),
    "one value of the CPU by index": Program(
        "aten/src/ATen/native/TensorAdvancedIndexing.cpp: _index_put_impl_",
        lambda: gpu(3).index_put_((whole(0),), host(1)),
        Raises(RuntimeError, MIXED),
    ),
    "one value of the CPU by mask": Program(
        "aten/src/ATen/native/TensorAdvancedIndexing.cpp: canDispatchToMaskedFill",
        lambda: (values := gpu(3).index_put_((whole(*MASK),), torch.tensor([5.0])), place(values), values.tolist())[1:],
        ("cuda:0", [5, 1, 5]),
    ),
    "one value of the CPU by a mask of the CPU": Program(
        "aten/src/ATen/native/TensorAdvancedIndexing.cpp: canDispatchToMaskedFill",
        lambda: gpu(3).index_put_((whole(*MASK, device="cpu"),), torch.tensor([5.0])),
        Raises(RuntimeError, MIXED),
    ),
    "a list with one value of the CPU by index": Program(
        "torch/csrc/autograd/python_variable_indexing.cpp: slicePrefix1sSize",
        lambda: assigned(gpu(3), whole(0), torch.tensor([5.0])),
        ("cuda:0", [5, 1, 1]),
    ),
    "values of the CPU by mask": Program(
        "aten/src/ATen/native/TensorAdvancedIndexing.cpp: _index_put_impl_",
        lambda: assigned(gpu(3), whole(*MASK), host(2)),
        Raises(RuntimeError, MIXED),
    ),
    "accumulated values of the CPU": Program(
        "aten/src/ATen/native/TensorAdvancedIndexing.cpp: _index_put_impl_",
        lambda: gpu(3).index_put_((whole(0, 1),), host(2), accumulate=True),
        Raises(RuntimeError, "expected device cuda:0 but got device cpu for value tensor"),
    ),
    "a row of the CPU": Program(
        "torch/csrc/autograd/python_variable_indexing.cpp: copy_to",
        lambda: assigned(gpu(2), slice(0, 1), 3 * host(1)),
        ("cuda:0", [3, 1]),
    ),
    "a row of a GPU into the CPU": Program(
        "torch/csrc/autograd/python_variable_indexing.cpp: copy_to",
        lambda: assigned(host(2), 0, 3 * gpu(1)[0]),
        ("cpu", [3, 1]),
    ),
    "an index of a GPU into the CPU": Program(
        "aten/src/ATen/native/TensorAdvancedIndexing.cpp: make_info",
        lambda: assigned(host(3), whole(0), 5.0),
        Raises(RuntimeError, INDEX_ELSEWHERE),
    ),
    "take": Program("_torch_docs.py: take", lambda: gpu(3).take(whole(0, device="cpu")), Raises(RuntimeError, MIXED)),
    "masked_select": Program(
        "_torch_docs.py: masked_select",
        lambda: gpu(3).masked_select(whole(*MASK, device="cpu")),
        Raises(RuntimeError, MIXED),
    ),
    "masked_scatter": Program(
        "_tensor_docs.py: masked_scatter_",
        lambda: gpu(3).masked_scatter_(whole(*MASK), host(3)),
        Raises(RuntimeError, MIXED),
    ),
    "index_add": Program(
        "_tensor_docs.py: index_add_", lambda: gpu(3).index_add_(0, whole(0), host(1)), Raises(RuntimeError, MIXED)
    ),
    "scatter": Program(
        "_tensor_docs.py: scatter_",
        lambda: gpu(3).scatter_(0, whole(0, device="cpu"), 1.0),
        Raises(RuntimeError, MIXED),
    ),
    "take_along_dim": Program(
        "aten/src/ATen/native/TensorAdvancedIndexing.cpp: take_along_dim",
        lambda: gpu(3).take_along_dim(whole(0, device="cpu")),
        Raises(RuntimeError, MIXED),
    ),
    "nonzero": Program(
        "_torch_docs.py: nonzero", lambda: places(gpu(2).nonzero(), *torch.where(gpu(2) > 0)), ("cuda:0",) * 2
    ),
    "searchsorted": Program(
        "aten/src/ATen/native/BucketizationUtils.h: searchsorted_pre_check",
        lambda: torch.bucketize(gpu(2), host(3)),
        Raises(RuntimeError, MIXED),
    ),
    "isin": Program("_torch_docs.py: isin", lambda: torch.isin(gpu(2), host(2)), Raises(RuntimeError, MIXED)),
    "a number in isin": Program("_torch_docs.py: isin", lambda: place(torch.isin(gpu(2), 1.0)), "cuda:0"),
    "one_hot of an index of the CPU": Program(
        "nn/functional.py: one_hot", lambda: place(F.one_hot(whole(1, device="cpu"), 3)), "cpu"
    ),
    "embedding_bag": Program(
        "nn/functional.py: embedding_bag",
        lambda: F.embedding_bag(whole(1, 2), gpu(4, 2), torch.tensor([0])),
        Raises(RuntimeError, MIXED),
    ),
    "embedding_bag in order": Program(
        "nn/functional.py: embedding_bag",
        lambda: place(nn.EmbeddingBag(4, 2).cuda(1)(whole([1, 2], device="cuda:1"))),
        "cuda:1",
    ),
    "repeats of the CPU": Program(
        "aten/src/ATen/native/Repeat.cpp: repeat_interleave",
        lambda: gpu(2).repeat_interleave(torch.tensor([1, 2])),
        Raises(RuntimeError, MIXED),
    ),
}

# --- copies, outputs, in place --------------------------------------------------------------------

COPIES = {
    "to the CPU": Program(
        "_tensor_docs.py: copy_",
        lambda: (to := host(2) * 0, to.copy_(gpu(2)), place(to), to.tolist())[2:],
        ("cpu", [1, 1]),
    ),
    "of another dtype and shape": Program(
        "_tensor_docs.py: copy_",
        lambda: (to := gpu(2, 2).long(), to.copy_(host(2) * 3.7), place(to), to.tolist())[2:],
        ("cuda:0", [[3, 3], [3, 3]]),
    ),
    "a list of them": Program(
        "aten/src/ATen/native/ForeachOpsKernels.cpp: _foreach_copy_",
        lambda: (to := [gpu(2), gpu(3)], torch._foreach_copy_(to, [host(2) * 2, host(3)]), places(*to), to[0].tolist())[
            2:
        ],
        (("cuda:0", "cuda:0"), [2, 2]),
    ),
    "data is replaced": Program(
        "torch/csrc/autograd/variable.cpp: set_data",
        lambda: (weight := nn.Parameter(host(2)), setattr(weight, "data", gpu(2)), place(weight), weight.is_leaf)[2:],
        ("cuda:0", True),
    ),
    "data in place": Program(
        "_tensor.py: data", lambda: nn.Parameter(gpu(2)).data.add_(host(2)), Raises(RuntimeError, MIXED)
    ),
    "swapped": Program(
        "utils/__init__.py: swap_tensors",
        lambda: (one := host(2), other := gpu(2), torch.utils.swap_tensors(one, other), places(one, other))[-1],
        ("cuda:0", "cpu"),
    ),
    "cloned": Program("_tensor.py: __deepcopy__", lambda: place(gpu(2, index=1).clone()), "cuda:1"),
    "to like": Program("_tensor_docs.py: to", lambda: place(host(2).to(gpu(1, index=1))), "cuda:1"),
    "to_like of a sparse one": Program("_tensor_docs.py: type_as", lambda: place(host(2).type_as(gpu(1))), "cuda:0"),
    "a new storage": Program("_tensor_docs.py: resize_", lambda: place(gpu(2, index=1).resize_(10)), "cuda:1"),
    "combined": Program("_torch_docs.py: complex", lambda: torch.complex(gpu(2), host(2)), Raises(RuntimeError, MIXED)),
    "stacked blocks": Program(
        "functional.py: block_diag", lambda: torch.block_diag(gpu(2, 2), host(1, 1)), Raises(RuntimeError, "")
    ),
    "broadcast": Program(
        "functional.py: broadcast_tensors", lambda: places(*torch.broadcast_tensors(gpu(2), host(1))), ("cuda:0", "cpu")
    ),
    "split": Program("functional.py: split", lambda: places(*gpu(4, index=1).split(2)), ("cuda:1", "cuda:1")),
    "lists": Program(
        "_tensor_docs.py: tolist",
        lambda: (gpu(2).tolist(), gpu(1).item(), float(gpu(1)), bool(gpu(1))),
        ([1, 1], 1.0, 1.0, True),
    ),
}

OUTPUTS = {
    "on the CPU": Program(
        "aten/src/ATen/TensorIterator.cpp: compute_types",
        lambda: torch.add(gpu(2), gpu(2), out=host(2)),
        Raises(RuntimeError, MIXED),
    ),
    "on a GPU": Program(
        "aten/src/ATen/TensorIterator.cpp: compute_types",
        lambda: torch.add(host(2), host(2), out=gpu(2)),
        Raises(RuntimeError, MIXED),
    ),
    "of a product": Program(
        "_torch_docs.py: mm", lambda: torch.mm(gpu(2, 2), gpu(2, 2), out=host(2, 2)), Raises(RuntimeError, MIXED)
    ),
    "of a concatenation": Program(
        "_torch_docs.py: cat", lambda: torch.cat([gpu(1), gpu(1)], out=host(2)), Raises(RuntimeError, MIXED)
    ),
    "of a sum": Program(
        "_torch_docs.py: sum", lambda: torch.sum(gpu(2), 0, out=torch.tensor(0.0)), Raises(RuntimeError, "")
    ),
    "of factories": Program(
        "_torch_docs.py: zeros",
        lambda: places(
            torch.zeros(2, out=gpu(2)),
            torch.ones(2, out=gpu(2, index=1)),
            torch.arange(2, out=gpu(2)),
            torch.linspace(0, 1, 2, out=gpu(2)),
            torch.eye(2, out=gpu(2, 2)),
            torch.rand(2, out=gpu(2)),
            torch.randperm(2, out=gpu(2).long()),
            torch.full((2,), 1.0, out=gpu(2)),
        ),
        ("cuda:0", "cuda:1", *("cuda:0",) * 6),
    ),
    "of a factory with another device": Program(
        "torch/csrc/autograd/utils/python_arg_parsing.h: check_out_type_matches",
        lambda: torch.zeros(2, out=gpu(2), device="cpu"),
        Raises(RuntimeError, "device type cpu does not match device type of out parameter (cuda"),
    ),
    "where they belong": Program("_torch_docs.py: add", lambda: place(torch.add(gpu(2), 1, out=gpu(2))), "cuda:0"),
    "of a linear system": Program(
        "linalg/__init__.py: solve", lambda: place(torch.linalg.solve(gpu(1, 1), gpu(1, 1), out=gpu(1, 1))), "cuda:0"
    ),
}

IN_PLACE = {
    "a vector of the CPU": Program(
        "aten/src/ATen/TensorIterator.cpp: compute_types", lambda: gpu(2).mul_(host(2)), Raises(RuntimeError, MIXED)
    ),
    "a number of the CPU": Program(
        "aten/src/ATen/TensorIterator.cpp: compute_types", lambda: place(gpu(2).mul_(torch.tensor(2.0))), "cuda:0"
    ),
    "a number of a GPU": Program(
        "aten/src/ATen/TensorIterator.cpp: compute_types",
        lambda: host(2).mul_(torch.tensor(2.0, device="cuda")),
        Raises(RuntimeError, MIXED),
    ),
    "a number of a GPU in a number": Program(
        "aten/src/ATen/TensorIterator.cpp: compute_types",
        lambda: torch.tensor(1.0).add_(torch.tensor(2.0, device="cuda")),
        Raises(RuntimeError, MIXED),
    ),
    "a weight of the CPU": Program(
        "aten/src/ATen/native/Lerp.cpp: lerp_Tensor", lambda: place(gpu(2).lerp_(gpu(2), torch.tensor(0.5))), "cuda:0"
    ),
    "two numbers of the CPU": Program(
        "aten/src/ATen/TensorIterator.cpp: compute_types",
        lambda: gpu(2).addcmul_(torch.tensor(1.0), torch.tensor(2.0)),
        Raises(RuntimeError, "Trying to pass too many CPU scalars to non-CPU kernel!"),
    ),
    "two limits of the CPU": Program(
        "aten/src/ATen/native/TensorCompare.cpp: clamp",
        lambda: gpu(2).clamp(torch.tensor(0.0), torch.tensor(1.0)),
        Raises(RuntimeError, "got min is on cpu, different from other tensors on cuda:0"),
    ),
    "two choices of the CPU": Program(
        "aten/src/ATen/native/TensorCompare.cpp: where",
        lambda: place(torch.where(gpu(2) > 0, torch.tensor(0.0), torch.tensor(1.0))),
        "cuda:0",
    ),
    "a condition of the CPU": Program(
        "aten/src/ATen/native/TensorCompare.cpp: where",
        lambda: torch.where(host(2) > 0, gpu(2), gpu(2)),
        Raises(RuntimeError, MIXED),
    ),
    "a product": Program(
        "_tensor_docs.py: addmm_", lambda: gpu(2, 2).addmm_(gpu(2, 2), host(2, 2)), Raises(RuntimeError, MIXED)
    ),
    "a list of them": Program(
        "optim/sgd.py: _foreach_add_", lambda: torch._foreach_add_([gpu(2)], [host(2)]), Raises(RuntimeError, MIXED)
    ),
    "a list with a number of the CPU": Program(
        "aten/src/ATen/native/ForeachOpsKernels.cpp: _foreach_mul_",
        lambda: (to := [gpu(2)], torch._foreach_mul_(to, torch.tensor(2.0)), to[0].tolist())[-1],
        [2, 2],
    ),
    "a fill by a number of a GPU": Program(
        "aten/src/ATen/native/Fill.cpp: fill_", lambda: place(host(2).fill_(torch.tensor(2.0, device="cuda"))), "cpu"
    ),
    "a loss of a number": Program(
        "nn/functional.py: mse_loss", lambda: F.mse_loss(gpu(2), torch.tensor(1.0)), Raises(RuntimeError, MIXED)
    ),
    "a slope of the CPU": Program(
        "nn/functional.py: prelu", lambda: F.prelu(gpu(2, 3), host(1)), Raises(RuntimeError, "")
    ),
    "an entropy of probabilities": Program(
        "nn/functional.py: binary_cross_entropy",
        lambda: F.binary_cross_entropy(gpu(2), host(2)),
        Raises(RuntimeError, MIXED),
    ),
    "a divergence": Program(
        "nn/functional.py: kl_div", lambda: F.kl_div(gpu(2), host(2), reduction="sum"), Raises(RuntimeError, MIXED)
    ),
    "a similarity": Program(
        "nn/functional.py: cosine_similarity",
        lambda: F.cosine_similarity(gpu(2, 3), host(2, 3)),
        Raises(RuntimeError, MIXED),
    ),
    "a distance": Program(
        "functional.py: cdist", lambda: torch.cdist(gpu(2, 3), host(2, 3)), Raises(RuntimeError, MIXED)
    ),
    "a norm of the CPU": Program(
        "nn/functional.py: batch_norm", lambda: nn.BatchNorm1d(3)(gpu(2, 3)), Raises(RuntimeError, MIXED)
    ),
    "a grid of the CPU": Program(
        "nn/functional.py: grid_sample",
        lambda: F.grid_sample(gpu(1, 1, 2, 2), host(1, 2, 2, 2)),
        Raises(RuntimeError, ""),
    ),
    "a mask for attention": Program(
        "nn/functional.py: scaled_dot_product_attention",
        lambda: F.scaled_dot_product_attention(gpu(1, 2, 4), gpu(1, 2, 4), gpu(1, 2, 4), attn_mask=host(2, 2)),
        Raises(RuntimeError, ""),
    ),
    "a norm by one kernel": Program(
        "nn/functional.py: rms_norm", lambda: place(F.rms_norm(gpu(2, 3, index=1), (3,))), "cuda:1"
    ),
    "a norm by one kernel with a weight of the CPU": Program(
        "nn/functional.py: rms_norm", lambda: F.rms_norm(gpu(2, 3), (3,), host(3)), Raises(RuntimeError, MIXED)
    ),
    "attention of a layer": Program(
        "nn/modules/activation.py: MultiheadAttention",
        lambda: nn.MultiheadAttention(4, 1).cuda()(
            gpu(2, 1, 4), gpu(2, 1, 4), gpu(2, 1, 4), key_padding_mask=torch.zeros(1, 2)
        ),
        Raises(RuntimeError, MIXED),
    ),
    "a rank of an empty matrix": Program(
        "linalg/__init__.py: matrix_rank",
        lambda: place(torch.linalg.matrix_rank(torch.empty(0, 2, device="cuda:1"))),
        "cuda:1",
    ),
    "an einsum of both": Program(
        "functional.py: einsum", lambda: torch.einsum("i,i->", gpu(2), host(2)), Raises(RuntimeError, "")
    ),
    "linear algebra of both": Program(
        "linalg/__init__.py: solve", lambda: torch.linalg.solve(gpu(2, 2), host(2)), Raises(RuntimeError, "")
    ),
}

AREAS = {
    "sparse tensors": SPARSE,
    "quantised tensors": QUANTISED,
    "indexing": INDEXING,
    "copies": COPIES,
    "outputs": OUTPUTS,
    "in place": IN_PLACE,
}
