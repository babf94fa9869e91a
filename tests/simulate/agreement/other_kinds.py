"""A Mac, and a machine with two Intel GPUs: what operators say, and what `torch.mps` and `torch.xpu` answer."""

import io
import os

import torch
from torch import nn
from torch.nn import functional as F

from . import Program, Raises, place, places

LACKING = "is not currently implemented for the MPS device"
OPERATORS = "../torchgen/packaged/ATen/native/native_functions.yaml"
MIXED = "Expected all tensors to be on the same device"


def mps(*shape):
    return torch.ones(*shape, device="mps")


def xpu(*shape, index=0):
    return torch.ones(*shape, device=f"xpu:{index}")


def whole(*values, device="mps"):
    return torch.tensor(values, device=device)


def lacks(operator, action):
    return Program(
        f"{OPERATORS}: func: {operator}",
        action,
        Raises(NotImplementedError, f"The operator 'aten::{operator}' {LACKING}"),
    )


def with_fallback(action):
    os.environ["PYTORCH_ENABLE_MPS_FALLBACK"] = "1"
    try:
        return action()
    finally:
        del os.environ["PYTORCH_ENABLE_MPS_FALLBACK"]


def trained(device, layers, *shape, dtype=torch.float32):
    model = nn.Sequential(*layers).to(device)
    model(torch.ones(*shape, device=device).to(dtype)).float().sum().backward()
    return {str(parameter.grad.device) for parameter in model.parameters()}


def optimised(device, **options):
    weight = nn.Parameter(torch.ones(2, device=device))
    optimizer = torch.optim.Adam([weight], **options)
    weight.sum().backward()
    optimizer.step()
    return places(weight.grad, optimizer.state[weight]["step"])


def loaded(value, **options):
    buffer = io.BytesIO()
    torch.save(value, buffer)
    buffer.seek(0)
    return torch.load(buffer, **options)


def autocast(device, dtype):
    values = torch.ones(2, 2, device=device)
    with torch.autocast(device, dtype=dtype):
        return (values @ values).dtype


NO_KERNEL = {
    "eigenvalues": lacks("linalg_eig", lambda: torch.linalg.eig(mps(2, 2))),
    "symmetric eigenvalues": lacks("_linalg_eigh", lambda: torch.linalg.eigh(mps(2, 2))),
    "a matrix exponential": lacks("linalg_matrix_exp", lambda: torch.linalg.matrix_exp(mps(2, 2))),
    "reflectors": lacks("geqrf", lambda: torch.geqrf(mps(2, 2))),
    "mode": lacks("mode", lambda: mps(3).mode()),
    "take": lacks("take", lambda: mps(3).take(whole(0))),
    "put_": lacks("put_", lambda: mps(3).put_(whole(0), mps(1))),
    "heaviside": lacks("heaviside", lambda: torch.heaviside(mps(2), mps(2))),
    "poisson": lacks("poisson", lambda: torch.poisson(mps(2))),
    "binomial": lacks("binomial", lambda: torch.binomial(mps(2), mps(2))),
    "pairwise distances": lacks("_pdist_forward", lambda: F.pdist(mps(3, 2))),
    "a CTC loss": lacks(
        "_ctc_loss.Tensor",
        lambda: F.ctc_loss(mps(5, 1, 4).log_softmax(-1), whole([1, 2]), torch.tensor([5]), torch.tensor([2])),
    ),
    "a margin loss": lacks("multi_margin_loss", lambda: F.multi_margin_loss(mps(2, 3), whole(0, 1))),
    "adaptive pooling of volumes": lacks("_adaptive_avg_pool3d", lambda: F.adaptive_avg_pool3d(mps(1, 1, 4, 4, 4), 2)),
    "fractional pooling": lacks(
        "fractional_max_pool2d", lambda: nn.FractionalMaxPool2d(2, output_size=2)(mps(1, 1, 5, 5))
    ),
    "a random slope": lacks("rrelu_with_noise", lambda: F.rrelu(mps(2), training=True)),
    "channels shuffled": lacks("channel_shuffle", lambda: F.channel_shuffle(mps(1, 4, 2, 2), 2)),
    "quantised numbers": lacks("quantize_per_tensor", lambda: torch.quantize_per_tensor(mps(2), 0.1, 0, torch.qint8)),
    "numbers quantised in fake": lacks(
        "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams",
        lambda: torch.ao.quantization.FakeQuantize().to("mps")(mps(2)),
    ),
    "compressed rows": lacks("_to_sparse_csr", lambda: mps(2, 2).to_sparse_csr()),
    "a fused Adagrad": lacks("_fused_adagrad_", lambda: fused_adagrad()),
    "on the CPU": Program(f"{OPERATORS}: func: mode", lambda: place(torch.ones(3).mode().values), "cpu"),
    "with the fallback": Program(
        "aten/src/ATen/mps/MPSFallback.mm: mps_fallback",
        lambda: place(with_fallback(lambda: mps(3).mode()).values),
        "mps:0",
    ),
    "what is handed to the CPU anyhow": Program(
        "aten/src/ATen/mps/MPSFallback.mm: linalg_svd", lambda: place(torch.linalg.svd(mps(2, 2)).S), "mps:0"
    ),
}


