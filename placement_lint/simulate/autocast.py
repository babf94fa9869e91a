"""``torch.autocast`` of the simulated kind, for tensors whose device is a label.

C++ autocast looks at real devices and leaves CPU tensors alone, so the casts are done here, by PyTorch's
own table for CUDA (`aten/src/ATen/autocast_mode.h`) and PyTorch's own, thread-local switch. Wrapped
functions stay in place in every thread and read the switch of theirs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch

from .machine import here
from .placement import Tensor, device_of
from .scripting import stand_in

if TYPE_CHECKING:
    from .patches import Patches

# Run in the lower precision. Layers and attention are listed whole: what they are made of is on the list.
# fmt: off
LOWER = (
    "conv1d", "conv2d", "conv3d", "conv_tbc", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
    "convolution", "prelu", "addmm", "addmv", "addr", "matmul", "__matmul__", "__rmatmul__", "einsum",
    "mm", "mv", "linear", "addbmm", "baddbmm", "bmm", "chain_matmul", "lstm_cell", "gru_cell",
    "rnn_tanh_cell", "rnn_relu_cell", "lstm", "gru", "rnn_tanh", "rnn_relu",
    "scaled_dot_product_attention",
)
# fmt: on

# Run in float32; `cross_entropy_loss` begins with a softmax.
# fmt: off
FULL = (
    "acos", "asin", "cosh", "erfinv", "exp", "expm1", "log", "log10", "log2", "log1p", "reciprocal",
    "rsqrt", "sinh", "tan", "pow", "__pow__", "__rpow__", "softplus", "layer_norm", "native_layer_norm",
    "rms_norm", "group_norm", "frobenius_norm", "nuclear_norm", "norm", "cosine_similarity",
    "poisson_nll_loss", "cosine_embedding_loss", "nll_loss", "nll_loss_nd", "nll_loss2d",
    "hinge_embedding_loss", "kl_div", "l1_loss", "smooth_l1_loss", "huber_loss", "mse_loss",
    "margin_ranking_loss", "multilabel_margin_loss", "soft_margin_loss", "triplet_margin_loss",
    "multi_margin_loss", "binary_cross_entropy_with_logits", "dist", "pdist", "cdist", "renorm",
    "logsumexp", "upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d", "upsample_linear1d",
    "upsample_bilinear2d", "upsample_trilinear3d", "upsample_bicubic2d", "prod", "softmax", "log_softmax",
    "cumprod", "cumsum", "sum", "cross_entropy_loss",
)
# fmt: on

# Run in the widest dtype among the operands.
# fmt: off
WIDEST = (
    "addcdiv", "addcmul", "atan2", "bilinear", "cross", "dot", "vdot", "grid_sampler", "index_put",
    "tensordot", "scatter_add",
)
# fmt: on

UNSAFE = (
    "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast.\n"
    "Many models use a sigmoid layer right before the binary cross entropy layer.\n"
    "In this case, combine the two layers using torch.nn.functional.binary_cross_entropy_with_logits\n"
    "or torch.nn.BCEWithLogitsLoss.  binary_cross_entropy_with_logits and BCEWithLogits are\n"
    "safe to autocast."
)

Choice = Callable[[list[Tensor]], torch.dtype]


def _widest(tensors: list[Tensor]) -> torch.dtype:
    return max((tensor.dtype for tensor in tensors), key=lambda dtype: torch.finfo(dtype).bits)


POLICIES: tuple[tuple[tuple[str, ...], Choice], ...] = (
    (LOWER, lambda tensors: torch.get_autocast_dtype(here().kind)),
    (FULL, lambda tensors: torch.float32),
    (WIDEST, _widest),
)


def install(patches: Patches) -> None:
    for names, choice in POLICIES:
        for name in names:
            for owner, function in _owners(name):
                patches.set(owner, name, casting(function, choice))
    for owner, function in _owners("binary_cross_entropy"):
        patches.set(owner, "binary_cross_entropy", banned(function))


def _owners(name: str) -> Iterator[tuple[Any, Callable[..., Any]]]:
    """Where Python code finds a function; functions written in Python lead to one of the others."""
    for owner in (torch, torch.Tensor, torch.nn.functional, torch._C._nn, torch._VF):
        function = getattr(owner, name, None)
        if (function is not None and not getattr(function, "__code__", None)) or (
            function is not None and name in ("einsum", "norm", "tensordot", *_WRAPPED_ELSEWHERE)
        ):
            yield owner, function


# These stand in for compiled functions already (rnn.py).
_WRAPPED_ELSEWHERE = ("linear", "lstm", "gru", "rnn_tanh", "rnn_relu")


@functools.cache
def casting(function: Callable[..., Any], choice: Choice) -> Callable[..., Any]:
    @functools.wraps(function)
    def cast_first(*args: Any, **kwargs: Any) -> Any:
        if not torch.is_autocast_enabled(here().kind):
            return function(*args, **kwargs)
        eligible = list(_eligible((args, kwargs)))
        if not eligible:
            return function(*args, **kwargs)
        dtype = choice(eligible)
        with torch.autocast(here().kind, enabled=False):
            return function(*_cast(args, dtype), **_cast(kwargs, dtype))

    return stand_in(cast_first, function)


@functools.cache
def banned(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def refuse(*args: Any, **kwargs: Any) -> Any:
        if torch.is_autocast_enabled(here().kind) and list(_eligible((args, kwargs))):
            raise RuntimeError(UNSAFE)
        return function(*args, **kwargs)

    return stand_in(refuse, function)


def _eligible(value: Any) -> Iterator[Tensor]:
    """Floating point tensors of a GPU, except float64 (`autocast_mode.h`, `is_eligible`)."""
    if isinstance(value, Tensor):
        if value.is_floating_point() and value.dtype != torch.float64 and device_of(value).type == here().kind:
            yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _eligible(item)
    elif isinstance(value, dict):
        yield from _eligible(list(value.values()))


def _cast(value: Any, dtype: torch.dtype) -> Any:
    if isinstance(value, Tensor):
        return value.to(dtype) if list(_eligible(value)) else value
    if isinstance(value, dict):
        return {key: _cast(item, dtype) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_cast(item, dtype) for item in value)
    return value