def fused_adagrad():
    weight = nn.Parameter(mps(2))
    optimizer = torch.optim.Adagrad([weight], fused=True)
    weight.sum().backward()
    optimizer.step()


MAC = {
    "a convolutional network": Program(
        "nn/modules/conv.py: Conv2d",
        lambda: trained(
            "mps", [nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(18, 2)], 2, 1, 8, 8
        ),
        {"mps:0"},
    ),
    "volumes": Program(
        "nn/modules/conv.py: Conv3d",
        lambda: trained("mps", [nn.Conv3d(1, 2, 2), nn.ReLU(), nn.Upsample(scale_factor=2)], 1, 1, 3, 3, 3),
        {"mps:0"},
    ),
    "a transformer": Program(
        "nn/modules/transformer.py: TransformerEncoderLayer",
        lambda: trained("mps", [nn.TransformerEncoderLayer(4, 2, 8)], 3, 1, 4),
        {"mps:0"},
    ),
    "a transformer that only answers": Program(
        "nn/modules/transformer.py: TransformerEncoderLayer",
        lambda: place(
            torch.no_grad()(nn.TransformerEncoderLayer(4, 2, 8, batch_first=True).to("mps").eval())(mps(1, 3, 4))
        ),
        "mps:0",
    ),
    "recurrent layers": Program(
        "nn/modules/rnn.py: LSTM",
        lambda: places(*(kind(2, 3).to("mps")(mps(4, 1, 2))[0] for kind in (nn.LSTM, nn.GRU, nn.RNN))),
        ("mps:0",) * 3,
    ),
    "an embedding with a greatest norm": Program(
        "nn/functional.py: embedding", lambda: place(nn.Embedding(4, 2, max_norm=1.0).to("mps")(whole(1, 2))), "mps:0"
    ),
    "losses": Program(
        "nn/functional.py: cross_entropy",
        lambda: places(
            F.cross_entropy(mps(2, 3), whole(0, 1)),
            F.mse_loss(mps(2), mps(2)),
            F.binary_cross_entropy_with_logits(mps(2), mps(2)),
            F.smooth_l1_loss(mps(2), mps(2)),
            F.kl_div(mps(2), mps(2), reduction="sum"),
        ),
        ("mps:0",) * 5,
    ),
    "sorting and searching": Program(
        "_torch_docs.py: topk",
        lambda: places(
            mps(3).sort()[0], mps(3).topk(2)[1], mps(3).unique(), mps(3).nonzero(), mps(3).cumsum(0), mps(3).argmax()
        ),
        ("mps:0",) * 6,
    ),
    "linear algebra": Program(
        "linalg/__init__.py: inv",
        lambda: places(
            torch.linalg.inv(torch.eye(2, device="mps")),
            torch.linalg.norm(mps(2)),
            torch.linalg.solve(torch.eye(2, device="mps"), mps(2)),
            torch.linalg.cholesky(torch.eye(2, device="mps")),
            torch.linalg.qr(mps(2, 2))[0],
        ),
        ("mps:0",) * 5,
    ),
    "the fused step": Program("optim/adam.py: _init_group", lambda: optimised("mps", fused=True), ("mps:0", "mps:0")),
    "the step": Program("optim/adam.py: _init_group", lambda: optimised("mps"), ("mps:0", "cpu")),
    "mixed precision": Program("amp/autocast_mode.py: autocast", lambda: autocast("mps", torch.float16), torch.float16),
    "a file of another machine": Program(
        "serialization.py: _mps_deserialize", lambda: place(loaded(mps(2), map_location="cpu")), "cpu"
    ),
    "a file": Program("serialization.py: _mps_tag", lambda: place(loaded(mps(2))), "mps:0"),
    "numbers as float64": Program(
        "aten/src/ATen/mps/EmptyTensor.cpp: empty_mps",
        lambda: mps(2).double(),
        Raises(TypeError, "Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't support float64."),
    ),
    "a sum of mixed operands": Program(
        "aten/src/ATen/TensorIterator.cpp: compute_types", lambda: mps(2) + torch.ones(2), Raises(RuntimeError, MIXED)
    ),
    "CUDA's cache": Program("cuda/memory.py: empty_cache", lambda: torch.cuda.empty_cache(), None),
    "CUDA's memory": Program("cuda/memory.py: reset_peak_memory_stats", lambda: torch.cuda.memory_allocated(), 0),
    "CUDA's streams": Program(
        "cuda/streams.py: Stream",
        lambda: torch.cuda.Stream(),
        Raises(RuntimeError, "torch.cuda.Stream requires CUDA support"),
    ),
    "CUDA's autocast": Program(
        "amp/autocast_mode.py: autocast",
        lambda: (values := mps(2, 2), torch.autocast("cuda")(lambda: (values @ values).dtype)())[1],
        torch.float32,
    ),
    "scaled gradients": Program(
        "amp/grad_scaler.py: GradScaler", lambda: torch.amp.GradScaler("cuda").is_enabled(), False
    ),
    "one device": Program("mps/__init__.py: device_count", lambda: torch.mps.device_count(), 1),
    "the accelerator": Program(
        "accelerator/__init__.py: current_accelerator", lambda: str(torch.accelerator.current_accelerator()), "mps"
    ),
}

INTEL = {
    "operators that PyTorch does not list": Program(
        "xpu/__init__.py: is_available", lambda: place(xpu(3, index=0).mode().values), "xpu:0"
    ),
    "a network": Program(
        "nn/modules/linear.py: Linear", lambda: trained("xpu:1", [nn.Linear(2, 2), nn.LayerNorm(2)], 1, 2), {"xpu:1"}
    ),
    "the current device": Program(
        "xpu/__init__.py: set_device",
        lambda: (torch.xpu.set_device(1), place(torch.ones(1, device="xpu")), torch.xpu.set_device(0))[1],
        "xpu:1",
    ),
    "a device context": Program("xpu/__init__.py: device", lambda: place(in_xpu_1()), "xpu:1"),
    "operands of both": Program(
        "aten/src/ATen/TensorIterator.cpp: compute_types",
        lambda: xpu(2) + xpu(2, index=1),
        Raises(RuntimeError, "found at least two devices, xpu:0 and xpu:1!"),
    ),
    "a product with the CPU": Program(
        "_torch_docs.py: mm",
        lambda: xpu(2, 2) @ torch.ones(2, 2),
        Raises(RuntimeError, "got mat2 is on cpu, different from other tensors on xpu:0"),
    ),
    "accumulated values of the CPU": Program(
        "aten/src/ATen/native/TensorAdvancedIndexing.cpp: _index_put_impl_",
        lambda: xpu(3).index_put_((whole(0, 1, device="xpu"),), torch.ones(2), accumulate=True),
        Raises(RuntimeError, "expected device xpu:0 but got device cpu for value tensor"),
    ),
    "a sum of two GPUs": Program(
        "nn/parallel/comm.py: reduce_add",
        lambda: place(torch.cuda.comm.reduce_add([xpu(2), xpu(2, index=1)])),
        "xpu:0",
    ),
    "the fused step": Program("optim/adam.py: _init_group", lambda: optimised("xpu", fused=True), ("xpu:0", "xpu:0")),
    "mixed precision": Program(
        "amp/autocast_mode.py: autocast", lambda: autocast("xpu", torch.bfloat16), torch.bfloat16
    ),
    "a file": Program("serialization.py: _backend_tag", lambda: place(loaded(xpu(2, index=1))), "xpu:1"),
    "a file for CUDA": Program(
        "serialization.py: _validate_device",
        lambda: loaded(torch.ones(2), map_location="cuda"),
        Raises(RuntimeError, "torch.cuda.is_available() is False"),
    ),
    "streams and events": Program(
        "xpu/streams.py: record_event", lambda: torch.xpu.current_stream().record_event().query(), True
    ),
    "memory": Program(
        "xpu/memory.py: memory_allocated", lambda: (_held := xpu(256), torch.xpu.memory_allocated())[1], 1024
    ),
    "properties": Program(
        "xpu/__init__.py: get_device_properties", lambda: torch.xpu.get_device_properties(1).total_memory > 0, True
    ),
    "random numbers": Program(
        "xpu/random.py: manual_seed_all",
        lambda: (
            torch.xpu.manual_seed_all(3),
            torch.rand(2, device="xpu:0").tolist() == torch.rand(2, device="xpu:1").tolist(),
        )[1],
        True,
    ),
    "pinned memory": Program(
        "aten/src/ATen/native/Memory.cpp: pin_memory", lambda: torch.ones(2).pin_memory().is_pinned(), True
    ),
    "the default device": Program(
        "utils/_device.py: set_device",
        lambda: place(torch.utils._device.set_device("xpu:1")(lambda: torch.ones(1))()),
        "xpu:1",
    ),
    "a move to CUDA": Program(
        "cuda/__init__.py: _lazy_init",
        lambda: xpu(1).cuda(),
        Raises(AssertionError, "Torch not compiled with CUDA enabled"),
    ),
    "a step after a move": Program(
        "optim/adam.py: _multi_tensor_adam", lambda: moved_after_a_step(), Raises(RuntimeError, "on the same device")
    ),
}


def in_xpu_1():
    with torch.xpu.device(1):
        return torch.ones(1, device="xpu")


def moved_after_a_step():
    layer = nn.Linear(2, 1)
    optimizer = torch.optim.Adam(layer.parameters())
    layer(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    layer.to("xpu")
    optimizer.step()


MAC_AREAS = {"operators without a kernel": NO_KERNEL, "a Mac": MAC}
INTEL_AREAS = {"Intel GPUs": INTEL}
